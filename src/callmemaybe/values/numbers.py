"""Numbers as people write them: digits with separators, words, dozens, halves, signs, percent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cache

from callmemaybe.values.spelling import Spelling
from callmemaybe.values.tables import TABLES, Words

#: Digits in groups of three, and what may stand between the groups.
_SPACES = " \u00a0\u2009\u202f"
_MOST_DIGITS = 40
#: Behind digits, these make no number of them: part of a name, a version, a time, a date, an address.
_WORD_BEFORE = re.compile(r"[^\W\d_]$|\d[.:/,-]$|[#_@]$|[^\W_]-$")
#: "8pm", "20h", "3rd", "90s" and "5km" are numbers with something behind; "4x4b", "1.2.3" and "12:30" are not.
_LONGER = re.compile(r"[.:/,-]\d|[^\W_]{0,20}[\d_]")
_TWICE = {"once": 1, "twice": 2, "thrice": 3}


@dataclass(frozen=True)
class Number:
    """A number in a spelling: its places there, its value, and whether it is a share in percent."""

    start: int
    end: int
    value: Decimal
    is_percent: bool = False


@cache
def _pattern(language: str) -> re.Pattern[str]:
    words = _spaced(TABLES[language])
    groups = f"[{_SPACES}']" if language != "en" else "[\u00a0\u2009\u202f']"
    scales = "|".join(sorted(map(re.escape, words.scales), key=len, reverse=True))
    return re.compile(
        rf"""(?P<sign>(?:(?<![\w)\]])|(?<=\$))[-\u2212+](?=[\d.,$\u20ac\u00a3])|\b{words.minus}\s+)?
        (?:[$\u20ac\u00a3\u00a5]\s?)?
        (?:
          (?P<digits>\d{{1,3}}(?:[{_SPACES}]\d{{3}})+,\d\d?(?!\d)
            |\d{{1,3}}(?:{groups}\d{{3}})+(?![\d])(?:[.,]\d+)?
            |\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?(?![\d,]*\d)|\d{{1,3}}(?:\.\d{{3}})+(?:,\d+)?(?![\d.]*\d)
            |\d{{1,{_MOST_DIGITS}}}(?:[.,]\d+)?|(?<!\d)\.\d+)
          (?P<exponent>e[+-]?\d{{1,3}}(?![\w.]))?
          (?P<half>\s+{words.and_half}(?!\w)|einhalb)?
          (?P<scale>\s?(?:{scales})(?![\w]))?
          (?P<late_half>\s+{words.and_half}(?!\w))?
          (?P<dozen>\s+{words.dozen}(?!\w))?
        | (?<!\w)(?:(?P<half_dozen>{words.half}[ -](?:{words.article}\s+)?)|{words.article}\s+)?(?P<a_dozen>{words.dozen})(?!\w)
        | (?<!\w)(?:{words.article}\s+)(?P<couple>{words.couple})(?!\w)
        )
        (?P<percent>\s?%|\s{words.percent}(?!\w))?""",
        re.VERBOSE,
    )


def _spaced(words: Words) -> Words:
    """Return the words whose patterns stand in a verbose one."""
    names = ("minus", "percent", "and_half", "dozen", "couple", "half")
    return replace(words, **{name: getattr(words, name).replace(" ", r"\ ") for name in names})


def numbers(spelling: Spelling, language: str) -> Iterator[Number]:
    """Yield the numbers of a text, from left to right."""
    words = TABLES[language]
    text = spelling.text
    for match in _pattern(language).finditer(text):
        if _is_part(text, match, spelling):
            continue
        try:
            value = _value(match, words)
        except InvalidOperation:  # beyond what can be calculated with: 1e400 and a half
            continue
        if value is None:
            continue
        if match["sign"] and not match["sign"].startswith("+"):
            value = -value
        yield Number(match.start(), match.end(), value, bool(match["percent"]))
    if language == "en":
        for match in re.finditer(r"(?<!\w)(?:once|twice|thrice)(?!\w)", text):
            yield Number(match.start(), match.end(), Decimal(_TWICE[match[0]]))


def _is_part(text: str, match: re.Match[str], spelling: Spelling) -> bool:
    """Whether digits are part of something longer: a word, a version, an address."""
    if match["digits"] is None:
        return False
    begin, end = match.start(), match.end()
    if (begin, end) in spelling.words:
        return False
    if _WORD_BEFORE.search(text[max(0, begin - 2) : begin]):
        return True
    return _LONGER.match(text, end) is not None


def _value(match: re.Match[str], words: Words) -> Decimal | None:
    if match["couple"]:
        return Decimal(2)
    if match["a_dozen"]:
        return Decimal(6 if match["half_dozen"] else 12)
    value = literal(match["digits"], decimal_comma=words.decimal_comma)
    if value is None:
        return None
    if match["exponent"]:
        value = value.scaleb(int(match["exponent"][1:]))
    if match["half"]:
        # "A million and a half" is a million more by half a million.
        unit = 1_000_000 if value and value % 1_000_000 == 0 else 1
        value += unit * Decimal("0.5")
    if match["scale"]:
        scale = match["scale"]
        if scale.strip() in ("m", "b", "mm", "md") and not _is_money(match):
            return value  # metres, bytes
        value = value.scaleb(words.scales[scale.strip()])
        if match["late_half"]:
            value += Decimal("0.5").scaleb(words.scales[scale.strip()])
    if match["dozen"]:
        value *= 12
    return value


def _is_money(match: re.Match[str]) -> bool:
    """Whether a currency stands beside a number: $5m is five million, 5m are five metres."""
    return any(sign in match[0] for sign in "$€£¥") or bool(
        re.match(
            r"\s?(?:[$€£¥]|(?:usd|eur|gbp|dollars?|euros?|pounds?)\b)",
            match.string[match.end() :][:12],
        )
    )


def literal(digits: str, *, decimal_comma: bool) -> Decimal | None:
    """Return the number that digits with separators are; None where they are two numbers ("3,5").

    ``decimal_comma``: whether the language writes 3,5 for three and a half, and 1.500 for a thousand and a half.

    >>> literal("1,500", decimal_comma=False), literal("1.500,25", decimal_comma=True)
    (Decimal('1500'), Decimal('1500.25'))
    """
    plain = re.sub(f"[{_SPACES}']", "", digits)
    points, commas = plain.count("."), plain.count(",")
    if points and commas:
        last = max(plain.rfind("."), plain.rfind(","))
        return Decimal(re.sub("[.,]", "", plain[:last]) + "." + plain[last + 1 :])
    mark = "," if commas else "."
    if not points + commas:
        return Decimal(plain)
    if plain != digits and commas == 1 and not decimal_comma:
        return Decimal(plain.replace(",", "."))  # 1 500,50
    is_group = bool(re.fullmatch(rf"\d{{1,3}}(?:\{mark}\d{{3}})+", plain)) and not plain.startswith(
        "0"
    )
    is_decimal = (mark == ",") == decimal_comma
    if is_group and (points + commas > 1 or not is_decimal):
        return Decimal(plain.replace(mark, ""))
    if points + commas > 1 or (mark == "," and not decimal_comma):
        return None
    return Decimal(plain.replace(",", "."))
