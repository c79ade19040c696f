"""Names of hosts in Unicode as an automaton over their UTF-8 (see the node ``Names``).

`labels.py` says which characters may come; here they become bytes, and lengths are kept to. A state is
one int that says it all (see `_Name`): what was read of a label is interned, but never with its length,
so that the states of all lengths take no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from callmemaybe.grammar.automaton import DEAD, NO_CONTROLS, Automaton, Edges
from callmemaybe.grammar.labels import (
    ASCII,
    DOT,
    DOTS,
    LONGEST,
    MANY,
    Kind,
    Label,
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
_PARTS, _PREFIX, _BEFORE, _FAR, _PLAIN, _ROW, _LABEL = 0, 2, 14, 22, 28, 34, 40
_OPENING, _INSIDE, _OTHER, _CLOSED = range(4)
_CLOSING = b'"'[0]
#: Bytes that begin nothing but characters of names.
_SMALL = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-.")


class _Name(NamedTuple):
    """The beginning of a name, in whole characters."""

    #: The label at hand (its number), its characters in ASCII and beyond, their row, and a bound on
    #: the octets before it.
    label: int
    plain: int
    far: int
    row: int
    before: int

    def state(self, prefix: int = 0) -> int:
        """Return the state behind it and the beginning of a character (its number)."""
        return (
            self.label << _LABEL
            | (self.row - ASCII) << _ROW
            | self.plain << _PLAIN
            | self.far << _FAR
            | self.before << _BEFORE
            | prefix << _PREFIX
            | _INSIDE
        )

    @staticmethod
    def of(state: int) -> _Name:
        """Return what a state says."""
        return _Name(
            state >> _LABEL,
            state >> _PLAIN & 0x3F,
            state >> _FAR & 0x3F,
            (state >> _ROW & 0x3F) + ASCII,
            state >> _BEFORE & 0xFF,
        )


class NameAutomaton(Automaton):
    """An opening, a name of a host or something else, and a quote; see the node ``Names``."""

    def __init__(self, node: Names, machine_of: Callable[[Node], Automaton]) -> None:
        """Start with nothing read; ``machine_of`` makes automata of nodes."""
        self._opening = machine_of(node.opening)
        self._other = None if node.other is NOTHING else machine_of(node.other)
        self._quoted, self._wide, self._composed = node.quoted, node.wide, not node.mail
        self._dots = tuple(_kind(char) for char in (DOT if node.mail else DOT + DOTS))
        self._labels = [Label()]
        self._ids = {Label(): 0}
        self._allowed: dict[int, _Allowed] = {}
        self._after = lru_cache(maxsize=1 << 15)(self._follows)
        self._fitting = lru_cache(maxsize=1 << 12)(self._that_fit)
        self._way = lru_cache(maxsize=1 << 14)(self._search)
        self._first = _Name(0, 0, 0, ASCII, 0)
        self.start = self._opened(self._opening.start)
        self.least = self._opening.least + self._way(self._first) + self._quoted

    def is_accepting(self, state: int) -> bool:
        """Whether what was read so far is complete."""
        return state == _CLOSED if self._quoted else self._may_close(state)

    def _may_close(self, state: int) -> bool:
        part, inner = state & 3, state >> _PREFIX
        if part == _OTHER:
            return self._other is not None and self._other.is_accepting(inner)
        return part == _INSIDE and not inner & 0xFFF and self._labels[state >> _LABEL].may_end

    def controls(self, state: int) -> Mapping[str, int]:  # noqa: ARG002 - the contract's argument
        """Return nothing: names have no control tokens."""
        return NO_CONTROLS

    def edges(self, state: int) -> Edges:
        """Return disjoint (byte set, target) pairs."""
        part = state & 3
        if part == _OPENING:
            return tuple((mask, self._opened(t)) for mask, t in self._opening.edges(state >> _PREFIX))
        if part == _CLOSED:
            return ()
        edges = self._inside(state) if part == _INSIDE else self._elsewhere(state >> _PREFIX)
        if self._quoted and self._may_close(state):
            edges.append((1 << _CLOSING, _CLOSED))
        return tuple(edges)

    def step(self, state: int, byte: int) -> int:
        """Return the state after one byte, or -1."""
        prefix = state >> _PREFIX & 0xFFF
        if state & 3 != _INSIDE or not (prefix or byte in _SMALL):
            return super().step(state, byte)
        name = _Name.of(state)
        allowed = self._allowed_in(name)
        for kind, mask in _ends(prefix):
            if mask >> byte & 1:
                return self._then(name, kind).state() if kind in allowed.kinds else DEAD
        for mask, onward in allowed.onward(prefix):
            if mask >> byte & 1:
                return name.state(onward)
        return DEAD

    def _elsewhere(self, inner: int) -> list[tuple[int, int]]:
        if self._other is None:
            return []
        return [(mask, t << _PREFIX | _OTHER) for mask, t in self._other.edges(inner)]

    def _inside(self, state: int) -> list[tuple[int, int]]:
        name, prefix = _Name.of(state), state >> _PREFIX & 0xFFF
        allowed = self._allowed_in(name)
        found: dict[int, int] = {}
        for kind, mask in _ends(prefix):
            if kind in allowed.kinds:
                target = self._then(name, kind).state()
                found[target] = found.get(target, 0) | mask
        edges = [(mask, target) for target, mask in found.items()]
        edges += [(mask, name.state(onward)) for mask, onward in allowed.onward(prefix)]
        if not prefix and self._other is not None and name == self._first:
            edges += self._elsewhere(self._other.start)
        return edges

    def distance(self, state: int) -> int:
        """Fewest further bytes to the end."""
        part, inner = state & 3, state >> _PREFIX
        if part == _OPENING:
            return int(self._opening.distance(inner) + self._way(self._first) + self._quoted)
        if part == _OTHER:
            return (self._other.distance(inner) if self._other is not None else 0) + self._quoted
        if part == _CLOSED:
            return 0
        name, prefix = _Name.of(state), inner & 0xFFF
        if not prefix:
            return int(self._way(name)) + self._quoted
        read = len(_prefixes()[prefix])
        ways = (
            _spellings()[kind].sizes[prefix] - read + self._way(self._then(name, kind))
            for kind in self._allowed_in(name).kinds
            if prefix in _spellings()[kind].sizes
        )
        return int(min(ways)) + self._quoted

    def _opened(self, state: int) -> int:
        if self._opening.is_accepting(state):
            return self._first.state()
        return state << _PREFIX | _OPENING

    # -- names ------------------------------------------------------------------------------

    def _search(self, name: _Name, depth: int = _AHEAD) -> float:
        """Fewest bytes to where a name may end."""
        if self._labels[name.label].may_end:
            return 0
        best = INFINITE
        for most in range(1, depth):
            for kind in sorted(self._allowed_in(name).kinds, key=_least):
                if _least(kind) >= best:
                    break
                best = min(best, _least(kind) + self._search(self._then(name, kind), most))
            if best < INFINITE:
                break
        return best

    def _then(self, name: _Name, kind: Kind) -> _Name:
        """Return the name with one more character, which is allowed."""
        after = self._after(name, kind)
        assert after is not None
        return after

    def _follows(self, name: _Name, kind: Kind) -> _Name | None:
        before = self._labels[name.label]
        if kind in self._dots:
            octets = name.before + self._octets(name.plain, name.far, name.row) + 1
            if not before.may_end or octets >= LONGEST_NAME:
                return None
            return _Name(self._number(before.next()), 0, 0, ASCII, octets)
        label = before.then(kind, ace=self._wide, composed=self._composed)
        if label is None:
            return None
        plain, far, row = name.plain, name.far, name.row
        if kind.is_ascii:
            plain += 1
        else:
            far += 1
            row = kind.row if row in (ASCII, kind.row) else min(row, kind.row, MANY)
        more, farther = label.wanting
        octets = self._octets(plain + more, far + farther, row)
        if octets > LONGEST or name.before + octets > LONGEST_NAME:
            return None
        return _Name(self._number(label), plain, far, row, name.before)

    def _octets(self, plain: int, far: int, row: int) -> int:
        """Return a bound on the octets of a label: an upper one, or, if it is wide, a lower one."""
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
            self._labels.append(label)
            number = self._ids.setdefault(label, len(self._labels) - 1)
        return number

    # -- characters -------------------------------------------------------------------------

    def _allowed_in(self, name: _Name) -> _Allowed:
        """Return what a name may go on with."""
        near = self._octets(name.plain + _AHEAD, name.far + _AHEAD, min(name.row, -2))
        is_roomy = near <= LONGEST and name.before + near + 1 < LONGEST_NAME
        if not is_roomy:
            return self._fitting(name)
        found = self._allowed.get(name.label)
        if found is None:
            found = self._allowed[name.label] = self._that_fit(name)
        return found

    def _that_fit(self, name: _Name) -> _Allowed:
        options = (*_letters(), *self._dots)
        return _Allowed.of(frozenset(kind for kind in options if self._follows(name, kind)))


class _Allowed:
    """A set of kinds, and the beginnings of their characters."""

    def __init__(self, kinds: frozenset[Kind]) -> None:
        self.kinds = kinds
        numbers = {prefix for kind in kinds for prefix in _spellings()[kind].sizes}
        self._onward: dict[bytes, list[tuple[int, int]]] = {}
        for number in sorted(numbers):
            text = _prefixes()[number]
            self._onward.setdefault(text[:-1], []).append((1 << text[-1], number))

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(kinds: frozenset[Kind]) -> _Allowed:
        return _Allowed(kinds)

    def onward(self, prefix: int) -> list[tuple[int, int]]:
        """Return the bytes (as sets) that lead on within a character, and the longer beginnings."""
        return self._onward.get(_prefixes()[prefix], [])


@lru_cache(maxsize=1)
def _letters() -> tuple[Kind, ...]:
    _, which = kinds()
    return tuple(
        {kind: None for kind in which if kind is not None and kind.char not in (DOT, DOTS)}
    )


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
    for byte, code in _completed(prefix):
        kind = kind_of(code)
        if kind is not None:
            found[kind] = found.get(kind, 0) | 1 << byte
    return tuple(found.items())


def _completed(prefix: int) -> Iterator[tuple[int, int]]:
    if not prefix:
        yield from zip(range(0x80), range(0x80), strict=True)
        return
    data = _prefixes()[prefix]
    lead = data[0]
    if len(data) + 1 != (2 if lead < 0xE0 else 3 if lead < 0xF0 else 4):
        return
    for byte in range(0x80, 0xC0):
        yield byte, ord((data + bytes([byte])).decode())
