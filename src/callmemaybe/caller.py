"""The one place that knows every room: a request in, a checked function call out.

::

    from callmemaybe import Caller, load_model
    caller = Caller(load_model("nano"), tools)
    caller.call("What is 2 plus 3?").call     # ToolCall(name='add', arguments='{"a":2,"b":3}')

What all requests share (the instructions and the tool list, the grammar, what the automaton and
the masks have learnt) is made once per list of tools and kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from callmemaybe import models
from callmemaybe.decoding import scoring
from callmemaybe.decoding.batch import DecodeBatch
from callmemaybe.decoding.decoder import Step, check_budget
from callmemaybe.decoding.name_choice import symbols_to_bytes
from callmemaybe.decoding.prefix_cache import PrefixCache
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.decoding.strategy import DecodeRequest, DecodeResult, DecodingStrategy, decode
from callmemaybe.errors import (
    DuplicateKeyError,
    GroundingError,
    InputError,
    ModelError,
    SchemaViolationError,
)
from callmemaybe.generation import config
from callmemaybe.generation.batching import OnStep, Submit, in_batch, in_order, on_server
from callmemaybe.generation.config import encode, format_of, parts_of, seeded, vocabulary_of
from callmemaybe.generation.constraint import Constraint
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.remote import RemoteCaller
from callmemaybe.generation.remote_turns import RemoteGenerator
from callmemaybe.generation.result import CallResult, argument_places
from callmemaybe.generation.turn import distribution
from callmemaybe.generation.validation import CHECKED_DEPTH, CallValidator, depth_of
from callmemaybe.models.base import Model
from callmemaybe.models.remote import RemoteModel
from callmemaybe.retrieval import ToolIndex
from callmemaybe.tools import Offered, ToolCall, tools_of
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import Format
from callmemaybe.wire.format_nodes import PromptParts
from callmemaybe.wire.grounding import GroundingConfig
from callmemaybe.wire.output_grammar import OutputSpec

if TYPE_CHECKING:
    from callmemaybe.agent.executors import PythonExecutor
    from callmemaybe.agent.runner import (
        AgentRunner,
        AsyncExecute,
        Execute_,
        GatewayExecutor,
        RunKeywords,
        RunResult,
        ToolProvider,
    )
    from callmemaybe.conversation import Conversation

#: What stands where the middle of a request was left out, and how short a request may get by that.
GAP = " … ".encode()
LEAST_REQUEST = 64

#: Callers of some tools of a catalogue that are kept.
KEPT_CALLERS = 16

__all__ = ["CallResult", "Caller", "Step", "load_model"]


class Caller:
    """Turns requests into calls of some tools, with one model.

    ``model`` is a loaded model, ``tools`` the functions (Python's, or their definitions in JSON); of a
    ``ToolIndex``, each request gets those that fit it. ``format`` is the wire format (a name, or the path
    of a file with one; None: told from the model's files). ``choose`` is how a name is chosen: "exact" by
    the probabilities of all names, "greedy" token by token. ``no_call`` lets the model decide that no
    function fits. ``max_tokens`` bounds an answer, which always ends within it. With a ``temperature``
    above 0 tokens are drawn at random; with a ``seed`` equal requests get equal answers, whatever was
    asked before.
    ``watch`` adds the likeliest tokens to each step. ``forcing`` False asks the model for every
    token, also where there is only one; ``speculate`` False guesses nothing ahead from the request
    (see :mod:`decoding.draft`): the answers are the same either way. ``logprobs`` adds how probable
    the answer and each argument are. ``best_of`` draws so many answers (with a temperature) and
    keeps the most probable; ``beam`` searches for it with so many hypotheses at a time (where a text
    may stand in place of a call, of those of the likelier kind).
    ``overflow`` says what becomes of a request that does not fit into the model's context: "cut"
    leaves out its middle and says so in the outcome, "refuse" raises ModelError. ``order`` "any" lets
    a model write keys in any order. ``ground`` "prompt" limits strings and numbers to what was said
    (see ``wire.said.Limits``, also for ``ground_in``); a parameter asks for it with ``x-ground``.
    ``prefixes`` keeps what requests have in common; callers of one model may share it. ``clock``
    returns seconds.

    Raises InputError (UnsupportedSchema) for tools that cannot be promised, BudgetError for a
    ``max_tokens`` below the shortest valid call, ModelError for a model that cannot be used.
    """

    def __init__(
        self,
        model: Model | RemoteModel,
        tools: Iterable[Offered] | ToolIndex,
        *,
        format: str | Format | None = None,  # noqa: A002 - the word users know
        choose: Literal["exact", "greedy"] = "exact",
        no_call: bool = False,
        max_tokens: int = 512,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        seed: int | None = None,
        watch: bool = False,
        forcing: bool = True,
        speculate: bool = True,
        logprobs: bool = False,
        best_of: int = 1,
        beam: int = 1,
        overflow: Literal["cut", "refuse"] = "cut",
        order: Literal["schema", "any"] = "schema",
        ground: Literal["prompt", "prompt-or-free"] | None = None,
        ground_in: Literal["request", "conversation"] = "request",
        vocabulary: Vocabulary | None = None,
        prefixes: PrefixCache | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        # What a caller of some tools of a catalogue is made with.
        self._given = config.given(locals())
        self.model = model
        self.catalogue = tools if isinstance(tools, ToolIndex) else None
        self._callers: dict[tuple[str, ...], Caller] = {}
        self.tools = tools.tools if isinstance(tools, ToolIndex) else tools_of(tools)
        self.max_tokens = max_tokens
        self._clock = clock
        self._limits = GroundingConfig(order, ground, ground_in)
        some = self.tools if self.catalogue is None else self.tools[:1]
        self._validators = CallValidator(some)
        self._asking: RemoteCaller | None = None
        if isinstance(model, RemoteModel):
            _check_server(top_p, top_k, min_p)
            self._asking = RemoteCaller(
                model, some, self._limits, self._validators, format=format, no_call=no_call,
                max_tokens=max_tokens, temperature=temperature, seed=seed,
            )  # fmt: skip
            self.format = self._asking.format
            return
        self._open(model, vocabulary, format, prefixes)
        if best_of > 1 and temperature == 0:
            raise InputError("drawing several answers takes a temperature above 0", where="best_of")
        self._strategy = DecodingStrategy(
            choose, forcing, speculate, logprobs, best_of, beam, watch,
            self.format.trained_on_choices, self._clock,
        )  # fmt: skip
        self._seed = seed
        self._sampler = Sampler(temperature, top_p, top_k, min_p, np.random.default_rng())
        self._overflow = overflow
        if self.catalogue is None:
            self._prepare(no_call)

    def _open(
        self,
        model: Model,
        vocabulary: Vocabulary | None,
        form: str | Format | None,
        prefixes: PrefixCache | None,
    ) -> None:
        """Take a model in this process, with its vocabulary and format."""
        self._local = model
        self.vocabulary = vocabulary or vocabulary_of(model)
        self.format = format_of(model, self.vocabulary, form)
        self._controls = frozenset(self.vocabulary.controls)
        self._prefixes = PrefixCache(model) if prefixes is None else prefixes

    def _prepare(self, no_call: bool) -> None:
        """Make what all requests share: the language, its matcher, and the prefix of the prompt."""
        self._wish = OutputSpec(no_call=no_call)
        self._is_grounded = self._limits.depends_on_request(self.tools)
        self._language = self._language_of(self._limits.without_request(self._wish), is_shared=True)
        self._shared = self._encode(self.format.prefix(self.tools, self._controls))
        self._shortest = self._language.shortest_call()
        check_budget(self._shortest, self.max_tokens)

    def _language_of(self, wish: OutputSpec, *, is_shared: bool) -> Constraint:
        grammar = self._validators.language(self.format, wish, self._controls)
        return Constraint.of(grammar, self.vocabulary, is_shared=is_shared)

    def call(self, prompt: str, *, on_step: OnStep = None) -> CallResult:
        """Return the call that ``prompt`` asks for; ``on_step`` sees each step as it is taken.

        Raises InputError for a prompt that is no text, ModelError if the model fails, if the tools alone
        fill its context, or if the prompt does not fit and is not to be cut; SchemaViolationError for a call that its schema forbids where no grammar can,
        DuplicateKeyError for one with a key twice.
        """
        if self._asking is None:
            return self._call(prompt, on_step)
        config.check_text(prompt)
        if self.catalogue is not None:
            return self._among(self.catalogue, prompt).call(prompt, on_step=on_step)
        return self._ask(self._asking, prompt)

    def _among(self, catalogue: ToolIndex, prompt: str) -> Caller:
        """Return a caller of the tools that fit ``prompt``; where none does, of the first ones."""
        tools = catalogue.search(prompt) or catalogue.tools[: catalogue.k]
        names = tuple(tool.name for tool in tools)
        found = self._callers.get(names)
        if found is None:
            shared: dict[str, Any] = {}
            if self._asking is None:
                shared = {
                    "format": self.format,
                    "vocabulary": self.vocabulary,
                    "prefixes": self._prefixes,
                }
            found = Caller(self.model, tools, **self._given | shared)
            self._callers[names] = found
            if len(self._callers) > KEPT_CALLERS:
                self._callers.pop(next(iter(self._callers)), None)
        return found

    def _call(self, prompt: str, on_step: OnStep, batch: DecodeBatch | None = None) -> CallResult:
        """Return the call that ``prompt`` asks for; within a task of ``batch``, if there is one."""
        config.check_text(prompt)
        if self.catalogue is not None:
            caller = self._among(self.catalogue, prompt)
            return caller._call(prompt, on_step, batch)  # noqa: SLF001 - one of our own
        started = self._clock()
        messages = [{"role": "user", "content": prompt}]
        request = self._encode(self.format.request(messages, self.tools, self._controls))
        request, omitted, room = self._fit(request)
        if self._language.matcher.automaton.is_worn:
            self._language = self._language_of(
                self._limits.without_request(self._wish), is_shared=True
            )
        language = self._language
        if self._is_grounded:
            try:
                language = self._language_of(
                    self._limits.for_messages(self._wish, messages), is_shared=False
                )
            except GroundingError as error:
                return CallResult(call=None, remarks=(str(error),))
            check_budget(language.shortest_call(), min(self.max_tokens, room))
        encoded = self._clock()
        session = self._prefixes.fork(self._shared)
        if batch is not None and batch is not self._local:
            session = batch.share_passes(session)
        found = decode(
            session, language.matcher, language.choices, self._strategy, seeded(self._sampler, self._seed, prompt),
            DecodeRequest(request, prompt, min(self.max_tokens, room)), on_step, self._counts,
        )  # fmt: skip
        decoded = self._clock()
        call = self._read(found)
        checked = self._clock()
        seconds = {
            "prompt": encoded - started,
            "model": found.stats.seconds,
            "engine": decoded - encoded - found.stats.seconds,
            "check": checked - decoded,
            "total": checked - started,
        }
        return replace(self._outcome(call, found, seconds), omitted=omitted)

    def run(
        self,
        said: str | Conversation,
        execute: Execute_,
        *,
        tools: ToolProvider | None = None,
        **settings: Unpack[RunKeywords],
    ) -> RunResult:
        """Let the model call tools until it has answered; return the conversation and why it ended.

        ``said`` is a request, or a conversation that has something to answer (it is gone on with).
        ``execute`` gets the calls of a turn and returns a ``ToolResult`` for each, in any order
        (:func:`functions` makes one of Python functions). ``tools`` chooses which tools to offer in
        each turn (a ``ToolIndex`` does); None: the caller's own.

        ``steps`` (8) bounds the model's turns, ``repeats`` (1) how often one call may be made with the
        same arguments. ``clarify`` says what happens where a required argument is nowhere in what was
        said or returned: "off" nothing, "ask" a question in place of the call, "model" the model words
        that question. ``tool_choice`` (as OpenAI writes it), ``parallel`` and ``most_calls`` are what
        the grammar allows; ``plan`` lets calls of a turn refer to results of earlier ones. ``thinking``
        and ``text`` are most tokens of thought, and of text in front of required calls. ``decode`` is the
        JSON Schema, or the grammar, of an answer. ``options`` are those of each turn (see ``DecodingConfig``);
        ``on_event`` sees what is written as it becomes certain.

        Raises InputError for settings that cannot be met, ConversationError for results that do not
        belong to the calls, and what ``execute`` raises: the conversation then waits for the results
        and can be run on.
        """
        return self._runner(said, tools, settings).run(execute)

    async def arun(
        self,
        said: str | Conversation,
        execute: AsyncExecute | GatewayExecutor | PythonExecutor,
        *,
        tools: ToolProvider | None = None,
        **settings: Unpack[RunKeywords],
    ) -> RunResult:
        """Run as :meth:`run` does; ``execute`` is awaited, or :func:`functions`, or a gateway (:func:`through`).

        Cancelling it ends the model's turn with the step it is in; nothing of that turn counts.
        """
        return await self._runner(said, tools, settings).arun(execute)

    def _runner(
        self, said: str | Conversation, tools: ToolProvider | None, settings: RunKeywords
    ) -> AgentRunner:
        from callmemaybe.agent.runner import AgentRunner, RunConfig
        from callmemaybe.conversation import Conversation, UserMessage

        conversation = said if isinstance(said, Conversation) else Conversation()
        if conversation is not said:
            config.check_text(said, "said")
            conversation.take(UserMessage("user", str(said)))
        if not hasattr(tools or ToolIndex, "choose"):
            raise InputError("it must choose tools, as a ToolIndex does", where="tools")
        shelf = tools or self.catalogue or self.tools
        return AgentRunner(self.speaker, shelf, conversation, RunConfig(**settings))

    @cached_property
    def speaker(self) -> LocalGenerator | RemoteGenerator:
        """The same model and settings, for conversations."""
        if self._asking is not None:
            return RemoteGenerator.like(self._asking, self._clock)
        return LocalGenerator(
            self._local,
            format=self.format,
            choose=self._strategy.choose,
            max_tokens=self.max_tokens,
            sampler=self._sampler,
            seed=self._seed,
            vocabulary=self.vocabulary,
            prefixes=self._prefixes,
            clock=self._clock,
            limits=self._limits,
        )

    def submitting(self, at_once: int | None = None) -> AbstractContextManager[Submit[CallResult]]:
        """Return a function that takes a prompt and returns the future of its outcome.

        Of a model in this process, ``at_once`` prompts share forward passes, the next one entering
        when one is done; each gets what :meth:`call` would give it. A server gets so many requests at
        a time. ``submit(prompt, on_step)`` works from any thread; ``on_step`` is called in another.
        None: 8 for a server, 1 for a model in this process (``_submitting.AT_ONCE`` says why).
        At the end of the context what has not begun is dropped, and what runs is stopped; nobody
        waits for what a server still has to answer.
        """
        if self._asking is not None:
            return on_server(lambda prompt, on_step: self.call(prompt, on_step=on_step), at_once)
        return in_batch(self._call, self._local, at_once)

    def call_many(
        self, prompts: Iterable[str], *, at_once: int | None = None
    ) -> Iterator[CallResult]:
        """Yield the call of each prompt, in order, ``at_once`` of them being worked on at a time.

        See :meth:`submitting`, also for None. Raises what :meth:`call` raises, in place of the outcome it is raised
        for; nothing more is asked then.
        """
        if isinstance(prompts, str):
            raise InputError("each letter would be a request", where="prompts", hint="use call")
        return in_order(self.submitting(at_once), prompts, at_once)

    def _ask(self, asking: RemoteCaller, prompt: str) -> CallResult:
        """Return the call that a server makes of ``prompt``."""
        started = self._clock()
        try:
            asked = asking.ask(prompt)
        except GroundingError as error:
            return CallResult(call=None, remarks=(str(error),))
        if asked.call is not None:
            self._validators.check(asked.call)
        total = self._clock() - started
        return CallResult(
            call=asked.call,
            remarks=asked.remarks + self._validators.remarks(asked.call),
            seconds={"model": asked.answer.seconds, "total": total},
            text=asked.answer.text.encode(errors="replace"),
        )

    # -- what all requests share --------------------------------------------------------------

    @cached_property
    def _spellings(self) -> Mapping[bytes, str]:
        return self.format.encoded_names(self.tools)

    def _fit(self, request: list[int]) -> tuple[list[int], int, int]:
        """Return the request as far as it fits, how many ids it lost, and the room for an answer."""
        if self._local.context is None:
            return request, 0, self.max_tokens
        room = self._local.context - len(self._shared)
        keep = room - max(self._shortest, min(self.max_tokens, room // 4))
        if len(request) <= keep:
            return request, 0, room - len(request)
        if self._overflow == "refuse" or keep < LEAST_REQUEST:
            raise ModelError(
                f"the request takes {len(request)} tokens and the tools {len(self._shared)}, but "
                f"the context of {self._local.name!r} holds {self._local.context} with the answer; "
                "shorten them, show fewer (a ToolIndex does) or use a model with a longer context"
            )
        gap = self.vocabulary.encode(GAP)
        tail = (keep - len(gap)) // 2
        head = keep - len(gap) - tail
        omitted = len(request) - head - tail
        return [*request[:head], *gap, *request[-tail:]], omitted, room - keep

    def _encode(self, parts: PromptParts) -> list[int]:
        return encode(parts, self.vocabulary, self.format, self._local)

    # -- what became of one request -----------------------------------------------------------

    def _read(self, decoder: DecodeResult) -> ToolCall | None:
        """Return the call that was written, checked once more by an independent validator."""
        if not decoder.is_complete:
            return None
        calls = self.format.read(parts_of(decoder.symbols), self.tools, controls=self._controls)
        if not calls:
            return None
        (call,) = calls
        self._validators.check(call)
        return call

    def _counts(self, found: DecodeResult) -> bool:
        """Whether a candidate among several would be a call, or none."""
        try:
            self._read(found)
        except (DuplicateKeyError, SchemaViolationError):
            return False
        return True

    def _outcome(
        self,
        call: ToolCall | None,
        decoder: DecodeResult,
        seconds: Mapping[str, float],
    ) -> CallResult:
        name = None if call is None else call.name
        chances = self._distribution(decoder) if self._strategy.scores_names else {}
        chance = chances.get(name)
        others = (value for other, value in chances.items() if other != name)
        margin = None if chance is None else chance - max(others, default=1.0 - chance)
        return CallResult(
            call=call,
            name_probability=chance,
            margin=margin,
            distribution=chances,
            forced=len(decoder.forced),
            chosen=len(decoder.matcher.ids) - len(decoder.forced),
            remarks=self._validators.remarks(call),
            passes=decoder.stats.passes,
            seconds=seconds,
            text=symbols_to_bytes(decoder.symbols),
            steps=tuple(decoder.steps),
            logprob=decoder.logprob if self._strategy.scores_answers else None,
            argument_logprobs=self._by_argument(call, decoder),
        )

    def _by_argument(self, call: ToolCall | None, found: DecodeResult) -> dict[str, float]:
        """Return the log-probability of each argument's value."""
        if call is None or not found.logprobs or depth_of(call.parsed) > CHECKED_DEPTH:
            return {}
        lengths = [len(self.vocabulary.token(index)) or 1 for index in found.matcher.ids]
        scores = np.array(found.logprobs)
        reader = self.format.reader(self.tools, controls=self._controls)
        places = argument_places(reader, found.symbols)
        return scoring.logprob_by_member(scores, lengths, places, call.arguments)

    def _distribution(self, decoder: DecodeResult) -> dict[str | None, float]:
        """Return the probability of every name that was weighed, likeliest first."""
        names = [tool.name for tool in self.tools]
        if not decoder.decisions and len(names) == 1:
            return {names[0]: 1.0}
        return distribution(decoder.decisions, self._spellings, names)


def _check_server(*drawing: float) -> None:
    if drawing != (1.0, 0, 0.0):
        raise InputError("a server is asked with a temperature only", where="top_p, top_k, min_p")


def load_model(
    name: str | Path = "nano", *, cache: str | None = None, offline: bool | None = None
) -> Model | RemoteModel:
    """Load a model: "nano" (embedded), a folder or a file, or "org/name[:variant]" from the hub.

    ``http(s)://host/v1#model`` is a model on a server (see :mod:`models.remote`).

    ``cache`` is where downloads are kept; ``offline`` True downloads nothing. Both default to what
    the hub's usual environment variables say. Raises ModelError with what to do.
    """
    if not isinstance(name, str | Path):
        raise ModelError(f"a model's name or folder is needed, not {config.kind_of(name)}")
    if isinstance(name, str) and name.startswith(("http://", "https://")):
        return RemoteModel(name)
    return models.load(name, cache=cache, offline=offline)
