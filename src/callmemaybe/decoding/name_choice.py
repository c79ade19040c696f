"""Find where an automaton allows a choice among names, and list the candidates.

A grammar marks a name with the capture "name", and the candidate that calls nothing with "no_call". Where
every path leads into one of those, the paths are finite and few: they are listed, each with the tokens
the tokenizer itself would produce for it. What the names stand for is not known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from callmemaybe.grammar.automata.tree import CaptureTrace, TreeAutomaton
from callmemaybe.grammar.automaton import Captured
from callmemaybe.grammar.nodes import bytes_of
from callmemaybe.vocabulary.vocabulary import Vocabulary

NAME, NO_CALL = "name", "no_call"
#: More paths than this are no list of names; the choice is then made token by token.
MAX_CANDIDATES = 100_000
#: Steps of paths that call nothing, in all.
MAX_NO_CALL_STEPS = 64
#: States searched for a path from free text to a name.
MAX_STATES = 2_000
#: Choices that are cached per automaton (a format has two or three).
CHOICE_CACHE_SIZE = 256

#: A byte, or a control token's text.
Symbol = int | str


class Candidate(NamedTuple):
    """One candidate of a choice: a name, or calling nothing, and its tokens.

    ``name`` is what the capture holds (bytes; a control token as its text), None for calling nothing.
    ``ids`` are the tokens up to the first that no other candidate has there (what follows is no decision
    any more); empty where the candidate is everything that no other candidate is.
    """

    name: bytes | None
    ids: tuple[int, ...]


class NameChoice(NamedTuple):
    """A state in which a name is chosen, or first (``decides_call``) whether to call at all.

    The candidates of the latter are (call, write free text); the first one's name is empty. Where a
    call begins with text (an opening bracket), ``openings`` are all tokens that begin with it. With
    ``addresses_text`` the candidate without a name is the address of free text, which goes on behind it.
    """

    candidates: tuple[Candidate, ...]
    decides_call: bool
    openings: tuple[int, ...] = ()
    addresses_text: bool = False

    @property
    def first_ids(self) -> tuple[int, ...]:
        """The tokens with which a call may begin, where it is decided whether to call."""
        if self.addresses_text:
            return tuple({one.ids[0] for one in self.candidates if one.name is not None})
        return self.openings or self.candidates[0].ids[:1]


class _NamePath(NamedTuple):
    """A path from the state of the choice: the state it leads to, its symbols, what it captured.

    ``capture`` is the name, or no_call, that the path is in or has passed, if any; offsets count from
    the beginning of the output.
    """

    state: int
    symbols: tuple[Symbol, ...]
    trace: CaptureTrace
    capture: Captured | None


class NameChoices:
    """The choices of one automaton under one vocabulary, each found once."""

    def __init__(self, automaton: TreeAutomaton, vocabulary: Vocabulary) -> None:
        self.automaton = automaton
        self._vocabulary = vocabulary
        self._cache: dict[tuple[int, bytes], NameChoice] = {}
        self._without_choice: set[int] = set()

    def at(self, state: int, symbols: Sequence[Symbol]) -> NameChoice | None:
        """Return the choice at ``state``, reached by ``symbols``; None if there is none."""
        if state in self._without_choice or self.automaton.inside_lexeme(state) is not None:
            return None
        key = (state, _tail(symbols))
        found = self._cache.get(key)
        if found is None:
            found = self._find(state, symbols, key[1])
            if found is None:
                self._without_choice.add(state)
            else:
                if len(self._cache) >= CHOICE_CACHE_SIZE:
                    self._cache.clear()
                self._cache[key] = found
        return found

    def _find(self, state: int, symbols: Sequence[Symbol], tail: bytes) -> NameChoice | None:
        trace = self.automaton.trace()
        for symbol in symbols:
            trace = trace.then(symbol)
        done = len(symbols)
        for capture in [one for one in trace.captures() if one.end is None][-1:]:
            # Behind the beginning of a no_call no path leads to a name.
            if capture.name != NAME and (capture.name != NO_CALL or capture.start < done):
                return None
        start = _NamePath(state, (), trace, _last(trace, done))
        # Where names begin, a text has an address of its own, or none is allowed.
        call = self._path_out_of_text(start, done) if start.capture is None else None
        if call is not None:
            ids = tuple(self._ids(call.symbols, tail))
            return NameChoice(
                (Candidate(b"", ids), Candidate(None, ())),
                True,
                self._openings(state, call.symbols),
            )
        paths = self._names(self._forced(start, done), done)
        if paths is None or len(paths) < 2:
            return None
        return NameChoice(
            _shortened([self._candidate(path, symbols, tail) for path in paths]),
            decides_call=False,
            addresses_text=any(self._is_free(path, done) for path in paths),
        )

    def _openings(self, state: int, path: tuple[Symbol, ...]) -> tuple[int, ...]:
        """Return the tokens that begin with ``path`` (bytes) and are in the language."""
        if any(isinstance(symbol, str) for symbol in path):
            return ()
        start = bytes(symbol for symbol in path if isinstance(symbol, int))
        return tuple(
            index
            for index, token in enumerate(self._vocabulary.tokens)
            if token.startswith(start) and self.automaton.walk(state, token) >= 0
        )

    # -- paths of the automaton ---------------------------------------------------------------

    def _path_out_of_text(self, start: _NamePath, done: int) -> _NamePath | None:
        """Return the path from free text to a name, up to where it cannot be text; None if there is none."""
        if not any(self._is_free(path, done) for path in self._onward(start, done)):
            return None
        waiting, seen = deque([start]), {start.state}
        while waiting and len(seen) < MAX_STATES:
            path = waiting.popleft()
            if path.capture is not None and path.capture.name == NAME:
                return self._until_not_text(start, path.symbols, done)
            for onward in self._onward(path, done):
                if onward.state not in seen:
                    seen.add(onward.state)
                    waiting.append(onward)
        return None

    def _until_not_text(self, path: _NamePath, symbols: tuple[Symbol, ...], done: int) -> _NamePath:
        """Return the shortest beginning of the path that no free text begins with."""
        for symbol in symbols:
            every = self._onward(path, done, every_byte=True)
            path = next(onward for onward in every if onward.symbols[-1] == symbol)
            if path.capture is None:
                break
        return path

    def _names(self, start: _NamePath, done: int) -> list[_NamePath] | None:
        """List all paths, each beyond the end of its name; None if there is a path without a name.

        In front of the name, paths may part in the first state only. A text with a language of its own is one path:
        its address, if it has one.
        """
        found: list[_NamePath] = []
        texts: list[_NamePath] = []
        stack = [start]
        while stack:
            path = stack.pop()
            if self._is_named(path, done):
                found.append(path)
                continue
            is_text = _calls_nothing(path)
            if is_text:
                texts.append(path)
            # A language of its own, not one of a few words.
            if is_text and (
                len(texts) > MAX_NO_CALL_STEPS or self.automaton.is_accepting(path.state)
            ):
                found, stack = (
                    [one for one in paths if not _calls_nothing(one)] for paths in (found, stack)
                )
                address = _address(texts, found + stack)
                if address is None:
                    return None
                found.append(address)
                texts = []
                continue
            if self.automaton.is_accepting(path.state) or (
                path.capture is None and path is not start
            ):
                return None
            every = self._onward(path, done, every_byte=path.capture is not None)
            stack.extend(self._forced(onward, done) for onward in every)
            if len(stack) + len(found) > MAX_CANDIDATES:
                return None
        return found

    def _is_named(self, path: _NamePath, done: int) -> bool:
        """Whether the name is complete; right after a name, a longer name may still go on."""
        if path.capture is None or path.capture.end is None:
            return False
        return path.capture.end < done + len(path.symbols) or self.automaton.is_final(path.state)

    def _is_free(self, path: _NamePath, done: int) -> bool:
        """Whether the path is inside free text that calls nothing."""
        if path.capture is None or path.capture.name != NO_CALL:
            return False
        if path.capture.start >= done + len(path.symbols):
            return False  # free text may come next, but has not begun
        # What may end here and may go on is free text as much as what must go on.
        return path.capture.end is None or (
            path.capture.end == done + len(path.symbols)
            and self.automaton.is_accepting(path.state)
            and not self.automaton.is_final(path.state)
        )

    def _onward(
        self, path: _NamePath, done: int, *, every_byte: bool = False
    ) -> Iterator[_NamePath]:
        """Yield every path longer by one symbol; one per set of bytes unless ``every_byte``."""
        for text, target in self.automaton.controls(path.state).items():
            yield self._moved(path, text, target, done)
        for mask, target in self.automaton.edges(path.state):
            for byte in bytes_of(mask):
                yield self._moved(path, byte, target, done)
                if not every_byte:
                    break

    def _forced(self, path: _NamePath, done: int) -> _NamePath:
        """Extend the path as long as there is no choice, through single control tokens too.

        Once the name is known, the rest of a run matters to the tokenizer only.
        """
        while not self.automaton.is_accepting(path.state):
            run, end = self.automaton.forced(path.state)
            for at, byte in enumerate(run):
                if self._is_named(path, done):
                    return path._replace(state=end, symbols=(*path.symbols, *run[at:]))
                path = self._moved(path, byte, self.automaton.step(path.state, byte), done)
            controls = self.automaton.controls(path.state)
            is_single = len(controls) == 1 and not self.automaton.edges(path.state)
            if self._is_named(path, done) or not is_single:
                break
            ((text, target),) = controls.items()
            path = self._moved(path, text, target, done)
        return path

    def _moved(self, path: _NamePath, symbol: Symbol, state: int, done: int) -> _NamePath:
        trace = path.trace.then(symbol)
        return _NamePath(state, (*path.symbols, symbol), trace, _last(trace, done))

    # -- tokens -------------------------------------------------------------------------------

    def _candidate(self, path: _NamePath, symbols: Sequence[Symbol], tail: bytes) -> Candidate:
        """Return the candidate with all its tokens."""
        capture = path.capture
        assert capture is not None
        name = symbols_to_bytes([*symbols, *path.symbols][capture.start : capture.end])
        ids = tuple(self._ids(path.symbols, tail))
        return Candidate(None if capture.name == NO_CALL else name, ids)

    def _ids(self, path: tuple[Symbol, ...], tail: bytes) -> list[int]:
        """Return the ids that the tokenizer produces for the path after ``tail``."""
        ids: list[int] = []
        for piece in _runs(path):
            if isinstance(piece, str):
                ids.append(self._vocabulary.controls[piece])
            else:
                ids += self._encode_after(b"" if ids else tail, piece)
        return ids

    def _encode_after(self, tail: bytes, run: bytes) -> list[int]:
        """Return the canonical ids of ``run`` after ``tail``."""
        ids, at = self._vocabulary.encode(tail + run), 0
        for position, token in enumerate(ids):
            if at >= len(tail):
                return ids[position:] if at == len(tail) else self._vocabulary.encode(run)
            at += len(self._vocabulary.token(token))
        return []


def _calls_nothing(path: _NamePath) -> bool:
    return path.capture is not None and path.capture.name == NO_CALL


def _address(texts: Sequence[_NamePath], others: Sequence[_NamePath]) -> _NamePath | None:
    """Return the first of ``texts`` that none of ``others`` begins with, if all the texts behind it begin with it."""
    for at, path in enumerate(texts):
        size = len(path.symbols)
        if not any(one.symbols[:size] == path.symbols for one in others):
            is_shared = all(one.symbols[:size] == path.symbols for one in texts[at:])
            return path if is_shared else None
    return None


def _last(trace: CaptureTrace, done: int) -> Captured | None:
    """Return the name (or no_call) that reaches beyond the first ``done`` symbols, if any."""
    for capture in trace.captures():
        is_new = capture.end is None or capture.end > done
        if capture.name in (NAME, NO_CALL) and is_new:
            return capture
    return None


def symbols_to_bytes(symbols: Sequence[Symbol]) -> bytes:
    """Return symbols as bytes; a control token as its text."""
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


def _shortened(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Cut each candidate after its first token that no other candidate has at that index."""
    order = sorted(range(len(candidates)), key=lambda index: candidates[index].ids)
    needed = [1] * len(candidates)
    for one, other in pairwise(order):
        shared = _shared(candidates[one].ids, candidates[other].ids)
        needed[one] = max(needed[one], shared + 1)
        needed[other] = max(needed[other], shared + 1)
    return tuple(
        Candidate(candidate.name, candidate.ids[:length])
        for candidate, length in zip(candidates, needed, strict=True)
    )


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))
