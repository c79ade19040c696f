"""The loop: forced? hand it on : mask, look, choose, accept; until the language says it is done.

A forward pass is what costs. So forced tokens wait until the model must be asked anyway and are fed
with what was chosen before them, in one pass; forced tokens at the end are never fed. Only
canonical tokens are forced (what the tokenizer itself would write), so the model sees text as it
saw it in training; see "fast forward" in llguidance's documentation for why that matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from callmemaybe.decoding.name_choice import NameChoice, NameChoices, Symbol
from callmemaybe.decoding.prompt_lookup import PromptLookupDrafter
from callmemaybe.decoding.sampler import Floats, Ids, Sampler, check_logits, logsumexp
from callmemaybe.decoding.scoring import Posterior, score_candidates
from callmemaybe.errors import BudgetError, DecodingError
from callmemaybe.grammar.tree import TreeAutomaton
from callmemaybe.matching.matcher import Matcher
from callmemaybe.matching.token_set import TokenSet
from callmemaybe.models.base import Session, common

#: How many ids are guessed ahead, and behind how many of the last ones a guess is spelled.
DEPTH, REACH = 16, 8
#: How many of the likeliest tokens a watched step shows.
TOP_TOKENS = 5


#: Who decided: the grammar, the model, or a draft that the model confirmed.
StepKind = Literal["forced", "chosen", "drafted"]
#: Tokens (their bytes; a control token's text) with their probabilities, likeliest first.
Likeliest = tuple[tuple[bytes, float], ...]

#: Stands for the logarithm of nought, which JSON cannot write.
LOWEST_LOGPROB = -9999.0


@dataclass(frozen=True, slots=True)
class Step:
    """One move: a run of forced tokens, one chosen token, or a chosen name."""

    ids: tuple[int, ...]
    #: What the ids spell; a control token as its text.
    data: bytes
    #: The whole completion after this step, spelled in the same way.
    text: bytes
    kind: StepKind
    #: How many tokens (or, for a name, names) were allowed; None where nothing was asked.
    allowed: int | None = None
    #: Log-probability of the ids under the model, unmasked; None where the model was not asked, and
    #: for single tokens only when watched.
    logprob: float | None = None
    #: The five likeliest tokens for the model, before the mask and after it; only when watched.
    before: Likeliest = ()
    after: Likeliest = ()
    #: What each of the ids spells.
    parts: tuple[bytes, ...] = ()
    #: Forward passes that this step took, and seconds in them.
    passes: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the step as traces write it.

        Bytes are told as text and, since a token may end inside a character, as hexadecimal digits.
        """
        told: dict[str, Any] = {
            "kind": self.kind, "ids": list(self.ids), "text": _text(self.data),
            "hex": self.data.hex(), "parts": [_text(part) for part in self.parts],
            "allowed": self.allowed, "logprob": None if self.logprob is None else max(self.logprob, LOWEST_LOGPROB), "passes": self.passes,
            "seconds": round(self.seconds, 6),
        }  # fmt: skip
        if self.before or self.after:
            told["before"] = [[_text(token), chance] for token, chance in self.before]
            told["after"] = [[_text(token), chance] for token, chance in self.after]
        return told


def _text(token: bytes | str) -> str:
    return token if isinstance(token, str) else token.decode(errors="replace")


def check_budget(shortest: int, max_tokens: int) -> None:
    """Raise BudgetError if the shortest answer, in tokens, does not fit into ``max_tokens``."""
    if shortest > max_tokens:
        raise BudgetError(
            f"max_tokens is {max_tokens}, but the shortest valid answer takes {shortest} tokens; "
            "allow at least that many"
        )


@dataclass
class DecodeStats:
    """What a decoding took: forward passes, ids through the model (of these guessed), seconds in it.

    ``cached`` counts the ids of the prompt that a cached session held already; they cost no pass.
    """

    passes: int = 0
    fed: int = 0
    seconds: float = 0.0
    drafted: int = 0
    cached: int = 0


