"""What a caller adds to a model's logits before a token is chosen: a bias, and penalties for repeating.

The definitions are those of OpenAI's interface (``logit_bias``, ``frequency_penalty``, ``presence_penalty``) and of
Keskar et al., 2019 (``repetition_penalty``, as Transformers and vLLM have it). Masks come after: what the
grammar forbids stays forbidden whatever is added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from callmemaybe.decoding.sampler import Floats
from callmemaybe.errors import InputError


class LogitAdjuster:
    """Adjusts the logits of one turn.

    ``bias`` (by id) is added everywhere. The penalties act, and count tokens, only while :attr:`is_penalising`:
    in texts. A call's arguments repeat what the request and the schema say, so a penalty there would only make
    them wrong. ``prompt`` are ids that count as written for ``repetition``, which divides a positive logit and
    multiplies a negative one. Raises InputError for a bias of an id that is not below ``size``.
    """

    def __init__(
        self,
        size: int,
        *,
        bias: Mapping[int, float],
        frequency: float = 0.0,
        presence: float = 0.0,
        repetition: float = 1.0,
        prompt: Sequence[int] = (),
    ) -> None:
        unknown = next((index for index in bias if not 0 <= index < size), None)
        if unknown is not None:
            raise InputError(
                f"the model has no token {unknown}; its ids are below {size}", where="logit_bias"
            )
        self.is_penalising = False
        self._bias = np.array(list(bias), np.int64), np.array(list(bias.values()), np.float32)
        self._frequency, self._presence, self._repetition = frequency, presence, repetition
        self._prompt = frozenset(prompt) if repetition != 1.0 else frozenset()
        self._counts: Counter[int] = Counter()

    def take(self, ids: Sequence[int]) -> None:
        """Count tokens that were written."""
        if self.is_penalising:
            self._counts.update(ids)

    def __call__(self, logits: Floats) -> Floats:
        """Return the logits ``float32[size]`` with all that is to be added; the given ones stay."""
        found = logits.copy()
        ids, amounts = self._bias
        found[ids] += amounts
        if not self.is_penalising:
            return found
        if self._repetition != 1.0:
            seen = np.fromiter(self._prompt | self._counts.keys(), np.int64)
            some = found[seen]
            found[seen] = np.where(some > 0, some / self._repetition, some * self._repetition)
        if self._counts and (self._frequency or self._presence):
            seen = np.fromiter(self._counts.keys(), np.int64)
            times = np.fromiter(self._counts.values(), np.float32)
            found[seen] -= self._frequency * times + self._presence
        return found
