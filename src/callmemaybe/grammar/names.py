"""Names of hosts in Unicode as an automaton over their UTF-8 (see the node ``Names``).

`labels.py` says which characters may come; here they become bytes, and lengths are kept to. A state is
the number of a `_Name` and the bytes of a character of which not all were read, in one int.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from callmemaybe.grammar.nodes import INFINITE

#: The longest name (RFC 1034, section 3.1, without the dot of the root).
LONGEST_NAME = 253
# The longest label by what `weight` says, if it has anything beyond ASCII; by its characters ("xn--",
# and at least one octet for each).
_HEAVIEST, _MOST = 61, 59
_BYTES = 24
_PREFIX = (1 << _BYTES) - 1


class _Name(NamedTuple):
    """The beginning of a name: the label at hand, its characters in ASCII and beyond, their row."""

    label: Label
    plain: int
    far: int
    row: int
    #: Characters of the name so far; labels that may follow, where octets are no longer counted (-1).
    total: int
    left: int


class NameAutomaton(Automaton):
    """Names of hosts; see the node ``Names`` for the options."""

    def __init__(self, *, wide: bool, mail: bool) -> None:
        """Start with nothing read."""
        self._wide = wide
        self._composed = not mail
        self._dots = DOT if mail else DOT + DOTS
        first = _Name(Label(), 0, 0, ASCII, 0, -1)
        self._names: list[_Name] = [first]
        self._ids: dict[_Name, int] = {first: 0}
        self._targets: list[dict[Kind, int]] = [{}]
        self._allowed: dict[int, _Allowed] = {}
        self._kinds_of: dict[Label, dict[Kind, Label]] = {}
        self._rest: dict[int, float] = {}
        self.start = 0
        self.least = self._way(0)

    def is_accepting(self, state: int) -> bool:
        """Whether what was read so far is a name."""
        return not state & _PREFIX and self._names[state >> _BYTES].label.may_end

    def controls(self, state: int) -> Mapping[str, int]:  # noqa: ARG002 - the contract's argument
        """Return nothing: names have no control tokens."""
        return NO_CONTROLS

    def edges(self, state: int) -> Edges:
        """Return disjoint (byte set, target) pairs."""
        number, prefix = state >> _BYTES, state & _PREFIX
        allowed = self._allowed_in(number)
        found: dict[int, int] = {}
        for kind, mask in _ends(prefix):
            if kind in allowed.kinds:
                target = self._then(number, kind) << _BYTES
                found[target] = found.get(target, 0) | mask
        edges = [(mask, target) for target, mask in found.items()]
        edges += [(mask, number << _BYTES | onward) for mask, onward in allowed.onward(prefix)]
        return tuple(edges)

    def step(self, state: int, byte: int) -> int:
        """Return the state after one byte, or -1."""
        number, prefix = state >> _BYTES, state & _PREFIX
        allowed = self._allowed_in(number)
        for kind, mask in _ends(prefix):
            if mask >> byte & 1:
                return self._then(number, kind) << _BYTES if kind in allowed.kinds else DEAD
        onward = prefix << 8 | byte
        return number << _BYTES | onward if onward in allowed.prefixes else DEAD

    def distance(self, state: int) -> int:
        """Fewest further bytes to the end of a name."""
        number, prefix = state >> _BYTES, state & _PREFIX
        if not prefix:
            return int(self._way(number))
        read = (prefix.bit_length() + 7) >> 3
        return int(
            min(
                size - read + self._way(self._then(number, kind))
                for kind in self._allowed_in(number).kinds
                if (size := _spellings()[kind].sizes.get(prefix)) is not None
            )
        )

    # -- names ------------------------------------------------------------------------------

    def _way(self, number: int) -> float:
        """Fewest bytes from a whole character to the end of a name; three characters always do."""
        known = self._rest.get(number)
        if known is None:
            ways = (self._search(number, depth) for depth in range(4))
            known = self._rest[number] = next((way for way in ways if way < INFINITE), INFINITE)
        return known

    def _search(self, number: int, depth: int) -> float:
        if self._names[number].label.may_end:
            return 0
        best = INFINITE
        if depth:
            for kind in sorted(self._allowed_in(number).kinds, key=_least):
                if _spellings()[kind].least >= best:
                    break
                way = self._search(self._then(number, kind), depth - 1)
                best = min(best, _spellings()[kind].least + way)
        return best

    def _then(self, number: int, kind: Kind) -> int:
        """Return the name with one more character, which is allowed."""
        target = self._targets[number].get(kind)
        if target is None:
            after = self._after(self._names[number], kind)
            assert after is not None
            target = self._ids.get(after)
            if target is None:
                self.spent += 1
                if self.spent > self.due:
                    self.pause()
                target = len(self._names)
                self._names.append(after)
                self._targets.append({})
                target = self._ids.setdefault(after, target)
            self._targets[number][kind] = target
        return target

    def _after(self, name: _Name, kind: Kind) -> _Name | None:
        if kind.char in (DOT, DOTS):
            return self._next(name) if name.label.may_end else None
        label = self._labels(name.label).get(kind)
        if label is None:
            return None
        plain, far, row, total, left = name.plain, name.far, name.row, name.total + 1, name.left
        if kind.is_ascii:
            plain += 1
        else:
            far += 1
            row = kind.row if row in (ASCII, kind.row) else min(row, kind.row, MANY)
        if left >= 0:
            total = 0
        elif far and not self._wide:
            # From here on labels are counted instead of octets: all may be as long as labels can be.
            left = (LONGEST_NAME - (total - plain - far) - LONGEST) // (LONGEST + 1)
            total = 0
            if left < 0:
                return None
        after = _Name(label, plain, far, row, total, min(left, 3))
        return after if self._fits(after) else None

    def _next(self, name: _Name) -> _Name | None:
        left = name.left
        if left == 0 or (left < 0 and name.total + 1 >= LONGEST_NAME):
            return None
        total = name.total + 1 if left < 0 else 0
        return _Name(name.label.next(), 0, 0, ASCII, total, left - 1 if left > 0 else -1)

    def _fits(self, name: _Name) -> bool:
        """Whether the label at hand can end within the limits."""
        plain, far = name.label.wanting
        ahead = plain + far
        plain += name.plain
        far += name.far
        if name.left < 0 and name.total + ahead > LONGEST_NAME:
            return False
        if self._wide:
            return plain + far <= (_MOST if far else LONGEST)
        return weight(plain, far, name.row) <= (_HEAVIEST if far else LONGEST)

    # -- characters -------------------------------------------------------------------------

    def _labels(self, label: Label) -> dict[Kind, Label]:
        """Return what a label may go on with, and what it then is."""
        found = self._kinds_of.get(label)
        if found is None:
            found = {}
            for kind in _letters():
                after = label.then(kind, ace=self._wide, composed=self._composed)
                if after is not None:
                    found[kind] = after
            self._kinds_of[label] = found
        return found

    def _allowed_in(self, number: int) -> _Allowed:
        found = self._allowed.get(number)
        if found is None:
            name = self._names[number]
            kinds = [kind for kind in self._labels(name.label) if self._after(name, kind)]
            kinds += [kind for kind in map(_kind, self._dots) if self._after(name, kind)]
            found = self._allowed[number] = _Allowed.of(frozenset(kinds))
        return found


class _Allowed:
    """A set of kinds, and the beginnings of their characters."""

    def __init__(self, kinds: frozenset[Kind]) -> None:
        self.kinds = kinds
        self.prefixes = frozenset(prefix for kind in kinds for prefix in _spellings()[kind].sizes)
        self._onward: dict[int, list[tuple[int, int]]] = {}

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(kinds: frozenset[Kind]) -> _Allowed:
        return _Allowed(kinds)

    def onward(self, prefix: int) -> list[tuple[int, int]]:
        """Return the bytes (as sets) that lead on within a character, and the longer beginnings."""
        found = self._onward.get(prefix)
        if found is None:
            found = [
                (1 << (longer & 0xFF), longer)
                for longer in sorted(self.prefixes)
                if longer >> 8 == prefix
            ]
            self._onward[prefix] = found
        return found


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

    #: Bytes of the shortest; every proper beginning, and how long the characters that have it are.
    least: int
    sizes: dict[int, int]


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
                spelling.sizes[int.from_bytes(data[:read])] = len(data)
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
    data = prefix.to_bytes((prefix.bit_length() + 7) >> 3)
    lead = data[0]
    if len(data) + 1 != (2 if lead < 0xE0 else 3 if lead < 0xF0 else 4):
        return
    base = lead & (0x1F if lead < 0xE0 else 0x0F if lead < 0xF0 else 0x07)
    for byte in data[1:]:
        base = base << 6 | byte & 0x3F
    for byte in range(0x80, 0xC0):
        yield byte, base << 6 | byte & 0x3F
