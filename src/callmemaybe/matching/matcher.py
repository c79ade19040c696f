"""The cursor over an automaton, in tokens: what may come next, what must, and how to go back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from callmemaybe.errors import DecodingError
from callmemaybe.grammar.automaton import DEAD, Automaton, Captured
from callmemaybe.matching import budget as budgets
from callmemaybe.matching import canonical
from callmemaybe.matching.cache import ENDED, MOVE_CACHE_SIZE, tables_of
from callmemaybe.matching.mask_walk import describe_bytes, state_entry
from callmemaybe.matching.token_set import TokenSet
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.vocabulary.bitmask import Ids, Mask


class Matcher:
    """A position in a language, moved token by token; small, forkable, and exactly reversible.

    At an accepting state the vocabulary's end tokens are allowed; accepting one terminates. A control
    token is allowed where the grammar names it and never because of its text; an end token that the
    grammar names ends nothing by itself. What is computed for a state is shared by all matchers over the
    same automaton and vocabulary.
    """

    __slots__ = (
        "_automaton", "_cached", "_entries", "_ids", "_state", "_states", "_tables", "_vocabulary",
    )  # fmt: skip

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        """Begin at the start of the automaton's language."""
        self._automaton = automaton
        self._vocabulary = vocabulary
        self._tables = tables_of(vocabulary)
        self._cached = self._tables.of(automaton)
        self._entries = self._cached.entries
        self._state = automaton.start
        self._states: list[int | None] = [self._state]
        self._ids: list[int] = []

    # -- what may come next -------------------------------------------------------------------

    def mask(self, budget: int | None = None) -> Mask:
        """Return the allowed ids as a bitmask, uint32[ceil(size / 32)], read-only and shared.

        Exactly the ids that keep the language reachable. With a ``budget`` (how many more tokens
        may be emitted), only those after which the rest of the budget suffices for an end: never
        empty while ``remaining <= budget`` and the output is not terminated. Raises VocabularyError
        if the vocabulary cannot express what the grammar needs next.
        """
        if budget is not None:
            return self._tables.sets.mask_of(self.allowed_set(budget))
        entry = self._entries.get(self._state)
        if entry is None:
            entry = state_entry(self._tables, self._automaton, self._state, self._cached)
        mask = entry.allowed.mask
        return self._tables.sets.mask_of(entry.allowed) if mask is None else mask

    def allowed_set(self, budget: int | None = None) -> TokenSet:
        """Return the allowed ids as a set, which costs less than a bitmask; see :meth:`mask`."""
        entry = self._entries.get(self._state)
        if entry is None:
            entry = state_entry(self._tables, self._automaton, self._state, self._cached)
        if budget is None or 0 <= entry.max_needed < budget:
            return entry.allowed
        return budgets.within_budget(
            self._tables, self._vocabulary, self._automaton, self._state, budget
        )

    def allowed(self, budget: int | None = None) -> Ids:
        """Return the allowed ids, int64, ascending."""
        return self.allowed_set(budget).to_ids()

    def count_allowed(self, budget: int | None = None) -> int:
        """Return how many ids are allowed."""
        return self.allowed_set(budget).count

    def is_allowed(self, index: int) -> bool:
        """Whether an id may come next; found without the mask."""
        return self._after(index) is not None

    def argmax_allowed(self, logits: npt.NDArray[np.floating], budget: int | None = None) -> int:
        """Return the allowed id with the largest of ``logits`` (float[size]); -1 if none is allowed."""
        return self.allowed_set(budget).argmax(logits)

    def forced(self) -> list[int]:
        """Return the ids that must come next, as the tokenizer would encode them; none are accepted.

        Empty where the next token depends on a choice.
        """
        state, cached = self._state, self._cached
        if state == ENDED or state in cached.unforced:
            return []
        automaton = self._automaton
        return list(
            canonical.forced(self._tables, cached, self._vocabulary, automaton, state, self._ids)
        )

    # -- moving -------------------------------------------------------------------------------

    def accept(self, index: int) -> None:
        """Accept one id. Raises DecodingError, and changes nothing, if the id is not allowed."""
        target = self._after(index)
        if target is None:
            raise DecodingError(self._refusal(index))
        self._state = target
        self._states.append(target)
        self._ids.append(index)

    def try_accept(self, ids: Iterable[int]) -> int:
        """Accept ids up to the first that is not allowed; return how many were accepted."""
        listed = list(ids)
        taken, count = 0, len(listed)
        while taken < count:
            if count - taken > 1 and (block := self._take_block(listed, taken)):
                taken += block
                continue
            index = listed[taken]
            target = self._after(index)
            if target is None:
                break
            self._state = target
            self._states.append(target)
            self._ids.append(index)
            taken += 1
        return taken

    def _take_block(self, ids: list[int], start: int) -> int:
        """Accept several tokens with bytes in one walk, or none; states in between stay unknown."""
        tokens, size = self._vocabulary.tokens, self._vocabulary.size
        pieces: list[bytes] = []
        for index in ids[start:] if start else ids:
            piece = tokens[index] if 0 <= index < size else b""
            if not piece:
                break
            pieces.append(piece)
        count = len(pieces)
        if count < 2 or self._state == ENDED:
            return 0
        target = self._automaton.walk(self._state, b"".join(pieces))
        if target == DEAD:
            return 0
        self._state = target
        self._states += [None] * (count - 1)
        self._states.append(target)
        self._ids += ids[start : start + count]
        return count

    def rollback(self, count: int) -> None:
        """Undo the last ``count`` ids. Raises DecodingError if there are not so many."""
        if not 0 <= count <= len(self._ids):
            raise DecodingError(f"cannot take back {count} of {len(self._ids)} tokens")
        if count:
            del self._ids[-count:], self._states[-count:]
            self._state = self._last_state()

    def _last_state(self) -> int:
        states = self._states
        place = len(states) - 1
        while (state := states[place]) is None:
            place -= 1
        if place < len(states) - 1:
            state = self._automaton.walk(state, self._vocabulary.decode(self._ids[place:]))
            states[-1] = state
        return state

    def fork(self) -> Self:
        """Return an independent matcher in the same position."""
        other = object.__new__(type(self))
        for name in Matcher.__slots__:
            setattr(other, name, getattr(self, name))
        other._ids = self._ids.copy()
        other._states = self._states.copy()
        return other

    def _after(self, index: int) -> int | None:
        """Return the state after an id, or None if it is not allowed."""
        size = self._vocabulary.size
        state = self._state
        if not 0 <= index < size or state == ENDED:
            return None
        moves = self._cached.moves
        key = state * size + index
        known = moves.get(key)
        if known is not None:
            return known
        token = self._vocabulary.tokens[index]
        target = self._automaton.walk(state, token) if token else self._after_control(state, index)
        if target is None or (target == DEAD and token):
            return None
        if len(moves) >= MOVE_CACHE_SIZE:
            moves.clear()
        moves[key] = target
        return target

    def _after_control(self, state: int, index: int) -> int | None:
        """Return the same for a token without bytes."""
        name = self._vocabulary.names.get(index)
        if name is not None:
            onward = self._automaton.controls(state).get(name)
            if onward is not None:
                return onward
        if index in self._vocabulary.ends and self._automaton.is_accepting(state):
            return ENDED
        return None

    def _refusal(self, index: int) -> str:
        vocabulary = self._vocabulary
        if not 0 <= index < vocabulary.size:
            return f"token {index} is outside of the vocabulary's {vocabulary.size} ids"
        what = f"token {index} ({vocabulary.names.get(index) or vocabulary.tokens[index]!r})"
        if self._state == ENDED:
            return f"{what} is not allowed: the output has ended"
        union = 0
        for mask, _ in self._automaton.edges(self._state):
            union |= mask
        wanted = [describe_bytes(union)] if union else []
        wanted += self._automaton.controls(self._state)
        wanted += ["the end"] if self.is_accepting else []
        return f"{what} is not allowed after {self.text[-40:]!r}: expected {' or '.join(wanted)}"

    # -- where we are -------------------------------------------------------------------------

    @property
    def automaton(self) -> Automaton:
        """The language."""
        return self._automaton

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens."""
        return self._vocabulary

    @property
    def state(self) -> int:
        """The automaton's state; -1 once an end token was accepted."""
        return self._state

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids accepted so far."""
        return tuple(self._ids)

    @property
    def text(self) -> bytes:
        """The bytes accepted so far; control tokens have none."""
        return self._vocabulary.decode(self._ids)

    @property
    def symbols(self) -> list[int | str]:
        """What was accepted so far, as the grammar sees it: bytes as ints, control tokens as text.

        An end token that the grammar does not name is left out.
        """
        ids = self._ids[:-1] if self._state == ENDED else self._ids
        return self._symbols_of(ids)

    @property
    def is_accepting(self) -> bool:
        """Whether what was accepted so far is in the language."""
        return self._state == ENDED or self._automaton.is_accepting(self._state)

    @property
    def is_terminated(self) -> bool:
        """Whether an end token was accepted, or the language allows nothing more."""
        return self._state == ENDED or self._automaton.is_final(self._state)

    @property
    def remaining(self) -> int:
        """The fewest tokens to an end, along the completions that are shortest in bytes.

        Keys that may come in any order are counted in one order. 0 when terminated. An accepting output that could go on needs one more, the end token (none
        if no end token is at hand). Some allowed token always lowers it by one. Raises
        VocabularyError if the vocabulary cannot express any such completion.
        """
        return budgets.needed(self._tables, self._vocabulary, self._automaton, self._state)

    @property
    def least_remaining(self) -> int:
        """At most :attr:`remaining`, by bytes alone: quick, however long the completion is."""
        if self._state == ENDED:
            return 0
        least = self._automaton.min_remaining(self._state)
        return -(-least // self._vocabulary.longest)

    def fits(self, budget: int) -> bool:
        """Whether ``remaining <= budget``; without counting tokens where the number of bytes decides."""
        return budgets.fits(self._tables, self._vocabulary, self._automaton, self._state, budget)

    def captures(self) -> list[Captured]:
        """Return the captures so far; offsets count :attr:`symbols`."""
        return self._automaton.captures(self.symbols)

    def _symbols_of(self, ids: Iterable[int]) -> list[int | str]:
        tokens, names = self._vocabulary.tokens, self._vocabulary.names
        found: list[int | str] = []
        for index in ids:
            token = tokens[index]
            if token:
                found += token
            elif index in names:
                found.append(names[index])
        return found

    def __repr__(self) -> str:
        return f"<Matcher after {self.text[-40:]!r}, state {self._state}>"


class ShortestOutput(NamedTuple):
    """Tokens of an output that is shortest in bytes, without the end token; how many are forced."""

    tokens: int
    forced: int


def shortest_output(automaton: Automaton, vocabulary: Vocabulary) -> ShortestOutput:
    """Count the tokens of an output that is shortest in bytes, with as few tokens as that takes.

    Where several tokens would do, the one with the lowest id is taken. Raises
    VocabularyError if the vocabulary cannot express the language.
    """
    matcher = Matcher(automaton, vocabulary)
    written = forced = 0
    while not matcher.is_accepting:
        ids = matcher.forced()
        forced += len(ids)
        if not ids:
            ids = [int(matcher.allowed(matcher.remaining)[0])]
        written += len(ids)
        for index in ids:
            matcher.accept(index)
    return ShortestOutput(written, forced)
