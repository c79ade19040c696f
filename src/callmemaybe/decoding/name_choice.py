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

from callmemaybe.grammar.automaton import Captured
from callmemaybe.grammar.nodes import bytes_of
from callmemaybe.grammar.trace import Trace
from callmemaybe.grammar.tree import TreeAutomaton
from callmemaybe.vocabulary.vocabulary import Vocabulary

NAME, NO_CALL = "name", "no_call"
#: More ways than this are no list of names; the choice is then made token by token.
MOST_BRANCHES = 100_000
#: Steps of ways that name nothing, in all.
MOST_WORDLESS = 64
#: States searched for the way from free text to a name.
MOST_STATES = 2_000
#: Choices that stay known per automaton (a format has two or three).
KEPT = 256

#: A byte, or a control token's text.
Symbol = int | str


class Candidate(NamedTuple):
    """One way on: what it names and the tokens that say so.

    ``name`` is what stands in the capture (bytes; a control token as its text), None on the way
    that names nothing. ``ids`` are its tokens up to where it has parted from all others (what
    follows is no decision any more); none where the branch is everything that no other branch is.
    """

    name: bytes | None
    ids: tuple[int, ...]


class NameChoice(NamedTuple):
    """A place where the ways part; a ``gate`` decides first whether anything is named at all.

    The branches of a gate are (name it, do not); its first one's name is empty. Where what leads to
    a name is text (an opening bracket), ``openings`` are all tokens that begin with it.
    """

    candidates: tuple[Candidate, ...]
    decides_call: bool
    openings: tuple[int, ...] = ()


class _Way(NamedTuple):
    """A way on from the fork: where it leads, by which symbols, and what it captured.

    ``capture`` is the name, or no call, that the way is in or has come through, if any; offsets
    count from the beginning of the answer.
    """

    state: int
    path: tuple[Symbol, ...]
    trace: Trace
    capture: Captured | None


