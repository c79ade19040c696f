r"""The parser of ECMA-262 regular expressions: text in, a tree of terms out.

Patterns are read as with the flag ``u``. The modifiers of a group (ECMA-262 of 2025) are ``i`` and ``s``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.characters import (
    ALL,
    DIGITS,
    LINE_ENDS,
    SPACE,
    WORD,
    Ranges,
    chars,
    complement,
    in_any_case,
    property_set,
    union,
)

#: Depth of nested groups, and product of nested counted repetitions.
MAX_NESTING, MAX_UNROLLED = 60, 20_000
#: Sum of the ranges of all character classes of one pattern; the letters of all scripts are 648 ranges.
MAX_RANGES = 2_000_000
#: Only patterns up to this length are cached, to bound the memory.
MAX_CACHED_LENGTH = 1_000
#: Characters of a pattern, which is far longer than any that people write; two million took 20 seconds to read.
MAX_PATTERN_LENGTH = 50_000


@dataclass(frozen=True, slots=True)
class CharSet:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Series:
    """One term after the other."""

    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Disjunction:
    """Any of the options."""

    options: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Quantified:
    """The body, repeated."""

    body: Term
    at_least: int
    at_most: int | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """The start (``^``) or the end (``$``) of the text."""

    start: bool


@dataclass(frozen=True, slots=True)
class LookAhead:
    """What follows must (or must not) begin with the body."""

    body: Term
    negative: bool


@dataclass(frozen=True, slots=True)
class WordBoundary:
    r"""The start or end of a word (``\b``), or any other place (``\B``)."""

    negative: bool


Term = CharSet | Series | Disjunction | Quantified | Anchor | LookAhead | WordBoundary


def fail(message: str) -> NoReturn:
    """Raise GrammarError for a regular expression."""
    raise GrammarError(f"regular expression: {message}")


def parse(pattern: str) -> Term:
    """Return the tree of a pattern; raises GrammarError with the offset of the mistake, or if it is too long."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        fail(f"it has {len(pattern):,} characters; at most {MAX_PATTERN_LENGTH:,} are read")
    return _cached(pattern) if len(pattern) <= MAX_CACHED_LENGTH else _Parser(pattern).whole()


@lru_cache(maxsize=256)
def _cached(pattern: str) -> Term:
    return _Parser(pattern).whole()


