"""What can happen in a conversation, as values.

Events of the outside (a message, a result) and of the model (text, a call being written, the end of
its turn) are alike: the :class:`~callmemaybe.conversation.conversation.Conversation` takes either and
says whether it may happen now.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from callmemaybe.tools import ToolCall, ToolResult


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
    """The model was asked and begins to answer."""


@dataclass(frozen=True)
class TextAdded:
    """The model wrote some more text for the person."""

    text: str


@dataclass(frozen=True)
class CallOpened:
    """The model has begun to write a call of this tool; nothing is promised yet."""

    id: str
    name: str


@dataclass(frozen=True)
class ArgumentsAdded:
    """Some more of the arguments' JSON text of the call being written."""

    text: str


@dataclass(frozen=True)
class CallClosed:
    """The call being written is whole and valid; it is committed when the turn stops."""

    call: ToolCall


@dataclass(frozen=True)
class TurnEnded:
    """The model's turn is over."""

    reason: FinishReason


@dataclass(frozen=True)
class ResultGiven:
    """The result of a committed call."""

    result: ToolResult


Event = (
    UserMessage
    | TurnStarted
    | TextAdded
    | CallOpened
    | ArgumentsAdded
    | CallClosed
    | TurnEnded
    | ResultGiven
)
