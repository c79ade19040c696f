"""What one move of the decoder was: the tokens, how they came about, and what else was likely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

#: Who decided: the grammar, the model, or a draft that the model confirmed.
Kind = Literal["forced", "chosen", "drafted"]
#: Tokens (their bytes; a control token's text) with their probabilities, likeliest first.
Likeliest = tuple[tuple[bytes, float], ...]

#: Stands for the logarithm of nought, which JSON cannot write.
LEAST = -9999.0


@dataclass(frozen=True, slots=True)
class Step:
    """One move: a run of forced tokens, one chosen token, or a chosen name."""

    ids: tuple[int, ...]
    #: What the ids spell; a control token as its text.
    data: bytes
    #: The whole completion after this step, spelled in the same way.
    text: bytes
    kind: Kind
    #: How many tokens (or, for a name, names) were allowed; None where nothing was asked.
    allowed: int | None = None
    #: Log-probability of the ids under the model, unmasked; None where the model was not asked, and
    #: for single tokens only when watched.
    logprob: float | None = None
    #: The five likeliest tokens for the model, before the mask and after it; only when watched.
    before: Likeliest = ()
    after: Likeliest = ()
    #: What each of the ids spells.
    parts: tuple[bytes, ...] = ()
    #: Forward passes that this step took, and seconds in them.
    passes: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the step as traces write it.

        Bytes are told as text and, since a token may end inside a character, as hexadecimal digits.
        """
        told: dict[str, Any] = {
            "kind": self.kind, "ids": list(self.ids), "text": _text(self.data),
            "hex": self.data.hex(), "parts": [_text(part) for part in self.parts],
            "allowed": self.allowed, "logprob": None if self.logprob is None else max(self.logprob, LEAST), "passes": self.passes,
            "seconds": round(self.seconds, 6),
        }  # fmt: skip
        if self.before or self.after:
            told["before"] = [[_text(token), chance] for token, chance in self.before]
            told["after"] = [[_text(token), chance] for token, chance in self.after]
        return told


def _text(token: bytes | str) -> str:
    return token if isinstance(token, str) else token.decode(errors="replace")
