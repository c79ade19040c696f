"""Names of hosts in Unicode as an automaton over their UTF-8 (see the node ``Names``).

`labels.py` says which characters may come; here they become bytes, and lengths are kept to. A state is
one int that says it all: what was read of a label is interned, but never with its length, so that the
states of all lengths take no memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

from callmemaybe.grammar.automaton import DEAD, NO_CONTROLS, Automaton, Edges
from callmemaybe.grammar.labels import (
    ASCII,
    BEYOND,
    DOT,
    DOTS,
    LONGEST,
    MANY,
    Kind,
    Label,
    following,
    kind_of,
    kinds,
    weight,
)
from callmemaybe.grammar.nodes import INFINITE, NOTHING, Names, Node

#: The longest name (RFC 1034, section 3.1, without the dot of the root).
LONGEST_NAME = 253
# The longest label by what `weight` says, if it has anything beyond ASCII; by its characters ("xn--",
# and at least one octet for each).
_HEAVIEST, _MOST = 61, 59
#: More characters than end any label.
_AHEAD = 4
# Where a state has what: the part of the text, the beginning of a character, counts, the label.
_PREFIX, _BEFORE, _FAR, _PLAIN, _ROW, _LABEL = 2, 14, 22, 29, 36, 43
_ANY_PREFIX, _BYTE, _COUNT = 0xFFF, 0xFF, 0x7F
_WHOLE = ~(_ANY_PREFIX << _PREFIX)
#: An empty row says nothing, so `_INSIDE` alone is where a name begins.
_OPENING, _INSIDE, _OTHER, _CLOSED = range(4)
_CLOSING = b'"'[0]
#: Bytes that begin nothing but characters of names.
_SMALL = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-.")


class Name(NamedTuple):
    """What was read of a name: the number of a label, and what of it counts.

    ``before`` are the octets of the labels before it, each with its dot, ``plain`` its characters of ASCII
    and ``far`` those beyond, which are all of one ``row`` (see ``labels.Kind``).
    """

    label: int
    before: int
    plain: int
    far: int
    row: int


def packed(label: Any, before: Any, plain: Any, far: Any, row: Any, prefix: Any) -> Any:
    """Return the state (ints, or arrays of them) in which all that was read, a beginning at last."""
    name = label << _LABEL | row - ASCII << _ROW | plain << _PLAIN | far << _FAR | before << _BEFORE
    return name | prefix << _PREFIX | _INSIDE


def alphabet() -> tuple[list[int], list[int], list[Kind]]:
    """Return where ranges of code points begin, the number of the kind of each (-1: none), and the kinds."""
    starts, which = kinds()
    numbers: dict[Kind, int] = {}
    of = [-1 if kind is None else numbers.setdefault(kind, len(numbers)) for kind in which]
    return [-1, *starts], [-1, *of], list(numbers)


def beginnings() -> dict[tuple[int, int], int]:
    """Return the numbers of beginnings of characters, by the bytes they lack and the bits they have."""
    found = {}
    for number, data in enumerate(_prefixes()[1:], 1):
        size = 2 if data[0] < 0xE0 else 3 if data[0] < 0xF0 else 4
        bits = data[0] & (0x1F, 0x0F, 0x07)[size - 2]
        for byte in data[1:]:
            bits = bits << 6 | byte & 0x3F
        found[size - len(data), bits] = number
    return found


class NameAutomaton(Automaton):
    """An opening, a name of a host or something else, and a quote; see the node ``Names``."""

    def __init__(self, node: Names, machine_of: Callable[[Node], Automaton]) -> None:
        """Start with nothing read; ``machine_of`` makes automata of nodes."""
        self._opening = machine_of(node.opening)
        self._other = None if node.other is NOTHING else machine_of(node.other)
        self._quoted, self._wide, self._composed = node.quoted, node.wide, not node.mail
        self._dots = tuple(_kind(char) for char in (DOT if node.mail else DOT + DOTS))
        self._labels = {0: Label()}
        self._next_label = count(1)
        self._ids = {Label(): 0}
        #: By label and row: what may come, and (as far as it was asked for) what it adds to the state.
        self._moves: dict[int, tuple[_Allowed, dict[Kind, int]]] = {}
        self._fitting = lru_cache(maxsize=1 << 12)(self._that_fit)
        self._asked = lru_cache(maxsize=1 << 10)(self._all_that_is_asked)
        self._way = lru_cache(maxsize=1 << 14)(self._search)
        self.start = self._opened(self._opening.start)
        self.least = self._opening.least + self._way(_INSIDE) + self._quoted

    def is_accepting(self, state: int) -> bool:
        """Whether what was read so far is complete."""
        return state == _CLOSED if self._quoted else self._may_close(state)

    def _may_close(self, state: int) -> bool:
        part, inner = state & 3, state >> _PREFIX
        if part == _OTHER:
            return self._other is not None and self._other.is_accepting(inner)
        is_whole = part == _INSIDE and not inner & _ANY_PREFIX
        return is_whole and self._labels[state >> _LABEL].may_end

    def controls(self, state: int) -> Mapping[str, int]:  # noqa: ARG002 - the contract's argument
        """Return nothing: names have no control tokens."""
        return NO_CONTROLS

    def edges(self, state: int) -> Edges:
        """Return disjoint (byte set, target) pairs."""
        part = state & 3
        if part == _OPENING:
            return tuple(
                (mask, self._opened(t)) for mask, t in self._opening.edges(state >> _PREFIX)
            )
        if part == _CLOSED:
            return ()
        edges = self._inside(state) if part == _INSIDE else self._elsewhere(state >> _PREFIX)
        if self._quoted and self._may_close(state):
            edges.append((1 << _CLOSING, _CLOSED))
        return tuple(edges)

    def step(self, state: int, byte: int) -> int:
        """Return the state after one byte, or -1."""
        prefix, name = state >> _PREFIX & _ANY_PREFIX, state & _WHOLE
        if state & 3 != _INSIDE or not (prefix or byte in _SMALL):
            return super().step(state, byte)
        allowed, _ = self._allowed_in(name)
        for kind, mask in _ends(prefix):
            if mask >> byte & 1:
                return self._then(name, kind) if kind in allowed.kinds else DEAD
        for mask, onward in allowed.onward(prefix):
            if mask >> byte & 1:
                return name | onward
        return DEAD

    # -- for whoever reads characters and not bytes ----------------------------------------------

    def name_at(self, state: int) -> Name | None:
        """Return what a state has read of a name, if it is in one, and no character is begun."""
        if state & 3 != _INSIDE or state >> _PREFIX & _ANY_PREFIX:
            return None
        return Name(state >> _LABEL, state >> _BEFORE & _BYTE, *_counts(state))

    def aside(self, state: int) -> Edges:
        """Return the edges that lead to what is no name."""
        if state != _INSIDE or self._other is None:
            return ()
        return tuple(self._elsewhere(self._other.start))

    def leads(self, label: int, kind: Kind) -> tuple[int, int, int] | None:
        """Return the number of a label with one more character, and what it needs to end.

        That is how many further characters of ASCII and beyond. None if the label never goes on so; how
        long it is is not looked at.
        """
        before = self._labels[label]
        if kind in self._dots:
            return (self._number(before.next()), 0, 0) if before.may_end else None
        if kind.is_dot:
            return None
        after = before.then(kind, wide=self._wide, composed=self._composed)
        if after is None:
            return None
        return self._number(after), *after.wanting

    def may_end(self, label: int) -> bool:
        """Whether a name may end with the label of this number."""
        return self._labels[label].may_end

    def may_complete(self, state: int) -> bool:
        """Whether a character that is begun in a state may be one that may come."""
        return self._allowed_in(state & _WHOLE)[0].has(state >> _PREFIX & _ANY_PREFIX)

    @property
    def closed(self) -> int | None:
        """The state behind the quote, if there is one."""
        return _CLOSED if self._quoted else None

    def _elsewhere(self, inner: int) -> list[tuple[int, int]]:
        if self._other is None:
            return []
        return [(mask, t << _PREFIX | _OTHER) for mask, t in self._other.edges(inner)]

    def _inside(self, state: int) -> list[tuple[int, int]]:
        prefix, name = state >> _PREFIX & _ANY_PREFIX, state & _WHOLE
        allowed, then = self._allowed_in(name)
        found: dict[int, int] = {}
        for kind, mask in _ends(prefix):
            if kind in allowed.kinds:
                more = then.get(kind)
                target = self._then(name, kind) if more is None else name + more
                found[target] = found.get(target, 0) | mask
        edges = [(mask, target) for target, mask in found.items()]
        edges += [(mask, name | onward) for mask, onward in allowed.onward(prefix)]
        if state == _INSIDE and self._other is not None:
            edges += self._elsewhere(self._other.start)
        return edges

    def distance(self, state: int) -> int:
        """Fewest further bytes to the end."""
        part, inner = state & 3, state >> _PREFIX
        if part == _OPENING:
            return int(self._opening.distance(inner) + self._way(_INSIDE) + self._quoted)
        if part == _OTHER:
            return (self._other.distance(inner) if self._other is not None else 0) + self._quoted
        if part == _CLOSED:
            return 0
        prefix, name = inner & _ANY_PREFIX, state & _WHOLE
        if not prefix:
            return int(self._way(name)) + self._quoted
        read = len(_prefixes()[prefix])
        ways = (
            _spellings()[kind].sizes[prefix] - read + self._way(self._then(name, kind))
            for kind in self._allowed_in(name)[0].kinds
            if prefix in _spellings()[kind].sizes
        )
        return int(min(ways)) + self._quoted

    def _opened(self, state: int) -> int:
        return _INSIDE if self._opening.is_accepting(state) else state << _PREFIX | _OPENING

    # -- names: states in which no character is incomplete -------------------------------------

    def _search(self, name: int, depth: int = _AHEAD) -> float:
        """Fewest bytes to where a name may end."""
        if self._labels[name >> _LABEL].may_end:
            return 0
        best = INFINITE
        for most in range(1, depth):
            for kind in sorted(self._allowed_in(name)[0].kinds, key=_least):
                if _least(kind) >= best:
                    break
                best = min(best, _least(kind) + self._search(self._then(name, kind), most))
            if best < INFINITE:
                break
        return best

    def _then(self, name: int, kind: Kind) -> int:
        """Return the name with one more character that the label (the name) allows."""
        before = self._labels[name >> _LABEL]
        if kind in self._dots:
            octets = (name >> _BEFORE & _BYTE) + self.octets(*_counts(name)) + 1
            return self._number(before.next()) << _LABEL | octets << _BEFORE | _INSIDE
        then = self._moves[name >> _ROW][1]
        more = then.get(kind)
        if more is None:
            label = before.then(kind, wide=self._wide, composed=self._composed)
            assert label is not None
            row = _counts(name)[2]
            onward = joined(row, kind.row)
            more = 1 << _PLAIN if kind.is_ascii else (1 << _FAR) + (onward - row << _ROW)
            more += self._number(label) - (name >> _LABEL) << _LABEL
            then[kind] = more
        return name + more

    def octets(self, plain: int, far: int, row: int) -> int:
        """Return a bound on the octets of a label: an upper one; if the language is wide, a lower one."""
        if not far:
            return plain
        if self._wide:
            return plain + far + LONGEST - _MOST
        return weight(plain, far, row) + LONGEST - _HEAVIEST

    def _number(self, label: Label) -> int:
        number = self._ids.get(label)
        if number is None:
            self.spent += 1
            if self.spent > self.due:
                self.pause()
            fresh = next(self._next_label)  # several threads may be here
            self._labels[fresh] = label
            number = self._ids.setdefault(label, fresh)
        return number

    def _allowed_in(self, name: int) -> tuple[_Allowed, dict[Kind, int]]:
        """Return what a name may go on with, and what some of that adds to the state."""
        found = self._moves.get(name >> _ROW)
        if found is None:
            label = self._labels[name >> _LABEL]
            options = following(label, wide=self._wide, composed=self._composed)
            if label.may_end:
                options = options.union(self._dots)
            found = self._moves.setdefault(name >> _ROW, (_Allowed.of(options), {}))
        plain, far, row = _counts(name)
        before = name >> _BEFORE & _BYTE
        # As if all that may come were the heaviest.
        near = self.octets(plain + _AHEAD, far + _AHEAD, BEYOND) + 1
        if near <= LONGEST and before + near < LONGEST_NAME:
            return found
        left = min(LONGEST, LONGEST_NAME - before)
        room = tuple(
            next(
                (f for f in range(_AHEAD, -1, -1) if self.octets(plain + p, far + f, r) <= left),
                -1,
            )
            for r in (0, MANY, BEYOND)
            for p in range(_AHEAD)
        )
        is_open = before + self.octets(plain, far, row) + 1 < LONGEST_NAME
        return self._fitting(name >> _ROW, room, is_open), found[1]

    def _that_fit(self, label_and_row: int, room: tuple[int, ...], is_open: bool) -> _Allowed:
        """Return what a label may go on with, by how many characters beyond ASCII fit.

        They fit beside 0, 1, ... more of ASCII, for labels of one row, of many, of any plane.
        """
        return _Allowed.of(
            frozenset(
                kind
                for kind, far, which in self._asked(label_and_row)
                if (is_open if which < 0 else far <= room[which])
            )
        )

    def _all_that_is_asked(self, label_and_row: int) -> list[tuple[Kind, int, int]]:
        """Return for what may come how many characters beyond ASCII must fit, and where in a room."""
        name = label_and_row << _ROW | _INSIDE
        label, row = self._labels[name >> _LABEL], _counts(name)[2]
        found: list[tuple[Kind, int, int]] = []
        for kind in self._moves[label_and_row][0].kinds:
            plain = far = 0
            if kind in self._dots:
                found.append((kind, 0, -1))
                continue
            # What ends most labels needs no look.
            if not kind.ends or label.wanting != (0, 0):
                plain, far = self._labels[self._then(name, kind) >> _LABEL].wanting
            plain, far = plain + kind.is_ascii, far + (not kind.is_ascii)
            of = joined(row, kind.row)
            which = 0 if of >= 0 or of == ASCII else 1 if of == MANY else 2
            found.append((kind, far, which * _AHEAD + plain))
        return found


def _counts(name: int) -> tuple[int, int, int]:
    """Return of a label its characters in ASCII and beyond, and the row of these."""
    return name >> _PLAIN & _COUNT, name >> _FAR & _COUNT, (name >> _ROW & _COUNT) + ASCII


def joined(row: int, other: int) -> int:
    """Return the row of what is of one row and what is of another."""
    if other in (row, ASCII):
        return row
    return other if row == ASCII else min(row, other, MANY)


class _Allowed:
    """A set of kinds, and the beginnings of their characters."""

    def __init__(self, kinds: frozenset[Kind]) -> None:
        self.kinds = kinds
        self._prefixes = 0
        for kind in kinds:
            self._prefixes |= _sets()[kind]
        self._onward: dict[int, list[tuple[int, int]]] = {}

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(kinds: frozenset[Kind]) -> _Allowed:
        return _Allowed(kinds)

    def has(self, prefix: int) -> bool:
        """Whether one of the characters begins so (by the number of the beginning)."""
        return bool(self._prefixes >> prefix & 1)

    def onward(self, prefix: int) -> list[tuple[int, int]]:
        """Return the bytes (as sets) that lead on within a character, and to what part of a state."""
        found = self._onward.get(prefix)
        if found is None:
            found = [
                (mask, longer << _PREFIX)
                for mask, longer in _longer().get(prefix, ())
                if self._prefixes >> longer & 1
            ]
            self._onward[prefix] = found
        return found


@lru_cache(maxsize=8)
def _kind(char: str) -> Kind:
    kind = kind_of(ord(char))
    assert kind is not None
    return kind


class _Spelling(NamedTuple):
    """How the characters of a kind are spelled."""

    #: Bytes of the shortest; every proper beginning (its number), and how long the characters are.
    least: int
    sizes: dict[int, int]


@lru_cache(maxsize=1)
def _sets() -> dict[Kind, int]:
    """Return, of every kind, the numbers of the beginnings of its characters, as a set of bits."""
    return {kind: sum(1 << n for n in found.sizes) for kind, found in _spellings().items()}


@lru_cache(maxsize=1)
def _longer() -> dict[int, list[tuple[int, int]]]:
    """Return, by the number of a beginning, the bytes (as sets) that lead to those one byte longer."""
    found: dict[int, list[tuple[int, int]]] = {}
    for number, text in enumerate(_prefixes()[1:], 1):
        found.setdefault(_numbers[text[:-1]], []).append((1 << text[-1], number))
    return found


@lru_cache(maxsize=1)
def _prefixes() -> tuple[bytes, ...]:
    """Return every proper beginning of a character; its place is its number (0: nothing)."""
    _spellings()
    return tuple(_numbers)


_numbers: dict[bytes, int] = {b"": 0}


@lru_cache(maxsize=1)
def _spellings() -> dict[Kind, _Spelling]:
    found: dict[Kind, _Spelling] = {}
    starts, which = kinds()
    for low, end, kind in zip(starts, (*starts[1:], 0x110000), which, strict=True):
        if kind is None:
            continue
        # Ranges ascend, so the first one has the shortest.
        spelling = found.setdefault(kind, _Spelling(len(chr(low).encode()), {}))
        # All characters of a block of 64 begin in the same way.
        for code in (low, *range((low | 0x3F) + 1, end, 0x40)):
            data = chr(code).encode()
            for read in range(1, len(data)):
                number = _numbers.setdefault(data[:read], len(_numbers))
                spelling.sizes[number] = len(data)
    return found


def _least(kind: Kind) -> int:
    return _spellings()[kind].least


@lru_cache(maxsize=4096)
def _ends(prefix: int) -> tuple[tuple[Kind, int], ...]:
    """Return, of every kind, the bytes (as a set) that complete a character behind its beginning."""
    found: dict[Kind, int] = {}
    codes = _completed(prefix)
    starts, which = kinds()
    at = bisect_right(starts, codes.start) - 1
    for code in codes:
        if at + 1 < len(starts) and starts[at + 1] <= code:
            at += 1
        kind = which[at] if at >= 0 else None
        if kind is not None:
            byte = code if not prefix else 0x80 | code & 0x3F
            found[kind] = found.get(kind, 0) | 1 << byte
    return tuple(found.items())


def _completed(prefix: int) -> range:
    """Return the code points of characters that lack one byte behind a beginning."""
    if not prefix:
        return range(0x80)
    data = _prefixes()[prefix]
    if len(data) + 1 != (2 if data[0] < 0xE0 else 3 if data[0] < 0xF0 else 4):
        return range(0)
    first = ord((data + b"\x80").decode())
    return range(first, first + 0x40)
