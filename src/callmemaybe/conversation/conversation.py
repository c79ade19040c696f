"""The cursor over a conversation: takes events, refuses what may not happen, never loses an id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callmemaybe.conversation.events import (
    ArgumentsAdded,
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
from callmemaybe.conversation.history import events_of
from callmemaybe.conversation.state import TRANSITIONS, ConversationState, may_follow
from callmemaybe.errors import ConversationError
from callmemaybe.jsonio.writer import dumps, loads
from callmemaybe.tools import ToolCall, ToolResult

FORMAT_VERSION = 1


@dataclass(frozen=True)
class ModelTurn:
    """What the model said in one turn: its text, its committed calls, and how it ended."""

    text: str
    calls: tuple[ToolCall, ...]
    ended: FinishReason


Entry = UserMessage | ModelTurn | ToolResult


class Conversation:
    """A conversation between people, a model and its tools.

    Every committed call gets exactly one result, by id, in any order. The calls of a turn are
    committed together, when the turn stops by itself: never from a fragment, a truncation, a refusal
    or a disconnect. Raises ConversationError, naming the id or the events that are possible, for
    everything else; a refused event changes nothing.
    """

    def __init__(self) -> None:
        """Start with nothing said."""
        self._entries: list[Entry] = []
        self._state = ConversationState.IDLE
        self._ids: set[str] = set()
        self._pending: dict[str, ToolCall] = {}
        self._text = ""
        self._written: list[ToolCall] = []
        self._open: CallOpened | None = None
        self._arguments = ""

    # -- reading ------------------------------------------------------------------------------

    @property
    def state(self) -> ConversationState:
        """Whose turn it is."""
        return self._state

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What was said, in order: messages, finished turns, results."""
        return tuple(self._entries)

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The committed calls that have no result yet, in the order they were called."""
        return tuple(self._pending.values())

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all calls that were ever committed."""
        return frozenset(self._ids)

    # -- events -------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Let ``event`` happen. Raises ConversationError if it may not happen now."""
        targets = TRANSITIONS.get((self._state, type(event)))
        if targets is None:
            possible = ", ".join(kind.__name__ for kind in may_follow(self._state))
            waits = ", ".join(map(repr, self._pending))
            raise ConversationError(
                f"{type(event).__name__} cannot happen while the conversation is"
                f" {self._state.value}; possible now: {possible}"
                + (f" of {waits}, which waits for its result" if waits else "")
            )
        target = self._effect(event)
        if target not in targets:
            raise AssertionError(f"the table knows no {self._state} -> {target} by {event}")
        self._state = target

    def take_all(self, events: Sequence[Event]) -> None:
        """Let several events happen, in order."""
        for event in events:
            self.take(event)

    def _effect(self, event: Event) -> ConversationState:
        """Check the event's data, record it, and return the state it leads to."""
        match event:
            case UserMessage():
                return self._said(event)
            case TurnStarted():
                self._text, self._written = "", []
                return ConversationState.SPEAKING
            case TextAdded():
                self._text += event.text
                return ConversationState.SPEAKING
            case CallOpened():
                return self._opened(event)
            case ArgumentsAdded():
                self._arguments += event.text
                return ConversationState.CALLING
            case CallClosed():
                return self._closed(event.call)
            case TurnEnded():
                return self._ended(event.reason)
            case ResultGiven():
                return self._answered(event.result)

    def _said(self, event: UserMessage) -> ConversationState:
        if event.role not in ("system", "developer", "user"):
            raise ConversationError(
                f"a message has the role system, developer or user, not {event.role!r}"
            )
        self._entries.append(event)
        waiting = event.role == "user" or self._state is ConversationState.ASKED
        return ConversationState.ASKED if waiting else ConversationState.IDLE

    def _opened(self, event: CallOpened) -> ConversationState:
        if not event.id:
            raise ConversationError(f"the call of {event.name!r} has no id")
        if event.id in self._ids or any(call.id == event.id for call in self._written):
            raise ConversationError(f"the call id {event.id!r} was used before")
        self._open, self._arguments = event, ""
        return ConversationState.CALLING

    def _closed(self, call: ToolCall) -> ConversationState:
        opened = self._open
        if opened is None or (call.id, call.name) != (opened.id, opened.name):
            raise ConversationError(
                f"call {call.id!r} of {call.name!r} was closed, but the one being written is"
                f" {opened.id if opened else None!r} of {opened.name if opened else None!r}"
            )
        if self._arguments and self._arguments != call.arguments:
            raise ConversationError(
                f"call {call.id!r} closed with other arguments than it streamed"
            )
        call.parsed  # noqa: B018 - raises if they are no JSON object: a fragment is never committed
        self._written.append(call)
        self._open = None
        return ConversationState.SPEAKING

    def _ended(self, reason: FinishReason) -> ConversationState:
        if reason is FinishReason.STOP and self._open is not None:
            raise ConversationError(f"the turn stopped in the middle of call {self._open.id!r}")
        calls = tuple(self._written) if reason is FinishReason.STOP else ()
        self._entries.append(ModelTurn(self._text, calls, reason))
        self._open, self._written, self._text, self._arguments = None, [], "", ""
        self._ids.update(call.id for call in calls)
        self._pending = {call.id: call for call in calls}
        if reason is not FinishReason.STOP:
            return ConversationState.ASKED
        return ConversationState.AWAITING if calls else ConversationState.IDLE

    def _answered(self, result: ToolResult) -> ConversationState:
        if result.call_id not in self._pending:
            known = ", ".join(map(repr, self._pending))
            problem = "has its result already" if result.call_id in self._ids else "is unknown"
            raise ConversationError(f"call {result.call_id!r} {problem}; waiting for {known}")
        del self._pending[result.call_id]
        self._entries.append(result)
        return ConversationState.AWAITING if self._pending else ConversationState.ASKED

    # -- other forms --------------------------------------------------------------------------

    def messages(self) -> list[dict[str, Any]]:
        """Return the conversation as chat messages in OpenAI's shape, results in call order."""
        found: list[dict[str, Any]] = []
        results = {e.call_id: e for e in self._entries if isinstance(e, ToolResult)}
        for entry in self._entries:
            if isinstance(entry, UserMessage):
                found.append({"role": entry.role, "content": entry.text})
            elif isinstance(entry, ModelTurn):
                found.append(_assistant_message(entry))
                answered = [results[call.id] for call in entry.calls if call.id in results]
                found.extend(
                    {"role": "tool", "tool_call_id": r.call_id, "content": r.content}
                    for r in answered
                )
        return found

    def to_json(self) -> str:
        """Write the conversation as JSON. Raises ConversationError in the middle of a turn."""
        if self._state in (ConversationState.SPEAKING, ConversationState.CALLING):
            raise ConversationError("a conversation cannot be saved in the middle of a turn")
        entries = [_entry_to_json(entry) for entry in self._entries]
        return dumps({"version": FORMAT_VERSION, "entries": entries})

    @classmethod
    def from_messages(cls, messages: Sequence[Mapping[str, Any]]) -> Conversation:
        """Read chat messages in OpenAI's shape, by letting what they tell of happen.

        Raises InputError, with the JSON pointer, for a message that is none; ConversationError, naming
        the pointer and the id, for a result of no call, a second result, a missing one, or an id that
        is used twice. Calls of the last turn may still wait for their results.
        """
        conversation = cls()
        for where, event in events_of(messages):
            try:
                conversation.take(event)
            except ConversationError as error:
                raise ConversationError(f"{where}: {error}") from None
        return conversation

    @classmethod
    def from_json(cls, text: str) -> Conversation:
        """Read what :meth:`to_json` wrote, by letting it all happen again.

        Raises InputError if the text is no such JSON, ConversationError if it could not have happened.
        """
        data = loads(text, where="conversation")
        entries = data.get("entries") if isinstance(data, dict) else None
        if not isinstance(entries, list) or data.get("version") != FORMAT_VERSION:
            raise ConversationError(f"this is no saved conversation of version {FORMAT_VERSION}")
        conversation = cls()
        for number, entry in enumerate(entries):
            try:
                conversation.take_all(list(_saved(entry)))
            except (KeyError, TypeError, ValueError) as error:
                raise ConversationError(f"entry {number} is malformed: {error}") from None
        return conversation


def _assistant_message(turn: ModelTurn) -> dict[str, Any]:
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


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    match entry:
        case UserMessage():
            return {"said": entry.text, "role": entry.role}
        case ModelTurn():
            calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in entry.calls]
            return {"turn": entry.text, "calls": calls, "ended": entry.ended.value}
        case ToolResult():
            return {"result": entry.content, "id": entry.call_id, "error": entry.is_error}


def _saved(entry: Mapping[str, Any]) -> Iterator[Event]:
    if "said" in entry:
        yield UserMessage(entry["role"], entry["said"])
    elif "turn" in entry:
        yield TurnStarted()
        if entry["turn"]:
            yield TextAdded(entry["turn"])
        for call in entry["calls"]:
            yield CallOpened(call["id"], call["name"])
            yield CallClosed(ToolCall(call["name"], call["arguments"], call["id"]))
        yield TurnEnded(FinishReason(entry["ended"]))
    elif "result" in entry:
        yield ResultGiven(ToolResult(entry["id"], entry["result"], entry["error"]))
    else:
        raise ValueError("it is neither a message, a turn nor a result")
