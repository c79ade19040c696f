"""Conversations in other forms: chat messages in OpenAI's shape, and the JSON of a saved one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from callmemaybe.conversation.events import (
    ConversationEntry,
    ConversationEvent,
    FinishReason,
    ModelTurn,
    UserMessage,
    turn_events,
)
from callmemaybe.errors import InputError
from callmemaybe.tools import ToolCall, ToolResult


def events_of_messages(
    messages: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, ConversationEvent]]:
    """Yield the events that chat messages stand for, each with the JSON pointer of its message.

    Raises InputError, with the pointer, for what is not a message.
    """
    for number, message in enumerate(messages):
        where = f"/messages/{number}"
        if not isinstance(message, Mapping):
            raise InputError("a message must be an object", where=where)
        for event in _events_of_message(message, where):
            yield where, event


def unpaired_call(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Say what is wrong where calls and results of chat messages are no pairs; None where they are.

    Every call must have one result, directly after it, and every result must belong to a call. An id may stand for
    another call once its result is there: some models count their calls from 0 in each turn.
    """
    seen: set[str] = set()
    waiting: dict[str, None] = {}
    for message in messages:
        if message["role"] == "tool":
            call = message["tool_call_id"]
            if call not in waiting:
                why = "has its result already" if call in seen else "was never made"
                return f"There is a result of the call {call!r}, which {why}."
            del waiting[call]
            continue
        if waiting:
            break
        for made in message.get("tool_calls") or ():
            if made["id"] in waiting:
                return f"The id {made['id']!r} stands for two calls."
            seen.add(made["id"])
            waiting[made["id"]] = None
    return f"The call {next(iter(waiting))!r} has no result behind it." if waiting else None


def _events_of_message(message: Mapping[str, Any], where: str) -> Iterator[ConversationEvent]:
    role = message.get("role")
    if role in ("system", "developer", "user"):
        yield UserMessage(role, content_text(message.get("content"), where))
    elif role == "assistant":
        text = content_text(message.get("content"), where)
        calls = [
            _read_call(call, f"{where}/tool_calls/{place}")
            for place, call in enumerate(message.get("tool_calls") or ())
        ]
        yield from turn_events(text, calls)
    elif role == "tool":
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str):
            raise InputError("a result must say which call it is of", where=f"{where}/tool_call_id")
        yield ToolResult(call_id, content_text(message.get("content"), where))
    else:
        raise InputError(
            f"there is no role {role!r}",
            where=f"{where}/role",
            hint="use system, developer, user, assistant or tool",
        )


def _read_call(call: Any, where: str) -> ToolCall:
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
    read = ToolCall(name, arguments, call_id)
    try:
        read.parsed  # noqa: B018 - raises if they are no JSON object
    except InputError as error:
        raise InputError(error.message, where=f"{where}/function/arguments") from None
    return read


def content_text(content: Any, where: str) -> str:
    """Return the text of a message's content: a string, None, or parts that are all text.

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


def assistant_message(turn: ModelTurn) -> dict[str, Any]:
    """Return a finished turn as a chat message."""
    # Many templates add the content to a text wherever there are no calls.
    content = turn.text or (None if turn.calls else "")
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in turn.calls
        ]
    return message


def entry_to_json(entry: ConversationEntry) -> dict[str, Any]:
    """Return an entry as it stands in a saved conversation."""
    match entry:
        case UserMessage():
            return {"said": entry.text, "role": entry.role}
        case ModelTurn():
            calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in entry.calls]
            return {"turn": entry.text, "calls": calls, "ended": entry.ended.value}
        case ToolResult():
            return {"result": entry.content, "id": entry.call_id, "error": entry.is_error}


def events_of_json(entry: Mapping[str, Any]) -> Iterator[ConversationEvent]:
    """Yield the events that an entry of a saved conversation stands for.

    Raises KeyError, TypeError or ValueError for what is not an entry.
    """
    if "said" in entry:
        yield UserMessage(entry["role"], entry["said"])
    elif "turn" in entry:
        calls = [ToolCall(call["name"], call["arguments"], call["id"]) for call in entry["calls"]]
        yield from turn_events(entry["turn"], calls, FinishReason(entry["ended"]))
    elif "result" in entry:
        yield ToolResult(entry["id"], entry["result"], entry["error"])
    else:
        raise ValueError("it is neither a message, a turn nor a result")
