"""Which of many values a request names: by words, and by words that differ in one letter."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import contains
from typing import cast

#: The most values that a request may name.
MOST = 4
#: Beside the nearest value, those that come nearly as near.
_LEAST = 0.6
#: A word that differs counts less than the word itself.
_MISSPELT = 0.7
#: Shorter words are too easily taken for one another.
_MIN_LETTERS = 3
#: Longer words are nobody's typing, and all of their parts would take the square of their length.
_MAX_LETTERS = 40
#: Among more words than these, only words themselves are found: the index of misspelt ones takes seconds.
_MOST_MISSPELT = 20_000
#: Words of a request that are read: more than a context holds of them would only take time.
_MOST_WORDS = 4000
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words_of(text: str) -> list[str]:
    """Return the words of a text without case, accents, and what joins them (``light.kitchen_1``)."""
    if text.isascii():
        return _WORD.findall(text.lower())
    plain = unicodedata.normalize("NFKD", text).casefold()
    return _WORD.findall("".join(char for char in plain if not unicodedata.combining(char)))


def _humps_apart(value: str) -> str:
    return _HUMP.sub(" ", value) if value.isidentifier() else value


class ValueIndex:
    """The words of a list of values, for many requests.

    A value scores by the share of its words that the request has, rare words counting more, as in K. Sparck
    Jones, "A statistical interpretation of term specificity", 1972. Misspelt words are found by what is left
    of them without one letter, after W. Garbe's SymSpell.
    """

    def __init__(self, values: Sequence[str]) -> None:
        # Words in one, as in kitchenLight, are read as identifiers alone: iPhone 12 is one.
        # Tuples, since the collector of cycles need not look into tuples of texts.
        self._words = [
            tuple(_WORD.findall(value.lower()))
            if value.isascii() and not value.isidentifier()
            else tuple(words_of(value if value.islower() else _humps_apart(value)))
            for value in values
        ]
        counts = Counter(chain.from_iterable(map(set, self._words)))
        weights = {word: math.log(1 + len(values) / n) for word, n in counts.items()}
        self._weights = weights
        self._totals = [sum([weights[word] for word in set(words)]) for words in self._words]
        self._having: dict[str, list[int] | tuple[int]] = {}
        for place, words in enumerate(self._words):
            for word in words if len(words) < 2 else dict.fromkeys(words):
                if counts[word] == 1:
                    self._having[word] = (place,)
                else:
                    cast("list[int]", self._having.setdefault(word, [])).append(place)
        self._misspelt: dict[str, set[str]] = {}
        may_be_misspelt = [
            word for word in counts if len(word) >= _MIN_LETTERS and not word.isdecimal()
        ]
        for word in may_be_misspelt if len(may_be_misspelt) <= _MOST_MISSPELT else ():
            for part in _without_a_letter(word):
                self._misspelt.setdefault(part, set()).add(word)

    def named(self, request: str) -> list[int]:
        """Return the positions of the values that the request may name, the nearest first.

        What stands in the request as it is, but for a letter in a word, is all if no other value has more
        of the request; otherwise :data:`MOST` values at most.
        """
        said = [self._readings(word) for word in words_of(request)[:_MOST_WORDS]]
        counted: dict[str, float] = {}
        for reading in said:
            for word, share in reading.items():
                counted[word] = max(share, counted.get(word, 0.0))
        found: dict[int, float] = {}
        for word, share in counted.items():
            for place in self._having[word]:
                found[place] = found.get(place, 0.0) + share * self._weights[word]
        if not found:
            return []
        shares = {place: round(weight / self._totals[place], 6) for place, weight in found.items()}
        ranked = sorted(found, key=lambda place: (-shares[place], -found[place], place))
        complete = [place for place in found if all(map(counted.__contains__, self._words[place]))]
        complete.sort(key=lambda place: (-found[place], -len(self._words[place])))
        runs = self._runs(said, complete)
        if runs and max(found[place] for place in runs) >= max(found.values()) - 1e-6:
            return runs
        return [at for at in ranked[:MOST] if shares[at] >= _LEAST * shares[ranked[0]]]

    def named_wholly(
        self, words: Sequence[str], left_out: frozenset[str] = frozenset()
    ) -> list[tuple[int, frozenset[int]]]:
        """Return the values all of whose words, but for those ``left_out``, are among ``words``; with their places there.

        A word stands for itself, or for one that differs in a letter if it is none of any value.
        """
        at: dict[str, set[int]] = {}
        for place, word in enumerate(words[:_MOST_WORDS]):
            for own in self._readings(word):
                at.setdefault(own, set()).add(place)
        found = []
        for place in sorted({place for word in at for place in self._having[word]}):
            needed = set(self._words[place]) - left_out
            if needed and needed <= at.keys():
                found.append((place, frozenset(min(at[word]) for word in needed)))
        return found

    def _runs(self, said: Sequence[Mapping[str, float]], places: Sequence[int]) -> list[int]:
        """Return those of ``places`` whose words stand in a row, each word for one value, in their order."""
        starts: dict[str, list[int]] = {}
        for at, reading in enumerate(said):
            for word in reading:
                starts.setdefault(word, []).append(at)
        free = [True] * len(said)
        runs = {}
        for place in places:
            run = self._words[place]
            for at in starts[run[0]]:
                end = at + len(run)
                if all(free[at:end]) and len(free) >= end and all(map(contains, said[at:end], run)):
                    free[at:end] = [False] * len(run)
                    runs[at] = place
                    break
        return [runs[at] for at in sorted(runs)]

    def _readings(self, word: str) -> dict[str, float]:
        """Return the words of values that a word of a request may be, and how much each counts."""
        if word in self._weights:
            return {word: 1.0}
        near = {other for part in _without_a_letter(word) for other in self._misspelt.get(part, ())}
        return {other: _MISSPELT for other in near if _is_misspelt(word, other)}


def _without_a_letter(word: str) -> Sequence[str]:
    if len(word) > _MAX_LETTERS:
        return [word]
    return [word, *(word[:at] + word[at + 1 :] for at in range(len(word)))]


def _is_misspelt(word: str, other: str) -> bool:
    """Whether two words that share what is left without a letter are one: fan and can are not."""
    shorter, longer = sorted((word, other), key=len)
    if len(shorter) < _MIN_LETTERS or word.isdecimal() or other.isdecimal():
        return False
    return (
        len(shorter) > _MIN_LETTERS or len(shorter) < len(longer) or sorted(word) == sorted(other)
    )
