"""Generates turns with a model behind a server: the language goes out, and what comes back is checked.

A server may hold to a grammar in part or not at all, so nothing is taken on trust: the answer walks
through the same automaton that masks tokens elsewhere. Where a server decides itself on spaces or the
order of keys, the call is written anew in our way before it is checked, and a remark says so.

Text beside calls needs a notation that can say "a call, or else any text": a grammar or a regular
expression. A server that takes only a JSON Schema is refused such a turn, for it would answer in JSON
whatever the request; turns in which it must call, or in which it cannot, it can take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from callmemaybe.errors import GrammarError, InputError, ModelError
from callmemaybe.generation.config import DEFAULT_DECODING, DecodingConfig, check_text
from callmemaybe.generation.result import TurnResult
from callmemaybe.generation.turn import (
    OnStep,
    TurnGenerator,
    TurnReader,
    TurnSteps,
    TurnStream,
    plain_messages,
)
from callmemaybe.generation.validation import CallValidator, check_keys
from callmemaybe.grammar import Automaton
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.export import to_ebnf, to_gbnf, to_regex
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.jsonio import dumps, loads
from callmemaybe.models.remote import Completion, RemoteModel, StructuredOutput
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire import Format
from callmemaybe.wire.format import Message
from callmemaybe.wire.grounding import GroundingConfig
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.plain_json import CALL_FORMAT, CONVERSATION_FORMAT, instructions

_NO_CONTROLS: frozenset[str] = frozenset()
#: What servers' interfaces have in common; with another value these settings are refused.
_UNSUPPORTED: Mapping[str, Any] = {
    "top_p": 1.0, "top_k": 0, "min_p": 0.0, "best_of": 1, "beam": 1, "logprobs": False,
    "top_logprobs": 0, "call_logprobs": False,
}  # fmt: skip
_OR_NULL = "If no function fits, answer null.\n"
_OR_TEXT = "If no function fits, answer in words instead.\n"
_IN_TEXT = "Answer in words now, not with a function.\n"
#: Constraints of single requests that are cached, by the identity of their tools.
_CACHE_SIZE = 16


@dataclass(frozen=True)
class _RemoteConstraint:
    """What a turn may be: to check it by, and in the server's notations (None: any text)."""

    tools: Sequence[ToolSpec]
    validator: CallValidator
    automaton: Automaton
    notations: StructuredOutput | None


