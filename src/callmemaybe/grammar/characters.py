"""Sets of code points, and the nodes of their encodings as UTF-8 or inside a JSON string.

A set is a tuple of inclusive ranges, sorted and disjoint. Surrogates (U+D800-DFFF) have no encoding.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from callmemaybe.grammar.nodes import (
    EMPTY,
    Alternation,
    Chars,
    Node,
    alt,
    byte_range,
    lexeme,
    lit,
    many,
    repeat,
    seq,
    words,
)

Ranges = tuple[tuple[int, int], ...]
#: Returns the node that encodes any one character of a set.
CharacterEncoding = Callable[[Ranges], Node]

LAST = 0x10FFFF
ALL: Ranges = ((0, LAST),)
NONE: Ranges = ()
_SURROGATES = (0xD800, 0xDFFF)
#: The last character with another case, of the Adlam script.
_LAST_CASED = 0x1E943
# Ranges of code points with one length of encoding each.
_LENGTHS = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, LAST))


def ranges(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Sort and join ranges of code points."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(pairs):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return tuple(joined)


def chars(text: str) -> Ranges:
    """Return the set of the characters of a text."""
    if len(text) == 1:
        code = ord(text)
        return ((code, code),)
    return ranges((ord(c), ord(c)) for c in text)


def union(*sets: Ranges) -> Ranges:
    """Return the characters of any of the sets."""
    return ranges(pair for charset in sets for pair in charset)


def complement(charset: Ranges) -> Ranges:
    """Return all other code points."""
    gaps, start = [], 0
    for low, high in charset:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        gaps.append((start, LAST))
    return tuple(gaps)


def intersection(charset: Ranges, other: Ranges) -> Ranges:
    """Return the code points of both sets."""
    found = (
        (max(low, at_least), min(high, at_most))
        for low, high in charset
        for at_least, at_most in other
    )
    return ranges((low, high) for low, high in found if low <= high)


@lru_cache(maxsize=1024)
def in_any_case(charset: Ranges) -> Ranges:
    """Return the characters of a set with all others of the same simple case folding (Unicode)."""
    others = [
        (code, code)
        for cases in _cases()
        if any(low <= code <= high for code in cases for low, high in charset)
        for code in cases
    ]
    return ranges([*charset, *others])


@lru_cache(maxsize=1)
def _cases() -> tuple[tuple[int, ...], ...]:
    """Return the code points that fold to the same one, in groups of two and more."""
    groups: dict[str, list[int]] = {}
    for code in range(_LAST_CASED + 1):
        char = chr(code)
        # A full folding of several characters is none; what is left is the simple one.
        folded = next((one for one in (char.casefold(), char.lower()) if len(one) == 1), char)
        groups.setdefault(folded, []).append(code)
    return tuple(tuple(codes) for codes in groups.values() if len(codes) > 1)


@lru_cache(maxsize=4096)
def utf8(charset: Ranges) -> Node:
    """Encode one character of the set as UTF-8."""
    encoded = alt(
        *(seq(*map(_byte_pair, parts)) for low, high in charset for parts in _utf8(low, high))
    )
    return Chars(charset, encoded) if charset and charset[-1][1] > 0x7F else encoded


def _byte_pair(pair: tuple[int, int]) -> Node:
    return byte_range(*pair)


def _utf8(low: int, high: int) -> Iterator[list[tuple[int, int]]]:
    """Split a range into products of byte ranges (the method of RE2 and of Rust's utf8-ranges)."""
    stack = [
        (max(low, first), min(high, last))
        for first, last in reversed(_LENGTHS)
        if first <= high and low <= last
    ]
    while stack:
        low, high = stack.pop()
        for bits in (6, 12, 18):
            tail = (1 << bits) - 1
            if low & ~tail == high & ~tail or high <= 0x7F:
                continue
            if low & tail:
                stack += [((low | tail) + 1, high), (low, low | tail)]
                break
            if high & tail != tail:
                stack += [(high & ~tail, high), (low, (high & ~tail) - 1)]
                break
        else:
            yield list(zip(chr(low).encode(), chr(high).encode(), strict=True))


# RFC 8259, section 7: what must be escaped, and the short forms that json.dumps prefers.
_SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 0x22: '\\"', 0x5C: "\\\\"}
_MUST: Ranges = ranges([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])
_MAY: Ranges = complement(_MUST)


def json_escaped(code: int) -> str:
    """Write one character as json.dumps(ensure_ascii=False) does inside a string."""
    if code in _SHORT:
        return _SHORT[code]
    return f"\\u{code:04x}" if code < 0x20 else chr(code)


@lru_cache(maxsize=4096)
def json_canonical(charset: Ranges) -> Node:
    """Encode one character of the set inside a JSON string, in the one form json.dumps writes."""
    escaped = words(
        json_escaped(code)
        for low, high in intersection(charset, _MUST)
        for code in range(low, high + 1)
    )
    return _as_lexeme(alt(utf8(intersection(charset, _MAY)), escaped))


def _as_lexeme(character: Node) -> Node:
    """Give a character with several encodings an automaton of its own, so that it is one item."""
    return lexeme(character) if isinstance(character, Alternation) else character


def _hex_digit(low: int = 0, high: int = 15) -> Node:
    return alt(*(lit(c) for d in range(low, high + 1) for c in {f"{d:x}", f"{d:X}"}))


