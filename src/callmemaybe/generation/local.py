"""Generates turns with a model in this process, under the grammar of what each turn may be.

A turn's constraint (text, thought, calls, an answer by a schema) is compiled once for each list of tools
and each spec, and cached. A conversation's prompt stays in the prefix cache, because the next turn begins
with it; of a single request only the part in front of it does: the instructions and the tools.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from callmemaybe.decoding import scoring
from callmemaybe.decoding.batch import DecodeBatch, run_long
from callmemaybe.decoding.decoder import TOP_TOKENS, Decoder, DecodeStats, Step, check_budget
from callmemaybe.decoding.name_choice import symbols_to_bytes
from callmemaybe.decoding.prefix_cache import PrefixCache
from callmemaybe.decoding.prompt_lookup import PromptLookupDrafter
from callmemaybe.decoding.strategy import DecodeRequest, DecodeResult, DecodingStrategy, decode
from callmemaybe.errors import (
    DuplicateKeyError,
    GrammarError,
    InputError,
    ModelError,
    SchemaViolationError,
    UnsupportedSchema,
)
from callmemaybe.generation.confidence import FILE as CONFIDENCE_FILE
from callmemaybe.generation.confidence import CallConfidence, ConfidenceModel
from callmemaybe.generation.config import (
    DEFAULT_DECODING,
    DecodingConfig,
    check_text,
    encode,
    format_of,
    parts_of,
    vocabulary_of,
)
from callmemaybe.generation.constraint import Constraint
from callmemaybe.generation.parameter_order import SortedTools, in_order_of
from callmemaybe.generation.pictures import PicturesInMessages
from callmemaybe.generation.result import (
    TokenLogprob,
    TurnEnd,
    TurnResult,
    argument_symbols,
    distribution,
    too_unsure,
)
from callmemaybe.generation.turn import (
    OnStep,
    Section,
    TextTokens,
    TurnGenerator,
    TurnReader,
    TurnSteps,
    TurnStream,
    plain_messages,
)
from callmemaybe.generation.validation import CHECKED_DEPTH
from callmemaybe.grammar import Grammar
from callmemaybe.grammar.compile import TRIM_INTERVAL, trim, trim_cache
from callmemaybe.jsonio import dumps, is_deeper
from callmemaybe.models.base import Model, Session
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.values import OPPOSITE, opposite_in, unread_language
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import Format
from callmemaybe.wire.format import Message
from callmemaybe.wire.format_nodes import PromptParts
from callmemaybe.wire.grounding import GroundingConfig
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.prompt import last_user_text
from callmemaybe.wire.said_values import narrowed_tools

#: Constraints that are cached, each with its automaton and the masks it has needed.
CONSTRAINT_CACHE_SIZE = 32
#: Stands in place of the middle of a request that was cut; the fewest tokens it is cut to.
OMITTED = " … ".encode()
MIN_REQUEST = 64
#: Characters from which on a text takes long to encode (50 ms at worst; a million takes seconds).
LONG_TEXT = 1 << 14


@dataclass(frozen=True)
class _Prompt:
    """What a turn starts from: a session that holds all of the prompt but ``ids``, and the budget."""

    session: Session
    ids: Sequence[int]
    text: str
    max_tokens: int
    tokens: int
    cached: int
    omitted: int
    started: float
    encoded: float
    #: All ids of the prompt, where penalties for repeating it need them.
    read: Sequence[int] = ()
    #: What the user asked last.
    request: str = ""


class LocalGenerator(TurnGenerator):
    """Generates turns with one model in this process, with any tools.

    ``format`` is a wire format, its name or the path of a file with one (None: detected from the model's
    files). ``decoding`` and ``grounding`` hold for all turns; a turn's own ``decoding`` goes before.
    ``prefix_cache`` may be shared by generators of one model. ``confidence`` states how likely answers are right (None: what
    the model's files hold). ``clock`` returns seconds. Turns may be
    interleaved step by step, but by one thread at a time each.

    Raises ModelError and VocabularyError for a model that cannot be used.
    """

    def __init__(
        self,
        model: Model,
        *,
        format: str | Format | None = None,  # noqa: A002 - the word users know
        decoding: DecodingConfig | None = None,
        grounding: GroundingConfig | None = None,
        vocabulary: Vocabulary | None = None,
        prefix_cache: PrefixCache | None = None,
        confidence: ConfidenceModel | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.model = model
        self.decoding = (decoding or DecodingConfig()).over(DEFAULT_DECODING)
        self.vocabulary = vocabulary or vocabulary_of(model)
        self.format = format_of(model, self.vocabulary, format)
        self._controls = frozenset(self.vocabulary.controls)
        inner = model.model if isinstance(model, DecodeBatch) else model
        self.reads_images = bool(getattr(inner, "reads_images", False))
        self._prefix_cache = PrefixCache(model) if prefix_cache is None else prefix_cache
        self._grounding = grounding or GroundingConfig()
        self._clock = clock
        self._confidence = confidence or CallConfidence.from_json(model.files.read(CONFIDENCE_FILE))
        #: By the content of tools and spec; and the same by the identity of the tools.
        self._constraints: OrderedDict[Any, Constraint] = OrderedDict()
        self._by_identity: dict[tuple[tuple[int, ...], OutputSpec], Constraint] = {}
        self._prefix_ids: OrderedDict[tuple[ToolSpec, ...], list[int]] = OrderedDict()
        self._lookups = count(1)
        self._sorted_tools = SortedTools()

    # -- turns ------------------------------------------------------------------------------------

    def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        spec: OutputSpec | None = None,
        decoding: DecodingConfig | None = None,
    ) -> TurnStream:
        """Return the next turn of a conversation; see :meth:`TurnGenerator.stream`."""
        started = self._clock()
        given, tools = tools, self.as_read(tools)
        pictures = PicturesInMessages(messages) if self.reads_images else None
        marked = messages if pictures is None else pictures.marked
        messages = plain_messages(messages if pictures is None else pictures.texts)
        config = decoding.over(self.decoding) if decoding else self.decoding
        spec = self._written_like(spec or OutputSpec(calls=bool(tools), no_call=True), tools)
        with_images = pictures is not None and bool(pictures.images)
        ids = [] if with_images else self._prompt_ids(messages, tools, spec)
        self._room(len(ids))  # a prompt that does not fit costs no grammar
        constraint = self._constraint(tools, spec, messages, config)
        constraint = self._barring(constraint, spec, last_user_text(messages))
        opened = None
        if pictures is not None and with_images:
            opened = self._open_with(pictures.images)
            ids = pictures.ids(self._prompt_parts(marked, tools, spec), opened[1], self._encode)
        if not ids:
            raise InputError("there is nothing to answer", where="messages")
        try:
            max_tokens = self._budget(constraint, len(ids), config)
        except GrammarError:
            self._evict()  # what was refused because it is too large is not cached
            raise
        encoded = self._clock()
        if opened is None:
            kept = self._kept(ids, tools)
            session, cached = self._prefix_cache.take(ids[:kept])
        else:  # the same ids stand for other pictures, too
            kept = len(ids) - 1
            session, cached = opened[0], 0
            session.feed(ids[:kept], 0)
        prompt = _Prompt(
            session, ids[kept:], _text_of(messages), max_tokens, len(ids), cached, 0, started, encoded,
            ids, last_user_text(messages),
        )  # fmt: skip
        return self._stream(prompt, constraint, spec, config, given)

    def stream_call(
        self,
        prompt: str,
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        decoding: DecodingConfig | None = None,
        *,
        on_step: OnStep = None,
        seat: Callable[[Session], Session] | None = None,
    ) -> TurnStream:
        """Return the turn that answers one request with one call; see :meth:`TurnGenerator.stream_call`."""
        check_text(prompt)
        started = self._clock()
        given, tools = tools, self.as_read(tools)
        config = decoding.over(self.decoding) if decoding else self.decoding
        messages = [{"role": "user", "content": prompt}]
        shared = self._shared_constraint(tools, spec, config)
        prefix = self._prefix(tools)
        request = self._encode(self.format.request(messages, tools, self._controls))
        most = config.budget
        # Quick, however much must be written.
        check_budget(shared.matcher.least_remaining, most, is_bound=True)
        shared.check(most)
        request, omitted, room = self._fit(request, prefix, shared, config)
        constraint = shared
        narrowed = self._narrowed(tools, spec, messages, config)
        if narrowed is not None:
            constraint = narrowed
        elif shared.is_grounded:
            constraint = self._grounded(tools, spec, messages, config)
        if constraint is not shared:
            constraint.check(min(most, room))
        constraint = self._barring(constraint, spec, prompt)
        encoded = self._clock()
        session = self._prefix_cache.fork(prefix)
        made = _Prompt(
            session if seat is None else seat(session), request, prompt, min(most, room),
            len(prefix) + len(request), len(prefix), omitted, started, encoded,
            request=prompt,
        )  # fmt: skip
        return self._stream(made, constraint, spec, config, given, is_single=True, on_step=on_step)

    def prepare(self, tools: Sequence[ToolSpec], spec: OutputSpec) -> None:
        """Compile the constraint for single requests with these tools, and raise what is wrong with it."""
        tools = self.as_read(tools)
        shared = self._shared_constraint(tools, spec, self.decoding)
        self._prefix(tools)
        check_budget(shared.matcher.least_remaining, self.decoding.budget, is_bound=True)
        shared.check(self.decoding.budget)
        self._strategy(self.decoding)

    def count_prompt_tokens(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        spec: OutputSpec | None = None,
    ) -> int:
        """Return how many tokens the model reads in front of a turn."""
        return len(self.prompt_ids(messages, tools, spec))

    def prompt_ids(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        spec: OutputSpec | None = None,
    ) -> list[int]:
        """Return the tokens that the model reads in front of a turn."""
        inner = self.as_read(tools)
        return self._prompt_ids(plain_messages(messages), inner, spec or OutputSpec())

    # -- one turn ---------------------------------------------------------------------------------

    def _stream(
        self,
        prompt: _Prompt,
        constraint: Constraint,
        spec: OutputSpec,
        config: DecodingConfig,
        given: Sequence[ToolSpec],
        *,
        is_single: bool = False,
        on_step: OnStep = None,
    ) -> TurnStream:
        reader = TurnReader(
            self.format, constraint.tools, constraint.validator, self._controls,
            spec=spec, stops=config.stop or (), barred=constraint.barred,
            given=[one for one in given if self.as_read([one])[0] is not one],
        )  # fmt: skip
        steps: list[Step] = []
        if is_single:
            strategy = self._strategy(config)
            run = self._single(prompt, constraint, reader, config, strategy, steps, on_step)
            return TurnStream(run, steps, prompt_tokens=prompt.tokens, cached_tokens=prompt.cached)
        tokens = TextTokens() if config.logprobs else None
        decoder = self._decoder(prompt, constraint, config, spec)
        found = [] if tokens is None else tokens.found
        run = self._turn(prompt, constraint, decoder, reader, config, tokens, steps)
        return TurnStream(
            run, steps, found, prompt_tokens=prompt.tokens, cached_tokens=prompt.cached
        )

    def _decoder(
        self,
        prompt: _Prompt,
        constraint: Constraint,
        config: DecodingConfig,
        spec: OutputSpec,
    ) -> Decoder:
        scores_tokens = bool(config.logprobs)
        return Decoder(
            session=prompt.session,
            matcher=constraint.matcher.fork(),
            sampler=config.sampler(prompt.text),
            prompt=prompt.ids,
            max_tokens=prompt.max_tokens,
            # Without calls there is no name to score.
            choose=(config.choose or "exact") if spec.calls else "greedy",
            choices=constraint.choices,
            forcing=config.forcing is not False and not scores_tokens,
            drafter=PromptLookupDrafter(prompt.text) if config.speculate is not False else None,
            writes_text=True,
            trace=scores_tokens or bool(config.trace),
            top_tokens=config.top_logprobs or 0 if scores_tokens else TOP_TOKENS,
            adjuster=config.adjuster(self.vocabulary.size, prompt.read),
            clock=self._clock,
            stats=DecodeStats(cached=prompt.cached),
            choice_logprobs=None if self._confidence is None else [],
        )

    def _turn(
        self,
        prompt: _Prompt,
        constraint: Constraint,
        decoder: Decoder,
        reader: TurnReader,
        config: DecodingConfig,
        tokens: TextTokens | None,
        steps: list[Step],
    ) -> TurnSteps:
        """Decode a turn of a conversation; yield the events of each step."""
        thought_tokens = written = 0
        forced: list[int] = []
        section: Section = None
        _limit_section(decoder, reader, section)
        section = reader.section
        for step in decoder.steps():
            if section == "thought" and reader.spec.thinking:
                thought_tokens += len(step.ids)
            if step.kind == "forced":
                forced += range(written, written + len(step.ids))
            written += len(step.ids)
            if config.trace:
                steps.append(step)
            try:
                events = tuple(reader.read(decoder.symbols))
            except (DuplicateKeyError, SchemaViolationError):
                if not decoder.is_truncated:
                    raise
                # The budget ended the turn, so nothing of it is committed.
                reader.is_discarded = True
                break
            if tokens is not None:
                tokens.take(step, reader, section)
            yield events
            if reader.is_over:
                break
            _limit_section(decoder, reader, section)
            section = reader.section
        decoded = self._clock()
        rest = () if reader.is_over else tuple(reader.end(decoder.symbols))
        if tokens is not None:
            tokens.take(None, reader)
        ended: TurnEnd = "repeated" if reader.is_repeated else "stop"
        if decoder.is_truncated or not (reader.is_over or decoder.matcher.is_terminated):
            ended = "length"
        elif ended == "stop":
            reader.check()
        if rest:
            yield rest
        found = DecodeResult(
            decoder.matcher, decoder.symbols, decoder.is_complete, decoder.stats,
            decoder.decisions, forced=forced, choice_logprobs=decoder.choice_logprobs,
        )  # fmt: skip
        chances = distribution(decoder.decisions, reader.spellings, reader.names)
        return self._result(
            prompt, constraint, found, reader, ended, chances, decoded, config,
            thought_tokens=thought_tokens, steps=tuple(steps),
            **({} if tokens is None else tokens.told(reader)),
        )  # fmt: skip

    def _single(
        self,
        prompt: _Prompt,
        constraint: Constraint,
        reader: TurnReader,
        config: DecodingConfig,
        strategy: DecodingStrategy,
        steps: list[Step],
        on_step: OnStep,
    ) -> TurnSteps:
        """Decode one call by its strategy; its text is read once, at its end."""
        found = decode(
            prompt.session, constraint.matcher, constraint.choices, strategy,
            config.sampler(prompt.text), DecodeRequest(prompt.ids, prompt.text, prompt.max_tokens),
            on_step, lambda one: self._is_valid(one, constraint),
        )  # fmt: skip
        steps += found.steps
        decoded = self._clock()
        events = tuple(reader.end(found.symbols)) if found.is_complete else ()
        chances: dict[str | None, float] = {}
        if strategy.scores_names:
            is_only = not found.decisions and len(reader.names) == 1
            chances = (
                {reader.names[0]: 1.0}
                if is_only
                else distribution(found.decisions, reader.spellings, reader.names)
            )
        yield events
        return self._result(
            prompt, constraint, found, reader, "stop", chances, decoded, config, steps=tuple(found.steps),
            logprob=found.logprob if strategy.scores_answers else None,
            argument_logprobs=self._by_argument(found, reader, constraint),
        )  # fmt: skip

    def _result(
        self,
        prompt: _Prompt,
        constraint: Constraint,
        found: DecodeResult,
        reader: TurnReader,
        ended: TurnEnd,
        chances: dict[str | None, float],
        decoded: float,
        config: DecodingConfig,
        *,
        thought_tokens: int = 0,
        steps: tuple[Step, ...] = (),
        logprobs: tuple[TokenLogprob, ...] = (),
        call_tokens: tuple[TokenLogprob, ...] = (),
        logprob: float | None = None,
        argument_logprobs: dict[str, float] | None = None,
    ) -> TurnResult:
        calls = () if ended == "length" else tuple(reader.calls)
        remarks = reader.remarks(calls)
        confidence = self._confidence_of(prompt, constraint, calls, chances, found)
        if calls and confidence is not None and confidence < (config.min_confidence or 0.0):
            remarks = (*remarks, too_unsure(calls, confidence, config.min_confidence or 0.0))
            calls = ()
        checked = self._clock()
        return TurnResult(
            text=reader.text.decode(errors="replace"),
            thought=reader.thought.decode(errors="replace"),
            calls=calls,
            ended=ended,
            stop=reader.stopped,
            distribution=chances,
            confidence=confidence,
            prompt_tokens=prompt.tokens,
            cached_tokens=prompt.cached,
            omitted=prompt.omitted,
            tokens=len(found.matcher.ids),
            thought_tokens=thought_tokens,
            forced=len(found.forced),
            passes=found.stats.passes,
            seconds={
                "prompt": prompt.encoded - prompt.started,
                "model": found.stats.seconds,
                "engine": decoded - prompt.encoded - found.stats.seconds,
                "check": checked - decoded,
                "total": checked - prompt.started,
            },
            raw=symbols_to_bytes(found.symbols),
            logprobs=logprobs,
            call_tokens=call_tokens,
            logprob=logprob,
            argument_logprobs=argument_logprobs or {},
            steps=steps,
            remarks=remarks,
        )

    def _confidence_of(
        self,
        prompt: _Prompt,
        constraint: Constraint,
        calls: Sequence[ToolCall],
        chances: dict[str | None, float],
        found: DecodeResult,
    ) -> float | None:
        """Return the probability that all calls are right, or that none is; None where nothing tells it."""
        logprobs = found.choice_logprobs
        if self._confidence is None or logprobs is None or not constraint.tools:
            return None
        if any(is_deeper(call.arguments, CHECKED_DEPTH) for call in calls):
            return None
        of = partial(self._confidence.of, prompt.request, constraint.tools)
        first = of(calls[0] if calls else None, chances, logprobs)
        rest = [of(call, {call.name: 1.0}, logprobs) for call in calls[1:]]
        return None if first is None else math.prod((first, *(one or 0.0 for one in rest)))

    def _strategy(self, config: DecodingConfig) -> DecodingStrategy:
        if config.logit_bias:
            raise InputError("a single request is decoded without a bias", where="logit_bias")
        if (config.best_of or 1) > 1 and not config.temperature:
            raise InputError("drawing several answers takes a temperature above 0", where="best_of")
        return config.strategy(
            certain=self.format.trained_on_choices,
            keeps_choices=self._confidence is not None,
            clock=self._clock,
        )

    def _is_valid(self, found: DecodeResult, constraint: Constraint) -> bool:
        """Whether a candidate among several is a valid call, or calls nothing."""
        if not found.is_complete:
            return True
        calls = self.format.read(parts_of(found.symbols), constraint.tools, controls=self._controls)
        try:
            for call in calls:
                constraint.validator.check(call)
        except (DuplicateKeyError, SchemaViolationError):
            return False
        return True

    def _by_argument(
        self, found: DecodeResult, reader: TurnReader, constraint: Constraint
    ) -> dict[str, float]:
        """Return the log-probability of each argument's value, where they were asked for."""
        if not found.logprobs or not reader.calls:
            return {}
        call = reader.calls[0]
        if is_deeper(call.arguments, CHECKED_DEPTH):
            return {}
        lengths = [len(self.vocabulary.token(index)) or 1 for index in found.matcher.ids]
        again = self.format.reader(constraint.tools, controls=self._controls)
        places = argument_symbols(again, found.symbols)
        scores = np.array(found.logprobs)
        return scoring.logprob_by_member(scores, lengths, places, reader.written[0])

    # -- the order of parameters --------------------------------------------------------------------

    def as_read(self, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        """Return the tools as the model reads and writes them."""
        return self._sorted_tools.of(tools) if self.format.sorts_parameters else tools

    def _written_like(self, spec: OutputSpec, tools: Sequence[ToolSpec]) -> OutputSpec:
        """Return the spec with the calls that the turn begins with as the model writes them."""
        if not (spec.given and self.format.sorts_parameters):
            return spec
        named = {tool.name: tool for tool in tools}
        calls = (
            in_order_of(one, named[one.name]) if one.name in named else one for one in spec.given
        )
        return replace(spec, given=tuple(calls))

    # -- prompts ----------------------------------------------------------------------------------

    def _encode(self, parts: PromptParts) -> list[int]:
        make = partial(encode, parts, self.vocabulary, self.format, self.model)
        is_long = sum(len(part) for part in parts if isinstance(part, str)) > LONG_TEXT
        return run_long(make) if is_long else make()

    def _prompt_ids(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], spec: OutputSpec
    ) -> list[int]:
        parts = self._prompt_parts(messages, tools, spec)
        size = sum(len(part.encode(errors="replace")) for part in parts if isinstance(part, str))
        self._room(size // self.vocabulary.longest, is_bound=True)  # far too long: not even encoded
        return self._encode(parts)

    def _prompt_parts(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], spec: OutputSpec
    ) -> PromptParts:
        return self.format.prompt(messages, tools, self._controls, thinking=spec.thinking > 0)

    def _open_with(self, images: Sequence[bytes]) -> tuple[Session, list[list[int]]]:
        """Return a session for a prompt with pictures, and the ids of each picture."""
        model: Any = self.model
        if isinstance(model, DecodeBatch):
            inner: Any = model.model
            session, ids = inner.open_with(images)
            return model.share_passes(session), ids
        session, ids = model.open_with(images)
        return session, ids

    def _prefix(self, tools: Sequence[ToolSpec]) -> list[int]:
        """Return the ids that every single request with these tools begins with."""
        key = tuple(tools)
        ids = self._prefix_ids.get(key)
        if ids is None:
            ids = self._encode(self.format.prefix(tools, self._controls))
            self._prefix_ids[key] = ids
            if len(self._prefix_ids) > CONSTRAINT_CACHE_SIZE:
                self._prefix_ids.popitem(last=False)
        return ids

    def _kept(self, ids: list[int], tools: Sequence[ToolSpec]) -> int:
        """Return how many ids of a prompt to keep for later ones; the rest is fed with the first of the answer.

        Of a conversation that is all of it but the last id, since its next turn begins with it; prompts of single
        requests have nothing in common but the tools.
        """
        prefix = self._prefix(tools) if self.format.is_single_request else []
        is_shared = 0 < len(prefix) < len(ids) and ids[: len(prefix)] == prefix
        return len(prefix) if is_shared else len(ids) - 1

    def _budget(self, constraint: Constraint, tokens: int, config: DecodingConfig) -> int:
        """Return how many tokens a turn behind a prompt of ``tokens`` may take."""
        most = config.budget
        room = self._room(tokens)
        matcher = constraint.matcher
        # What is far too long need not be counted to the last token.
        for is_bound in (True, False):
            shortest = matcher.least_remaining if is_bound else matcher.remaining
            if room is not None and room < shortest:  # whatever the budget: no other would help
                raise ModelError(
                    f"the conversation takes {tokens} tokens and the shortest answer {shortest}"
                    f"{' or more' if is_bound else ''}, but the context of {self.model.name!r} holds "
                    f"{self.model.context}; shorten the conversation, ask for less, or use a model with a "
                    "longer context"
                )
            check_budget(shortest, most, is_bound=is_bound)
        return most if room is None else min(most, room)

    def _room(self, tokens: int, *, is_bound: bool = False) -> int | None:
        """Return how many tokens the context holds behind a prompt of ``tokens``; None without a limit."""
        context = self.model.context
        if context is None:
            return None
        if tokens >= context:
            raise self._too_long(tokens, is_bound=is_bound)
        return context - tokens

    def _too_long(self, tokens: int, *, is_bound: bool = False) -> ModelError:
        much = f"{tokens} tokens or more" if is_bound else f"{tokens} tokens"
        return ModelError(
            f"the conversation takes {much}, but the context of {self.model.name!r} holds "
            f"{self.model.context} with the answer; shorten it or use a model with a longer context"
        )

    def _fit(
        self, request: list[int], prefix: list[int], shared: Constraint, config: DecodingConfig
    ) -> tuple[list[int], int, int]:
        """Return the request as far as it fits, how many ids it lost, and the room for an answer."""
        most = config.budget
        if self.model.context is None:
            return request, 0, most
        room = self.model.context - len(prefix)
        answer = min(most, room // 4)
        keep = room - (answer if shared.fits(answer) else max(shared.shortest_call, answer))
        if len(request) <= keep:
            return request, 0, room - len(request)
        if config.overflow == "refuse" or keep < MIN_REQUEST:
            raise ModelError(
                f"the request takes {len(request)} tokens and the tools {len(prefix)}, but "
                f"the context of {self.model.name!r} holds {self.model.context} with the answer; "
                "shorten them, show fewer (a ToolIndex does) or use a model with a longer context"
            )
        gap = self.vocabulary.encode(OMITTED)
        tail = (keep - len(gap)) // 2
        head = keep - len(gap) - tail
        omitted = len(request) - head - tail
        return [*request[:head], *gap, *request[-tail:]], omitted, room - keep

    # -- constraints ------------------------------------------------------------------------------

    def _constraint(
        self,
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        messages: Sequence[Message],
        config: DecodingConfig,
    ) -> Constraint:
        narrowed = self._narrowed(tools, spec, messages, config)
        if narrowed is not None:
            return narrowed
        if self._depends_on_request(tools, spec):
            return self._grounded(tools, spec, messages, config)
        return self._shared_constraint(tools, spec, config, is_grounded=False)

    def _grounded(
        self,
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        messages: Sequence[Message],
        config: DecodingConfig,
    ) -> Constraint:
        """Return the constraint of one request whose texts decide what may be written."""
        spec = _ordered(spec, config)
        if self._grounding.depends_on_request(tools, spec.answer):
            spec = self._grounding.for_messages(spec, messages)
        if self.format.echoes_request(tools):
            spec = replace(spec, request=last_user_text(messages))
        return self._new_constraint(tools, spec, is_grounded=True, is_shared=False)

    def _narrowed(
        self,
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        messages: Sequence[Message],
        config: DecodingConfig,
    ) -> Constraint | None:
        """Return the constraint with parameters limited to what the request says; None where nothing is.

        See :attr:`GroundingConfig.read_values`.
        """
        if not (self.format.reads_values and self._grounding.read_values and spec.calls):
            return None
        request = last_user_text(messages)
        now = self._grounding.now or datetime.now().astimezone()
        narrowed, barred = narrowed_tools(tools, request, now, may_refuse=spec.no_call)
        if narrowed is tools:
            return None
        try:
            return replace(self._grounded(narrowed, spec, messages, config), barred=barred)
        except (
            UnsupportedSchema
        ):  # what is left out was needed by what is not read: a dependency of keys
            return None

    def _barring(self, constraint: Constraint, spec: OutputSpec, request: str) -> Constraint:
        """Return a constraint that bars functions which do the opposite of what is said.

        In a language that the model does not read all are barred, unless they are described in it. Where a call
        must be made, the constraint is left as it is.
        """
        if not (self.format.languages and spec.calls and spec.no_call):
            return constraint
        tools = constraint.tools
        told = (tool.description for tool in tools)
        why = unread_language(request, self.format.languages, told)
        if why is not None:
            return replace(constraint, barred={tool.name: why for tool in tools})
        opposites = {
            tool.name: f"{tool.name} would {found[1]}, {OPPOSITE} ({found[0]})"
            for tool in tools
            if (found := opposite_in(request, tool.name, partial(_told, tool)))
        }
        return (
            replace(constraint, barred={**opposites, **constraint.barred})
            if opposites
            else constraint
        )

    def _depends_on_request(self, tools: Sequence[ToolSpec], spec: OutputSpec) -> bool:
        return self._grounding.depends_on_request(tools, spec.answer) or self.format.echoes_request(
            tools
        )

    def _shared_constraint(
        self,
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        config: DecodingConfig,
        *,
        is_grounded: bool | None = None,
    ) -> Constraint:
        """Return the constraint as far as all requests share it, from the cache if it is there.

        ``is_grounded``: whether it depends on the request; None: to be found out, which takes a look at all schemas.
        """
        spec = self._grounding.without_request(_ordered(spec, config))
        ids = tuple(map(id, tools))
        is_hashable = spec.answer is None
        found = self._by_identity.get((ids, spec)) if is_hashable else None
        if found is None or found.matcher.automaton.needs_renewal:
            found = self._by_content(tools, spec, is_grounded)
            if is_hashable and all(map(_is, tools, found.tools)):
                self._by_identity[ids, spec] = found
        if next(self._lookups) % TRIM_INTERVAL == 0:
            self._evict()
        return found

    def _by_content(
        self, tools: Sequence[ToolSpec], spec: OutputSpec, is_grounded: bool | None
    ) -> Constraint:
        is_grammar = isinstance(spec.answer, Grammar)
        key = dumps([
            [[tool.name, tool.parameters] for tool in tools], spec.calls, spec.no_call, spec.most,
            spec.only, [[one.name, one.arguments, one.id] for one in spec.given], spec.thinking,
            spec.text, None if is_grammar else spec.answer, spec.answer_length, spec.order,
        ]), spec.answer if is_grammar else None  # fmt: skip
        found = self._constraints.get(key)
        is_new = found is None or found.matcher.automaton.needs_renewal
        if found is None or is_new:
            if is_grounded is None:
                is_grounded = self._depends_on_request(tools, spec)
            found = self._new_constraint(tools, spec, is_grounded=is_grounded, is_shared=True)
        # Another thread may evict it at the same time; what was used last stands last.
        self._constraints.pop(key, None)
        self._constraints[key] = found
        if is_new:
            self._evict()
        return found

    def _new_constraint(
        self, tools: Sequence[ToolSpec], spec: OutputSpec, *, is_grounded: bool, is_shared: bool
    ) -> Constraint:
        return Constraint.of(
            self.format, tuple(tools), spec, self.vocabulary,
            is_grounded=is_grounded, is_shared=is_shared,
        )  # fmt: skip

    def _evict(self) -> None:
        """Drop the constraints whose automata are exhausted, and those beyond the cache's size."""
        trim(
            self._constraints,
            lambda constraint: constraint.matcher.automaton,
            CONSTRAINT_CACHE_SIZE,
        )
        # Copies, because another thread may add to either meanwhile.
        cached = set(map(id, list(self._constraints.values())))
        known = self._by_identity.copy()
        self._by_identity = {key: one for key, one in known.items() if id(one) in cached}
        trim_cache()


def _told(tool: ToolSpec) -> str:
    return f"{tool.name} {tool.description} {dumps(tool.parameters)}"


def _is(one: object, other: object) -> bool:
    return one is other


def _ordered(spec: OutputSpec, config: DecodingConfig) -> OutputSpec:
    return spec if config.order in (None, spec.order) else replace(spec, order=config.order)


def _limit_section(decoder: Decoder, reader: TurnReader, before: Section) -> None:
    """Where a thought, or a text in front of a call, begins, limit its tokens; elsewhere lift the limit."""
    spec, section = reader.spec, reader.section
    if section == before:
        return
    if decoder.adjuster is not None:
        decoder.adjuster.is_penalising = section is not None
    if section == "thought" and spec.thinking:
        decoder.section_budget = spec.thinking
    elif section == "text" and spec.text and spec.calls and not spec.no_call:
        decoder.section_budget = spec.text
    else:
        decoder.section_budget = None


def _text_of(messages: Sequence[Message]) -> str:
    """Return the texts of all messages, one below the other: what a model may copy from."""
    return "\n".join(str(one.get("content") or "") for one in messages)
