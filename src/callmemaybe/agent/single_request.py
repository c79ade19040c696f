"""A model that reads one request and calls functions, in the loop of an agent that expects a conversation.

What such a model does not read (instructions, earlier turns) is left out and named. What it cannot write is made
by rules that can be stated:

- A compound request becomes several calls (see :mod:`callmemaybe.agent.several_calls`).
- After the results of functions that are offered it makes the calls that the request still asks for; then it answers in text, which is rendered from the results. Where the client wants a call
  (``tool_choice``), it fills a function that it has not called yet, with the results behind the request.
- An answer by a JSON Schema is the filling of one function with that schema.
- Where it is to answer in text, or no function fits, it says so in a sentence; likewise where the function that fits
  requires a value that the request does not say.
- A function that hands in the final answer is called last (see :mod:`callmemaybe.agent.framing`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from callmemaybe.agent.framing import is_final, plain_conversation, request_within, text_parameter
from callmemaybe.agent.several_calls import Turn, call_parts, cost_of, follow_up
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.result import TOO_UNSURE, TurnResult
from callmemaybe.generation.turn import TurnGenerator, TurnStream
from callmemaybe.retrieval import shown_tools
from callmemaybe.tools import (
    ArgumentsDelta,
    CallStarted,
    ToolCall,
    ToolSpec,
)
from callmemaybe.values import OPPOSITE, SEEMS
from callmemaybe.wire.format import Format
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.said_values import NOT_SAID

Message = Mapping[str, Any]
Opened = Callable[[TurnStream], None]
#: What it says where it has nothing to call.
NO_TEXT = "I can only call functions; there is none to call here."
NOTHING_FITS = "None of the functions fits this request."
#: The function that stands for an answer by a schema.
_ANSWER = "answer"


@dataclass(frozen=True)
class SingleRequest:
    """A conversation as a model that reads one request takes it.

    ``text`` is the request; ``results`` are the results (function, content) that came behind it; ``unread`` names the
    parts of the conversation that are left out.
    """

    text: str
    results: tuple[tuple[str, str], ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def with_results(self) -> str:
        """The request with the results, in words, behind it."""
        results = ", ".join(_plain(content) for _, content in self.results)
        return f"{self.text} ({results})" if results else self.text


def read_conversation(messages: Sequence[Message]) -> SingleRequest:
    """Return the last request of a conversation with the results that belong to it."""
    messages = plain_conversation(messages)
    last = max((at for at, one in enumerate(messages) if one["role"] == "user"), default=-1)
    names: dict[str, str] = {}
    results = []
    for message in messages[last + 1 :]:
        for made in message.get("tool_calls") or ():
            names[made["id"]] = made["function"]["name"]
        if message["role"] == "tool":
            results.append(
                (names.get(message["tool_call_id"], ""), str(message.get("content") or ""))
            )
    text, is_framed = request_within(str(messages[last].get("content") or "") if last >= 0 else "")
    unread = {
        "system": "instructions",
        "user": "earlier turns",
        "assistant": "earlier turns",
        "tool": "earlier turns",
    }
    left_out = [*messages[: max(last, 0)]]
    # An answer behind the request is not read either: what it goes back to is.
    left_out += [
        one
        for one in messages[last + 1 :]
        if one["role"] == "assistant" and not one.get("tool_calls")
    ]
    found = dict.fromkeys(unread[one["role"]] for one in left_out)
    if is_framed:
        found = {"instructions": None, **found}
    return SingleRequest(text, tuple(results), tuple(found))


def render_results(results: Sequence[tuple[str, str]]) -> str:
    """Return an answer made of results: one as it is, several a line each with their functions' names."""
    if len(results) == 1:
        return _plain(results[0][1])
    return "\n".join(f"{name}: {_plain(content)}" for name, content in results)


def _why(tried: TurnResult | None) -> str:
    """Say why nothing is called: what a function needs and the request does not say, or that none fits."""
    refusals = (
        []
        if tried is None
        else [
            one
            for one in tried.remarks
            if one.endswith((NOT_SAID, TOO_UNSURE)) or one.startswith(SEEMS) or OPPOSITE in one
        ]
    )
    return f"{refusals[0][0].upper()}{refusals[0][1:]}." if refusals else NOTHING_FITS


def _fitting(
    tools: Sequence[ToolSpec], spec: OutputSpec, text: str, most: int
) -> tuple[Sequence[ToolSpec], OutputSpec]:
    """Return those of too many tools that fit a request, with what hands in the answer; only allowed ones are looked at."""
    allowed = [tool for tool in tools if spec.only is None or tool.name in spec.only]
    near = shown_tools(allowed, text, most)
    names = {tool.name for tool in near}
    shown = [*near, *(tool for tool in allowed if is_final(tool) and tool.name not in names)]
    if spec.only is None:
        return shown, spec
    return shown, replace(spec, only=tuple(tool.name for tool in shown))