_CONTROL_ESCAPES = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_CLASS_ESCAPES = {"d": DIGITS, "w": WORD, "s": SPACE}
#: Classes that modifiers leave as they are.
_CASELESS = {named for found in _CLASS_ESCAPES.values() for named in (found, complement(found))}
_SYNTAX = "^$\\.*+?()[]{}|/"


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._sets: dict[Ranges, CharSet] = {}
        self._ranges = 0
        self._modifiers: frozenset[str] = frozenset()

    def whole(self) -> Term:
        """Parse the whole pattern."""
        tree, _ = self._union()
        if self._at < len(self._text):
            self._stop("unmatched )")
        return tree

    def _stop(self, what: str) -> None:
        shown = self._text if len(self._text) <= 100 else self._text[:97] + "..."
        fail(f"{what} at character {self._at} of {shown!r}")

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        if self._peek(text):
            self._at += len(text)
            return True
        return False

    def _next(self) -> str:
        if self._at >= len(self._text):
            self._stop("unexpected end")
        self._at += 1
        return self._text[self._at - 1]

    def _union(self) -> tuple[Term, int]:
        """Parse alternatives; also returns how many copies of characters they unroll to."""
        options, size = [], 0
        while True:
            items: list[Term] = []
            while self._at < len(self._text) and self._text[self._at] not in "|)":
                item, copies = self._quantified()
                items.append(item)
                size += copies
            options.append(items[0] if len(items) == 1 else Series(tuple(items)))
            if not self._take("|"):
                break
        return _either(options), size

    def _quantified(self) -> tuple[Term, int]:
        item, size = self._atom()
        start = self._at
        at_least, at_most = self._quantifier()
        if self._at == start:
            return item, size
        if isinstance(item, Anchor | LookAhead | WordBoundary):
            self._stop("nothing to repeat")
        self._take("?")  # a lazy quantifier matches the same texts
        start = self._at
        self._quantifier()
        if self._at > start:
            self._stop("nothing to repeat")
        if (at_least, at_most) == (1, 1):
            return item, size
        size *= max(at_least, 1 if at_most is None else at_most)
        if size > MAX_UNROLLED:
            self._stop(f"repetitions unroll to more than {MAX_UNROLLED:,} characters")
        return _repeated(item, at_least, at_most), size

    def _quantifier(self) -> tuple[int, int | None]:
        if self._take("*"):
            return 0, None
        if self._take("+"):
            return 1, None
        if self._take("?"):
            return 0, 1
        if not self._peek("{"):
            return 1, 1
        start = self._at
        self._at += 1
        at_least = self._digits()
        if at_least is None:
            # Annex B reads "{,5}" as text, Python as a quantifier: refused. Other braces are text.
            if self._take(",") and self._digits() is not None and self._take("}"):
                self._stop("a quantifier without its lower limit is not portable")
            self._at = start
            return 1, 1
        at_most = self._digits() if (comma := self._take(",")) else at_least
        if not self._take("}"):
            self._at = start
            return 1, 1
        if comma and at_most is not None and at_most < at_least:
            self._stop("numbers out of order in {}")
        return at_least, at_most

    def _digits(self) -> int | None:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] in "0123456789":
            self._at += 1
        if self._at - start > 9:
            self._stop("too large a number")
        return int(self._text[start : self._at]) if self._at > start else None

    def _atom(self) -> tuple[Term, int]:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return self._one_of(self._class()), 1
        if char == "\\":
            return self._escape()
        if char == ".":
            return self._one_of(ALL if "s" in self._modifiers else complement(LINE_ENDS)), 1
        if char in "^$":
            return Anchor(start=char == "^"), 0
        if char in "*+?":
            self._at -= 1
            self._stop("nothing to repeat")
        return self._one_of(self._in_any_case(chars(char))), 1

    def _one_of(self, ranges: Ranges) -> CharSet:
        """Return one character of a set; equal sets, which may be large, are one object."""
        return self._sets.setdefault(ranges, CharSet(ranges))

    def _in_any_case(self, charset: Ranges) -> Ranges:
        return (
            in_any_case(charset) if "i" in self._modifiers and charset not in _CASELESS else charset
        )

    def _group(self) -> tuple[Term, int]:
        look: bool | None = None
        outside = self._modifiers
        if self._take("?"):
            if self._take("=") or self._take("!"):
                look = self._text[self._at - 1] == "!"
            elif self._peek("<=") or self._peek("<!"):
                self._stop("look-behind is not supported")
            elif self._take("<") or self._take("P<"):
                while self._next() != ">":
                    pass
            elif not self._take(":"):
                self._modify()
        self._depth += 1
        if self._depth > MAX_NESTING:
            self._stop(f"groups nested deeper than {MAX_NESTING}")
        tree, size = self._union()
        self._depth -= 1
        if not self._take(")"):
            self._stop("missing )")
        self._modifiers = outside
        return (tree if look is None else LookAhead(tree, look)), size

    def _modify(self) -> None:
        """Read the modifiers of a group, up to the colon: ``i`` (any case), ``s`` (dots are any character)."""
        end = self._text.find(":", self._at)
        added, _, removed = self._text[self._at : max(end, self._at)].partition("-")
        if not (added or removed) or not set(added + removed) <= set("is"):
            self._stop("this kind of group is not supported")
        self._modifiers = (self._modifiers | set(added)) - set(removed)
        self._at = end + 1

    def _escape(self) -> tuple[Term, int]:
        char = self._next()
        if char in "bB":
            return WordBoundary(char == "B"), 0
        if char in "123456789" or (char == "k" and self._peek("<")):
            self._stop("back-references are not supported")
        self._at -= 1
        found = self._in_any_case(self._escaped_set())
        self._count(found)
        return self._one_of(found), 1

    def _count(self, *found: Ranges) -> None:
        self._ranges += sum(map(len, found))
        if self._ranges > MAX_RANGES:
            self._stop(f"its classes add up to more than {MAX_RANGES:,} ranges of characters")

    def _escaped_set(self) -> Ranges:
        """Read what follows a backslash, in or outside a class, as a set of characters."""
        char = self._next()
        if (named := _CLASS_ESCAPES.get(char.lower())) is not None and char in "dwsDWS":
            return named if char.islower() else complement(named)
        if char in "pP" and self._peek("{"):
            end = self._text.find("}", self._at)
            name = self._text[self._at + 1 : end]
            found = property_set(name)
            if end < 0 or found is None:
                self._stop(f"the Unicode property {name!r} is not supported")
            self._at = end + 1
            assert found is not None
            return found if char == "p" else complement(found)
        code = self._escaped_code(char)
        return ((code, code),)

    def _escaped_code(self, char: str) -> int:
        if char in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[char]
        if char == "c":
            letter = self._next()
            if not (letter.isascii() and letter.isalpha()):
                self._stop("\\c needs a letter")
            return ord(letter) % 32
        if char == "0" and not (self._at < len(self._text) and self._text[self._at].isdigit()):
            return 0
        if char == "x":
            return self._hex(2)
        if char == "u":
            return self._unicode()
        if char.isascii() and char.isalnum():
            self._stop(f"the escape \\{char} means different things to different engines")
        return ord(char)

    def _unicode(self) -> int:
        if self._take("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : end]
            if (
                end < 0
                or not 1 <= len(digits) <= 8
                or not _is_hex(digits)
                or int(digits, 16) > ALL[0][1]
            ):
                self._stop("bad \\u{...}")
            self._at = end + 1
            return int(digits, 16)
        code = self._hex(4)
        if 0xD800 <= code <= 0xDBFF and self._peek("\\u"):
            back = self._at
            self._at += 2
            low = self._hex(4)
            if 0xDC00 <= low <= 0xDFFF:
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            self._at = back
        return code

    def _hex(self, count: int) -> int:
        digits = self._text[self._at : self._at + count]
        if len(digits) != count or not _is_hex(digits):
            self._stop(f"{count} hexadecimal digits expected")
        self._at += count
        return int(digits, 16)

    def _class(self) -> Ranges:
        negative = self._take("^")
        found: list[Ranges] = []
        while not self._take("]"):
            low = self._class_atom()
            if self._peek("-") and not self._peek("-]"):
                self._at += 1
                high = self._class_atom()
                if (
                    len(low) == len(high) == 1
                    and low[0][0] == low[0][1]
                    and high[0][0] == high[0][1]
                ):
                    if low[0][0] > high[0][0]:
                        self._stop("range out of order")
                    found.append(((low[0][0], high[0][0]),))
                else:  # Annex B: "[\w-.]" is \w, - and .
                    found += [low, chars("-"), high]
            else:
                found.append(low)
        found = [self._in_any_case(charset) for charset in found]
        self._count(*found)
        whole = union(*found)
        return complement(whole) if negative else whole

    def _class_atom(self) -> Ranges:
        char = self._next()
        if char != "\\":
            return chars(char)
        if self._peek("b"):
            self._at += 1
            return chars("\b")
        return self._escaped_set()


def _either(options: list[Term]) -> Term:
    """Return any of the options; single characters are merged at the place of the first."""
    sets = [option.ranges for option in options if isinstance(option, CharSet)]
    if len(sets) > 1:
        at = next(i for i, option in enumerate(options) if isinstance(option, CharSet))
        others = [option for option in options if not isinstance(option, CharSet)]
        options = [*others[:at], CharSet(union(*sets)), *others[at:]]
    return options[0] if len(options) == 1 else Disjunction(tuple(options))


def _repeated(item: Term, at_least: int, at_most: int | None) -> Term:
    """Return a repetition; a repetition of a repetition becomes one if no count in between is missing.

    (x{i,j}){k,l} allows the counts from n * i to n * j for n from k to l. If two neighbouring n leave no gap,
    no later ones do.
    """
    if not isinstance(item, Quantified):
        return Quantified(item, at_least, at_most)
    inner = item.at_most
    if (
        inner is not None
        and at_least != at_most
        and at_least * inner + 1 < (at_least + 1) * item.at_least
    ):
        return Quantified(item, at_least, at_most)
    if inner is None and at_least == 0 < item.at_least - 1:
        return Quantified(item, at_least, at_most)  # zero, or at least i
    if at_most == 0 or inner == 0:
        return Quantified(item.body, 0, 0)
    none = None if inner is None or at_most is None else inner * at_most
    return Quantified(item.body, item.at_least * at_least, none)


def _is_hex(digits: str) -> bool:
    return all(c in "0123456789abcdefABCDEF" for c in digits)
