"""Grounding: values are limited to strings and numbers that occur in a text.

A schema asks for it with ``x-ground``: ``"prompt"`` (the value occurs in the text, or there is none),
``"prompt-or-free"`` (the same if some value of the text fits the schema, else unrestricted), ``false`` (not
here, whatever the default is). Booleans, null and listed values (enum, const) are not grounded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any

from callmemaybe.grammar.characters import json_escaped
from callmemaybe.grammar.nodes import NOTHING, Node, Substrings, alt, lexeme, lit, seq

#: The levels of grounding; where schemas are combined the strictest holds.
UNSPECIFIED, NEVER_GROUNDED, OR_FREE, GROUNDED = range(4)
#: The values of ``x-ground``.
LEVELS = {"prompt": GROUNDED, "prompt-or-free": OR_FREE}

# Digits, optionally in groups, with a fraction and an exponent.
_NUMERAL = re.compile(r"\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?|\.\d+")
_SPACED = re.compile(r"(?<!\d)\d{1,3}(?:[ '_\u00a0\u202f]\d{3})+(?!\d)")
_LONGEST_EXPONENT = 400
# With the longest exponent this is the limit of values.DIGITS.
_MOST_DIGITS = 3_900
# Halves of surrogate pairs, which UTF-8 cannot encode.
_HALVES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class GroundingSource:
    """The text (or texts) in which strings and numbers must occur.

    ``everywhere`` is the level where a schema does not specify one: None, "prompt" or "prompt-or-free". It
    applies to every string without pattern and format, and to every number. ``numbers`` are further numbers
    that count as part of the text (12 for "a dozen", for example).
    """

    text: str | tuple[str, ...]
    everywhere: str | None = None
    numbers: tuple[int | Decimal, ...] = ()
    #: False: the text is not known yet; until then every value counts as part of it.
    is_known: bool = True

    def __post_init__(self) -> None:
        """Check ``everywhere``."""
        if self.everywhere is not None and self.everywhere not in LEVELS:
            raise ValueError(f"everywhere must be None, {' or '.join(map(repr, LEVELS))}")

    @property
    def level(self) -> int:
        """The level where a schema does not specify one."""
        return UNSPECIFIED if self.everywhere is None else LEVELS[self.everywhere]

    @property
    def strings(self) -> Node:
        """The JSON strings (with quotes, in the form of json.dumps) that occur in the text."""
        return _strings(self._texts)

    @property
    def values(self) -> tuple[int | Decimal, ...]:
        """The numbers that occur in the text, and the further ones."""
        said = (number for text in self._texts for number in numbers_in(text))
        return _distinct((*said, *self.numbers))

    @property
    def _texts(self) -> tuple[str, ...]:
        return (self.text,) if isinstance(self.text, str) else self.text


def uses_grounding(schema: Any) -> bool:
    """Whether ``x-ground`` occurs in a schema."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            if "x-ground" in value:
                return True
            waiting.extend(
                one
                for key, one in value.items()
                if isinstance(one, Mapping | list | tuple)
                and not (key == "enum" and isinstance(one, list))  # data, and perhaps much
            )
        elif isinstance(value, list | tuple):
            waiting.extend(one for one in value if isinstance(one, Mapping | list | tuple))
    return False


@lru_cache(maxsize=64)
def _strings(texts: tuple[str, ...]) -> Node:
    return lexeme(seq(lit('"'), alt(*map(_parts, texts)), lit('"')))


def _parts(text: str) -> Node:
    """Return the parts of a text, written as in a JSON string."""
    kept = _HALVES.sub("", text)
    if not kept.strip():
        return NOTHING
    inner = [False, *(_is_one_word(*pair) for pair in pairwise(kept)), False]
    starts = tuple(not cut and not c.isspace() for cut, c in zip(inner[:-1], kept, strict=True))
    ends = tuple(not cut and not c.isspace() for cut, c in zip(inner[1:], kept, strict=True))
    units = tuple(json_escaped(ord(char)).encode() for char in kept)
    return Substrings(units, starts, ends)


def _is_one_word(left: str, right: str) -> bool:
    """Whether two neighbours belong to one word, so that no part of the text ends between them.

    Letters without case (Chinese, Thai, Arabic) may be split anywhere: many such scripts write words without
    spaces.
    """
    if unicodedata.category(left)[0] == "M" or unicodedata.category(right)[0] == "M":
        return True
    letters = left.isalnum() and right.isalnum()
    return letters and "Lo" not in (unicodedata.category(left), unicodedata.category(right))


@lru_cache(maxsize=64)
def numbers_in(text: str) -> tuple[int | Decimal, ...]:
    """Return the numbers written in digits in a text, in every way each may be read.

    "1,234.5" is 1234.5; "1.234" is both 1.234 and 1234; "-3" is both 3 and -3 ("pages 1 -3"). Decimals keep
    the digits they were written with: 12.50 is not 12.5 here.
    """
    found: list[int | Decimal] = []
    for match in (*_NUMERAL.finditer(text), *_SPACED.finditer(text)):
        before = text[: match.start()][-2:]
        signed = before[-1:] in ("-", "\u2212") and not before[:-1].isalnum()
        for value in _readings(match[0]):
            found.append(value)
            if signed:  # a minus sign would round a Decimal to 28 digits
                found.append(value.copy_negate() if isinstance(value, Decimal) else -value)
    return _distinct(found)


def _distinct(numbers: Iterable[int | Decimal]) -> tuple[int | Decimal, ...]:
    """Return each text of each number once."""
    return tuple({str(number): number for number in numbers}.values())


def _readings(written: str) -> list[int | Decimal]:
    digits, _, exponent = re.sub(r"[ '_\u00a0\u202f]", "", written).lower().partition("e")
    if len(digits) > _MOST_DIGITS or (exponent and abs(int(exponent)) > _LONGEST_EXPONENT):
        return []
    texts = []
    for point, group in ((".", ","), (",", ".")):
        whole, *fraction = digits.split(point)
        groups = whole.split(group)
        is_plain = not fraction or (len(fraction) == 1 and fraction[0].isdecimal())
        if is_plain and all(len(part) == 3 for part in groups[1:]):
            texts.append(f"{''.join(groups)}.{''.join(fraction)}" if fraction else "".join(groups))
    values = [Decimal(f"{text}e{exponent}" if exponent else text) for text in dict.fromkeys(texts)]
    return [value if value.as_tuple().exponent else int(value) for value in values]