def _plain(content: str) -> str:
    """Return a result for people: JSON without its marks, a failure as one."""
    try:
        value = json.loads(content)
    except ValueError:
        return content
    if isinstance(value, dict) and value.get("ok") is True and "result" in value:
        value = value["result"]
    elif isinstance(value, dict) and value.get("ok") is False:
        why = value.get("detail") or value.get("code") or "for no stated reason"
        return f"it failed: {why}"
    return _in_words(value)


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return (
            ", ".join(f"{name}: {_in_words(inner)}" for name, inner in value.items()) or "nothing"
        )
    if isinstance(value, list):
        return ", ".join(map(_in_words, value)) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "nothing" if value is None else str(value)


class SingleRequestTurns:
    """The turns of one request (see the module); ``stream`` is what :meth:`TurnGenerator.stream` returns."""

    def __init__(
        self,
        generator: TurnGenerator,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
    ) -> None:
        self._generator = generator
        request, names = read_conversation(messages), {tool.name for tool in tools}
        # A conversation that was handed over has results of functions that are not offered any more.
        if names:
            offered = tuple(one for one in request.results if one[0] in names)
            request = replace(request, results=offered)
        most = generator.format.most_tools
        if most is not None and len(tools) > most:
            tools, spec = _fitting(tools, spec, request.text, most)
        self._request, self._tools, self._spec = request, tools, spec

    def run(self, options: DecodingConfig, opened: Opened) -> Turn:
        """Yield the events of each step; return the turn's result. ``opened`` gets each stream of the model."""
        request, spec, tools = self._request, self._spec, self._tools
        more: TurnResult | None = None
        if spec.calls and any(map(is_final, self._allowed())):
            return (yield from self._call_final_last(options, opened))
        if request.results and tools and spec.calls and spec.answer is None:
            more = yield from self._call_more(self._allowed(), options, opened)
            if more.calls or more.ended != "stop":
                return more
        if request.results and spec.calls and not spec.no_call:
            return (
                yield from self._call(
                    request.with_results, self._open_tools(), spec, options, opened
                )
            )
        if tools and spec.calls and not request.results:
            result = yield from self._call_parts(tools, replace(spec, answer=None), options, opened)
            if result.calls or result.ended != "stop" or spec.answer is None:
                return (
                    result
                    if result.calls or result.ended != "stop"
                    else self._said(_why(result), result)
                )
        if isinstance(spec.answer, Mapping):
            return (yield from self._fill(spec.answer, options, opened))
        said = render_results(request.results) if request.results else NO_TEXT
        return self._said(said, None if more is None else cost_of(more))

    def _allowed(self) -> Sequence[ToolSpec]:
        only = self._spec.only
        return [tool for tool in self._tools if only is None or tool.name in only]

    def _call_final_last(self, options: DecodingConfig, opened: Opened) -> Turn:
        """Call a function that hands in the final answer if there are results, or none of the others fits."""
        request, spec = self._request, replace(self._spec, answer=None)
        final = [tool for tool in self._allowed() if is_final(tool)]
        others = [tool for tool in self._allowed() if not is_final(tool)]
        said, tried = render_results(request.results), None
        if not request.results and others:
            tried = yield from self._call_parts(
                others, replace(spec, no_call=True), options, opened
            )
            if tried.calls or tried.ended != "stop":
                return tried
        elif others:
            tried = yield from self._call_more(others, options, opened)
            if tried.calls or tried.ended != "stop":
                return tried
        if not request.results:
            said = _why(tried) if others else NO_TEXT
            if spec.no_call:
                return self._said(said, tried)
        parameter = text_parameter(final[0])
        if parameter is None:
            spec = replace(spec, no_call=False, most=1)
            return (yield from self._call(request.with_results, final, spec, options, opened))
        arguments = json.dumps({parameter: said}, ensure_ascii=False)
        yield (CallStarted(0, final[0].name), ArgumentsDelta(0, arguments.encode()))
        return replace(self._said("", tried), calls=(ToolCall(final[0].name, arguments),))

    def _call_parts(
        self,
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        options: DecodingConfig,
        opened: Opened,
        made: Sequence[str] = (),
    ) -> Turn:
        budget = options.over(self._generator.decoding).budget
        call = partial(self._call, options=options, opened=opened)
        return (yield from call_parts(call, self._request.text, tools, spec, budget, made))

    def _call_more(
        self, tools: Sequence[ToolSpec], options: DecodingConfig, opened: Opened
    ) -> Turn:
        """Call what is left of a compound request, or what a result leads to; or nothing."""
        made = [name for name, _ in self._request.results]
        found = ", ".join(_plain(content) for _, content in self._request.results)
        spec = replace(self._spec, answer=None, no_call=True)
        more = yield from self._call_parts(tools, spec, options, opened, made)
        if more.calls or more.ended != "stop":
            return more
        call = partial(self._call, options=options, opened=opened)
        last = yield from follow_up(call, self._request.text, made, found, tools, spec)
        return last if last.calls or not more.passes else more

    def _open_tools(self) -> Sequence[ToolSpec]:
        called = {name for name, _ in self._request.results}
        return [tool for tool in self._tools if tool.name not in called] or self._tools

    def _call(
        self,
        text: str,
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        options: DecodingConfig,
        opened: Opened,
    ) -> Turn:
        if spec.only is not None:
            names = {tool.name for tool in tools}
            tools = tools if names >= {*spec.only} else self._tools
        stream = self._generator.stream([{"role": "user", "content": text}], tools, spec, options)
        opened(stream)
        yield from stream
        return stream.result

    def _fill(self, schema: Mapping[str, Any], options: DecodingConfig, opened: Opened) -> Turn:
        is_object = schema.get("type", "object") == "object"
        parameters = schema if is_object else {
            "type": "object", "properties": {"value": schema}, "required": ["value"]
        }  # fmt: skip
        about = str(schema.get("description") or schema.get("title") or "The answer.")
        tool = ToolSpec(_ANSWER, about, parameters)
        stream = self._generator.stream(
            [{"role": "user", "content": self._request.with_results}], [tool], OutputSpec(), options
        )
        opened(stream)
        for _ in stream:  # its events are those of a call
            yield ()
        result = stream.result
        if not result.calls:
            return result
        text = result.calls[0].arguments
        if not is_object:
            text = json.dumps(json.loads(text)["value"], ensure_ascii=False)
        # What was chosen was no function of the client's.
        return self._said(text, replace(result, distribution={}))

    def _said(self, text: str, result: TurnResult | None = None) -> TurnResult:
        made = result or TurnResult(prompt_tokens=0)
        return replace(made, text=text, calls=(), ended="stop")


