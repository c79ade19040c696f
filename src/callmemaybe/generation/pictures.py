"""Pictures in the messages to a model of this process: taken out, marked, and put back as ids."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.wire.format import Message
from callmemaybe.wire.format_nodes import PromptParts

_DATA = re.compile(r"data:image/[\w.+-]+;base64,", re.IGNORECASE)


class PicturesInMessages:
    """The pictures of a conversation. ``texts`` are its messages without them, ``marked`` with marks instead.

    Raises InputError for a picture that is not in the address itself: nothing is fetched.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self.images: list[bytes] = []
        # What nobody can guess nobody can write.
        self._mark = secrets.token_hex(8)
        self.texts: list[Message] = []
        self.marked: list[Message] = []
        for number, message in enumerate(messages):
            content = message.get("content")
            if isinstance(content, str | None):
                self.texts.append(message)
                self.marked.append(message)
                continue
            where = f"/messages/{number}/content"
            texts = [self._part(part, f"{where}/{place}") for place, part in enumerate(content)]
            self.marked.append({**message, "content": "".join(texts)})
            kept = [text for text in texts if not text.startswith(self._mark)]
            self.texts.append({**message, "content": "".join(kept)})

    def _part(self, part: Any, where: str) -> str:
        image = part.get("image_url") if isinstance(part, Mapping) else None
        if not isinstance(image, Mapping):
            text = part.get("text") if isinstance(part, Mapping) else None
            if not isinstance(text, str):
                raise InputError("only text and pictures can be read", where=where)
            return text
        url = str(image.get("url"))
        begin = _DATA.match(url)
        if begin is None:
            raise InputError(
                "a model of this process fetches no pictures", where=where,
                hint="send the picture itself, as data:image/png;base64,...",
            )  # fmt: skip
        try:
            self.images.append(base64.b64decode(url[begin.end() :], validate=True))
        except binascii.Error:
            raise InputError("the picture is not in base64", where=where) from None
        return f"{self._mark}{len(self.images) - 1}."

    def ids(
        self,
        prompt: PromptParts,
        images: Sequence[Sequence[int]],
        encode: Callable[[PromptParts], list[int]],
    ) -> list[int]:
        """Return the ids of a prompt made of the marked messages, with those of the pictures."""
        found: list[int] = []
        used = 0
        for part in prompt:
            if not isinstance(part, str):
                found += encode((part,))
                continue
            pieces = re.split(rf"{self._mark}(\d+)\.", part)
            for place, piece in enumerate(pieces):
                if place % 2:
                    found += images[int(piece)]
                    used += 1
                elif piece:
                    found += encode((str(piece),))
        if used != len(self.images):
            raise InputError(
                "the prompt of this model does not have every picture", where="messages",
                hint="send pictures in messages of the user",
            )  # fmt: skip
        return found
