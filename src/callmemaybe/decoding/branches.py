"""Find the choices among names that an automaton holds, without knowing what is named.

A grammar marks a name with the capture "name", and the branch on which nothing is named with
"no_call". Where every way on leads into one of those, the ways are finite and few: this module
lists them, each with the tokens the tokenizer itself would use for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from callmemaybe.grammar.automaton import Automaton, Captured
from callmemaybe.grammar.nodes import bytes_of
from callmemaybe.vocabulary.vocabulary import Vocabulary

NAME, NO_CALL = "name", "no_call"
#: More ways than this are no list of names; the choice is then made token by token.
MOST_BRANCHES = 100_000
#: States searched for the way from free text to a name.
MOST_STATES = 2_000
#: Choices that stay known per automaton (a format has two or three).
KEPT = 256

#: A byte, or a control token's text.
Symbol = int | str


class Branch(NamedTuple):
    """One way on: what it names and the tokens that say so.

    ``name`` is what stands in the capture (bytes; a control token as its text), None on the way
    that names nothing. ``ids`` are enough tokens to tell the branch from all others and to
    complete the name; none where the branch is everything that no other branch is.
    """

    name: bytes | None
    ids: tuple[int, ...]


class Fork(NamedTuple):
    """A place where the ways part; a ``gate`` decides first whether anything is named at all.

    The branches of a gate are (name it, do not); its first one's name is empty.
    """

    branches: tuple[Branch, ...]
    is_gate: bool


class _Way(NamedTuple):
    state: int
    path: tuple[Symbol, ...]


class Choices:
    """The forks of one automaton under one vocabulary, each found once."""

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        self.automaton = automaton
        self._vocabulary = vocabulary
        self._known: dict[tuple[int, bytes], Fork] = {}
        self._barren: set[int] = set()

    def at(self, state: int, symbols: Sequence[Symbol]) -> Fork | None:
        """Return the fork at ``state``, reached by ``symbols``, or None if this is not one."""
        if state in self._barren or self.automaton.inside(state) is not None:
            return None
        key = (state, _tail(symbols))
        found = self._known.get(key)
        if found is None:
            found = self._find(state, list(symbols), key[1])
            if found is None:
                self._barren.add(state)
            else:
                if len(self._known) >= KEPT:
                    self._known.clear()
                self._known[key] = found
        return found

    def _find(self, state: int, symbols: list[Symbol], tail: bytes) -> Fork | None:
        opened = [c.name for c in self.automaton.captures(symbols) if c.end is None]
        if any(name not in (NAME, NO_CALL) for name in opened[-1:]):
            return None
        gate = self._gate(state, symbols)
        if gate is not None:
            ids = self._ids(gate.path, len(gate.path), tail)
            return Fork((Branch(b"", ids), Branch(None, ())), is_gate=True)
        found = self._names(state, symbols)
        if found is None or len(found) < 2:
            return None
        return Fork(
            _distinct([self._branch(way, end, name, tail) for way, end, name in found]), False
        )

    # -- ways of the automaton ----------------------------------------------------------------

    def _gate(self, state: int, symbols: list[Symbol]) -> _Way | None:
        """Return the way out of free text that leads to a name, up to where it has left the text."""
        start = _Way(state, ())
        if not any(self._is_free(symbols, way) for way in self._ways(start)):
            return None
        waiting, seen = deque([start]), {state}
        while waiting and len(seen) < MOST_STATES:
            way = waiting.popleft()
            capture = self._last(symbols, way)
            if capture is not None and capture.name == NAME:
                return self._left(symbols, state, way.path)
            for onward in self._ways(way):
                if onward.state not in seen:
                    seen.add(onward.state)
                    waiting.append(onward)
        return None

    def _left(self, symbols: list[Symbol], state: int, path: tuple[Symbol, ...]) -> _Way:
        """Return the beginning of the path that no free text has."""
        way = _Way(state, ())
        for symbol in path:
            way = next(w for w in self._ways(way, single=True) if w.path[-1] == symbol)
            if self._last(symbols, way) is None:
                break
        return way

    def _names(
        self, state: int, symbols: list[Symbol]
    ) -> list[tuple[_Way, int, bytes | None]] | None:
        """List all ways with the end of their name in the path; None if there is a way without.

        Only the first parting of the ways may lie in front of the name.
        """
        found: list[tuple[_Way, int, bytes | None]] = []
        start = self._forced(_Way(state, ()))
        stack = [start]
        done = len(symbols)
        while stack:
            way = stack.pop()
            capture = self._last(symbols, way)
            # Right behind a word, another word may still go on: look one symbol further.
            is_sure = capture is not None and capture.end != done + len(way.path)
            if capture is not None and capture.end is not None and (is_sure or self._ends(way)):
                whole = [*symbols, *way.path][capture.start : capture.end]
                name = None if capture.name == NO_CALL else spell(whole)
                found.append((way, capture.end - done, name))
                if len(found) > MOST_BRANCHES:
                    return None
                continue
            if self.automaton.is_accepting(way.state) or (capture is None and way is not start):
                return None
            onward = [self._forced(one) for one in self._ways(way, single=capture is not None)]
            if len(stack) + len(onward) > MOST_BRANCHES:
                return None
            stack.extend(reversed(onward))
        return found

    def _ways(self, way: _Way, *, single: bool = False) -> Iterator[_Way]:
        """Yield every way on by one symbol; one per set of bytes unless ``single`` asks for all."""
        for text, target in self.automaton.controls(way.state).items():
            yield _Way(target, (*way.path, text))
        for mask, target in self.automaton.edges(way.state):
            for byte in bytes_of(mask):
                yield _Way(target, (*way.path, byte))
                if not single:
                    break

    def _forced(self, way: _Way) -> _Way:
        """Go on as far as there is no choice, through single control tokens too."""
        state, path = way
        while not self.automaton.is_accepting(state):
            run, state = self.automaton.forced(state)
            path += tuple(run)
            controls = self.automaton.controls(state)
            if len(controls) != 1 or self.automaton.edges(state):
                break
            if self.automaton.is_accepting(state):
                break
            ((text, state),) = controls.items()
            path += (text,)
        return _Way(state, path)

    def _ends(self, way: _Way) -> bool:
        return self.automaton.is_final(way.state)

    def _last(self, symbols: list[Symbol], way: _Way) -> Captured | None:
        """Return the name (or the no-call) that the way is in or has just come through."""
        for capture in self.automaton.captures([*symbols, *way.path]):
            is_new = capture.end is None or capture.end > len(symbols)
            if capture.name in (NAME, NO_CALL) and is_new:
                return capture
        return None

    def _is_free(self, symbols: list[Symbol], way: _Way) -> bool:
        """Whether the way leads into free text that names nothing."""
        capture = self._last(symbols, way)
        if capture is None or capture.name != NO_CALL:
            return False
        # What may end here and may go on is free text as much as what must go on.
        return capture.end is None or (
            capture.end == len(symbols) + len(way.path)
            and self.automaton.is_accepting(way.state)
            and not self.automaton.is_final(way.state)
        )

    # -- tokens -------------------------------------------------------------------------------

    def _branch(self, way: _Way, end: int, name: bytes | None, tail: bytes) -> tuple[Branch, int]:
        """Return the branch with all its tokens, and how many of them complete the name."""
        whole = self._ids(way.path, len(way.path), tail)
        return Branch(name, whole), len(self._ids(way.path, end, tail))

    def _ids(self, path: tuple[Symbol, ...], end: int, tail: bytes) -> tuple[int, ...]:
        """Return the ids that spell the path behind ``tail``, as far as they begin before ``end``."""
        ids: list[int] = []
        at = 0
        for piece in _runs(path):
            if at >= end:
                break
            if isinstance(piece, str):
                ids.append(self._vocabulary.controls[piece])
                at += 1
                continue
            for token in self._behind(tail if at == 0 else b"", piece):
                if at >= end:
                    break
                ids.append(token)
                at += len(self._vocabulary.token(token))
        return tuple(ids)

    def _behind(self, tail: bytes, run: bytes) -> list[int]:
        """Return the canonical ids of ``run`` where ``tail`` stands in front of it."""
        ids, at = self._vocabulary.encode(tail + run), 0
        for position, token in enumerate(ids):
            if at >= len(tail):
                return ids[position:] if at == len(tail) else self._vocabulary.encode(run)
            at += len(self._vocabulary.token(token))
        return []


def spell(symbols: Sequence[Symbol]) -> bytes:
    """Write symbols as bytes; a control token as its text."""
    return b"".join(s.encode() if isinstance(s, str) else bytes([s]) for s in symbols)


def _tail(symbols: Sequence[Symbol]) -> bytes:
    """Return the bytes since the last control token."""
    start = len(symbols)
    while start and isinstance(symbols[start - 1], int):
        start -= 1
    return bytes(s for s in symbols[start:] if isinstance(s, int))


def _runs(path: Sequence[Symbol]) -> Iterator[bytes | str]:
    """Split into runs of bytes and single control tokens."""
    run = bytearray()
    for symbol in path:
        if isinstance(symbol, int):
            run.append(symbol)
            continue
        if run:
            yield bytes(run)
            run.clear()
        yield symbol
    if run:
        yield bytes(run)


def _distinct(branches: Sequence[tuple[Branch, int]]) -> tuple[Branch, ...]:
    """Shorten every branch to its name, or further along where that is how another one begins."""
    order = sorted(range(len(branches)), key=lambda index: branches[index][0].ids)
    needed = [length for _, length in branches]
    for one, other in pairwise(order):
        shared = _shared(branches[one][0].ids, branches[other][0].ids)
        needed[one] = max(needed[one], shared + 1)
        needed[other] = max(needed[other], shared + 1)
    return tuple(
        Branch(branch.name, branch.ids[:length])
        for (branch, _), length in zip(branches, needed, strict=True)
    )


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))
