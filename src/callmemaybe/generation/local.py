"""Speaks for a model in a conversation: one turn of it, under whatever the turn may be.

A turn's language (text, thought, calls, an answer by a schema) is made once for each list of tools and
each wish, and kept.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Literal

import numpy as np

from callmemaybe.conversation.history import content_text
from callmemaybe.decoding.decoder import TOP_TOKENS, Decoder, DecodeStats, check_budget
from callmemaybe.decoding.name_choice import NameChoices
from callmemaybe.decoding.prefix_cache import PrefixCache
from callmemaybe.decoding.prompt_lookup import PromptLookupDrafter
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.errors import GrammarError, InputError, ModelError
from callmemaybe.generation.config import check_settings, encode, format_of, seeded, vocabulary_of
from callmemaybe.generation.constraint import Constraint
from callmemaybe.generation.turn import TokenLogprob, TurnReader, TurnResult, TurnStream, run_to_end
from callmemaybe.generation.validation import CallValidator
from callmemaybe.grammar import Grammar
from callmemaybe.grammar.compile import OFTEN, let_go, tidy
from callmemaybe.jsonio.writer import dumps
from callmemaybe.matching import Matcher
from callmemaybe.models.base import Model
from callmemaybe.tools import StreamEvent, ToolCall, ToolSpec, referring
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import Format
from callmemaybe.wire.format import Message
from callmemaybe.wire.grounding import GroundingConfig
from callmemaybe.wire.output_grammar import OutputSpec

__all__ = ["DecodingConfig", "LocalGenerator", "TokenLogprob", "TurnResult", "TurnStream"]

#: Languages kept, each with its automaton and what was learnt of it.
KEPT = 32
#: Options that may be None: as the speaker does.
_UNSET = frozenset(("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed"))
#: Most tokens shown for each place.
MOST_SHOWN = 20


@dataclass(frozen=True)
class DecodingConfig:
    """What one turn may set for itself; None: as the speaker does.

    ``stop``: texts that end an answer in text, and are not part of it. ``logprobs`` keeps the
    log-probabilities of the text's tokens, with the ``top_logprobs`` likeliest in each place (at most
    20); it asks the model for every token. ``watch`` keeps every step. Raises InputError, naming
    the option, for a value out of range.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: bool = False
    top_logprobs: int = 0
    watch: bool = False

    def __post_init__(self) -> None:
        check_settings(vars(self), _UNSET)
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InputError("it must be at least 1", where="max_tokens")
        if not 0 <= self.top_logprobs <= MOST_SHOWN:
            raise InputError(f"it must be between 0 and {MOST_SHOWN}", where="top_logprobs")
        if self.top_logprobs and not self.logprobs:
            raise InputError("it needs logprobs", where="top_logprobs")
        stops: object = self.stop
        if isinstance(stops, str):
            raise InputError(
                "it must be a tuple of texts; each letter of a text would be one", where="stop"
            )
        if not isinstance(stops, Sequence) or not all(isinstance(each, str) for each in stops):
            raise InputError("it must be a tuple of texts", where="stop")
        if not all(self.stop):
            raise InputError("an empty text would end everything", where="stop")
        if self.seed is not None and self.seed < 0:
            raise InputError("it must not be negative", where="seed")

    def sampler(self, usual: Sampler) -> Sampler:
        """Return the usual sampler with what is set here."""
        named = ("temperature", "top_p", "top_k", "min_p")
        changes = {name: value for name in named if (value := getattr(self, name)) is not None}
        dice = usual.generator or np.random.default_rng()
        return replace(usual, generator=dice, **changes)


@dataclass(frozen=True)
class _Language:
    """What the turns of one list of tools and one wish share."""

    tools: tuple[ToolSpec, ...]
    matcher: Matcher
    choices: NameChoices
    validators: CallValidator


