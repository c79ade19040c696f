"""Who may speak next, and which result belongs to which call.

Pure: no clock, no randomness (ids are handed in), no socket, no file. It knows tools' calls and
results; it knows no bytes, no token, no grammar and no model.
"""

from callmemaybe.conversation.conversation import Conversation, Turn
from callmemaybe.conversation.events import (
    ArgumentsAdded,
    CallClosed,
    CallOpened,
    Ended,
    Event,
    ResultGiven,
    Said,
    TextAdded,
    TurnEnded,
    TurnStarted,
)
from callmemaybe.conversation.state import TRANSITIONS, State

__all__ = [
    "TRANSITIONS",
    "ArgumentsAdded",
    "CallClosed",
    "CallOpened",
    "Conversation",
    "Ended",
    "Event",
    "ResultGiven",
    "Said",
    "State",
    "TextAdded",
    "Turn",
    "TurnEnded",
    "TurnStarted",
]