class RemoteGenerator(TurnGenerator):
    """Generates turns with one model on a server; usable from several threads at once.

    Turns are not streamed: their events come together, once the answer is there and was found to be in
    the language. Raises InputError for a ``format`` that needs control tokens, which a chat interface
    hides, and for settings of ``decoding`` that servers' interfaces do not have.
    """

    def __init__(
        self,
        remote: RemoteModel,
        *,
        format: str | Format | None = None,  # noqa: A002 - the word users know
        decoding: DecodingConfig | None = None,
        grounding: GroundingConfig | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if format not in (None, "json"):
            raise InputError(
                "a server writes plain JSON", where="format", hint="leave it out, or say json"
            )
        self.format = CONVERSATION_FORMAT
        self.decoding = (decoding or DecodingConfig()).over(DEFAULT_DECODING)
        _check_supported(self.decoding)
        self._remote = remote
        self._grounding = grounding or GroundingConfig()
        self._clock = clock
        self._constraints: dict[tuple[tuple[int, ...], OutputSpec], _RemoteConstraint] = {}

    def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        spec: OutputSpec | None = None,
        decoding: DecodingConfig | None = None,
    ) -> TurnStream:
        """Return the next turn of a conversation; see :meth:`TurnGenerator.stream`."""
        spec = spec or OutputSpec(calls=bool(tools), no_call=True)
        if decoding is not None:
            _check_supported(decoding)
            if decoding.trace:
                raise InputError("a server reports no steps", where="trace")
        if spec.text:
            raise InputError("a server is asked for text or calls, not for both", where="text")
        return TurnStream(self._turn(CONVERSATION_FORMAT, messages, tools, spec, decoding))

    def stream_call(
        self,
        prompt: str,
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        decoding: DecodingConfig | None = None,
        *,
        on_step: OnStep = None,  # noqa: ARG002 - a server reports no steps
        seat: object = None,  # noqa: ARG002 - nor has it sessions here
    ) -> TurnStream:
        """Return the turn that answers one request with one call; see :meth:`TurnGenerator.stream_call`."""
        check_text(prompt)
        messages = [{"role": "user", "content": prompt}]
        return TurnStream(self._turn(CALL_FORMAT, messages, tools, spec, decoding))

    def stream_plan(self, *_: object, **__: object) -> TurnStream:
        """Refuse: each call of a plan has a language of its own, behind those before it."""
        raise InputError("plans need a model in this process, not one on a server", where="plan")

    def prepare(self, tools: Sequence[ToolSpec], spec: OutputSpec) -> None:
        """Compile the constraint for single requests with these tools, and raise what is wrong with it."""
        self._shared_constraint(tools, replace(spec, order=self.decoding.order or spec.order))

    def _turn(
        self,
        form: Format,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        decoding: DecodingConfig | None,
    ) -> TurnSteps:
        started = self._clock()
        config = decoding.over(self.decoding) if decoding else self.decoding
        spec = replace(spec, order=config.order or spec.order)
        constraint = self._constraint(form, messages, tools, spec)
        completion = self._remote.complete(
            _messages_of(form, messages, tools, spec), constraint.notations,
            max_tokens=config.budget, temperature=config.temperature or 0.0,
            seed=config.seed,
        )  # fmt: skip
        answered = self._clock()
        written = completion.text
        remarks: tuple[str, ...] = ()
        if completion.finish == "length" and form is CONVERSATION_FORMAT:
            yield ()
            seconds = {"model": answered - started, "total": answered - started}
            return TurnResult(
                text="" if spec.calls else written, ended="length", seconds=seconds,
                raw=written.encode(errors="replace"),
            )  # fmt: skip
        wrong = first_wrong(constraint.automaton, written)
        if wrong is not None:
            again = rewritten(written, tools)
            if again is None or first_wrong(constraint.automaton, again) is not None:
                raise ModelError(self._complaint(completion, wrong, config))
            written = again
            remarks = (
                f"asked by {completion.way}, the server chose spaces or the order of keys itself",
            )
        reader = TurnReader(
            form, tools, constraint.validator, _NO_CONTROLS, spec=spec, stops=config.stop or ()
        )
        events = tuple(reader.end(list(written.encode(errors="replace"))))
        reader.check()
        yield events
        total = self._clock() - started
        calls = tuple(reader.calls)
        return TurnResult(
            text=reader.text.decode(errors="replace"),
            calls=calls,
            ended="repeated" if reader.is_repeated else "stop",
            stop=reader.stopped,
            seconds={
                "model": answered - started,
                "check": total - (answered - started),
                "total": total,
            },
            raw=completion.text.encode(errors="replace"),
            remarks=(*remarks, *reader.remarks(calls)),
        )

    def _constraint(
        self,
        form: Format,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
    ) -> _RemoteConstraint:
        if self._grounding.depends_on_request(tools, spec.answer):
            return self._new_constraint(form, tools, self._grounding.for_messages(spec, messages))
        if form is CALL_FORMAT:
            return self._shared_constraint(tools, spec)
        return self._new_constraint(form, tools, spec)

    def _shared_constraint(self, tools: Sequence[ToolSpec], spec: OutputSpec) -> _RemoteConstraint:
        """Return the constraint of single requests, from the cache if it is there."""
        key = tuple(map(id, tools)), spec  # what is cached keeps its tools alive
        found = self._constraints.get(key)
        if found is None:
            found = self._new_constraint(CALL_FORMAT, tools, self._grounding.without_request(spec))
            self._constraints[key] = found
            if len(self._constraints) > _CACHE_SIZE:
                self._constraints.pop(next(iter(self._constraints)), None)
        return found

    def _new_constraint(
        self, form: Format, tools: Sequence[ToolSpec], spec: OutputSpec
    ) -> _RemoteConstraint:
        validator = CallValidator(tools, spec.answer)
        grammar = validator.grammar(form, spec, _NO_CONTROLS)
        notations = _notations(form, grammar, tools, spec)
        if (
            form is CONVERSATION_FORMAT
            and notations is not None
            and not self._remote.can_say(notations)
        ):
            raise ModelError(
                f"{self._remote.name} (as {self._remote.dialect}) can only be held to a JSON Schema, "
                "which has no place for text beside calls; ask with tool_choice required or none, or "
                "use a server that takes grammars (vllm, llama.cpp, sglang)"
            )
        return _RemoteConstraint(tuple(tools), validator, automaton_of(grammar), notations)

    def _complaint(self, completion: Completion, wrong: int, config: DecodingConfig) -> str:
        shown = completion.text.encode(errors="replace")[max(0, wrong - 30) : wrong + 10]
        where = f"{self._remote.name} was given the grammar by {completion.way}"
        if completion.finish == "length":
            return f"{where}; its answer was cut off at {config.budget} tokens"
        return f"{where} and did not hold to it: byte {wrong} of its answer, near {shown!r}"


def _check_supported(decoding: DecodingConfig) -> None:
    for name, usual in _UNSUPPORTED.items():
        if getattr(decoding, name) not in (None, usual):
            raise InputError(
                "a server is asked with max_tokens, temperature, seed and stop only", where=name
            )


def _notations(
    form: Format, grammar: Grammar, tools: Sequence[ToolSpec], spec: OutputSpec
) -> StructuredOutput | None:
    """Return the language in the notations of servers; None for text of any kind."""
    if not spec.calls and spec.answer is None and spec.answer_length is None:
        return None
    schema = None
    has_null = form is CALL_FORMAT and spec.no_call
    if spec.calls and (has_null or not spec.no_call) and spec.most == 1 and spec.answer is None:
        named = [tool for tool in tools if spec.only is None or tool.name in spec.only]
        schema = schema_of(named, no_call=has_null)
    elif not spec.calls and isinstance(spec.answer, Mapping):
        schema = dict(spec.answer)
    return notations_of(grammar, schema)