class LocalGenerator:
    """Lets one local model speak in conversations, with any tools.

    ``format`` is a wire format, its name or the path of a file with one (None: told from the model's
    files). The other settings are those of ``Caller``. Turns may be interleaved step by step, but by one
    thread at a time. Raises ModelError and VocabularyError for a model that cannot be used.
    """

    def __init__(
        self,
        model: Model,
        *,
        format: str | Format | None = None,  # noqa: A002 - the word users know
        choose: Literal["exact", "greedy"] = "exact",
        max_tokens: int = 512,
        sampler: Sampler | None = None,
        seed: int | None = None,
        vocabulary: Vocabulary | None = None,
        prefixes: PrefixCache | None = None,
        clock: Callable[[], float] = time.perf_counter,
        limits: GroundingConfig | None = None,
    ) -> None:
        self.model = model
        self.vocabulary = vocabulary or vocabulary_of(model)
        self.format = format_of(model, self.vocabulary, format)
        self.max_tokens = max_tokens
        self._choose: Literal["exact", "greedy"] = choose
        self._controls = frozenset(self.vocabulary.controls)
        self._prefixes = PrefixCache(model) if prefixes is None else prefixes
        self._sampler = sampler or Sampler()
        self._seed = seed
        self._clock = clock
        self._limits = limits or GroundingConfig()
        self._languages: OrderedDict[tuple[str, Any], _Language] = OrderedDict()
        self._asked = count(1)

    def open(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        wanted: OutputSpec | None = None,
        options: DecodingConfig | None = None,
    ) -> TurnStream:
        """Return the model's next turn, to be taken step by step.

        ``messages`` are in OpenAI's shape and are taken as they are. ``wanted`` None: an answer in
        text, or one call of the tools.

        Raises InputError for a wish that cannot be met with these tools or this format (and
        UnsupportedSchema, GrammarError, VocabularyError), BudgetError for a budget below the shortest
        answer, ModelError where the conversation does not fit into the model's context.
        """
        started = self._clock()
        messages = plain(messages)
        options = options or DecodingConfig()
        wish = wanted or OutputSpec(calls=bool(tools), no_call=True)
        seed = self._seed if options.seed is None else options.seed
        sampler = seeded(options.sampler(self._sampler), seed, _said(messages))
        language = self._language(tools, wish, messages)
        ids = self._prompt(messages, tools, wish)
        if not ids:
            raise InputError("there is nothing to answer", where="messages")
        turn = TurnReader(
            self.format, language.tools, language.validators, self._controls,
            wish=wish, stops=options.stop,
        )  # fmt: skip
        try:
            decoder = self._decoder(
                language, ids, _said(messages), options, sampler, weighs=wish.calls
            )
        except GrammarError:
            self._let_go()  # what was refused because it is too large is not kept
            raise
        return TurnStream(
            decoder,
            turn,
            prompt_tokens=len(ids),
            started=started,
            clock=self._clock,
            logprobs=options.logprobs,
            watch=options.watch,
        )

    def measure(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        wanted: OutputSpec | None = None,
    ) -> int:
        """Return how many tokens the model reads in front of a turn; see :meth:`open`."""
        return len(self._prompt(plain(messages), tools, wanted or OutputSpec()))

    def speak(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        wanted: OutputSpec | None = None,
        options: DecodingConfig | None = None,
    ) -> TurnResult:
        """Return what the model says next; see :meth:`open`."""
        speech = self.open(messages, tools, wanted, options)
        for _ in speech:
            pass
        return speech.spoken

    def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        wanted: OutputSpec | None = None,
        options: DecodingConfig | None = None,
    ) -> Generator[StreamEvent, None, TurnResult]:
        """Yield what the model says next, as it becomes certain, and return the whole.

        Closing the generator ends the turn; nothing of it counts then. See :meth:`open`.
        """
        speech = self.open(messages, tools, wanted, options)
        for events in speech:
            yield from events
        return speech.spoken

    def speaking(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        wanted: OutputSpec | None = None,
        options: DecodingConfig | None = None,
    ) -> Generator[tuple[StreamEvent, ...], None, TurnResult]:
        """Yield the events of each step, and return the whole; see :meth:`open`."""
        speech = self.open(messages, tools, wanted, options)
        yield from speech
        return speech.spoken

    def plan(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        most: int = 4,
        wanted: OutputSpec | None = None,
        options: DecodingConfig | None = None,
        taken: Collection[str] = (),
    ) -> TurnResult:
        """Return several calls at once, of which later ones may refer to results of earlier ones.

        A reference stands in place of an argument: ``{"$ref": "call_1.temperature"}``; the grammar
        allows those to earlier calls only and, where the earlier tool declares what it returns, to
        fields of a fitting type only. Each call is decoded on its own, behind those before it, since
        what it may refer to depends on them. Ids that are ``taken`` are not given again.
        """
        planning = self.planning(
            messages, tools, most=most, wanted=wanted, options=options, taken=taken
        )
        return run_to_end(planning)

    def planning(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        most: int,
        wanted: OutputSpec | None = None,
        options: DecodingConfig | None = None,
        taken: Collection[str] = (),
    ) -> Generator[tuple[StreamEvent, ...], None, TurnResult]:
        """Plan as :meth:`plan` does, step by step: yield the events of each."""
        if not self.format.is_parallel:
            raise InputError("this format calls one function a turn, so it can write no plans")
        wanted = wanted or OutputSpec(no_call=True)
        given: list[ToolCall] = []
        returns: dict[str, Mapping[str, Any] | None] = {}
        spoken = TurnResult()
        while len(given) < most:
            offered = [replace(one, parameters=referring(one, returns)) for one in tools]
            wish = replace(
                wanted,
                no_call=wanted.no_call and not given,
                most=len(given) + 1,
                given=tuple(given),
            )
            told = yield from self.speaking(messages, offered, wish, options)
            new = told.calls[len(given) :]
            spoken = replace(
                told,
                distribution=spoken.distribution or told.distribution,
                passes=spoken.passes + told.passes,
                seconds=spoken.seconds + told.seconds,
            )
            if not new or any(new[0].meaning == one.meaning for one in given):
                break
            known = {*taken, *(one.id for one in given)}
            call = replace(new[0], id=_fresh(known, len(known) + 1))
            given.append(call)
            tool = next(one for one in tools if one.name == call.name)
            returns[call.id] = tool.returns
        return replace(spoken, calls=tuple(given) if spoken.ended != "length" else ())

    # -- what turns share -------------------------------------------------------------------------

    def _prompt(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], wish: OutputSpec
    ) -> list[int]:
        parts = self.format.prompt(messages, tools, self._controls, thinking=wish.thinking > 0)
        return encode(parts, self.vocabulary, self.format, self.model)

    def _language(
        self, tools: Sequence[ToolSpec], wish: OutputSpec, messages: Sequence[Message]
    ) -> _Language:
        if self._limits.depends_on_request(tools, wish.answer):
            return self._made(tools, self._limits.for_messages(wish, messages), is_shared=False)
        is_grammar = isinstance(wish.answer, Grammar)
        key = dumps([
            [[tool.name, tool.parameters] for tool in tools], wish.calls, wish.no_call, wish.most,
            wish.only, [[one.name, one.arguments, one.id] for one in wish.given], wish.thinking,
            wish.text, None if is_grammar else wish.answer, wish.answer_length,
        ]), wish.answer if is_grammar else None  # fmt: skip
        found = self._languages.get(key)
        is_new = found is None or found.matcher.automaton.is_worn
        if found is None or is_new:
            found = self._made(tools, replace(wish, order=self._limits.order), is_shared=True)
        # Others may let go of it at the same time; who asked for it last is last.
        self._languages.pop(key, None)
        self._languages[key] = found
        if is_new or next(self._asked) % OFTEN == 0:
            self._let_go()
        return found

    def _let_go(self) -> None:
        """Let go of the languages that are worn, and of those beyond what may be kept."""
        tidy(self._languages, lambda language: language.matcher.automaton, KEPT)
        let_go()

    def _made(self, tools: Sequence[ToolSpec], wish: OutputSpec, *, is_shared: bool) -> _Language:
        validators = CallValidator(tools, wish.answer)
        grammar = validators.language(self.format, wish, self._controls)
        language = Constraint.of(grammar, self.vocabulary, is_shared=is_shared)
        return _Language(tuple(tools), language.matcher, language.choices, validators)

    def _decoder(
        self,
        language: _Language,
        ids: list[int],
        said: str,
        options: DecodingConfig,
        sampler: Sampler,
        *,
        weighs: bool,
    ) -> Decoder:
        most = options.max_tokens or self.max_tokens
        context = self.model.context
        if context is not None:
            room = context - len(ids)
            # Whatever the budget: no other would help.
            if room < language.matcher.remaining:
                raise ModelError(
                    f"the conversation takes {len(ids)} tokens, but the context of "
                    f"{self.model.name!r} holds {context} with the answer; shorten it or use a model "
                    "with a longer context"
                )
            most = min(most, room)
        matcher = language.matcher.fork()
        check_budget(matcher.remaining, most)
        session, cached = self._prefixes.take(ids[:-1])
        return Decoder(
            session=session,
            matcher=matcher,
            sampler=sampler,
            prompt=ids[-1:],
            max_tokens=most,
            # Without calls there is no name to weigh.
            choose=self._choose if weighs else "greedy",
            choices=language.choices,
            forcing=not options.logprobs,
            drafter=PromptLookupDrafter(said),
            writes_text=True,
            trace=options.logprobs or options.watch,
            top_tokens=options.top_logprobs if options.logprobs else TOP_TOKENS,
            clock=self._clock,
            stats=DecodeStats(cached=cached),
        )


def _fresh(taken: Collection[str], number: int) -> str:
    while f"call_{number}" in taken:
        number += 1
    return f"call_{number}"


def plain(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with their contents as texts; parts of a content are joined.

    Raises InputError, with the JSON pointer, for a part that is no text.
    """
    return [
        message
        if isinstance(message.get("content"), str | None)
        else {**message, "content": content_text(message["content"], f"/messages/{number}")}
        for number, message in enumerate(messages)
    ]


def _said(messages: Sequence[Message]) -> str:
    """Return the texts of all messages, one below the other: what a model may copy from."""
    return "\n".join(str(one.get("content") or "") for one in messages)
