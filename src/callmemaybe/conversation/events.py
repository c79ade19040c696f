"""What can happen in a conversation, and what is kept of it.

What a model writes comes as the stream's own events (:mod:`callmemaybe.tools.events`), and what a tool
returns as a ``ToolResult``. Declared here is only what neither has a word for: a message from outside,
and the begin and end of a turn, which are no part of what the model writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from callmemaybe.tools import (
    CallEnded,
    CallStarted,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolResult,
)


class FinishReason(Enum):
    """Why the model's turn ended; only ``STOP`` commits the calls of the turn."""

    STOP = "stop"
    LENGTH = "length"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True)
class UserMessage:
    """A message from outside: ``role`` is "system", "developer" or "user"."""

    role: str
    text: str


@dataclass(frozen=True)
class TurnStarted:
    """The model begins to generate a turn."""


@dataclass(frozen=True)
class TurnEnded:
    """The model's turn is over."""

    reason: FinishReason


@dataclass(frozen=True)
class ModelTurn:
    """One finished turn of the model: its text, its committed calls, and why it ended."""

    text: str
    calls: tuple[ToolCall, ...]
    ended: FinishReason


ConversationEvent = UserMessage | TurnStarted | StreamEvent | TurnEnded | ToolResult
#: What a conversation consists of once its events have happened.
ConversationEntry = UserMessage | ModelTurn | ToolResult


def turn_events(
    text: str, calls: Sequence[ToolCall] = (), reason: FinishReason = FinishReason.STOP
) -> Iterator[ConversationEvent]:
    """Yield the events of a turn that is known as a whole."""
    yield TurnStarted()
    if text:
        yield TextDelta(encode_text(text))
    for index, call in enumerate(calls):
        yield CallStarted(index, call.name, call.id)
        yield CallEnded(index, call)
    yield TurnEnded(reason)


def encode_text(text: str) -> bytes:
    """Return ``text`` in UTF-8. JSON can hold half a surrogate pair, so that is kept, too."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes | bytearray) -> str:
    """Return the text of ``data``, the replacement character for part of a character that was cut."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode(errors="replace")