@dataclass
class Decoder:
    """Decodes one completion; iterate over :meth:`steps` once.

    ``prompt`` are ids that ``session`` has not seen yet (at least one); they are fed with the first
    forced tokens. ``choose`` is how names are chosen: "exact" by :mod:`posterior`, "greedy" token
    by token. ``answers`` says what follows when the grammar leaves free text in place of a call:
    generate it (True), or stop there. ``drafter`` guesses ahead: fewer passes, the same answer.
    ``trace`` adds log-probabilities and the ``top_tokens`` likeliest tokens to each step. ``clock``
    returns seconds. Raises BudgetError if no completion fits into ``max_tokens``.
    """

    session: Session
    matcher: Matcher
    sampler: Sampler
    prompt: Sequence[int]
    max_tokens: int
    choose: Literal["exact", "greedy"] = "exact"
    choices: NameChoices | None = None
    forcing: bool = True
    drafter: PromptLookupDrafter | None = None
    answers: bool = True
    trace: bool = False
    top_tokens: int = TOP_TOKENS
    clock: Callable[[], float] = lambda: 0.0
    stats: DecodeStats = field(default_factory=DecodeStats)
    #: What was decided among names, in order: the distribution and the index taken.
    decisions: list[tuple[Posterior, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_budget(self.matcher.remaining, self.max_tokens)
        self._vocabulary = self.matcher.vocabulary
        self._pending = list(self.prompt)
        self._symbols: list[Symbol] = []
        self._text = bytearray()
        self._left = self.max_tokens
        self._excluded: tuple[int, ...] = ()
        # Ids the session holds beyond what was accepted, with the logits after each.
        self._ahead: list[int] = []
        self._rows: Floats = np.zeros((0, 0), np.float32)
        self._depth = DEPTH
        #: Passes and seconds that the steps so far have told of.
        self._told = (0, 0.0)
        #: Whether the answer was written to its end (not left off where a free one would begin).
        self.is_complete = False
        #: How many tokens may still be chosen here before the shortest way on is taken; None: no limit.
        self.section_budget: int | None = None
        #: Whether the budget kept the model from what it would have written.
        self.is_truncated = False
        automaton = self.matcher.automaton
        if self.choose == "greedy":
            self.choices = None
        elif self.choices is None and isinstance(automaton, TreeAutomaton):
            self.choices = NameChoices(automaton, self._vocabulary)

    def steps(self) -> Iterator[Step]:
        """Decode, one step at a time; what is yielded is already accepted."""
        while not self._is_done():
            forced = self._force()
            if forced:
                yield self._step(forced, "forced")
                continue
            fork = self._fork()
            if fork is not None:
                step = self._decide(fork)
                if step is not None:
                    yield step
                    if self.decisions[-1][0].candidates[self.decisions[-1][1]].ids:
                        continue
                    if not self.answers:
                        return
                    self._excluded = fork.openings or fork.candidates[0].ids[:1]
                    continue
            yield self._choose()

    def _is_done(self) -> bool:
        if not self.matcher.is_terminated:
            if self._left > 0:
                return False
            if not self.matcher.is_accepting:
                raise DecodingError("the token budget ran out before the answer was complete")
        self.is_complete = True
        return True

    # -- forced -----------------------------------------------------------------------------

    def _force(self) -> list[int]:
        """Accept what must come next, if the budget allows spelling it canonically."""
        if not self.forcing or self._excluded:
            return []
        ids = self.matcher.forced()
        if not ids:
            return []
        if not self._fits(ids):
            # The shortest way on spells it in fewer tokens; let the mask choose among those.
            return []
        self._accept(ids)
        return ids

    # -- names ------------------------------------------------------------------------------

    def _fork(self) -> NameChoice | None:
        if self.choices is None or self._excluded:
            return None
        return self.choices.at(self.matcher.state, self._symbols)

    def _decide(self, fork: NameChoice) -> Step | None:
        """Choose a branch by the probabilities of all; None if none fits into the budget."""
        logits = self._look()
        self._turn_back()
        start = self.clock()
        found = score_candidates(self.session, logits, fork, self.matcher, self._left)
        self.stats.seconds += self.clock() - start
        self.stats.passes += found.passes
        left = len(fork.candidates)
        while left:
            with np.errstate(divide="ignore"):
                index = self.sampler.choose(np.log(found.probabilities).astype(np.float32))
            ids = found.candidates[index].ids
            if self._fits(ids) and (ids or self._may_differ(fork)):
                self.decisions.append((found, index))
                self._accept(ids)
                return self._step(
                    ids, "chosen", len(fork.candidates), float(found.logprobs[index]), logits
                )
            found, left = found.without(index), left - 1
            self.is_truncated = True
        self._logits = logits
        return None

    def _may_differ(self, fork: NameChoice) -> bool:
        """Whether the budget leaves a way on that does not begin like the branch of a gate."""
        openings = fork.openings or fork.candidates[0].ids[:1]
        return bool((~np.isin(self.matcher.allowed(self._left), openings)).any())

    def _fits(self, ids: Sequence[int]) -> bool:
        """Whether an end can still be reached within the budget behind these ids."""
        left = self._left - len(ids)
        if self.matcher.try_accept(ids) < len(ids):
            raise DecodingError(f"the tokens {list(ids)} are not in the language")
        fits = self.matcher.fits(left)
        self.matcher.rollback(len(ids))
        return fits

    # -- tokens -----------------------------------------------------------------------------

    def _choose(self) -> Step:
        """Ask the model for one token that the language and the budget allow."""
        allowed = self.matcher.allowed_set(self._left)
        every = self.matcher.allowed_set()
        # Within a tight budget it is worth a look whether the model wanted something else.
        is_tight = not self.is_truncated and allowed is not every and allowed.count < every.count
        if not self._excluded and self.forcing and allowed.count == 1 and not is_tight:
            only = int(allowed.to_ids()[0])
            self._accept([only])
            return self._step([only], "forced", 1)
        if not allowed.count:
            raise DecodingError("no token is allowed, but the answer is not complete")
        logits = self._look()
        index = self._sample(logits, every if is_tight else allowed)
        if is_tight and not allowed.has(index):
            # Drawing again among the rest gives the probabilities of the mask.
            self.is_truncated = True
            index = self._sample(logits, allowed)
        if self.section_budget is not None:
            within = self.matcher.allowed_set(
                min(self._left, self.section_budget + self.matcher.remaining)
            )
            if not within.has(index):
                index = self._sample(logits, within)
            self.section_budget = max(0, self.section_budget - 1)
        # A sum over the whole vocabulary costs more than the choice; only those who watch pay it.
        logprob = float(logits[index]) - logsumexp(logits) if self.trace else None
        self._excluded = ()
        kind: StepKind = "drafted" if self._ahead[:1] == [index] else "chosen"
        self._accept([index])
        return self._step([index], kind, allowed.count, logprob, logits, allowed)

    def _sample(self, logits: Floats, allowed: TokenSet) -> int:
        if self.sampler.is_greedy and not self._excluded:
            index = allowed.argmax(logits)
            check_logits(float(logits[index]), logits)
            return index
        ids = allowed.to_ids()
        if self._excluded:
            ids = ids[~np.isin(ids, self._excluded)]
        return int(ids[self.sampler.choose(logits[ids])])

    def _look(self) -> Floats:
        """Return ``float32[size]``: the logits after everything accepted so far."""
        if self._pending:
            right = common(self._pending, self._ahead)
            if right:
                self._logits, self._rows = self._rows[right - 1], self._rows[right:]
                del self._pending[:right], self._ahead[:right]
        if self._pending:
            self._turn_back()
            start = self.clock()
            guess = self._guess()
            rows = self.session.feed(self._pending + guess, keep=1 + len(guess))
            self._logits, self._rows, self._ahead = rows[0], rows[1:], guess
            self.stats.seconds += self.clock() - start
            self.stats.passes += 1
            self.stats.fed += len(self._pending) + len(guess)
            self.stats.drafted += len(guess)
            self._pending = []
        return self._logits

    # -- guesses ------------------------------------------------------------------------------

    def _guess(self) -> list[int]:
        """Return ids that may come after what is accepted: in the language and the budget."""
        if self.drafter is None or self._excluded or self.matcher.state < 0:
            return []
        more = self.drafter.guess(self.matcher.automaton, self.matcher.state, bytes(self._text))
        if not more:
            return []
        recent = self.matcher.ids[-REACH:]
        while recent and not all(map(self._vocabulary.token, recent)):
            recent = recent[1:]  # a control token is no text
        ids = self._vocabulary.encode(self._vocabulary.decode(recent) + more)
        if tuple(ids[: len(recent)]) != recent:
            return []
        ids = ids[len(recent) :][: max(0, min(self._depth, self._left - 1))]
        count = self.matcher.try_accept(ids)
        self.matcher.rollback(count)
        return ids[:count]

    def _turn_back(self) -> None:
        """Let the session forget what was guessed and has not come."""
        if self._ahead:
            self.session.rewind(len(self._ahead))
            self._ahead = []

    # -- bookkeeping --------------------------------------------------------------------------

    def _accept(self, ids: Sequence[int]) -> None:
        if self.matcher.try_accept(ids) < len(ids):
            raise DecodingError(f"the tokens {list(ids)} are not in the language")
        self._pending += ids
        self._left -= len(ids)
        # An end token is not part of the answer, unless the grammar names it.
        for index in ids if self.matcher.state >= 0 else ids[:-1]:
            data = self._vocabulary.token(index)
            self._symbols += data or (self._vocabulary.names[index],)
            self._text += self._spell(index)

    def _spell(self, index: int) -> bytes:
        name = self._vocabulary.names.get(index)
        return self._vocabulary.token(index) if name is None else name.encode()

    @property
    def symbols(self) -> Sequence[Symbol]:
        """The completion so far: bytes, and control tokens by their text."""
        return self._symbols

    def _step(
        self,
        ids: Sequence[int],
        kind: StepKind,
        count: int | None = None,
        logprob: float | None = None,
        logits: Floats | None = None,
        allowed: TokenSet | None = None,
    ) -> Step:
        before: Likeliest = ()
        after: Likeliest = ()
        if self.trace and logits is not None:
            before = self._likeliest(logits, None)
            after = before if allowed is None else self._likeliest(logits, allowed.to_ids())
        parts = tuple(map(self._spell, ids))
        passes, seconds = self._told
        self._told = self.stats.passes, self.stats.seconds
        return Step(
            ids=tuple(ids),
            data=b"".join(parts),
            text=bytes(self._text),
            kind=kind,
            allowed=count,
            logprob=logprob,
            before=before,
            after=after,
            parts=parts,
            passes=self.stats.passes - passes,
            seconds=self.stats.seconds - seconds,
        )

    def _likeliest(self, logits: Floats, allowed: Ids | None) -> Likeliest:
        """Return the likeliest tokens with their probabilities among the allowed (None: all)."""
        some = logits if allowed is None else logits[allowed]
        count = min(self.top_tokens, len(some))
        if not count:
            return ()
        # All that are at least as likely as the last one shown; of equals, the lowest ids.
        few = np.flatnonzero(some >= np.partition(some, -count)[-count])
        top = few[np.argsort(-some[few], kind="stable")[:count]]
        chances = np.exp(some[top] - np.float32(logsumexp(some)))
        ids = top if allowed is None else allowed[top]
        return tuple(
            (self._spell(int(index)), float(chance))
            for index, chance in zip(ids, chances, strict=True)
        )
