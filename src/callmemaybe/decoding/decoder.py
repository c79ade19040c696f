"""The loop: forced? accept it : mask, sample, accept; until the language says that the output is over.

A forward pass is what costs. So forced tokens wait until the model must be asked anyway and are fed
together with the token chosen before them, in one pass; forced tokens at the end are never fed. Only
canonical tokens are forced (those the tokenizer itself would produce), so the model sees text as it
saw it in training; see "fast forward" in llguidance's documentation for why that matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from callmemaybe.decoding.adjustment import LogitAdjuster
from callmemaybe.decoding.name_choice import NameChoice, NameChoices, Symbol
from callmemaybe.decoding.prompt_lookup import PromptLookupDrafter
from callmemaybe.decoding.sampler import Floats, Ids, Sampler, check_logits, logsumexp
from callmemaybe.decoding.scoring import Posterior, score_candidates
from callmemaybe.errors import BudgetError, DecodingError
from callmemaybe.grammar.automata.tree import TreeAutomaton
from callmemaybe.matching.matcher import Matcher
from callmemaybe.matching.token_set import TokenSet
from callmemaybe.models.base import Session, common_prefix_length

#: The most ids of a draft, and how many of the last ids it is encoded together with.
MAX_DRAFT, DRAFT_CONTEXT = 16, 8
#: How many of the likeliest tokens a traced step lists.
TOP_TOKENS = 5
#: Stands for the logarithm of zero, which JSON cannot write.
LOWEST_LOGPROB = -9999.0

#: Who decided: the grammar, the model, or a draft that the model confirmed.
StepKind = Literal["forced", "chosen", "drafted"]
#: Tokens (their bytes; a control token's text) with their probabilities, likeliest first.
Likeliest = tuple[tuple[bytes, float], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a decoder: a run of forced tokens, one chosen token, or a chosen name.

    The events of a turn (text, calls) belong to the wire format's reader; a step is the decoder's own
    event, because only the decoder knows tokens, who decided them, and what a pass cost. Captures are not
    copied into each step: while steps are drawn, ``decoder.matcher.captures()`` has them.
    """

    ids: tuple[int, ...]
    #: The bytes of the ids; a control token as its text.
    data: bytes
    #: The bytes of the whole completion so far, this step included.
    text: bytes
    kind: StepKind
    #: How many tokens (or, for a name, names) were allowed; None where the model was not asked.
    allowed: int | None = None
    #: Log-probability of the ids under the model, without the mask; None where the model was not asked,
    #: and for single tokens unless traced.
    logprob: float | None = None
    #: The model's likeliest tokens, before the mask and after it; only when traced.
    before: Likeliest = ()
    after: Likeliest = ()
    #: The bytes of each of the ids.
    parts: tuple[bytes, ...] = ()
    #: Forward passes that this step took, and seconds in them.
    passes: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the step as traces write it.

        Bytes are written as text and, since a token may end inside a character, in hexadecimal.
        """
        logprob = None if self.logprob is None else max(self.logprob, LOWEST_LOGPROB)
        found: dict[str, Any] = {
            "kind": self.kind, "ids": list(self.ids), "text": _text(self.data),
            "hex": self.data.hex(), "parts": [_text(part) for part in self.parts],
            "allowed": self.allowed, "logprob": logprob, "passes": self.passes,
            "seconds": round(self.seconds, 6),
        }  # fmt: skip
        if self.before or self.after:
            found["before"] = [[_distinct(token), chance] for token, chance in self.before]
            found["after"] = [[_distinct(token), chance] for token, chance in self.after]
        return found


def _text(token: bytes) -> str:
    return token.decode(errors="replace")


def _distinct(token: bytes) -> str:
    # Parts of characters stay different from each other: a reader tells the lists' tokens apart by their text.
    return token.decode(errors="backslashreplace")


def check_budget(shortest: int, max_tokens: int, *, is_bound: bool = False) -> None:
    """Raise BudgetError if the shortest output, in tokens, does not fit into ``max_tokens``.

    ``is_bound``: ``shortest`` is known to be no more than the tokens that it takes.
    """
    if shortest > max_tokens:
        much = f"{shortest} tokens or more" if is_bound else f"{shortest} tokens"
        more = "ask for less, or allow more" if is_bound else "allow at least that many"
        raise BudgetError(
            f"max_tokens is {max_tokens}, but the shortest valid answer takes {much}; {more}"
        )


def likeliest(
    logits: Floats, allowed: Ids | None, most: int, bytes_of: Callable[[int], bytes]
) -> Likeliest:
    """Return the ``most`` likeliest tokens with their probabilities among the allowed (None: all)."""
    some = logits if allowed is None else logits[allowed]
    count = min(most, len(some))
    if not count:
        return ()
    # All that are at least as likely as the last one listed; of equals, the lowest ids.
    few = np.flatnonzero(some >= np.partition(some, -count)[-count])
    top = few[np.argsort(-some[few], kind="stable")[:count]]
    chances = np.exp(some[top] - np.float32(logsumexp(some)))
    ids = top if allowed is None else allowed[top]
    return tuple(
        (bytes_of(int(index)), float(chance)) for index, chance in zip(ids, chances, strict=True)
    )


@dataclass
class DecodeStats:
    """What decoding took: forward passes, seconds in them, ids fed, and how many of these were drafted.

    ``cached`` counts ids of the prompt that a cached session already held; they cost no pass.
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
    forced tokens. ``choose`` is how names are chosen: "exact" by :mod:`scoring`, "greedy" token
    by token. ``writes_text`` is what happens where the model prefers free text to a call: write the
    text (True), or stop in front of it. ``drafter`` drafts ahead: fewer passes, the same output.
    ``trace`` adds log-probabilities and the ``top_tokens`` likeliest tokens to each step. ``clock``
    returns seconds. ``adjuster`` changes the logits from which single tokens are chosen, not those of names.
    Raises BudgetError if no completion fits into ``max_tokens``.
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
    writes_text: bool = True
    trace: bool = False
    top_tokens: int = TOP_TOKENS
    adjuster: LogitAdjuster | None = None
    clock: Callable[[], float] = lambda: 0.0
    stats: DecodeStats = field(default_factory=DecodeStats)
    #: The choices among names, in order: the distribution and the index taken.
    decisions: list[tuple[Posterior, int]] = field(default_factory=list)
    #: Log-probability (nats, under no mask) of each token that the model chose by itself, names apart; not kept
    #: unless a list is given.
    choice_logprobs: list[float] | None = None

    def __post_init__(self) -> None:
        check_budget(self.matcher.remaining, self.max_tokens)
        self._vocabulary = self.matcher.vocabulary
        #: Ids accepted and not fed yet.
        self._pending = list(self.prompt)
        self._symbols: list[Symbol] = []
        self._text = bytearray()
        self._left = self.max_tokens
        #: Ids that the next token is none of: the model has preferred text to a call.
        self._excluded: tuple[int, ...] = ()
        #: Ids that were fed as a draft and are not accepted, with the logits after each.
        self._draft: list[int] = []
        self._draft_rows: Floats = np.zeros((0, 0), np.float32)
        #: The passes and seconds that the steps so far have reported.
        self._reported = (0, 0.0)
        #: Whether the output was written to its end (False: it stopped in front of free text).
        self.is_complete = False
        #: How many more tokens may be chosen in this section before only tokens that bring the end
        #: nearer are allowed; None: no limit.
        self.section_budget: int | None = None
        #: Whether a budget excluded a token or name that the model would have chosen.
        self.is_truncated = False
        automaton = self.matcher.automaton
        if self.choose == "greedy":
            self.choices = None
        elif self.choices is None and isinstance(automaton, TreeAutomaton):
            self.choices = NameChoices(automaton, self._vocabulary)

    def steps(self) -> Iterator[Step]:
        """Decode, one step at a time; the ids of a step are already accepted."""
        while not self._is_done():
            forced = self._force()
            if forced:
                yield self._step(forced, "forced")
                continue
            choice = self._name_choice()
            if choice is not None:
                step = self._choose_name(choice)
                if step is not None:
                    yield step
                    found, index = self.decisions[-1]
                    if found.candidates[index].ids:
                        continue
                    if not self.writes_text:
                        return
                    self._excluded = choice.first_ids
                    continue
            yield self._choose_token()

    def _is_done(self) -> bool:
        if not self.matcher.is_terminated:
            if self._left > 0:
                return False
            if not self.matcher.is_accepting:
                raise DecodingError("the token budget ran out before the answer was complete")
        self.is_complete = True
        return True

    # -- forced tokens ------------------------------------------------------------------------

    def _force(self) -> list[int]:
        """Accept what must come next, if its canonical tokens fit into the budget."""
        if not self.forcing or self._excluded:
            return []
        ids = self.matcher.forced()
        # The shortest completion may need fewer tokens for it; then the mask chooses among those.
        if not ids or not self._fits(ids):
            return []
        self._accept(ids)
        return ids

    # -- names --------------------------------------------------------------------------------

    def _name_choice(self) -> NameChoice | None:
        if self.choices is None or self._excluded:
            return None
        return self.choices.at(self.matcher.state, self._symbols)

    def _choose_name(self, choice: NameChoice) -> Step | None:
        """Choose a candidate by the probabilities of all; None if none fits into the budget."""
        logits = self._next_logits()
        self._drop_draft()
        start = self.clock()
        found = score_candidates(self.session, logits, choice, self.matcher, self._left)
        self.stats.seconds += self.clock() - start
        self.stats.passes += found.passes
        left = len(choice.candidates)
        allowed = self.matcher.allowed_set(self._left).to_ids() if self.trace else None
        while left:
            with np.errstate(divide="ignore"):
                index = self.sampler.choose(np.log(found.probabilities).astype(np.float32))
            ids = found.candidates[index].ids
            if self._fits(ids) and (ids or self._may_differ(choice)):
                self.decisions.append((found, index))
                self._accept(ids)
                count, logprob = len(choice.candidates), float(found.logprobs[index])
                return self._step(ids, "chosen", count, logprob, logits, allowed)
            found, left = found.without(index), left - 1
            self.is_truncated = True
        self._logits = logits
        return None

    def _may_differ(self, choice: NameChoice) -> bool:
        """Whether the budget leaves a token that does not begin a call."""
        return bool((~np.isin(self.matcher.allowed(self._left), choice.first_ids)).any())

    def _fits(self, ids: Sequence[int]) -> bool:
        """Whether an end can still be reached within the budget after these ids."""
        left = self._left - len(ids)
        if self.matcher.try_accept(ids) < len(ids):
            raise DecodingError(f"the tokens {list(ids)} are not in the language")
        fits = self.matcher.fits(left)
        self.matcher.rollback(len(ids))
        return fits

    # -- single tokens ------------------------------------------------------------------------

    def _choose_token(self) -> Step:
        """Ask the model for one token that the language and the budget allow."""
        allowed = self.matcher.allowed_set(self._left)
        unlimited = self.matcher.allowed_set()
        # Where the budget excludes tokens, find out whether the model would have chosen one of those.
        is_tight = (
            not self.is_truncated and allowed is not unlimited and allowed.count < unlimited.count
        )
        if not self._excluded and self.forcing and allowed.count == 1 and not is_tight:
            only = int(allowed.to_ids()[0])
            self._accept([only])
            return self._step([only], "forced", 1)
        if not allowed.count:
            raise DecodingError("no token is allowed, but the answer is not complete")
        logits = self._next_logits()
        index = self._sample(logits, unlimited if is_tight else allowed)
        if is_tight and not allowed.has(index):
            # Drawing again among the rest gives the probabilities of the mask.
            self.is_truncated = True
            index = self._sample(logits, allowed)
        if self.section_budget is not None:
            within = min(self._left, self.section_budget + self.matcher.remaining)
            allowed = self.matcher.allowed_set(within)
            if not allowed.has(index):
                index = self._sample(logits, allowed)
            self.section_budget = max(0, self.section_budget - 1)
        # A sum over the whole vocabulary costs more than the choice, so it is made for traces only.
        logprob = float(logits[index]) - logsumexp(logits) if self.trace else None
        if self.choice_logprobs is not None:
            self.choice_logprobs.append(float(logits[index]) - logsumexp(logits))
        ids = self._not_excluded(allowed) if self.trace or self._excluded else None
        count = allowed.count if ids is None else len(ids)
        self._excluded = ()
        kind: StepKind = "drafted" if self._draft[:1] == [index] else "chosen"
        self._accept([index])
        return self._step([index], kind, count, logprob, logits, ids)

    def _sample(self, logits: Floats, allowed: TokenSet) -> int:
        if self.adjuster is not None:
            logits = self.adjuster(logits)
        if self.sampler.is_greedy and not self._excluded:
            index = allowed.argmax(logits)
            check_logits(float(logits[index]), logits)
            return index
        ids = self._not_excluded(allowed)
        return int(ids[self.sampler.choose(logits[ids])])

    def _not_excluded(self, allowed: TokenSet) -> Ids:
        ids = allowed.to_ids()
        return ids[~np.isin(ids, self._excluded)] if self._excluded else ids

    # -- forward passes and drafts ------------------------------------------------------------

    def _next_logits(self) -> Floats:
        """Return ``float32[size]``: the logits after everything accepted so far."""
        confirmed = common_prefix_length(self._pending, self._draft) if self._pending else 0
        if confirmed:
            self._logits = self._draft_rows[confirmed - 1]
            self._draft_rows = self._draft_rows[confirmed:]
            del self._pending[:confirmed], self._draft[:confirmed]
        if self._pending:
            self._drop_draft()
            start = self.clock()
            draft = self._new_draft()
            rows = self.session.feed(self._pending + draft, keep=1 + len(draft))
            self._logits, self._draft_rows, self._draft = rows[0], rows[1:], draft
            self.stats.seconds += self.clock() - start
            self.stats.passes += 1
            self.stats.fed += len(self._pending) + len(draft)
            self.stats.drafted += len(draft)
            self._pending = []
        return self._logits

    def _new_draft(self) -> list[int]:
        """Return ids that may come after what is accepted: in the language and the budget."""
        if self.drafter is None or self._excluded or self.matcher.state < 0:
            return []
        more = self.drafter.guess(self.matcher.automaton, self.matcher.state, bytes(self._text))
        if not more:
            return []
        recent = self.matcher.ids[-DRAFT_CONTEXT:]
        while recent and not all(map(self._vocabulary.token, recent)):
            recent = recent[1:]  # a control token is not text
        ids = self._vocabulary.encode(self._vocabulary.decode(recent) + more)
        if tuple(ids[: len(recent)]) != recent:
            return []
        ids = ids[len(recent) :][: max(0, min(MAX_DRAFT, self._left - 1))]
        count = self.matcher.try_accept(ids)
        self.matcher.rollback(count)
        return ids[:count]

    def _drop_draft(self) -> None:
        """Remove from the session what was drafted and not accepted."""
        if self._draft:
            self.session.rewind(len(self._draft))
            self._draft = []

    # -- bookkeeping --------------------------------------------------------------------------

    def _accept(self, ids: Sequence[int]) -> None:
        if self.matcher.try_accept(ids) < len(ids):
            raise DecodingError(f"the tokens {list(ids)} are not in the language")
        self._pending += ids
        self._left -= len(ids)
        if self.adjuster is not None:
            self.adjuster.take(ids)
        # An end token is not part of the output, unless the grammar names it.
        for index in ids if self.matcher.state >= 0 else ids[:-1]:
            data = self._vocabulary.token(index)
            self._symbols += data or (self._vocabulary.names[index],)
            self._text += self._bytes_of(index)

    def _bytes_of(self, index: int) -> bytes:
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
        allowed: Ids | None = None,
    ) -> Step:
        before: Likeliest = ()
        after: Likeliest = ()
        if self.trace and logits is not None:
            before = likeliest(logits, None, self.top_tokens, self._bytes_of)
            after = likeliest(logits, allowed, self.top_tokens, self._bytes_of)
        parts = tuple(map(self._bytes_of, ids))
        passes, seconds = self._reported
        self._reported = self.stats.passes, self.stats.seconds
        return Step(
            tuple(ids), b"".join(parts), bytes(self._text), kind, count, logprob, before, after,
            parts, self.stats.passes - passes, self.stats.seconds - seconds,
        )  # fmt: skip
