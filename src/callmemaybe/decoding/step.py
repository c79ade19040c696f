"""What one move of the decoder was: the tokens, how they came about, and what else was likely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Who decided: the grammar, the model, or a draft that the model confirmed.
Kind = Literal["forced", "chosen", "drafted"]
#: Tokens (their bytes; a control token's text) with their probabilities, likeliest first.
Likeliest = tuple[tuple[bytes, float], ...]


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