class NameChoices:
    """The forks of one automaton under one vocabulary, each found once."""

    def __init__(self, automaton: TreeAutomaton, vocabulary: Vocabulary) -> None:
        self.automaton = automaton
        self._vocabulary = vocabulary
        self._known: dict[tuple[int, bytes], NameChoice] = {}
        self._barren: set[int] = set()

    def at(self, state: int, symbols: Sequence[Symbol]) -> NameChoice | None:
        """Return the fork at ``state``, reached by ``symbols``, or None if this is not one."""
        if state in self._barren or self.automaton.inside(state) is not None:
            return None
        key = (state, _tail(symbols))
        found = self._known.get(key)
        if found is None:
            found = self._find(state, symbols, key[1])
            if found is None:
                self._barren.add(state)
            else:
                if len(self._known) >= KEPT:
                    self._known.clear()
                self._known[key] = found
        return found

    def _find(self, state: int, symbols: Sequence[Symbol], tail: bytes) -> NameChoice | None:
        trace = self.automaton.trace()
        for symbol in symbols:
            trace = trace.then(symbol)
        done = len(symbols)
        for capture in [one for one in trace.captures() if one.end is None][-1:]:
            # Behind its beginning, what calls nothing has no way back to a name.
            if capture.name != NAME and (capture.name != NO_CALL or capture.start < done):
                return None
        start = _Way(state, (), trace, _last(trace, done))
        gate = self._gate(start, done)
        if gate is not None:
            ids = tuple(self._ids(gate.path, tail))
            return NameChoice(
                (Candidate(b"", ids), Candidate(None, ())), True, self._heads(state, gate.path)
            )
        ways = self._names(self._forced(start, done), done)
        if ways is None or len(ways) < 2:
            return None
        return NameChoice(
            _parted([self._branch(way, symbols, tail) for way in ways]), decides_call=False
        )

    def _heads(self, state: int, path: tuple[Symbol, ...]) -> tuple[int, ...]:
        """Return the tokens that begin with ``path`` (bytes) and are in the language."""
        if any(isinstance(symbol, str) for symbol in path):
            return ()
        start = bytes(symbol for symbol in path if isinstance(symbol, int))
        return tuple(
            index
            for index, token in enumerate(self._vocabulary.tokens)
            if token.startswith(start) and self.automaton.walk(state, token) >= 0
        )

    # -- ways of the automaton ----------------------------------------------------------------

    def _gate(self, start: _Way, done: int) -> _Way | None:
        """Return the way out of free text that leads to a name, up to where it has left the text."""
        if not any(self._is_free(way, done) for way in self._onward(start, done)):
            return None
        waiting, seen = deque([start]), {start.state}
        while waiting and len(seen) < MOST_STATES:
            way = waiting.popleft()
            if way.capture is not None and way.capture.name == NAME:
                return self._left(start, way.path, done)
            for onward in self._onward(way, done):
                if onward.state not in seen:
                    seen.add(onward.state)
                    waiting.append(onward)
        return None

    def _left(self, way: _Way, path: tuple[Symbol, ...], done: int) -> _Way:
        """Return the beginning of the path that no free text has."""
        for symbol in path:
            every = self._onward(way, done, every_byte=True)
            way = next(onward for onward in every if onward.path[-1] == symbol)
            if way.capture is None:
                break
        return way

    def _names(self, start: _Way, done: int) -> list[_Way] | None:
        """List all ways, each beyond the end of its name; None if there is a way without a name.

        Only the first parting of the ways may lie in front of the name.
        """
        found: list[_Way] = []
        stack = [start]
        wordless = 0
        while stack:
            way = stack.pop()
            wordless += way.capture is not None and way.capture.name == NO_CALL
            if wordless > MOST_WORDLESS:
                return None  # an answer with a language of its own, not one of a few words
            if self._is_named(way, done):
                found.append(way)
                continue
            if self.automaton.is_accepting(way.state) or (way.capture is None and way is not start):
                return None
            every = self._onward(way, done, every_byte=way.capture is not None)
            stack.extend(self._forced(onward, done) for onward in every)
            if len(stack) + len(found) > MOST_BRANCHES:
                return None
        return found

    def _is_named(self, way: _Way, done: int) -> bool:
        """Whether the name is complete; right behind a word, another word may still go on."""
        if way.capture is None or way.capture.end is None:
            return False
        return way.capture.end < done + len(way.path) or self.automaton.is_final(way.state)

    def _is_free(self, way: _Way, done: int) -> bool:
        """Whether the way leads into free text that names nothing."""
        if way.capture is None or way.capture.name != NO_CALL:
            return False
        if way.capture.start >= done + len(way.path):
            return False  # what comes next is free, but this is not yet
        # What may end here and may go on is free text as much as what must go on.
        return way.capture.end is None or (
            way.capture.end == done + len(way.path)
            and self.automaton.is_accepting(way.state)
            and not self.automaton.is_final(way.state)
        )

    def _onward(self, way: _Way, done: int, *, every_byte: bool = False) -> Iterator[_Way]:
        """Yield every way on by one symbol; one per set of bytes unless all are asked for."""
        for text, target in self.automaton.controls(way.state).items():
            yield self._moved(way, text, target, done)
        for mask, target in self.automaton.edges(way.state):
            for byte in bytes_of(mask):
                yield self._moved(way, byte, target, done)
                if not every_byte:
                    break

    def _forced(self, way: _Way, done: int) -> _Way:
        """Go on as far as there is no choice, through single control tokens too.

        Once the name is known, the rest of a run matters to the tokenizer only.
        """
        while not self.automaton.is_accepting(way.state):
            run, end = self.automaton.forced(way.state)
            for at, byte in enumerate(run):
                if self._is_named(way, done):
                    return way._replace(state=end, path=(*way.path, *run[at:]))
                way = self._moved(way, byte, self.automaton.step(way.state, byte), done)
            controls = self.automaton.controls(way.state)
            is_single = len(controls) == 1 and not self.automaton.edges(way.state)
            if self._is_named(way, done) or not is_single:
                break
            ((text, target),) = controls.items()
            way = self._moved(way, text, target, done)
        return way

    def _moved(self, way: _Way, symbol: Symbol, state: int, done: int) -> _Way:
        trace = way.trace.then(symbol)
        return _Way(state, (*way.path, symbol), trace, _last(trace, done))

    # -- tokens -------------------------------------------------------------------------------

    def _branch(self, way: _Way, symbols: Sequence[Symbol], tail: bytes) -> Candidate:
        """Return the branch with all its tokens."""
        capture = way.capture
        assert capture is not None
        name = symbols_to_bytes([*symbols, *way.path][capture.start : capture.end])
        ids = tuple(self._ids(way.path, tail))
        return Candidate(None if capture.name == NO_CALL else name, ids)

    def _ids(self, path: tuple[Symbol, ...], tail: bytes) -> list[int]:
        """Return the ids with which the tokenizer spells the path behind ``tail``."""
        ids: list[int] = []
        for piece in _runs(path):
            if isinstance(piece, str):
                ids.append(self._vocabulary.controls[piece])
            else:
                ids += self._behind(b"" if ids else tail, piece)
        return ids

    def _behind(self, tail: bytes, run: bytes) -> list[int]:
        """Return the canonical ids of ``run`` where ``tail`` stands in front of it."""
        ids, at = self._vocabulary.encode(tail + run), 0
        for position, token in enumerate(ids):
            if at >= len(tail):
                return ids[position:] if at == len(tail) else self._vocabulary.encode(run)
            at += len(self._vocabulary.token(token))
        return []


def _last(trace: Trace, done: int) -> Captured | None:
    """Return the name (or the no-call) that reaches beyond the first ``done`` symbols, if any."""
    for capture in trace.captures():
        is_new = capture.end is None or capture.end > done
        if capture.name in (NAME, NO_CALL) and is_new:
            return capture
    return None


def symbols_to_bytes(symbols: Sequence[Symbol]) -> bytes:
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


def _parted(branches: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Cut every branch behind its first token that no other branch has at that place."""
    order = sorted(range(len(branches)), key=lambda index: branches[index].ids)
    needed = [1] * len(branches)
    for one, other in pairwise(order):
        shared = _shared(branches[one].ids, branches[other].ids)
        needed[one] = max(needed[one], shared + 1)
        needed[other] = max(needed[other], shared + 1)
    return tuple(
        Candidate(branch.name, branch.ids[:length])
        for branch, length in zip(branches, needed, strict=True)
    )


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))
