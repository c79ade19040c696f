"""What a label of a domain name may be in Unicode: IDNA 2008, one character after the other.

RFC 5891 (section 4.2) says what a label in Unicode ("U-label") may be, RFC 5892 which characters it may
have and in what context, RFC 5893 how writing from right to left is kept readable. All of it is decided
by what was read so far and one more character, so it is a table of kinds of characters (`kinds`) and
one function (`Label.then`). The only arithmetic is how long a label gets in punycode: `weight`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

#: What separates labels: "." and what IDNA 2003 (RFC 3490, section 3.1) takes for it.
DOT, DOTS = ".", "\u3002\uff0e\uff61"
#: The longest label, in its form for the DNS (RFC 1034, section 3.1).
LONGEST = 63
#: Characters that have a rule of their own.
_SINGLE = "-lxnXN\u00b7\u0375\u05f3\u05f4\u200c\u200d\u30fb"
#: Those of which nothing is asked of what follows.
_FREE = ("", "l", "x", "n", "X", "N", "A")
_UPPER = range(0x41, 0x5B)
_CAPITALS = ("A", "X", "N")
_ARABIC, _EXTENDED = range(0x660, 0x66A), range(0x6F0, 0x6FA)
#: From here on rows of 256 characters are not told apart; beyond the BMP neither, but from the others.
_ROWS, _BMP = 0x3100, 0x10000
MANY, BEYOND, ASCII = -1, -2, -3
# RFC 5893, section 2: what may stand in a label written from right to left, and what may end one.
_RIGHT = frozenset(["R", "AL"])
_IN_RIGHT = frozenset(["R", "AL", "AN", "EN", "ES", "CS", "ET", "ON", "BN", "NSM"])
_ENDS = {True: frozenset(["R", "AL", "EN", "AN"]), False: frozenset(["L", "EN"])}


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Characters that no rule tells apart; one object for each kind."""

    #: The character, if it has a rule of its own; DOT and DOTS for what separates, "A" for capitals.
    char: str
    #: Bidi_Class, Canonical_Combining_Class, Joining_Type ("-" for others than D, L, R and T).
    bidi: str
    order: int
    joins: str
    is_mark: bool
    script: str
    #: The digits of which two kinds never mix: 1 Arabic-Indic, 2 extended, 0 others.
    digits: int
    #: Their row of 256 characters; MANY, BEYOND, ASCII.
    row: int
    #: What would compose with it (form C), and what it would compose as.
    composes: frozenset[str]
    second: str

    @property
    def is_ascii(self) -> bool:
        """Whether these are letters, digits and the hyphen."""
        return self.row == ASCII

    @property
    def is_dot(self) -> bool:
        """Whether these separate labels."""
        return self.char in (DOT, DOTS)

    @property
    def ends(self) -> bool:
        """Whether a label that may end may end behind one of these, too."""
        return self.bidi in ("L", "EN", "R", "AL", "AN", "NSM") and self.char in _FREE

    @property
    def is_moved(self) -> bool:
        """Whether normalisation may put it elsewhere, or into the character before."""
        return bool(self.second) or self.order > 0


@lru_cache(maxsize=1)
def kinds() -> tuple[tuple[int, ...], tuple[Kind | None, ...]]:
    """Return where ranges of code points begin (ascending), and of which kind each is (None: none)."""
    from callmemaybe.grammar.idna import CODES, COMPOSED

    behind: dict[int, set[str]] = {}
    seconds: set[int] = set()
    for name, ranges in _rows(COMPOSED):
        seconds.add(int(name, 16))
        for low, high in ranges:
            for code in range(low, high + 1):
                behind.setdefault(code, set()).add(chr(int(name, 16)))
    found: dict[int, tuple[int, tuple[str, ...]]] = {}
    for name, ranges in _rows(CODES):
        for low, high in ranges:
            found[low] = high, (*name.split(), "")[:5]
    for code in map(ord, DOT + DOTS):
        found[code] = code, ("", "0", "-", "-", "")
    found[_UPPER[0]] = _UPPER[-1], ("L", "0", "-", "-", "")
    cuts = {0x80, *range(0x100, _ROWS, 0x100), _ROWS, _BMP}
    for code in (*behind, *seconds, *map(ord, _SINGLE)):
        cuts |= {code, code + 1}
    ordered = sorted(cuts)
    starts: list[int] = []
    which: list[Kind | None] = []
    known: dict[tuple[Any, ...], Kind] = {}
    for low in sorted(found):
        high, said = found[low]
        inner = ordered[bisect_right(ordered, low) : bisect_right(ordered, high)]
        for start, _ in pairwise([low, *inner, high + 1]):
            said_of = _about(start, said, frozenset(behind.get(start, ())), start in seconds)
            kind = known.get(said_of)
            if kind is None:
                kind = known[said_of] = Kind(*said_of)
            starts.append(start)
            which.append(kind)
        starts.append(high + 1)
        which.append(None)
    kept = [i for i, start in enumerate(starts) if starts[i + 1 : i + 2] != [start]]
    return tuple(starts[i] for i in kept), tuple(which[i] for i in kept)


