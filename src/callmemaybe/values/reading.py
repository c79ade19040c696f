"""All values of a text, each with the words that say it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from callmemaybe.values.language import guess_language
from callmemaybe.values.numbers import numbers
from callmemaybe.values.spelling import Spelling
from callmemaybe.values.times import Moment, moments

Kind = Literal[
    "number", "percent", "date", "time", "datetime", "duration", "email", "uri", "ipv4", "uuid"
]
#: A text is read as far as this: values of a request stand near its words.
MOST_CHARACTERS = 8_000
_ADDRESSES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("email", re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.)+[^\W\d_]{2,24}(?![\w-])")),
    ("uri", re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s<>\"'`]{1,2000}(?<![.,;:!?)\]}\u2019])", re.IGNORECASE)),
    ("uuid", re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)),
    ("ipv4", re.compile(r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.]*\d)")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that a text says, and where.

    ``value`` is a Decimal ("number"; "percent": 20 for "20%"), a date, time or datetime, an ISO 8601 duration as
    text, or an address as it stands there. ``seconds`` is the length of a duration, where months and years do not
    blur it. ``text`` is ``source[start:end]``.
    """

    kind: Kind
    value: Any
    text: str
    start: int
    end: int
    seconds: int | None = None


def read_values(text: str, now: datetime, language: str | None = None) -> tuple[Reading, ...]:
    """Return the values that a text says, from left to right; those of one place may be of several kinds.

    ``now`` is what "tomorrow" and "in two hours" count from; dates without a year are the next such days.
    ``language`` is one of :data:`~callmemaybe.values.LANGUAGES`; by default it is guessed.
    """
    source = text[:MOST_CHARACTERS]
    found = sorted(
        _readings(source, now, language or guess_language(source) or "en"),
        key=lambda one: (one.start, -one.end),
    )
    return tuple(dict.fromkeys(found))


def _readings(text: str, now: datetime, language: str) -> Iterator[Reading]:
    taken: list[tuple[int, int]] = []
    for kind, pattern in _ADDRESSES:
        for match in pattern.finditer(text):
            if any(start < match.end() and match.start() < end for start, end in taken):
                continue
            taken.append(match.span())
            yield Reading(kind, match[0], match[0], *match.span())
    # Digits of an address are no numbers.
    free = list(text)
    for start, end in taken:
        free[start:end] = "@" * (end - start)
    spelling = Spelling.of("".join(free), language)
    for moment in moments(spelling.text, now, language):
        start, end = spelling.at(moment.start), spelling.at(moment.end)
        yield _reading(moment, text, start, end)
    for number in numbers(spelling, language):
        start, end = spelling.at(number.start), spelling.at(number.end)
        share: Kind = "percent" if number.is_percent else "number"
        yield Reading(share, number.value, text[start:end], start, end)


def _reading(moment: Moment, text: str, start: int, end: int) -> Reading:
    return Reading(moment.kind, moment.value, text[start:end], start, end, moment.seconds)
