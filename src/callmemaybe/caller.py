"""One request in, one checked function call out: the rooms put together, and nothing else.

::

    from callmemaybe import Caller, load_model
    caller = Caller(load_model("nano"), tools)
    caller.call("What is 2 plus 3?").call     # ToolCall(name='add', arguments='{"a":2,"b":3}')

What all requests share (instructions and tool list, grammar, automaton and masks) is made once per list of
tools and cached by the generator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from callmemaybe import models
from callmemaybe.decoding.batch import DecodeBatch
from callmemaybe.decoding.decoder import Step
from callmemaybe.decoding.prefix_cache import PrefixCache
from callmemaybe.errors import GroundingError, InputError, ModelError
from callmemaybe.generation.batching import OnStep, Submit, in_batch, in_order, on_server
from callmemaybe.generation.config import DecodingConfig, check_text, kind_of
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.remote import RemoteGenerator
from callmemaybe.generation.result import CallResult
from callmemaybe.generation.turn import TurnGenerator
from callmemaybe.models.base import Model
from callmemaybe.models.remote import RemoteModel
from callmemaybe.retrieval import CHOSEN_TOOLS, ToolIndex
from callmemaybe.tools import ToolLike, ToolSpec, tool_specs
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import Format
from callmemaybe.wire.grounding import GroundingConfig
from callmemaybe.wire.output_grammar import OutputSpec

if TYPE_CHECKING:
    from callmemaybe.agent.runner import (
        AgentRunner,
        AsyncExecute,
        Execute,
        Executor,
        RunKeywords,
        RunResult,
        ToolProvider,
    )
    from callmemaybe.conversation import Conversation

__all__ = ["CallResult", "Caller", "Step", "load_model"]


class Caller:
    """Turns requests into calls of some tools, with one model.

    ``model`` is a loaded model, ``tools`` are the functions (Python's, or their definitions in JSON); of a
    ``ToolIndex``, and of more than the model tells apart (nano: 64), each request gets those that fit it. ``format`` is the wire format (a name, or the path
    of a file with one; None: detected from the model's files). ``no_call`` lets the model decide that no
    function fits. ``max_tokens`` is short for that of ``decoding``, which says how tokens are chosen;
    ``grounding`` limits arguments to values that the request contains (a parameter asks for it with
    ``x-ground``). ``prefix_cache`` keeps what requests have in common; callers of one model may share it.
    ``clock`` returns seconds.

    Raises InputError (UnsupportedSchema) for tools whose schemas cannot be guaranteed, BudgetError for a
    ``max_tokens`` below the shortest valid call, ModelError for a model that cannot be used.
    """

    def __init__(
        self,
        model: Model | RemoteModel,
        tools: Iterable[ToolLike] | ToolIndex,
        *,
        format: str | Format | None = None,  # noqa: A002 - the word users know
        no_call: bool = False,
        max_tokens: int | None = None,
        decoding: DecodingConfig | None = None,
        grounding: GroundingConfig | None = None,
        vocabulary: Vocabulary | None = None,
        prefix_cache: PrefixCache | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if isinstance(model, str | Path) or not hasattr(model, "name"):
            raise InputError(
                f"a loaded model is needed, not {kind_of(model)}", where="model",
                hint=f"give load_model({model if isinstance(model, str) else 'nano'!r})",
            )  # fmt: skip
        self.model = model
        self.index = tools if isinstance(tools, ToolIndex) else None
        self.tools = tools.tools if isinstance(tools, ToolIndex) else tool_specs(tools)
        self.no_call = no_call
        self._spec = OutputSpec(no_call=no_call)
        if decoding is not None and not isinstance(decoding, DecodingConfig):
            raise InputError(f"it must be DecodingConfig(...), not {decoding!r}", where="decoding")
        config = DecodingConfig(max_tokens=max_tokens).over(decoding or DecodingConfig())
        #: Generates turns; for conversations with other tools, see ``AgentRunner``.
        self.generator: TurnGenerator
        if isinstance(model, RemoteModel):
            self.generator = RemoteGenerator(
                model, format=format, decoding=config, grounding=grounding, clock=clock
            )
        else:
            self.generator = LocalGenerator(
                model, format=format, decoding=config, grounding=grounding, vocabulary=vocabulary,
                prefix_cache=prefix_cache, clock=clock,
            )  # fmt: skip
        most = self.generator.format.most_tools
        if self.index is None and most is not None and len(self.tools) > most:
            self.index = ToolIndex(self.tools, k=CHOSEN_TOOLS)
        # Of an index the first tool stands for all: the others are compiled when they are chosen.
        self.generator.prepare(self.tools if self.index is None else self.tools[:1], self._spec)

    def call(self, prompt: str, *, on_step: OnStep = None) -> CallResult:
        """Return the call that ``prompt`` asks for; ``on_step`` is called with each step as it is taken.

        Raises InputError for a prompt that is no text; ModelError if the model fails, if the tools alone
        fill its context, or if the prompt does not fit and may not be cut; SchemaViolationError for a
        call that its schema forbids where no grammar can, DuplicateKeyError for one with a key twice.
        """
        return self._call(prompt, on_step)

    def _call(
        self, prompt: str, on_step: OnStep = None, batch: DecodeBatch | None = None
    ) -> CallResult:
        tools = self._tools_for(prompt)
        # A model that is a batch opens sessions that share passes by itself.
        seat = None if batch is None or batch is self.model else batch.share_passes
        try:
            turn = self.generator.stream_call(prompt, tools, self._spec, on_step=on_step, seat=seat)
            return CallResult.of(turn.run_to_end())
        except GroundingError as error:
            return CallResult(call=None, remarks=(str(error),))

    def _tools_for(self, prompt: str) -> Sequence[ToolSpec]:
        """Return the tools that fit ``prompt``; where none does, the first ones."""
        if self.index is None:
            return self.tools
        check_text(prompt)
        return self.index.search(prompt) or self.index.tools[: self.index.k]

    def run(
        self,
        conversation: str | Conversation,
        execute: Execute,
        *,
        tools: ToolProvider | Iterable[ToolLike] | None = None,
        **config: Unpack[RunKeywords],
    ) -> RunResult:
        """Let the model call tools until it has answered; return the conversation and why it ended.

        ``conversation`` is a request, or a conversation that has something to answer; ``execute`` gets the
        calls of a turn and returns a ``ToolResult`` for each (``PythonExecutor`` makes one of functions).
        ``tools`` are offered in place of the caller's own. The keywords are the fields of ``RunConfig``,
        and errors those of :meth:`AgentRunner.run`.
        """
        return self._runner(tools, config).run(conversation, execute)

    async def arun(
        self,
        conversation: str | Conversation,
        execute: AsyncExecute | Executor,
        *,
        tools: ToolProvider | Iterable[ToolLike] | None = None,
        **config: Unpack[RunKeywords],
    ) -> RunResult:
        """Run as :meth:`run` does; ``execute`` is awaited, or a ``PythonExecutor`` or ``GatewayExecutor``.

        Cancelling it ends the model's turn with the step it is in, and discards that turn.
        """
        return await self._runner(tools, config).arun(conversation, execute)

    def _runner(
        self, tools: ToolProvider | Iterable[ToolLike] | None, config: RunKeywords
    ) -> AgentRunner:
        from callmemaybe.agent.runner import AgentRunner, RunConfig

        offered = tools if tools is not None else self.index or self.tools
        return AgentRunner(self.generator, offered, RunConfig(**config))

    def submitting(self, at_once: int | None = None) -> AbstractContextManager[Submit[CallResult]]:
        """Return a function that takes a prompt and returns the future of its result.

        Of a model in this process, ``at_once`` prompts share forward passes, the next one entering
        when one is done; each gets what :meth:`call` would give it. A server gets so many requests at
        a time. ``submit(prompt, on_step)`` works from any thread; ``on_step`` is called in another.
        None: 8 for a server, 1 for a model in this process (``generation.batching`` says why).
        At the end of the context what has not begun is dropped, and what runs is stopped; nobody
        waits for what a server still has to answer.
        """
        if isinstance(self.model, RemoteModel):
            return on_server(self._call, at_once)
        return in_batch(self._call, self.model, at_once)

    def call_many(
        self, prompts: Iterable[str], *, at_once: int | None = None
    ) -> Iterator[CallResult]:
        """Yield the call of each prompt, in order, ``at_once`` of them being worked on at a time.

        See :meth:`submitting`, also for None. Raises what :meth:`call` raises, in place of the result it is
        raised for; no further prompt is asked then.
        """
        if isinstance(prompts, str):
            raise InputError("each letter would be a request", where="prompts", hint="use call")
        return in_order(self.submitting(at_once), prompts, at_once)


def load_model(
    name: str | Path = "nano",
    *,
    cache: str | None = None,
    offline: bool | None = None,
    most_threads: int | None = None,
) -> Model | RemoteModel:
    """Load a model: "nano" (embedded), a folder or a file, or "org/name[:variant]" from the hub.

    ``http(s)://host/v1#model`` is a model on a server (see :mod:`models.remote`).

    ``cache`` is where downloads are kept; ``offline`` True downloads nothing. Both default to what
    the hub's usual environment variables say. ``most_threads`` bounds the threads of a forward pass.
    Raises ModelError with what to do.
    """
    if not isinstance(name, str | Path):
        raise ModelError(f"a model's name or folder is needed, not {kind_of(name)}")
    if isinstance(name, str) and name.startswith(("http://", "https://")):
        return RemoteModel(name)
    return models.load(name, cache=cache, offline=offline, most_threads=most_threads)