def _messages_of(
    form: Format, messages: Sequence[Message], tools: Sequence[ToolSpec], spec: OutputSpec
) -> list[dict[str, str]]:
    """Return the conversation in roles that every server knows, no two alike in a row.

    Calls are merged as they are to be written, results as what the user says.
    """
    parts = instructions(tools, _NO_CONTROLS) if tools else []
    system = "".join(part for part in parts if isinstance(part, str))
    if tools and not spec.calls:
        system += _IN_TEXT
    elif tools and spec.no_call:
        system += _OR_NULL if form is CALL_FORMAT else _OR_TEXT
    merged: list[dict[str, str]] = []
    for message in plain_messages(messages):
        role, text = str(message["role"]), _encodable(message.get("content"))
        if role in ("system", "developer"):
            system = f"{system}\n{text}" if system else text
            continue
        if role == "tool":
            role, text = "user", f"Result of {message.get('tool_call_id')}: {text}"
        for made in message.get("tool_calls") or ():
            function = made["function"]
            call = ToolCall(function["name"], function["arguments"], made["id"])
            written = CONVERSATION_FORMAT.render([call], tools=tools, controls=_NO_CONTROLS)
            text += "".join(part for part in written if isinstance(part, str)) + "\n"
        if merged and merged[-1]["role"] == role:
            merged[-1]["content"] += f"\n{text}"
        else:
            merged.append({"role": role, "content": text.strip("\n")})
    return [{"role": "system", "content": system}, *merged] if system else merged


def _encodable(content: object) -> str:
    """Return a message's text; halves of surrogate pairs, which no request can carry, as question marks."""
    return str(content or "").encode(errors="replace").decode()


def first_wrong(automaton: Automaton, text: str) -> int | None:
    """Return how many bytes are right before the first that is not; None if all are."""
    data = text.encode(errors="replace")
    state = automaton.start
    for at, byte in enumerate(data):
        state = automaton.step(state, byte)
        if state < 0:
            return at
    return None if automaton.is_accepting(state) else len(data)


def rewritten(text: str, tools: Sequence[ToolSpec]) -> str | None:
    """Return an answer in our own spelling, if it is JSON of the right shape.

    Raises DuplicateKeyError: to read it as a value would lose one of the two.
    """
    try:
        found = loads(text)
    except (ValueError, InputError, RecursionError):
        return None
    if found is None:
        return "null"
    if not isinstance(found, dict) or found.keys() != {"name", "arguments"}:
        return None
    check_keys(text)
    tool = next((tool for tool in tools if tool.name == found["name"]), None)
    if tool is None or not isinstance(found["arguments"], dict):
        return None
    arguments = dumps(_ordered(found["arguments"], tool.parameters))
    call = ToolCall(tool.name, arguments)
    parts = CALL_FORMAT.render([call], tools=[tool], controls=_NO_CONTROLS)
    return "".join(part for part in parts if isinstance(part, str))


def notations_of(grammar: Grammar, schema: Mapping[str, Any] | None) -> StructuredOutput:
    """Return a language in every notation that can say it; ``schema`` is the JSON Schema of it."""
    return StructuredOutput(
        gbnf=_written(to_gbnf, grammar),
        ebnf=_written(to_ebnf, grammar),
        regex=_written(to_regex, grammar),
        schema=schema,
    )


def _written(exporter: Callable[[Grammar], str], grammar: Grammar) -> str | None:
    try:
        return exporter(grammar)
    except GrammarError:
        return None  # not in this notation


def _ordered(value: Any, schema: Any) -> Any:
    """Return the value with its keys in the order of the schema's properties."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(value, dict) or not isinstance(properties, Mapping):
        return value
    known = [key for key in properties if key in value]
    others = [key for key in value if key not in properties]
    return {key: _ordered(value[key], properties.get(key)) for key in [*known, *others]}


def schema_of(tools: Sequence[ToolSpec], *, no_call: bool) -> dict[str, Any]:
    """Return the language of one call as a JSON Schema."""
    several = len(tools) > 1 or no_call
    options: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        root = f"#/anyOf/{index}/properties/arguments" if several else "#/properties/arguments"
        inner = _moved(dict(tool.parameters), root)
        options.append(
            {
                "type": "object",
                "properties": {"name": {"const": tool.name}, "arguments": inner},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    if no_call:
        options.append({"type": "null"})
    return {"anyOf": options} if several else options[0]


def _moved(schema: Any, root: str) -> Any:
    """Return a schema whose references from its own root start at ``root`` instead."""
    if isinstance(schema, list):
        return [_moved(each, root) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {key: _moved(value, root) for key, value in schema.items()}
    target = found.get("$ref")
    if isinstance(target, str) and target.startswith("#"):
        found["$ref"] = root + target[1:]
    return found