def _any_json_character() -> Node:
    """Return one character in every form JSON allows; a surrogate pair is the character it means."""
    hex3 = repeat(_hex_digit(), 3, 3)
    plain = alt(
        seq(alt(_hex_digit(0, 12), _hex_digit(14, 15)), hex3),
        seq(_hex_digit(13, 13), _hex_digit(0, 7), repeat(_hex_digit(), 2, 2)),
    )
    high = seq(_hex_digit(13, 13), _hex_digit(8, 11), repeat(_hex_digit(), 2, 2))
    low = seq(_hex_digit(13, 13), _hex_digit(12, 15), repeat(_hex_digit(), 2, 2))
    escape = alt(
        alt(*(lit(c) for c in '"\\/bfnrt')), seq(lit("u"), alt(plain, seq(high, lit("\\u"), low)))
    )
    return _as_lexeme(alt(utf8(_MAY), seq(lit("\\"), escape)))


#: One character of a JSON string, in any form / in the form of json.dumps.
JSON_CHARACTER = _any_json_character()
JSON_CANONICAL_CHARACTER = json_canonical(ALL)


def quoted_text(character: Node, at_least: int = 0, at_most: int | None = None) -> Node:
    """Return ``at_least`` to ``at_most`` characters in quotes."""
    body = (
        many(character)
        if at_least == 0 and at_most is None
        else repeat(character, at_least, at_most)
    )
    return seq(lit('"'), body, lit('"')) if body is not EMPTY else lit('""')


# ECMA-262, section 22.2.2.9 (CharacterClassEscape): ASCII for \d and \w, Unicode for \s.
DIGITS = chars("0123456789")
WORD = ranges([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
SPACE = union(
    chars("\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"), ((0x2000, 0x200A),)
)
LINE_ENDS = chars("\n\r\u2028\u2029")

_CATEGORIES = {
    "letter": "L", "cased_letter": "LC", "uppercase_letter": "Lu", "lowercase_letter": "Ll",
    "titlecase_letter": "Lt", "modifier_letter": "Lm", "other_letter": "Lo", "mark": "M",
    "combining_mark": "M", "nonspacing_mark": "Mn", "spacing_mark": "Mc", "enclosing_mark": "Me",
    "number": "N", "decimal_number": "Nd", "digit": "Nd", "letter_number": "Nl",
    "other_number": "No", "punctuation": "P", "punct": "P", "connector_punctuation": "Pc",
    "dash_punctuation": "Pd", "open_punctuation": "Ps", "close_punctuation": "Pe",
    "initial_punctuation": "Pi", "final_punctuation": "Pf", "other_punctuation": "Po",
    "symbol": "S", "math_symbol": "Sm", "currency_symbol": "Sc", "modifier_symbol": "Sk",
    "other_symbol": "So", "separator": "Z", "space_separator": "Zs", "line_separator": "Zl",
    "paragraph_separator": "Zp", "other": "C", "control": "Cc", "cntrl": "Cc", "format": "Cf",
    "surrogate": "Cs", "private_use": "Co", "unassigned": "Cn",
}  # fmt: skip
_SHORT_CATEGORIES = {*_CATEGORIES.values(), "LC"}


@lru_cache(maxsize=64)
def property_set(name: str) -> Ranges | None:
    r"""Return the characters of a Unicode property as in ``\p{name}``; None for an unknown one.

    General categories and scripts by their short and long names, ASCII, Any and Assigned.
    """
    key, _, value = name.partition("=")
    if key in {"sc", "Script", "scx", "Script_Extensions"}:
        return _scripts(shared=key in {"scx", "Script_Extensions"}).get(_plain_name(value))
    if value:
        if key not in {"gc", "General_Category"}:
            return None
        name = value
    fixed = {"ASCII": ((0, 0x7F),), "Any": ALL}.get(name)
    if fixed is not None:
        return fixed
    if name == "Assigned":
        return complement(_category("Cn"))
    short = name if name in _SHORT_CATEGORIES else _CATEGORIES.get(name.lower())
    return None if short is None else _category(short)


def _plain_name(name: str) -> str:
    return name.replace("_", "").lower()


@lru_cache(maxsize=2)
def _scripts(*, shared: bool) -> dict[str, Ranges]:
    """Return the characters of every script by its names; ``shared``: as in Script_Extensions.

    There, characters that several scripts use belong to each of them, not to Common or Inherited.
    """
    from callmemaybe.grammar.unicode_scripts import SCRIPTS

    found: dict[str, Ranges] = {}
    everywhere: list[Ranges] = []
    for row in SCRIPTS.strip().replace("\n  ", " ").splitlines():
        names, _, codes = row.partition(": ")
        own, _, others = codes.partition(" | ")
        everywhere.append(_ranges_of(others))
        both = union(_ranges_of(own), everywhere[-1]) if shared else _ranges_of(own)
        found.update(dict.fromkeys(names.split(), both))
    if shared:
        alone = complement(union(*everywhere))
        for name in ("common", "zyyy", "inherited", "zinh", "qaai"):
            found[name] = intersection(found[name], alone)
    return found


def _ranges_of(codes: str) -> Ranges:
    pairs = [code.partition("-") for code in codes.split()]
    return tuple((int(low, 16), int(high or low, 16)) for low, _, high in pairs)


@lru_cache(maxsize=1)
def _categories() -> dict[str, Ranges]:
    """Return the characters of each general category, in one pass over all code points."""
    found: dict[str, list[tuple[int, int]]] = {}
    start, current = 0, unicodedata.category("\0")
    for code in range(1, LAST + 2):
        category = unicodedata.category(chr(code)) if code <= LAST else ""
        if category != current:
            found.setdefault(current, []).append((start, code - 1))
            start, current = code, category
    return {category: tuple(pairs) for category, pairs in found.items()}


@lru_cache(maxsize=64)
def _category(short: str) -> Ranges:
    wanted = ("Lu", "Ll", "Lt") if short == "LC" else (short,)
    return union(*(one for name, one in _categories().items() if name.startswith(wanted)))
