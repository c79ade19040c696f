"""The responses interface: ``/v1/responses``. Nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callmemaybe.generation.result import TokenLogprob, TurnResult
from callmemaybe.server import request_models
from callmemaybe.server.common import (
    Interface,
    ServedModel,
    allowed_output,
    check_history,
    decoding_config,
    logprob_json,
    new_id,
    read_tools,
    sampling_settings,
    thinking_budget,
)
from callmemaybe.server.constraints import format_answer
from callmemaybe.server.earlier_calls import written_arguments
from callmemaybe.server.http_errors import ApiError, invalid_value
from callmemaybe.server.images import message_content
from callmemaybe.server.request_models import (
    InputFunctionCall,
    InputFunctionResult,
    InputMessage,
    ResponsesRequest,
)
from callmemaybe.server.turns import TurnRequest, TurnUpdate
from callmemaybe.tools import ArgumentsDelta, CallStarted, TextDelta

ROUTE = "/v1/responses"
#: Parameters of the chat interface, as lower layers name them in errors, and their names here.
_NAMES = {
    "messages": "input", "response_format": "text.format", "max_tokens": "max_output_tokens",
}  # fmt: skip


def error_body(problem: ApiError, _request_id: str) -> dict[str, Any]:
    """Return an error with the name that the parameter which it is about has in this interface."""
    param = problem.param
    problem.param = param and _NAMES.get(param.partition("[")[0], param)
    return problem.body


def parse(data: Any) -> ResponsesRequest:
    """Return the request of a JSON body; raise ApiError if it is not valid."""
    request = request_models.parse_request(ResponsesRequest, request_models.RESPONSES_NEUTRAL, data)
    if request.stream_options is not None and not request.stream:
        raise invalid_value("stream_options", "'stream_options' is only allowed when streaming.")
    if request.stream_options is not None and request.stream_options.include_usage is not None:
        raise invalid_value("stream_options.include_usage", "Responses always contain their usage.")
    return request


def turn_requests(request: ResponsesRequest, served: ServedModel) -> list[TurnRequest]:
    """Return the turn of a request: always one."""
    config = served.config
    served.check_name(request.model)
    messages = _messages(request, served)
    check_history(messages, "input", served)
    tools = read_tools(
        [tool.model_dump(exclude_none=True) for tool in request.tools or ()], config.most_tools
    )
    told = messages if served.is_single_request else ()
    answer = format_answer(request.text.format if request.text else None, "text.format", told)
    parallel = request.parallel_tool_calls
    effort = request.reasoning.effort if request.reasoning else None
    thinking = thinking_budget(effort, "reasoning.effort", served)
    wanted = allowed_output(
        request.tool_choice,
        served=served,
        has_tools=bool(tools),
        parallel=parallel,
        most=request.max_tool_calls if parallel is not False else None,
        answer=answer.value,
        thinking=thinking,
    )
    options = decoding_config(
        config,
        most=request.max_output_tokens,
        thinking=thinking,
        temperature=request.temperature,
        top_p=request.top_p,
        **sampling_settings(request),
        logprobs=_wants_logprobs(request),
        top_logprobs=request.top_logprobs or 0,
    )
    return [
        TurnRequest(
            messages, tools, wanted, options, is_single=served.is_single_request,
            answer_param=answer.param,
        )
    ]  # fmt: skip


def _wants_logprobs(request: ResponsesRequest) -> bool:
    return "message.output_text.logprobs" in (request.include or ()) or bool(request.top_logprobs)


def _messages(request: ResponsesRequest, served: ServedModel) -> list[dict[str, Any]]:
    """Return the input as messages of the chat interface; calls of one turn in one message."""
    messages: list[dict[str, Any]] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    if isinstance(request.input, str):
        return [*messages, {"role": "user", "content": request.input}]
    for place, item in enumerate(request.input):
        match item:
            case InputMessage():
                role = "system" if item.role == "developer" else item.role
                messages.append(
                    {
                        "role": role,
                        "content": _content(item.content, served, f"input[{place}].content"),
                    }
                )
            case InputFunctionCall():
                call = {"id": item.call_id, "type": "function",
                        "function": {"name": item.name, "arguments": written_arguments(item.arguments)}}  # fmt: skip
                if not messages or messages[-1]["role"] != "assistant":
                    messages.append({"role": "assistant", "content": ""})
                messages[-1].setdefault("tool_calls", []).append(call)
            case InputFunctionResult():
                messages.append({"role": "tool", "tool_call_id": item.call_id,
                                 "content": _content(item.output, served, f"input[{place}].output")})  # fmt: skip
    if not messages:
        raise invalid_value("input", "The input has thoughts only, and no message.")
    return messages


def _content(content: Any, served: ServedModel, where: str) -> Any:
    return message_content(content, where, served.name, reads_images=served.reads_images)


class ResponseBuilder:
    """Writes updates of a turn in the form of the responses interface: event by event, and as a whole."""

    def __init__(self, request: ResponsesRequest, served: ServedModel, now: int) -> None:
        self._request = request
        self._number = 0
        self._output: list[dict[str, Any]] = []
        #: The message that is being written, if one is; and the number of each call's item.
        self._message: int | None = None
        self._calls: dict[int, int] = {}
        self._result: TurnResult | None = None
        self._base = _base(request, served, now)

    @property
    def results(self) -> Sequence[TurnResult]:
        """The result of the turn, if it has ended."""
        return [self._result] if self._result is not None else []

    #: Streams of events end with their last one.
    closing = b""

    def last(self) -> list[dict[str, Any]]:
        """Return the events behind all updates: none, the turn's end is in the last update."""
        return []

    def begin(self) -> list[dict[str, Any]]:
        """Return the events in front of all updates."""
        response = {**self._base, "status": "in_progress", "output": [], "usage": None}
        return [
            self._event("response.created", response=response),
            self._event("response.in_progress", response=response),
        ]

    def take(self, _index: int, update: TurnUpdate) -> list[dict[str, Any]]:
        """Record an update, and return the events for it."""
        events, tokens = [], update.tokens
        for event in update.events:
            match event:
                case TextDelta():
                    events += self._add_text(event.data.decode(), tokens)
                    tokens = ()
                case CallStarted():
                    events += [*self._end_item(), self._start_call(event)]
                case ArgumentsDelta():
                    events.append(self._add_arguments(event))
        if update.result is not None:
            events += self._end_turn(update.result)
        return events

    def failed(self, problem: ApiError) -> list[dict[str, Any]]:
        """Return the events of a turn that failed after it had begun."""
        error = {"code": problem.code or problem.kind, "message": problem.message}
        response = {**self._base, "status": "failed", "output": [], "usage": None, "error": error}
        return [self._event("response.failed", response=response)]

    def whole(self) -> dict[str, Any]:
        """Return everything as one response."""
        result = self._result
        assert result is not None
        is_cut = result.ended == "length"
        return {
            **self._base,
            "status": "incomplete" if is_cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            # A call that was cut off is not a call.
            "output": [
                item for item in self._output if not is_cut or item["type"] != "function_call"
            ],
            "usage": {
                "input_tokens": result.prompt_tokens,
                "input_tokens_details": {
                    "cached_tokens": result.cached_tokens,
                    "cache_write_tokens": 0,
                },
                "output_tokens": result.tokens,
                "output_tokens_details": {"reasoning_tokens": result.thought_tokens},
                "total_tokens": result.prompt_tokens + result.tokens,
            },
        }

    # -- items ------------------------------------------------------------------------------------

    def _add_text(self, text: str, tokens: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
        events = []
        if self._message is None:
            self._message = len(self._output)
            item: dict[str, Any] = {"id": new_id("msg_"), "type": "message", "status": "in_progress",
                    "role": "assistant", "content": []}  # fmt: skip
            self._output.append(item)
            events.append(self._added(item))
            part: dict[str, Any] = {
                "type": "output_text",
                "text": "",
                "annotations": [],
                "logprobs": [],
            }
            events.append(self._in_part("response.content_part.added", part=dict(part)))
            item["content"] = [part]
        written = self._output[self._message]["content"][0]
        written["text"] += text
        logprobs = self._logprobs(tokens)
        written["logprobs"] += logprobs
        events.append(self._in_part("response.output_text.delta", delta=text,
                                    logprobs=logprobs))  # fmt: skip
        return events

    def _start_call(self, started: CallStarted) -> dict[str, Any]:
        item = {"id": new_id("fc_"), "type": "function_call", "status": "in_progress",
                "arguments": "", "call_id": started.id, "name": started.name}  # fmt: skip
        self._calls[started.index] = len(self._output)
        self._output.append(item)
        return self._added(item)

    def _add_arguments(self, delta: ArgumentsDelta) -> dict[str, Any]:
        at, text = self._calls[delta.index], delta.data.decode()
        item = self._output[at]
        item["arguments"] += text
        return self._event(
            "response.function_call_arguments.delta",
            item_id=item["id"], output_index=at, delta=text,
        )  # fmt: skip

    def _end_item(self, status: str = "completed") -> list[dict[str, Any]]:
        """Return the events that end the item that is being written, if one is."""
        if not self._output or self._output[-1]["status"] != "in_progress":
            return []
        item, events = self._output[-1], []
        at = len(self._output) - 1
        item["status"] = status
        if item["type"] == "function_call":
            if status == "completed":
                events.append(self._event(
                    "response.function_call_arguments.done", item_id=item["id"], output_index=at,
                    name=item["name"], arguments=item["arguments"],
                ))  # fmt: skip
        else:
            part = dict(item["content"][0])
            events.append(self._in_part(
                "response.output_text.done", text=part["text"], logprobs=part["logprobs"]
            ))  # fmt: skip
            events.append(self._in_part("response.content_part.done", part=part))
            self._message = None
        events.append(self._event("response.output_item.done", output_index=at, item=dict(item)))
        return events

    def _end_turn(self, result: TurnResult) -> list[dict[str, Any]]:
        self._result = result
        is_cut = result.ended == "length"
        events = self._end_item("incomplete" if is_cut else "completed")
        kind = "response.incomplete" if is_cut else "response.completed"
        return [*events, self._event(kind, response=self.whole())]

    # -- events -----------------------------------------------------------------------------------

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        event = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return event

    def _added(self, item: Mapping[str, Any]) -> dict[str, Any]:
        at = len(self._output) - 1
        return self._event("response.output_item.added", output_index=at, item=dict(item))

    def _in_part(self, kind: str, **fields: Any) -> dict[str, Any]:
        at = self._message
        assert at is not None
        return self._event(
            kind, item_id=self._output[at]["id"], output_index=at, content_index=0, **fields
        )

    def _logprobs(self, tokens: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
        return [logprob_json(token) for token in tokens] if _wants_logprobs(self._request) else []


def _base(request: ResponsesRequest, served: ServedModel, now: int) -> dict[str, Any]:
    """Return the fields of a response that do not depend on its outcome: mostly those of the request."""
    choice = request.tool_choice
    form = request.text.format if request.text else None
    return {
        "id": new_id("resp_", 40),
        "object": "response",
        "created_at": now,
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": request.max_tool_calls,
        "model": served.name,
        "output": [],
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "previous_response_id": None,
        "reasoning": {
            "effort": request.reasoning.effort if request.reasoning else None, "summary": None,
        },
        "service_tier": "default",
        "store": False,
        "temperature": request.temperature or 0.0,
        "text": {"format": form.model_dump(by_alias=True, exclude_none=True) if form
                 else {"type": "text"}},
        "tool_choice": choice.model_dump() if isinstance(choice, request_models.RequestObject)
        else choice or "auto",
        "tools": [_tool(tool) for tool in request.tools or ()],
        "top_logprobs": request.top_logprobs or 0,
        "top_p": 1.0 if request.top_p is None else request.top_p,
        "truncation": "disabled",
        "usage": None,
        "user": request.user,
        "safety_identifier": request.safety_identifier,
        "prompt_cache_key": request.prompt_cache_key,
        "metadata": request.metadata or {},
    }  # fmt: skip


def _tool(tool: request_models.ResponsesTool) -> dict[str, Any]:
    """Return a tool as responses contain it; "strict", since arguments always satisfy the schema."""
    return {
        "type": "function", "name": tool.name, "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}}, "strict": True,
    }  # fmt: skip


INTERFACE = Interface(ROUTE, parse, turn_requests, ResponseBuilder, error_body)
