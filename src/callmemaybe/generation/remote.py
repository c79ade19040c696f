"""Generates turns with a model behind a server: the language goes out, and what comes back is checked.

A server may hold to a grammar in part or not at all, so nothing is taken on trust: the answer walks
through the same automaton that masks tokens elsewhere (:mod:`callmemaybe.generation.remote_answer`). Where a
server decides itself on spaces or the order of keys, the call is written anew in our way before it is
checked, and a remark says so.

Text beside calls needs a notation that can say "a call, or else any text": a grammar or a regular
expression. A server that takes only a JSON Schema is given the functions as functions, and what it calls is
checked. What is wrong can be asked for again (``repairs``), with what was wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from callmemaybe.conversation.history import content_text
from callmemaybe.errors import (
    DuplicateKeyError,
    GrammarError,
    InputError,
    SchemaViolationError,
    UpstreamError,
)
from callmemaybe.generation.config import DEFAULT_DECODING, DecodingConfig, check_text
from callmemaybe.generation.remote_answer import RemoteAnswer, RemoteConstraint
from callmemaybe.generation.result import TurnResult
from callmemaybe.generation.turn import OnStep, TurnGenerator, TurnSteps, TurnStream
from callmemaybe.generation.validation import CallValidator
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.export import to_ebnf, to_gbnf, to_regex
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.models.remote import Completion, RemoteModel, Sampling, StructuredOutput
from callmemaybe.tools import StreamEvent, ToolCall, ToolSpec
from callmemaybe.wire import Format
from callmemaybe.wire.format import Message
from callmemaybe.wire.grounding import GroundingConfig
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.plain_json import CALL_FORMAT, CONVERSATION_FORMAT, instructions

_NO_CONTROLS: frozenset[str] = frozenset()
#: What no server can be asked for: with another value these settings are refused.
_UNSUPPORTED: Mapping[str, Any] = {
    "best_of": 1, "beam": 1, "logprobs": False, "top_logprobs": 0, "call_logprobs": False, "trace": False,
}  # fmt: skip
#: What servers with OpenAI's interface alone do not know.
_UNCOMMON: Mapping[str, Any] = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
_OR_NULL = "If no function fits, answer null.\n"
_OR_TEXT = "If no function fits, answer in words instead.\n"
_IN_TEXT = "Answer in words now, not with a function.\n"
_WRONG = (
    "That answer is wrong: {problem}. Answer again, with what is wrong put right, and nothing else."
)
#: Constraints of single requests that are cached, by the identity of their tools.
_CACHE_SIZE = 16


@dataclass(frozen=True)
class _Asked:
    """What one turn is asked for: its form, its messages as they came, and what it may be."""

    form: Format
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    spec: OutputSpec
    config: DecodingConfig

    def again(self, answer: RemoteAnswer, problem: str) -> _Asked:
        """Return the request for another answer, with what was wrong with this one."""
        said = [
            {"role": "assistant", "content": answer.as_written or "(nothing)"},
            {"role": "user", "content": _WRONG.format(problem=problem)},
        ]
        spec, name = self.spec, answer.only_called
        if name is not None and name in {tool.name for tool in self.tools}:
            # A server can be held to the schema of one function, if to nothing else.
            spec = replace(spec, only=(name,), no_call=False, most=1)
        return replace(self, messages=[*self.messages, *said], spec=spec)


class RemoteGenerator(TurnGenerator):
    """Generates turns with one model on a server; usable from several threads at once.

    Text is streamed as far as it was found to be in the language; calls come together at the end. An answer
    that is not what was asked for is asked for again, ``repairs`` times, where nothing of it was given.
    Raises InputError for a ``format`` that needs control tokens, which a chat interface hides, and for
    settings of ``decoding`` that servers' interfaces do not have.
    """

    reads_images = True

    def __init__(
        self,
        remote: RemoteModel,
        *,
        format: str | Format | None = None,  # noqa: A002 - the word users know
        decoding: DecodingConfig | None = None,
        grounding: GroundingConfig | None = None,
        repairs: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if format not in (None, "json"):
            raise InputError(
                "a server writes plain JSON", where="format", hint="leave it out, or say json"
            )
        self.format = CONVERSATION_FORMAT
        self.decoding = (decoding or DecodingConfig()).over(DEFAULT_DECODING)
        self._remote = remote
        self._repairs = repairs
        self._check_supported(self.decoding)
        self._grounding = grounding or GroundingConfig()
        self._clock = clock
        self._constraints: dict[tuple[tuple[int, ...], OutputSpec], RemoteConstraint] = {}

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
            self._check_supported(decoding)
        if spec.text:
            raise InputError("a server is asked for text or calls, not for both", where="text")
        _check_contents(messages)
        return self._stream(CONVERSATION_FORMAT, messages, tools, spec, decoding)

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
        return self._stream(CALL_FORMAT, messages, tools, spec, decoding)

    def stream_plan(self, *_: object, **__: object) -> TurnStream:
        """Refuse: each call of a plan has a language of its own, behind those before it."""
        raise InputError("plans need a model in this process, not one on a server", where="plan")

    def prepare(self, tools: Sequence[ToolSpec], spec: OutputSpec) -> None:
        """Compile the constraint for single requests with these tools, and raise what is wrong with it."""
        self._shared_constraint(tools, replace(spec, order=self.decoding.order or spec.order))

    def _stream(
        self,
        form: Format,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        decoding: DecodingConfig | None,
    ) -> TurnStream:
        config = decoding.over(self.decoding) if decoding else self.decoding
        spec = replace(spec, order=config.order or spec.order)
        has_begun: list[bool] = []
        asked = _Asked(form, messages, tools, spec, config)
        return TurnStream(self._turn(asked, has_begun), has_begun=lambda: bool(has_begun))

    def _turn(self, asked: _Asked, has_begun: list[bool]) -> TurnSteps:
        started = self._clock()
        left = self._repairs
        while True:
            constraint = self._constraint(asked)
            answer = RemoteAnswer(
                self._remote, asked.form, constraint, asked.spec, asked.config.stop or ()
            )
            try:
                completion = yield from self._ask(asked, answer, has_begun)
                if completion is not None and _is_cut_off(completion, asked.form):
                    yield answer.rest_of_text()
                    return self._result(answer, "length", completion, started, self._clock())
                answered = self._clock()
                yield answer.end(completion, asked.config.budget)
                return self._result(answer, "", completion, started, answered)
            except (UpstreamError, DuplicateKeyError, SchemaViolationError) as error:
                is_answer = not isinstance(error, UpstreamError) or error.kind == "answer"
                if not left or answer.has_given or not (is_answer or answer.as_written):
                    raise
                left -= 1
                if is_answer and answer.as_written:
                    asked = asked.again(answer, answer.problem or str(error))

    def _ask(
        self, asked: _Asked, answer: RemoteAnswer, has_begun: list[bool]
    ) -> Generator[tuple[StreamEvent, ...], None, Completion | None]:
        """Yield the events of an answer as it comes; return it whole, None where a text ended it."""
        config, notations = asked.config, answer.constraint.notations
        sampling = Sampling(
            config.budget, config.temperature or 0.0, config.seed, _unless(config.top_p, 1.0),
            _unless(config.top_k, 0), _unless(config.min_p, 0.0), _unless(config.frequency_penalty, 0.0),
            _unless(config.presence_penalty, 0.0), _unless(config.repetition_penalty, 1.0),
            {str(index): amount for index, amount in config.logit_bias or ()} or None,
        )  # fmt: skip
        is_conversation = asked.form is CONVERSATION_FORMAT
        if notations is None:
            messages = [dict(one) for one in _native(asked.messages)]
        else:
            messages = _messages_of(asked.form, asked.messages, asked.tools, asked.spec)
            if is_conversation and asked.spec.calls:
                fields = _functions(asked)
                notations = replace(notations, functions=fields)
        fragments = self._remote.stream(messages, notations, sampling, is_streamed=is_conversation)
        try:
            while True:
                fragment = next(fragments)
                if fragment is None:
                    yield ()
                    continue
                has_begun[:] = [True]
                yield answer.take(fragment)
                if answer.is_over:
                    return None
        except StopIteration as ended:
            completion: Completion = ended.value
            return completion
        finally:
            fragments.close()

    def _result(
        self,
        answer: RemoteAnswer,
        ended: str,
        completion: Completion | None,
        started: float,
        answered: float,
    ) -> TurnResult:
        total = self._clock() - started
        waited = answered - started
        return answer.result(
            is_cut_off=ended == "length",
            completion=completion,
            seconds={"model": waited, "check": total - waited, "total": total},
        )

    def _constraint(self, asked: _Asked) -> RemoteConstraint:
        form, tools, spec = asked.form, asked.tools, asked.spec
        if self._grounding.depends_on_request(tools, spec.answer):
            texts = [{**one, "content": _text_of(one.get("content"))} for one in asked.messages]
            return self._new_constraint(form, tools, self._grounding.for_messages(spec, texts))
        if form is CALL_FORMAT:
            return self._shared_constraint(tools, spec)
        return self._new_constraint(form, tools, spec)

    def _shared_constraint(self, tools: Sequence[ToolSpec], spec: OutputSpec) -> RemoteConstraint:
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
    ) -> RemoteConstraint:
        validator = CallValidator(tools, spec.answer)
        if form is CONVERSATION_FORMAT and spec.calls and spec.answer is not None:
            # Both begin with a brace; so only a server that marks its calls can be asked for either.
            calls, answer = replace(spec, answer=None), replace(spec, calls=False)
            return RemoteConstraint(
                tuple(tools), validator,
                automaton_of(validator.grammar(form, calls, _NO_CONTROLS)), StructuredOutput(),
                automaton_of(validator.grammar(form, answer, _NO_CONTROLS)),
            )  # fmt: skip
        grammar = validator.grammar(form, spec, _NO_CONTROLS)
        notations = _notations(form, grammar, tools, spec)
        return RemoteConstraint(tuple(tools), validator, automaton_of(grammar), notations)

    def _check_supported(self, decoding: DecodingConfig) -> None:
        refused = _UNSUPPORTED
        if any(getattr(decoding, name) not in (None, usual) for name, usual in _UNCOMMON.items()):
            # The server is asked for its dialect only then.
            refused = refused | (_UNCOMMON if self._remote.dialect == "openai" else {})  # type: ignore[operator]
        for name, usual in refused.items():
            if getattr(decoding, name) not in (None, usual):
                raise InputError(
                    "a server is asked with max_tokens, temperature, top_p, penalties, logit_bias, seed and stop only",
                    where=name,
                )


def _unless(value: Any, usual: Any) -> Any:
    """Return a value, None where it is the usual one."""
    return None if value == usual else value


def _is_cut_off(completion: Completion, form: Format) -> bool:
    return completion.finish == "length" and form is CONVERSATION_FORMAT


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


def _functions(asked: _Asked) -> dict[str, Any]:
    """Return the fields by which a server that calls functions itself is asked for a turn."""
    spec, tools = asked.spec, asked.tools
    named = [tool for tool in tools if spec.only is None or tool.name in spec.only]
    choice: Any = "auto" if spec.no_call else "required"
    if not spec.no_call and len(named) == 1:
        choice = {"type": "function", "function": {"name": named[0].name}}
    fields: dict[str, Any] = {
        "messages": [dict(one) for one in _native(asked.messages)],
        "tools": [tool.as_openai() for tool in named],
        "tool_choice": choice,
    }
    if spec.most == 1:
        fields["parallel_tool_calls"] = False
    if isinstance(spec.answer, Mapping):
        schema = {"name": "answer", "schema": dict(spec.answer), "strict": True}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return fields


def _native(messages: Sequence[Message]) -> list[Message]:
    """Return messages as they came, in texts that a request can carry."""
    return [{**one, "content": _content(one.get("content"))} for one in messages]


def _messages_of(
    form: Format, messages: Sequence[Message], tools: Sequence[ToolSpec], spec: OutputSpec
) -> list[dict[str, Any]]:
    """Return the conversation in roles that every server knows, no two alike in a row.

    Calls are merged as they are to be written, results as what the user says.
    """
    parts = instructions(tools, _NO_CONTROLS) if tools else []
    system = "".join(part for part in parts if isinstance(part, str))
    if tools and not spec.calls:
        system += _IN_TEXT
    elif tools and spec.no_call:
        system += _OR_NULL if form is CALL_FORMAT else _OR_TEXT
    merged: list[dict[str, Any]] = []
    for message in messages:
        role, content = str(message["role"]), _content(message.get("content"))
        if role in ("system", "developer"):
            text = _text_of(content)
            system = f"{system}\n{text}" if system else text
            continue
        if role == "tool":
            role, content = (
                "user",
                _joined(f"Result of {message.get('tool_call_id')}: ", content, ""),
            )
        for made in message.get("tool_calls") or ():
            function = made["function"]
            call = ToolCall(function["name"], function["arguments"], made["id"])
            written = CONVERSATION_FORMAT.render([call], tools=tools, controls=_NO_CONTROLS)
            content += "".join(part for part in written if isinstance(part, str)) + "\n"
        if isinstance(content, str):
            content = content if merged and merged[-1]["role"] == role else content.strip("\n")
        if merged and merged[-1]["role"] == role:
            merged[-1]["content"] = _joined(merged[-1]["content"], content, "\n")
        else:
            merged.append({"role": role, "content": content})
    return [{"role": "system", "content": system}, *merged] if system else merged


def _check_contents(messages: Sequence[Message]) -> None:
    """Raise InputError, with the JSON pointer, for a part of a content that is neither text nor picture."""
    for number, message in enumerate(messages):
        content = message.get("content")
        if isinstance(content, str | None):
            continue
        parts = [_PICTURE if _is_picture(part) else part for part in content]
        content_text(parts, f"/messages/{number}")


_PICTURE = {"type": "text", "text": ""}


def _is_picture(part: Any) -> bool:
    image = part.get("image_url") if isinstance(part, Mapping) else None
    return isinstance(image, Mapping) and isinstance(image.get("url"), str)


def _content(content: Any) -> Any:
    """Return a content as a text, or, where it has pictures, as parts.

    Halves of surrogate pairs, which no request can carry, are question marks.
    """
    if isinstance(content, str | None):
        return str(content or "").encode(errors="replace").decode()
    if not any(map(_is_picture, content)):
        return _content(_text_of(content))
    return [
        {"type": "image_url", "image_url": dict(part["image_url"])} if _is_picture(part)
        else {"type": "text", "text": _content(part["text"])}
        for part in content
    ]  # fmt: skip


def _text_of(content: Any) -> str:
    """Return the text of a content without its pictures."""
    if isinstance(content, str | None):
        return content or ""
    return "".join(str(part.get("text") or "") for part in content)


def _joined(one: Any, other: Any, between: str) -> Any:
    """Return two contents, one behind the other."""
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}{between}{other}"
    parts = [
        [{"type": "text", "text": each}] if isinstance(each, str) else each for each in (one, other)
    ]
    return [part for each in parts for part in each if part.get("text") != ""]


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
