"""Anthropic's interface: ``/v1/messages``, and ``/v1/messages/count_tokens``. Nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.result import TurnResult
from callmemaybe.jsonio import dumps, loads
from callmemaybe.server import request_models
from callmemaybe.server.common import (
    Interface,
    ServedModel,
    allowed_output,
    check_history,
    decoding_config,
    new_id,
    read_tools,
)
from callmemaybe.server.constraints import format_answer
from callmemaybe.server.earlier_calls import written_arguments
from callmemaybe.server.http_errors import ApiError, invalid_value, unsupported
from callmemaybe.server.images import message_content
from callmemaybe.server.message_models import (
    COUNT_NEUTRAL,
    MESSAGES_NEUTRAL,
    Base64Source,
    CountTokensRequest,
    ImageBlock,
    MessagesAssistant,
    MessagesConversation,
    MessagesRequest,
    MessagesSystem,
    MessagesUser,
    NoneChoice,
    OneToolChoice,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from callmemaybe.server.request_models import InputImagePart, InputTextPart, ResponsesFunctionChoice
from callmemaybe.server.turns import TurnRequest, TurnUpdate
from callmemaybe.tools import ArgumentsDelta, CallStarted, TextDelta, ToolSpec
from callmemaybe.wire.output_grammar import OutputSpec

ROUTE = "/v1/messages"
COUNT_ROUTE = f"{ROUTE}/count_tokens"
#: Parameters of the chat interface, as lower layers name them in errors, and their names here.
_NAMES = {
    "response_format": "output_config.format", "stop": "stop_sequences",
}  # fmt: skip
#: The types of errors by their statuses; of others, those of the client's fault and of ours.
ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
#: The types of blocks that messages of each role may have, and those that a result may.
BLOCKS = {
    "user": ("text", "image", "tool_result"),
    "assistant": ("text", "tool_use", "thinking", "redacted_thinking"),
    "system": ("text",),
    "tool_result": ("text", "image"),
}
PING = b'event: ping\ndata: {"type":"ping"}\n\n'


# -- requests -------------------------------------------------------------------------------------


def parse(data: Any) -> MessagesRequest:
    """Return the request of a JSON body; raise ApiError if it is not valid."""
    _check_service(data)
    return request_models.parse_request(MessagesRequest, MESSAGES_NEUTRAL, data)


def parse_count(data: Any) -> CountTokensRequest:
    """Return the request to count tokens of a JSON body; raise ApiError if it is not valid."""
    _check_service(data)
    return request_models.parse_request(CountTokensRequest, COUNT_NEUTRAL, data)


def _check_service(data: Any) -> None:
    """Raise ApiError for what Anthropic's own service does and this server does not."""
    if not isinstance(data, dict):
        return
    if data.get("thread") is not None:
        # By this code, Anthropic's client knows that it is to send the whole conversation.
        raise ApiError(
            400,
            "This server stores nothing: send the earlier messages instead of 'thread'.",
            param="thread",
            code="thread_unsupported_request",
        )
    thinking = data.get("thinking")
    if isinstance(thinking, dict) and thinking.get("type", "disabled") != "disabled":
        raise unsupported(
            "thinking",
            'This server returns no thoughts: leave \'thinking\' out, or send {"type": "disabled"}.',
        )
    for place, tool in enumerate(_list(data.get("tools"))):
        kind = tool.get("type") if isinstance(tool, dict) else None
        if isinstance(kind, str) and kind != "custom":
            raise unsupported(
                f"tools[{place}].type",
                f"The tool {kind[:64]!r} belongs to Anthropic's own service, and this server runs no tools: "
                "give it as a function of yours, with 'name', 'description' and 'input_schema'.",
            )
    for place, message in enumerate(_list(data.get("messages"))):
        if isinstance(message, dict) and isinstance(message.get("role"), str):
            known = BLOCKS.get(message["role"], ())
            _check_blocks(message.get("content"), known, f"messages[{place}].content")