def run_turn(
    generator: TurnGenerator,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    spec: OutputSpec,
    options: DecodingConfig,
    opened: Opened,
    *,
    is_single: bool,
) -> Turn:
    """Yield the events of each step of a turn; return its result. ``opened`` gets each stream of the model.

    ``is_single``: the model reads one request, and the conversation around it is led by rules.
    """
    if is_single:
        turns = SingleRequestTurns(generator, messages, tools, spec)
        return (yield from turns.run(options, opened))
    stream = generator.stream(messages, tools, spec, options)
    opened(stream)
    yield from stream
    return stream.result


def unwritable(
    form: Format, name: str, *, choice: Any, has_tools: bool, answer: Any
) -> tuple[str, str] | None:
    """Say what of a request the model ``name`` cannot write, behind the parameter that asks for it; None for nothing.

    ``choice`` is the request's ``tool_choice``, ``answer`` what an answer in text is to be.
    """
    if form.has_free_text:
        return None
    if answer is not None and not (form.is_single_request and _is_form(answer)):
        why = (
            f"The model {name!r} only calls functions; its answers have no other form. Ask "
            "for the arguments of a function of that form, or serve a bigger model."
        )
        return "response_format", why
    if not form.is_single_request and (not has_tools or choice == "none"):
        return (
            "tools" if not has_tools else "tool_choice",
            f"The model {name!r} only calls functions; it cannot answer in text. "
            + ("Give it 'tools'" if not has_tools else "Let it call one")
            + ", or serve a bigger model.",
        )
    return None


def _is_form(answer: Any) -> bool:
    """Whether a format of answers can be filled in as the parameters of a function."""
    return isinstance(answer, Mapping) and (
        bool(answer.get("properties"))
        or answer.get("type", "object") != "object"
        or answer.get("additionalProperties") is False
    )


Prompt = tuple[Sequence[Message], Sequence[ToolSpec], OutputSpec]


class _PromptTaken(Exception):
    """The model would have been asked: ``prompt`` is with what."""

    def __init__(self, prompt: Prompt) -> None:
        super().__init__()
        self.prompt = prompt


@dataclass(frozen=True)
class _PromptTaker:
    """Stands for the generator of turns, and ends them where the model would be asked."""

    decoding: DecodingConfig
    format: Format

    def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        _options: DecodingConfig,
    ) -> TurnStream:
        raise _PromptTaken((messages, tools, spec))


def first_prompt(
    generator: TurnGenerator,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    spec: OutputSpec,
    options: DecodingConfig,
) -> Prompt | None:
    """Return what the model is asked first of a conversation; None where it is asked nothing."""
    taker: Any = _PromptTaker(generator.decoding, generator.format)
    try:
        for _ in SingleRequestTurns(taker, messages, tools, spec).run(options, lambda _: None):
            pass
    except _PromptTaken as taken:
        return taken.prompt
    return None
