"""A text whose number words are digits, and where each part of it stood before."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise

from text_to_num import find_numbers

from callmemaybe.values.tables import EN, TABLES

_TOKEN = re.compile(r"[^\W\d_]+|\d+|[^\w\s]|_")
_SURROGATE = re.compile("[\ud800-\udfff]")
_JOINT = re.compile(r"[^\S\n]*|-")
#: Words that are an article or a pronoun more often than a number.
_ARTICLES = {
    "en": frozenset(("one",)),
    "fr": frozenset(("un", "une")),
    "de": frozenset(("ein", "eine", "einen", "einem", "einer", "eines", "eins")),
    "es": frozenset(("un", "una", "uno")),
}
#: Behind these, "one" stands for a thing.
_NO_ONE = frozenset(
    [
        "no",
        "any",
        "every",
        "some",
        "which",
        "this",
        "that",
        "the",
        "each",
        "another",
        "only",
        "a",
        "good",
        "new",
        "last",
    ]
)
#: What is a unit of time more often than an ordinal.
_NOT_NUMBERS = {"en": frozenset(("second", "seconds")), "es": frozenset(("segundo", "segundos")), "fr": frozenset(("seconde", "secondes"))}  # fmt: skip


#: Forms that the library does not know.
_ALSO = {"veintiún": "veintiuno"}


class _Word:
    """One word of a text, as the library wants it."""

    def __init__(self, match: re.Match[str], is_apart: bool, is_no_part: bool) -> None:
        self.match = match
        self._is_apart = is_apart
        self._is_no_part = is_no_part

    def text(self) -> str:
        """Return the word."""
        word = self.match[0].lower()
        return _ALSO.get(word, word)

    def nt_separated(self, _previous: object) -> bool:
        """Whether something stands between this word and the one before."""
        return self._is_apart

    def not_a_number_part(self) -> bool:
        """Whether this is no number, though it may look like one."""
        return self._is_no_part


@dataclass(frozen=True)
class Spelling:
    """A text in lower case with digits for number words, ordinals as ``3rd``; and the way back.

    ``words`` are the stretches of :attr:`text` that were words. ``at`` maps a place to the original text.
    """

    text: str
    words: tuple[tuple[int, int], ...] = ()
    _here: list[int] = field(default_factory=list)
    _there: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, text: str, language: str) -> Spelling:
        """Return the text with digits for the number words of a language."""
        lowered = _lower(text)
        tokens = _words_of(lowered, language)
        parts: list[str] = []
        here: list[int] = []
        there: list[int] = []
        words: list[tuple[int, int]] = []
        size = last = 0
        for found in find_numbers(tokens, language, 0.0) if tokens else ():
            begin = tokens[found.start].match.start()
            end = tokens[found.end - 1].match.end()
            written = lowered[begin:end]
            if written.isdigit() or _is_article(tokens, found.start, found.end, language):
                continue
            number = f"{found.value:.15g}" + ("rd" if found.is_ordinal else "")
            parts += [lowered[last:begin], number]
            size += begin - last
            words.append((size, size + len(number)))
            here += [size, size + len(number)]
            there += [begin, end]
            size += len(number)
            last = end
        return cls("".join([*parts, lowered[last:]]), tuple(words), here, there)

    def at(self, place: int) -> int:
        """Return where a place of the text stands in the original text."""
        index = bisect_right(self._here, place) - 1
        if index < 0:
            return place
        if index % 2 == 0 and place > self._here[index]:  # within a word: its end
            return self._there[index + 1]
        return self._there[index] + place - self._here[index]


def _lower(text: str) -> str:
    """Return the text in lower case, each character in its place; a lone surrogate, which no library takes, as "?"."""
    lowered = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return _SURROGATE.sub("?", lowered.replace("\u2019", "'"))


def _words_of(text: str, language: str) -> list[_Word]:
    matches = list(_TOKEN.finditer(text))
    skipped = _NOT_NUMBERS.get(language, frozenset())
    words = []
    for before, match in pairwise([None, *matches]):
        assert match is not None
        gap = text[before.end() : match.start()] if before else ""
        # Digits are left to the reader of numerals: "2 thousand" is one, "5 million" the library reads as two.
        is_scale = (
            before is not None and before[0].isdigit() and match[0] in TABLES[language].scales
        )
        is_skipped = match[0] in skipped and not _is_day(text, match, before)
        is_no_part = match[0].isdigit() or is_scale or is_skipped
        words.append(_Word(match, not _JOINT.fullmatch(gap), is_no_part))
    return words


def _is_day(text: str, match: re.Match[str], before: re.Match[str] | None) -> bool:
    """Whether "second" is one of a month: "the second of May", "May twenty second"."""
    if text.startswith(" of ", match.end()):
        return True
    start = before.start() if before and before[0] == "twenty" else match.start()
    return (
        re.search(rf"(?:{EN.month}|\bthe) $", text[max(0, start - 12) : start]) is not None
        and start < match.start()
    )


def _is_article(words: list[_Word], start: int, end: int, language: str) -> bool:
    """Whether a number of one word is an article, or "one" in "which one"."""
    if end - start != 1 or (word := words[start].text()) not in _ARTICLES[language]:
        return False
    if language != "en":
        return True
    before = words[start - 1].text() if start else ""
    after = words[end].text() if end < len(words) else ""
    return before in _NO_ONE or after in ("of", "another", "more", "day") or word != "one"
