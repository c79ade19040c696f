"""Pictures in requests: which model reads them, and the form in which it gets them."""

from __future__ import annotations

import re
from typing import Any

from callmemaybe.server.http_errors import ApiError, invalid_value
from callmemaybe.server.request_models import ChatImagePart, InputImagePart

#: The largest body of a request to a model that reads pictures, in bytes.
BODY_BYTES = 32 << 20
IMAGES = (ChatImagePart, InputImagePart)
#: Addresses of pictures that may be passed on: the picture itself, or one that the model's server can fetch.
_ADDRESS = re.compile(r"data:image/[\w.+-]+;base64,|https?://", re.IGNORECASE)


def message_content(
    content: str | list[Any], where: str, model: str, *, reads_images: bool
) -> str | list[dict[str, Any]]:
    """Return a content as prompts need it: one text, or parts as the chat interface has them.

    ``where`` is the parameter that it stands in. Raises ApiError for a picture that the model cannot read.
    """
    if isinstance(content, str):
        return content
    if not any(isinstance(part, IMAGES) for part in content):
        return "".join(part.text for part in content)
    found: list[dict[str, Any]] = []
    for place, part in enumerate(content):
        if not isinstance(part, IMAGES):
            found.append({"type": "text", "text": part.text})
            continue
        at = f"{where}[{place}]"
        if not reads_images:
            raise ApiError(
                400,
                f"The model {model!r} reads text only: leave the picture out, or serve a model that reads "
                "pictures, with --model.",
                param=at,
                code="unsupported_content",
            )
        found.append({"type": "image_url", "image_url": _image(part, at)})
    return found


def _image(part: ChatImagePart | InputImagePart, where: str) -> dict[str, str]:
    if isinstance(part, ChatImagePart):
        url, detail = part.image_url.url, part.image_url.detail
    else:
        url, detail = part.image_url, part.detail
    if not _ADDRESS.match(url):
        raise invalid_value(
            where,
            "A picture is data:image/png;base64,... (or of another type), or an http(s) address.",
        )
    return {"url": url} | ({"detail": detail} if detail else {})
