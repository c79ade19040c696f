"""Speaks for a model behind a server in a conversation: a turn is asked for as a whole.

Text beside calls needs a notation that can say "a call, or else any text": a grammar or a regular
expression. A server that only takes a JSON Schema is refused such a turn, for it would answer in JSON
whatever was said; turns in which it must call, or in which it cannot, it can take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from callmemaybe.errors import InputError, ModelError
from callmemaybe.generation.local import DecodingConfig, plain
from callmemaybe.generation.remote import (
    RemoteCaller,
    constraint_of,
    first_wrong,
    rewritten,
    schema_of,
)
from callmemaybe.generation.turn import TurnReader, TurnResult, run_to_end
from callmemaybe.generation.validation import CallValidator
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.models.remote import RemoteModel, StructuredOutput
from callmemaybe.tools import StreamEvent, ToolCall, ToolSpec
from callmemaybe.wire.format import Message
from callmemaybe.wire.grounding import GroundingConfig
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.plain_json import CONVERSATION_FORMAT, instructions

_NOTHING: frozenset[str] = frozenset()
#: Options of a turn that the servers' interfaces have in common.
_KNOWN = ("max_tokens", "temperature", "seed")
_OR_TEXT = "If no function fits, answer in words instead.\n"
_IN_TEXT = "Answer in words now, not with a function.\n"


class RemoteGenerator:
    """Lets one model on a server speak in conversations, as ``LocalGenerator`` does for one in this process.

    Turns are not streamed: their events come together, once the answer is there and was found to be in
    the language.
    """

    def __init__(
        self,
        remote: RemoteModel,
        *,
        max_tokens: int = 512,
        temperature: float = 0.0,
        seed: int | None = None,
        limits: GroundingConfig | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.format = CONVERSATION_FORMAT
        self._remote = remote
        self._usual = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
        self._limits = limits or GroundingConfig()
        self._clock = clock

    @classmethod
    def like(cls, asking: RemoteCaller, clock: Callable[[], float]) -> RemoteGenerator:
        """Return what speaks for the same model, with the same settings."""
        return cls(asking.remote, limits=asking.limits, clock=clock, **asking.settings)

    def speak(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        wanted: OutputSpec | None = None,
        options: DecodingConfig | None = None,
    ) -> TurnResult:
        """Return what the model says next; see :meth:`speaking`."""
        return run_to_end(self.speaking(messages, tools, wanted, options))

    def speaking(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        wanted: OutputSpec | None = None,
        options: DecodingConfig | None = None,
    ) -> Generator[tuple[StreamEvent, ...], None, TurnResult]:
        """Yield the events of the turn, and return the whole.

        Raises InputError for a wish or an option that no server can be asked for, ModelError if the
        server fails, can be told of the language in no way, or does not hold to it.
        """
        started = self._clock()
        wish = wanted or OutputSpec(calls=bool(tools), no_call=True)
        settings = self._settings(options or DecodingConfig())
        if wish.text:
            raise InputError("a server is asked for text or calls, not for both", where="text")
        if self._limits.depends_on_request(tools, wish.answer):
            wish = self._limits.for_messages(wish, messages)
        else:
            wish = replace(wish, order=self._limits.order)
        validators = CallValidator(tools, wish.answer)
        grammar = validators.language(self.format, wish, _NOTHING)
        constraint = _constraint(grammar, tools, wish)
        if constraint is not None:
            self._check(constraint)
        asked = self._remote.complete(_told(messages, tools, wish), constraint, **settings)
        said = asked.text
        if asked.finish == "length":
            yield ()
            return TurnResult(text="" if wish.calls else said, ended="length", raw=said)
        automaton = automaton_of(grammar)
        wrong = first_wrong(automaton, said)
        if wrong is not None:
            # By a schema, the server chooses spaces and the order of keys itself.
            again = rewritten(said, tools)
            if again is not None and first_wrong(automaton, again) is None:
                said, wrong = again, None
        if wrong is not None:
            shown = said.encode(errors="replace")[max(0, wrong - 30) : wrong + 10]
            raise ModelError(
                f"{self._remote.name} was given the grammar by {asked.way} and did not hold to it: "
                f"byte {wrong} of its answer, near {shown!r}"
            )
        stops = (options or DecodingConfig()).stop
        turn = TurnReader(self.format, tools, validators, _NOTHING, wish=wish, stops=stops)
        symbols = list(said.encode(errors="replace"))
        events = tuple(turn.end(symbols))
        turn.check()
        yield events
        return TurnResult(
            text=turn.text.decode(errors="replace"),
            calls=tuple(turn.calls),
            ended="repeated" if turn.is_repeated else "stop",
            stop=turn.stopped,
            seconds=self._clock() - started,
            raw=said,
        )

    def planning(
        self, *_: object, **__: object
    ) -> Generator[tuple[StreamEvent, ...], None, TurnResult]:
        """Refuse: each call of a plan has a language of its own, behind those before it."""
        raise InputError("plans need a model in this process, not one on a server", where="plan")

    def _settings(self, options: DecodingConfig) -> Mapping[str, Any]:
        usual = DecodingConfig()
        for name in ("top_p", "top_k", "min_p", "logprobs", "top_logprobs", "watch"):
            if getattr(options, name) != getattr(usual, name):
                raise InputError(
                    "a server is asked with max_tokens, temperature, seed and stop only", where=name
                )
        given = {name: getattr(options, name) for name in _KNOWN}
        return self._usual | {name: value for name, value in given.items() if value is not None}

    def _check(self, constraint: StructuredOutput) -> None:
        """Raise ModelError where the server has no notation for this."""
        if not self._remote.can_say(constraint):
            raise ModelError(
                f"{self._remote.name} (as {self._remote.dialect}) can only be held to a JSON Schema, "
                "which has no place for text beside calls; ask with tool_choice required or none, or "
                "use a server that takes grammars (vllm, llama.cpp, sglang)"
            )


def _constraint(
    grammar: Grammar, tools: Sequence[ToolSpec], wish: OutputSpec
) -> StructuredOutput | None:
    """Return the language in the notations of servers; None for text of any kind."""
    if not wish.calls and wish.answer is None and wish.answer_length is None:
        return None
    schema = None
    if wish.calls and not wish.no_call and wish.most == 1 and wish.answer is None:
        named = [tool for tool in tools if wish.only is None or tool.name in wish.only]
        schema = schema_of(named, no_call=False)
    elif not wish.calls and isinstance(wish.answer, Mapping):
        schema = dict(wish.answer)
    return constraint_of(grammar, schema)


def _told(
    messages: Sequence[Message], tools: Sequence[ToolSpec], wish: OutputSpec
) -> list[dict[str, str]]:
    """Return the conversation in roles that every server knows, no two alike in a row.

    Calls are told as they are to be written, results as what the user says.
    """
    parts = instructions(tools, _NOTHING) if tools else []
    system = "".join(part for part in parts if isinstance(part, str))
    if tools:
        system += "" if wish.calls and not wish.no_call else _OR_TEXT if wish.calls else _IN_TEXT
    told: list[dict[str, str]] = []
    for message in plain(messages):
        role, text = str(message["role"]), str(message.get("content") or "")
        if role in ("system", "developer"):
            system = f"{system}\n{text}" if system else text
            continue
        if role == "tool":
            role, text = "user", f"Result of {message.get('tool_call_id')}: {text}"
        for made in message.get("tool_calls") or ():
            function = made["function"]
            call = ToolCall(function["name"], function["arguments"], made["id"])
            written = CONVERSATION_FORMAT.render([call], tools=tools, controls=_NOTHING)
            text += "".join(part for part in written if isinstance(part, str)) + "\n"
        if told and told[-1]["role"] == role:
            told[-1]["content"] += f"\n{text}"
        else:
            told.append({"role": role, "content": text.strip("\n")})
    return [{"role": "system", "content": system}, *told] if system else told
