"""Who may speak next, and which result belongs to which call.

Pure: no clock, no randomness (ids are handed in), no socket, no file. It knows tools' calls and
results; it knows no bytes, no token, no grammar and no model.
"""

from callmemaybe.conversation.conversation import Conversation, ModelTurn
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
from callmemaybe.conversation.state import TRANSITIONS, ConversationState

__all__ = [
    "TRANSITIONS",
    "ArgumentsAdded",
    "CallClosed",
    "CallOpened",
    "Conversation",
    "ConversationState",
    "Event",
    "FinishReason",
    "ModelTurn",
    "ResultGiven",
    "TextAdded",
    "TurnEnded",
    "TurnStarted",
    "UserMessage",
]