def _check_blocks(content: Any, known: Sequence[str], where: str) -> None:
    """Raise ApiError for a block of another type than those that are known in its place."""
    for place, block in enumerate(_list(content)):
        kind = block.get("type") if isinstance(block, dict) else None
        if not known or not isinstance(kind, str):
            continue  # told by the validation, which comes next
        if kind not in known:
            raise unsupported(
                f"{where}[{place}].type",
                f"{kind[:64]!r} is not supported here, only {', '.join(known)}.",
            )
        if kind == "tool_result":
            _check_blocks(block.get("content"), BLOCKS[kind], f"{where}[{place}].content")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def turn_requests(request: MessagesRequest, served: ServedModel) -> list[TurnRequest]:
    """Return the turn of a request: always one."""
    messages, tools, spec = _asked(request, served)
    options = decoding_config(
        served.config,
        most=request.max_tokens,
        thinking=0,
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=None if request.top_k is None else max(request.top_k, 0),
        stop=tuple(request.stop_sequences or ()),
    )
    return [
        TurnRequest(
            messages, tools, spec, options, is_single=served.is_single_request,
            answer_param="output_config.format.schema",
        )
    ]  # fmt: skip


def count_requests(request: CountTokensRequest, served: ServedModel) -> list[TurnRequest]:
    """Return the turn whose prompt is counted; raise ApiError where nobody here can count."""
    messages, tools, spec = _asked(request, served)
    if not served.has_steps:
        raise unsupported(
            "model",
            f"The model {served.name!r} is on another server, which does not count tokens beforehand; "
            "the 'usage' of an answer tells them.",
        )
    if any(not isinstance(one.get("content"), str | None) for one in messages):
        raise unsupported("messages", "Tokens of pictures are not counted beforehand.")
    return [
        TurnRequest(
            messages, tools, spec, DecodingConfig(), is_single=served.is_single_request,
            counts_only=True,
        )
    ]  # fmt: skip


def _asked(
    request: MessagesConversation, served: ServedModel
) -> tuple[list[dict[str, Any]], list[ToolSpec], OutputSpec]:
    """Return what the model is asked: the messages, the functions, and what it may write."""
    served.check_name(request.model)
    messages = _messages(request, served)
    check_history(messages, "messages", served)
    if messages[-1]["role"] == "assistant":
        raise invalid_value(
            "messages",
            "The last message is the assistant's, and this server does not continue answers: end with a "
            "message of the user.",
        )
    wanted = {"name", "description", "input_schema"}
    tools = read_tools(
        [tool.model_dump(include=wanted, exclude_none=True) for tool in request.tools or ()],
        served.config.most_tools,
    )
    form = request.output_config.format if request.output_config else None
    choice = request.tool_choice
    spec = allowed_output(
        _choice(choice),
        served=served,
        has_tools=bool(tools),
        parallel=not getattr(choice, "disable_parallel_tool_use", None),
        most=None,
        answer=format_answer(form, "output_config.format").value,
        thinking=0,
    )
    return messages, tools, spec


def _choice(choice: Any) -> str | ResponsesFunctionChoice | None:
    match choice:
        case None:
            return None
        case OneToolChoice():
            return ResponsesFunctionChoice(type="function", name=choice.name)
        case NoneChoice():
            return "none"
    return "required" if choice.type == "any" else "auto"


def _messages(request: MessagesConversation, served: ServedModel) -> list[dict[str, Any]]:
    """Return the conversation as messages of the chat interface: each result in one of its own."""
    messages: list[dict[str, Any]] = []
    if request.system:
        messages.append({"role": "system", "content": _text(request.system)})
    for place, message in enumerate(request.messages):
        where = f"messages[{place}].content"
        match message:
            case MessagesSystem():
                messages.append({"role": "system", "content": _text(message.content)})
            case MessagesUser():
                messages += _user_messages(message, where, served)
            case MessagesAssistant():
                messages += _assistant_messages(message)
    if not any(one["role"] != "system" for one in messages):
        raise invalid_value("messages", "The conversation has no message of the user.")
    return messages


def _text(content: str | list[Any]) -> str:
    return content if isinstance(content, str) else "\n".join(block.text for block in content)


