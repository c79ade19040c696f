"""How probable an answer is under the model: exactly, token by token, with no mask.

The probability of an answer is that of its tokens one after the other among everything the model
could have written, forced tokens included: it compares answers however they were found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from callmemaybe.decoding.sampler import log_total
from callmemaybe.models.base import Session

#: Logits held at a time, in bytes.
_PASS_BYTES = 64 << 20


def logprobs(session: Session, before: int, ids: Sequence[int]) -> NDArray[np.float64]:
    """Return ``float64[len(ids)]``: log P(id | all before it), in nats.

    ``session`` holds the prompt, whose last id is ``before``, and nothing else; it is left in the
    same state. One pass, more only where the logits would take too much memory.
    """
    found = np.zeros(len(ids), np.float64)
    fed = [before, *ids[:-1]]
    session.rewind(1)
    step = max(1, _PASS_BYTES // (4 * session.size))
    for start in range(0, len(ids), step):
        part = fed[start : start + step]
        rows = session.feed(part, keep=len(part))
        for at, row in enumerate(rows, start):
            found[at] = float(row[ids[at]]) - log_total(row)
    session.rewind(max(0, len(ids) - 1))
    if not ids:
        session.feed([before], keep=0)
    return found


def by_member(
    scores: NDArray[np.float64], lengths: Sequence[int], places: Sequence[int], text: str
) -> dict[str, float]:
    """Return the log-probability of each member of a JSON object that an answer says.

    ``lengths`` are how many symbols each scored token has. ``places`` are the symbols behind which each
    byte of the object, ``text``, was certain: the answer may say it in another notation. A token that
    spells a value in part counts for it, as does what closes a text (a quote, a tag); commas and keys
    count for none.
    """
    ends = np.cumsum(lengths)
    begins = ends - lengths
    found = {}
    for key, low, high in _members(text):
        # Whatever stands behind the key is the value: a notation may have no byte for an opening quote.
        inside = (begins <= places[high - 1]) & (ends > places[low - 1] + 1)
        found[key] = float(scores[inside].sum())
    return found


def _members(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each member of a JSON object: its key, and where its value stands, in bytes."""
    decoder = json.JSONDecoder(parse_float=str, parse_int=str)
    at = _next(text, 1)
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        low = _next(text, _next(text, at) + 1)
        _, high = decoder.raw_decode(text, low)
        yield key, len(text[:low].encode()), len(text[:high].encode())
        at = _next(text, high)
        if text[at] == ",":
            at = _next(text, at + 1)


def _next(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
