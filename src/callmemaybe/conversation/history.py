"""Chat messages in OpenAI's shape, as the events that they tell of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from callmemaybe.conversation.events import (
    CallClosed,
    CallOpened,
    Event,
    FinishReason,
    ResultGiven,
    TextAdded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from callmemaybe.errors import InputError
from callmemaybe.tools import ToolCall, ToolResult


def events_of(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Event]]:
    """Yield what happened, each with the JSON pointer of the message that says so.

    Raises InputError, with the pointer, for a message that is none.
    """
    for number, message in enumerate(messages):
        where = f"/messages/{number}"
        if not isinstance(message, Mapping):
            raise InputError("a message must be an object", where=where)
        for event in _of_message(message, where):
            yield where, event


def _of_message(message: Mapping[str, Any], where: str) -> Iterator[Event]:
    role = message.get("role")
    if role in ("system", "developer", "user"):
        yield UserMessage(role, text_of(message.get("content"), where))
    elif role == "assistant":
        yield TurnStarted()
        text = text_of(message.get("content"), where)
        if text:
            yield TextAdded(text)
        for place, call in enumerate(message.get("tool_calls") or ()):
            made = _call(call, f"{where}/tool_calls/{place}")
            yield CallOpened(made.id, made.name)
            yield CallClosed(made)
        yield TurnEnded(FinishReason.STOP)
    elif role == "tool":
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str):
            raise InputError("a result must say which call it is of", where=f"{where}/tool_call_id")
        yield ResultGiven(ToolResult(call_id, text_of(message.get("content"), where)))
    else:
        raise InputError(
            f"there is no role {role!r}",
            where=f"{where}/role",
            hint="use system, developer, user, assistant or tool",
        )


def _call(call: Any, where: str) -> ToolCall:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise InputError("a call must name its function", where=where)
    name, arguments = function.get("name"), function.get("arguments", "{}")
    if not isinstance(name, str) or not name:
        raise InputError("a call must name its function", where=f"{where}/function/name")
    if not isinstance(arguments, str):
        raise InputError(
            "the arguments must be the text of a JSON object", where=f"{where}/function/arguments"
        )
    call_id = call.get("id")
    if not isinstance(call_id, str) or not call_id:
        raise InputError(f"the call of {name!r} has no id", where=f"{where}/id")
    made = ToolCall(name, arguments, call_id)
    try:
        made.parsed  # noqa: B018 - raises if they are no JSON object
    except InputError as error:
        raise InputError(error.message, where=f"{where}/function/arguments") from None
    return made


def text_of(content: Any, where: str) -> str:
    """Return the text of a message's content: a text, nothing, or parts that are all text.

    ``where`` is the JSON pointer of the message. Raises InputError for any other part.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence):
        raise InputError("it must be a text", where=f"{where}/content")
    texts = [part.get("text") if isinstance(part, Mapping) else None for part in content]
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError("only text can be read", where=f"{where}/content/{place}")
    return "".join(map(str, texts))