def _user_messages(message: MessagesUser, where: str, served: ServedModel) -> list[dict[str, Any]]:
    """Return the results of calls in a message, and what stands around them."""
    if isinstance(message.content, str):
        return [{"role": "user", "content": message.content}]
    found: list[dict[str, Any]] = []
    said: list[Any] = []
    for place, block in enumerate(message.content):
        if not isinstance(block, ToolResultBlock):
            said.append(block)
            continue
        if said:
            found.append({"role": "user", "content": _content(said, where, served)})
            said = []
        inner = "" if block.content is None else block.content
        content = _content(inner, f"{where}[{place}].content", served)
        result = _failure(content) if block.is_error else content
        found.append({"role": "tool", "tool_call_id": block.tool_use_id, "content": result})
    if said:
        found.append({"role": "user", "content": _content(said, where, served)})
    return found


def _content(content: str | list[Any], where: str, served: ServedModel) -> Any:
    """Return blocks as a text, a line each at least, or as parts if there are pictures."""
    if isinstance(content, str) or all(isinstance(block, TextBlock) for block in content):
        return _text(content)
    parts = [_image(one) if isinstance(one, ImageBlock) else InputTextPart(type="input_text", text=one.text)
             for one in content]  # fmt: skip
    return message_content(parts, where, served.name, reads_images=served.reads_images)


def _image(block: ImageBlock) -> InputImagePart:
    source = block.source
    if isinstance(source, Base64Source):
        url = f"data:{source.media_type};base64,{source.data}"
    else:
        url = source.url
    return InputImagePart(type="input_image", image_url=url)


def _failure(content: Any) -> Any:
    """Return the result of a call that failed, in the form that the gateway tells models, too."""
    if isinstance(content, str):
        return dumps({"ok": False, "detail": content})
    return [{"type": "text", "text": dumps({"ok": False})}, *content]


