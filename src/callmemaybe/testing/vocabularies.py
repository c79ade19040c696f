"""Small vocabularies for tests: they behave like real ones and need no file."""

from __future__ import annotations

from collections.abc import Iterable

from callmemaybe.vocabulary import Vocabulary


class ByteVocabulary(Vocabulary):
    """One token per byte (its id is the byte), then ``more`` longer tokens, then control tokens.

    Text is encoded with the longest token that fits. The control tokens named in ``ends`` end a
    turn.
    """

    def __init__(
        self,
        controls: Iterable[str] = (),
        *,
        ends: Iterable[str] = (),
        more: Iterable[bytes] = (),
        size: int | None = None,
    ) -> None:
        """Give ids to 256 bytes, ``more``, ``controls`` and the other ``ends``, in order."""
        tokens = [*(bytes([byte]) for byte in range(256)), *more]
        named = {
            text: len(tokens) + place
            for place, text in enumerate(dict.fromkeys([*controls, *ends]))
        }
        tokens += [b""] * len(named)
        super().__init__(tokens, named, None, [named[text] for text in ends], size=size)