def _rows(table: str) -> list[tuple[str, list[tuple[int, int]]]]:
    found = []
    for row in table.strip().replace("\n  ", " ").splitlines():
        name, _, codes = row.partition(": ")
        pairs = [code.partition("-") for code in codes.split()]
        found.append((name, [(int(low, 16), int(high or low, 16)) for low, _, high in pairs]))
    return found


def _about(
    code: int, said: tuple[str, ...], composes: frozenset[str], is_second: bool
) -> tuple[Any, ...]:
    char = chr(code)
    own = char if char in _SINGLE + DOT else "A" if code in _UPPER else ""
    own = DOTS if char in DOTS else own
    row = ASCII if code < 0x80 else code >> 8 if code < _ROWS else MANY if code < _BMP else BEYOND
    bidi, order, joins, mark, script = said
    digits = 1 if code in _ARABIC else 2 if code in _EXTENDED else 0
    second = char if is_second else ""
    return own, bidi, int(order), joins, mark == "M", script, digits, row, composes, second


def kind_of(code: int) -> Kind | None:
    """Return the kind of a code point; None if it may not stand in a name."""
    starts, which = kinds()
    at = bisect_right(starts, code) - 1
    return which[at] if at >= 0 else None


class Label(NamedTuple):
    """What is to be known of the beginning of a label to go on; of the labels before it, ``side``."""

    #: 1: a label before is written from right to left; 2: one may stand in no name that has such.
    side: int = 0
    #: Characters so far, up to 4; "-" in third place; how much of "xn--" it begins with.
    place: int = 0
    third: bool = False
    ace: int = 0
    #: "A" if it has a capital, "u" if it has anything beyond ASCII.
    case: str = ""
    #: The character before (or what counts of it), and what must come next.
    last: str = ""
    needs: str = ""
    #: What would compose with the last starter; the combining class of the character before.
    composes: frozenset[str] = frozenset()
    order: int = 0
    #: Whether what is before joins to the left; a middle dot wants Kana (1), Kana is there (2).
    joins: bool = False
    kana: int = 0
    digits: int = 0
    right: bool = False
    number: str = ""
    lax: bool = False
    ends: bool = False

    @property
    def may_end(self) -> bool:
        """Whether this is a label."""
        if self.place == 0 or self.last == "-":
            return False
        if self.ace == 4:
            return True
        if self.needs or self.kana == 1 or (self.right and not self.ends):
            return False
        return self.right or self.side != 1 or (self.ends and not self.lax)

    def next(self) -> Label:
        """Return the beginning of the label behind this one."""
        if self.right:
            return _AFTER[1]
        return _AFTER[2 if self.ace != 4 and (self.lax or not self.ends) else self.side]

    @property
    def wanting(self) -> tuple[int, int]:
        """How many characters of ASCII, and beyond, end this label for certain."""
        if self.ace == 4:
            return int(self.last == "-"), 0
        plain = self.last == "-" or self.needs == "l"
        plain = plain or (self.side == 1 and not self.right and not self.ends)
        far = (self.needs in ("greek", "right")) + (self.kana == 1)
        return int(plain), far + (self.right and not self.ends)

    def then(self, kind: Kind, *, wide: bool, composed: bool) -> Label | None:
        """Return the label with one more character; None if no label begins so.

        ``composed``: whether only texts in normal form C will do. If not ``wide``, there is no "xn--"
        (what follows it is not looked into); and what composes with any letter of ASCII does not come
        behind another one either, so that beginnings in ASCII are all much the same.
        """
        char = kind.char
        if self.ace == 4:
            return self._replace(last=char if char == "-" else "x") if kind.is_ascii else None
        if char == "-" and (self.place == 0 or (self.place == 3 and self.third)):
            return _ACE[self.side] if self.ace == 3 else None
        if kind.is_mark and self.place == 0:
            return None
        if composed and not self.is_composed(kind):
            return None
        case = "A" if char in _CAPITALS else "" if kind.is_ascii else "u"
        if case and self.case and case != self.case:
            return None
        needs = self._needs(kind)
        written = self._written(kind) if needs is not None else None
        if needs is None or written is None:
            return None
        right, lax, number = written
        composes = self.composes if kind.order else kind.composes
        if not wide and kind.is_ascii:
            composes = _with_ascii()
        return Label(
            self.side, min(self.place + 1, 4), char == "-" and self.place == 2, self._ace(char) if wide else 0,
            self.case or case, _last(kind), needs, composes if composed else _NONE, kind.order if composed else 0,
            kind.joins in "LD" or (kind.joins == "T" and self.joins),
            2 if kind.script == "kana" else max(self.kana, char == "\u30fb"),
            self.digits or kind.digits, right, number, lax,
            self.ends if kind.bidi == "NSM" else kind.bidi in _ENDS[right],
        )  # fmt: skip

    def _ace(self, char: str) -> int:
        return (
            self.ace + 1 if self.ace == self.place < 3 and char.lower() == "xn-"[self.place] else 0
        )

    def is_composed(self, kind: Kind) -> bool:
        """Whether form C leaves the character as it is, and where it is (UAX 15, D117)."""
        if kind.second in self.composes and (self.order == 0 or self.order < kind.order):
            return False
        return not 0 < kind.order < self.order

    def _needs(self, kind: Kind) -> str | None:
        """Return what must come behind the character (RFC 5892, appendix A); None: it may not come."""
        char = kind.char
        if self.needs == "right" and kind.joins == "T":
            return "right"
        if self.needs and not (
            (self.needs == "l" and char == "l")
            or (self.needs == "greek" and kind.script == "greek")
            or (self.needs == "right" and kind.joins in "RD")
        ):
            return None
        if kind.digits and self.digits not in (0, kind.digits):
            return None
        match char:
            case "\u00b7":
                return "l" if self.last == "l" else None
            case "\u0375":
                return "greek"
            case "\u05f3" | "\u05f4":
                return "" if self.last == "hebrew" else None
            case "\u200d":
                return "" if self.last == "virama" else None
            case "\u200c":
                return "" if self.last == "virama" else "right" if self.joins else None
        return ""

    def _written(self, kind: Kind) -> tuple[bool, bool, str] | None:
        """Return (from right to left, lax, kind of digits) by the Bidi rule; None: it may not come."""
        bidi = kind.bidi
        if self.place == 0:
            if bidi in _RIGHT:
                return (True, False, "") if self.side != 2 else None
            lax = bidi != "L"
            return None if bidi == "AN" or (lax and self.side == 1) else (False, lax, "")
        if not self.right:
            return None if bidi in _RIGHT or bidi == "AN" else (False, self.lax, "")
        # What these need next is written from left to right.
        if bidi not in _IN_RIGHT or kind.char in ("\u0375", "\u30fb"):
            return None
        if bidi not in ("EN", "AN"):
            return True, False, self.number
        return (True, False, bidi) if self.number in ("", bidi) else None


