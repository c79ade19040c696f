"""The cursor over a conversation: takes one event at a time and refuses what may not happen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from callmemaybe.conversation.events import (
    ConversationEntry,
    ConversationEvent,
    FinishReason,
    ModelTurn,
    TurnEnded,
    TurnStarted,
    UserMessage,
    decode_text,
    encode_text,
)
from callmemaybe.conversation.history import (
    assistant_message,
    entry_to_json,
    events_of_json,
    events_of_messages,
)
from callmemaybe.conversation.state import TRANSITIONS, ConversationState, may_follow
from callmemaybe.errors import ConversationError
from callmemaybe.jsonio import dumps, loads
from callmemaybe.tools import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    TextDelta,
    ThoughtDelta,
    ToolCall,
    ToolResult,
)

FORMAT_VERSION = 1


class Conversation:
    """A conversation between people, a model and its tools.

    Every committed call gets exactly one result, by id, in any order. The calls of a turn are
    committed together, when the turn stops by itself: never from a fragment, a truncation, a refusal
    or a disconnect. Raises ConversationError, naming the id or the events that are possible, for
    everything else; a refused event changes nothing.
    """

    def __init__(self) -> None:
        """Start an empty conversation."""
        self._entries: list[ConversationEntry] = []
        self._state = ConversationState.IDLE
        self._ids: set[str] = set()
        self._pending: dict[str, ToolCall] = {}
        # The turn that is being generated: its text, its complete calls, and the call being written.
        self._text = bytearray()
        self._calls: list[ToolCall] = []
        self._open: CallStarted | None = None
        self._arguments = bytearray()

    # -- reading ------------------------------------------------------------------------------

    @property
    def state(self) -> ConversationState:
        """What the conversation waits for."""
        return self._state

    @property
    def entries(self) -> tuple[ConversationEntry, ...]:
        """Messages, finished turns and results, in order."""
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

    def take(self, event: ConversationEvent) -> None:
        """Let ``event`` happen. Raises ConversationError if it may not happen now."""
        # A gateway's results are subclasses of ToolResult.
        kind = ToolResult if isinstance(event, ToolResult) else type(event)
        targets = TRANSITIONS.get((self._state, kind))
        if targets is None:
            possible = ", ".join(kind.__name__ for kind in may_follow(self._state))
            waiting = ", ".join(map(repr, self._pending))
            raise ConversationError(
                f"{kind.__name__} cannot happen while the conversation is in state"
                f" {self._state.value}; possible now: {possible}"
                + (f" of {waiting}, which waits for its result" if waiting else "")
            )
        target = self._apply(event)
        if target not in targets:
            raise AssertionError(f"the table knows no {self._state} -> {target} by {event}")
        self._state = target

    def take_all(self, events: Iterable[ConversationEvent]) -> None:
        """Let several events happen, in order."""
        for event in events:
            self.take(event)

    def _apply(self, event: ConversationEvent) -> ConversationState:
        """Check the event's data, record it, and return the state it leads to."""
        match event:
            case UserMessage():
                return self._add_message(event)
            case TurnStarted():
                return ConversationState.GENERATING
            case TextDelta():
                self._text += event.data
                return ConversationState.GENERATING
            case ThoughtDelta():  # thoughts are no part of a conversation
                return ConversationState.GENERATING
            case CallStarted():
                return self._start_call(event)
            case ArgumentsDelta():
                self._check_index(event.index)
                self._arguments += event.data
                return ConversationState.WRITING_CALL
            case CallEnded():
                return self._end_call(event)
            case TurnEnded():
                return self._end_turn(event.reason)
            case ToolResult():
                return self._add_result(event)

    def _add_message(self, message: UserMessage) -> ConversationState:
        if message.role not in ("system", "developer", "user"):
            raise ConversationError(
                f"a message has the role system, developer or user, not {message.role!r}"
            )
        self._entries.append(message)
        if message.role == "user" or self._state is ConversationState.AWAITING_MODEL:
            return ConversationState.AWAITING_MODEL
        return ConversationState.IDLE

    def _start_call(self, started: CallStarted) -> ConversationState:
        self._check_index(started.index)
        if started.id:  # the model may write it later
            self._check_id(started.id)
        self._open = started
        self._arguments.clear()
        return ConversationState.WRITING_CALL

    def _end_call(self, ended: CallEnded) -> ConversationState:
        self._check_index(ended.index)
        call, started = ended.call, self._open
        if started is None or started.name != call.name or started.id not in ("", call.id):
            raise ConversationError(
                f"call {call.id!r} of {call.name!r} ended, but the one being written is"
                f" {started.id if started else None!r} of {started.name if started else None!r}"
            )
        if not call.id:
            raise ConversationError(f"the call of {call.name!r} has no id")
        self._check_id(call.id)
        if self._arguments and self._arguments != encode_text(call.arguments):
            raise ConversationError(f"call {call.id!r} ended with other arguments than it streamed")
        call.parsed  # noqa: B018 - raises if they are no JSON object: a fragment is never committed
        self._calls.append(call)
        self._open = None
        return ConversationState.GENERATING

    def _check_index(self, index: int) -> None:
        if index != len(self._calls):
            raise ConversationError(f"call number {index} is out of order after {len(self._calls)}")

    def _check_id(self, call_id: str) -> None:
        if call_id in self._ids or any(call.id == call_id for call in self._calls):
            raise ConversationError(f"the call id {call_id!r} was used before")

    def _end_turn(self, reason: FinishReason) -> ConversationState:
        is_committed = reason is FinishReason.STOP
        if is_committed and self._open is not None:
            raise ConversationError(f"the turn stopped in the middle of call {self._open.id!r}")
        calls = tuple(self._calls) if is_committed else ()
        self._entries.append(ModelTurn(decode_text(self._text), calls, reason))
        self._ids.update(call.id for call in calls)
        self._pending = {call.id: call for call in calls}
        self._text.clear()
        self._calls.clear()
        self._open = None
        if not is_committed:
            return ConversationState.AWAITING_MODEL
        return ConversationState.AWAITING_RESULTS if calls else ConversationState.IDLE

    def _add_result(self, result: ToolResult) -> ConversationState:
        if result.call_id not in self._pending:
            waiting = ", ".join(map(repr, self._pending))
            problem = "has its result already" if result.call_id in self._ids else "is unknown"
            raise ConversationError(f"call {result.call_id!r} {problem}; waiting for {waiting}")
        del self._pending[result.call_id]
        self._entries.append(result)
        if self._pending:
            return ConversationState.AWAITING_RESULTS
        return ConversationState.AWAITING_MODEL

    # -- other forms --------------------------------------------------------------------------

    def messages(self) -> list[dict[str, Any]]:
        """Return the conversation as chat messages in OpenAI's shape, results in call order."""
        messages: list[dict[str, Any]] = []
        results = {e.call_id: e for e in self._entries if isinstance(e, ToolResult)}
        for entry in self._entries:
            if isinstance(entry, UserMessage):
                messages.append({"role": entry.role, "content": entry.text})
            elif isinstance(entry, ModelTurn):
                messages.append(assistant_message(entry))
                messages.extend(
                    {"role": "tool", "tool_call_id": call.id, "content": results[call.id].content}
                    for call in entry.calls
                    if call.id in results
                )
        return messages

    def to_json(self) -> str:
        """Write the conversation as JSON. Raises ConversationError in the middle of a turn."""
        if self._state in (ConversationState.GENERATING, ConversationState.WRITING_CALL):
            raise ConversationError("a conversation cannot be saved in the middle of a turn")
        return dumps(
            {"version": FORMAT_VERSION, "entries": list(map(entry_to_json, self._entries))}
        )

    @classmethod
    def from_messages(cls, messages: Sequence[Mapping[str, Any]]) -> Conversation:
        """Read chat messages in OpenAI's shape by taking the events they stand for.

        Raises InputError, with the JSON pointer, for what is not a message; ConversationError, naming
        the pointer and the id, for a result of no call, a second result, a missing one, or an id that
        is used twice. Calls of the last turn may still wait for their results.
        """
        conversation = cls()
        for where, event in events_of_messages(messages):
            try:
                conversation.take(event)
            except ConversationError as error:
                raise ConversationError(f"{where}: {error}") from None
        return conversation

    @classmethod
    def from_json(cls, text: str) -> Conversation:
        """Read what :meth:`to_json` wrote by taking the events again.

        Raises InputError if the text is no such JSON, ConversationError if it could not have happened.
        """
        data = loads(text, where="conversation")
        entries = data.get("entries") if isinstance(data, dict) else None
        if not isinstance(entries, list) or data.get("version") != FORMAT_VERSION:
            raise ConversationError(f"this is no saved conversation of version {FORMAT_VERSION}")
        conversation = cls()
        for number, entry in enumerate(entries):
            try:
                conversation.take_all(events_of_json(entry))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise ConversationError(f"entry {number} is malformed: {error}") from None
        return conversation