def _assistant_messages(message: MessagesAssistant) -> list[dict[str, Any]]:
    """Return an earlier answer; nothing for one that has thoughts only, or was cut off."""
    if isinstance(message.content, str):
        return [{"role": "assistant", "content": message.content}]
    text = "".join(one.text for one in message.content if isinstance(one, TextBlock))
    calls = [
        {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": written_arguments(dumps(one.input))}}
        for one in message.content if isinstance(one, ToolUseBlock)
    ]  # fmt: skip
    if not text and not calls:
        return []
    return [{"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})]


# -- errors ---------------------------------------------------------------------------------------


def error_type(status: int) -> str:
    """Return Anthropic's word for the errors of a status."""
    return ERROR_TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")


def error_body(problem: ApiError, request_id: str = "") -> dict[str, Any]:
    """Return an error in the form of Anthropic's API, whose message names the parameter at fault."""
    param, message = problem.param, problem.message
    if param:
        first, bracket, rest = param.partition("[")
        param = _NAMES.get(first, first) + bracket + rest
        if param not in message:
            message = f"{param}: {message}"
    error: dict[str, Any] = {"type": error_type(problem.status), "message": message}
    if problem.code:
        error["details"] = {"error_code": problem.code}
    body = {"type": "error", "error": error}
    return body | ({"request_id": request_id} if request_id else {})


# -- answers --------------------------------------------------------------------------------------


class MessageBuilder:
    """Writes updates of a turn in the form of the messages interface: event by event, and as a whole.

    A block is open until another begins, or the turn ends.
    """

    #: Streams of events end with their last one.
    closing = b""

    def __init__(self, _request: MessagesRequest, served: ServedModel, _now: int) -> None:
        self._head = {"id": new_id("msg_"), "type": "message", "role": "assistant",
                      "model": served.name}  # fmt: skip
        self._content: list[dict[str, Any]] = []
        self._has_begun = self._is_open = False
        self._result: TurnResult | None = None

    @property
    def results(self) -> Sequence[TurnResult]:
        """The result of the turn, if it has ended."""
        return [self._result] if self._result is not None else []

    def begin(self) -> list[dict[str, Any]]:
        """Return the events in front of all updates: none, since the first update has what they tell."""
        return []

    def last(self) -> list[dict[str, Any]]:
        """Return the events behind all updates: none, the turn's end is in the last update."""
        return []

    def failed(self, problem: ApiError) -> list[dict[str, Any]]:
        """Return the event of a turn that failed after it had begun."""
        return [error_body(problem)]

    def take(self, _index: int, update: TurnUpdate) -> list[dict[str, Any]]:
        """Record an update, and return the events for it."""
        events: list[dict[str, Any]] = []
        if not self._has_begun:
            self._has_begun = True
            usage = _usage(update.prompt_tokens, update.cached_tokens, 0)
            message: dict[str, Any] = {
                **self._head,
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
            }
            events.append({"type": "message_start", "message": {**message, "usage": usage}})
        for event in update.events:
            match event:
                case TextDelta() if event.data:
                    if not self._is_open or self._content[-1]["type"] != "text":
                        events += self._start({"type": "text", "text": ""})
                    text = event.data.decode()
                    self._content[-1]["text"] += text
                    events.append(self._delta({"type": "text_delta", "text": text}))
                case CallStarted():
                    block = {"type": "tool_use", "id": event.id, "name": event.name}
                    events += self._start({**block, "input": {}})
                    self._content[-1]["input"] = ""
                case ArgumentsDelta():
                    text = event.data.decode()
                    self._content[-1]["input"] += text
                    events.append(self._delta({"type": "input_json_delta", "partial_json": text}))
        if update.result is not None:
            events += self._end_turn(update.result)
        return events

    def whole(self) -> dict[str, Any]:
        """Return everything as one message."""
        assert self._result is not None
        content = [
            {**block, "input": loads(block["input"])} if block["type"] == "tool_use" else block
            for block in self._content
        ]
        return {**self._head, "content": content, **_stop(self._result),
                "usage": _usage_of(self._result)}  # fmt: skip

    def _start(self, block: Mapping[str, Any]) -> list[dict[str, Any]]:
        events = self._stop_block()
        self._content.append(dict(block))
        self._is_open = True
        at = len(self._content) - 1
        return [*events, {"type": "content_block_start", "index": at, "content_block": block}]

    def _delta(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": len(self._content) - 1, "delta": delta}

    def _stop_block(self) -> list[dict[str, Any]]:
        if not self._is_open:
            return []
        self._is_open = False
        return [{"type": "content_block_stop", "index": len(self._content) - 1}]

    def _end_turn(self, result: TurnResult) -> list[dict[str, Any]]:
        self._result = result
        return [
            *self._stop_block(),
            {"type": "message_delta", "delta": _stop(result), "usage": _usage_of(result)},
            {"type": "message_stop"},
        ]


def _stop(result: TurnResult) -> dict[str, Any]:
    """Return why a turn ended, in Anthropic's words."""
    reason = "end_turn" if result.stop is None else "stop_sequence"
    if result.ended == "length":
        reason = "max_tokens"
    elif result.calls:
        reason = "tool_use"
    return {
        "stop_reason": reason,
        "stop_sequence": result.stop if reason == "stop_sequence" else None,
    }


def _usage_of(result: TurnResult) -> dict[str, int]:
    return _usage(result.prompt_tokens, result.cached_tokens, result.tokens)


def _usage(prompt: int, cached: int, written: int) -> dict[str, int]:
    """Return counts of tokens; those of the prompt that were cached stand by themselves."""
    return {
        "input_tokens": prompt - cached, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached, "output_tokens": written,
    }  # fmt: skip


class CountBuilder:
    """Tells how many tokens a prompt has."""

    closing = b""
    #: Nothing was read or written, so there is nothing to tell of a turn.
    results: Sequence[TurnResult] = ()

    def __init__(self, _request: CountTokensRequest, _served: ServedModel, _now: int) -> None:
        self._tokens = 0

    def begin(self) -> list[dict[str, Any]]:
        """Return nothing: it is never streamed."""
        return []

    last = begin

    def failed(self, problem: ApiError) -> list[dict[str, Any]]:
        """Return the error as an event."""
        return [error_body(problem)]

    def take(self, _index: int, update: TurnUpdate) -> list[dict[str, Any]]:
        """Record the count."""
        if update.result is not None:
            self._tokens = update.result.prompt_tokens
        return []

    def whole(self) -> dict[str, Any]:
        """Return the count."""
        return {"input_tokens": self._tokens}


INTERFACE = Interface(ROUTE, parse, turn_requests, MessageBuilder, error_body, PING)
COUNT_INTERFACE = Interface(COUNT_ROUTE, parse_count, count_requests, CountBuilder, error_body)