def _last(kind: Kind) -> str:
    if kind.char in ("-", "l"):
        return kind.char
    return "virama" if kind.order == 9 else "hebrew" if kind.script == "hebrew" else "x"


@lru_cache(maxsize=1)
def letters() -> tuple[Kind, ...]:
    """Return every kind of characters of labels."""
    _, which = kinds()
    found = {kind: None for kind in which if kind is not None and kind.char not in (DOT, DOTS)}
    return tuple(found)


@lru_cache(maxsize=1)
def _moved() -> tuple[Kind, ...]:
    return tuple(kind for kind in letters() if kind.is_moved)


@lru_cache(maxsize=1)
def _with_ascii() -> frozenset[str]:
    """Return what composes with any letter of ASCII."""
    return frozenset().union(*(kind.composes for kind in letters() if kind.is_ascii))


def following(label: Label, *, wide: bool, composed: bool) -> frozenset[Kind]:
    """Return the kinds with which a label goes on, see `Label.then`."""
    # What came before is much the same for most labels, but for what normalisation asks.
    alike = label._replace(composes=_NONE, order=0, kana=0, lax=False, ends=True)
    found = _following(alike, wide)
    if not composed or not (label.composes or label.order):
        return found
    return found.difference(kind for kind in _moved() if not label.is_composed(kind))


@lru_cache(maxsize=1024)
def _following(label: Label, wide: bool) -> frozenset[Kind]:
    return frozenset(
        kind for kind in letters() if label.then(kind, wide=wide, composed=False) is not None
    )


_NONE: frozenset[str] = frozenset()
_AFTER = tuple(Label(side) for side in range(3))
_ACE = tuple(Label(side, 4, ace=4, last="-") for side in range(3))


def weight(plain: int, far: int, row: int) -> int:
    """Return a bound on the octets of a label in punycode, plus up to 2 that it may be too low.

    ``plain`` characters are of ASCII and ``far`` are not; these are all of one ``row`` of 256, of the
    BMP (MANY), or of any plane (BEYOND).

    RFC 3492 writes "xn--", the plain ones and "-", and for each other one a number below (d + 1) *
    (n + 1), where n characters come before it in order of code points, and d is how far it is from the
    one before it; all d together are at most the width of the row (plane). With m digits, whatever was
    adapted to, it writes numbers up to 2,885 (m = 3), 28,885 (4), 288,885 (5) and 2,888,885 (6); the
    first one up to 31,885, 350,385 and 3,535,385. So in a row all but five take 3 digits, and the
    first one 5 at most; in the BMP all but three take 5 if there are few; and 6 nearly always do.
    """
    if not far:
        return plain
    if row >= 0:
        return 12 + 3 * far + plain
    if row == MANY and plain + far <= 15:
        return 8 + 5 * far + plain
    return 5 + 6 * far + plain
