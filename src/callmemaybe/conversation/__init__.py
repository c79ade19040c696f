"""Which event may happen next in a conversation, and which result belongs to which call.

The problem: a model may be cut off in the middle of a call, tools answer in any order or not at all,
and a second result for one call, or a result for none, must never go unnoticed. A conversation is
therefore a state machine in three parts. The program is one frozen table
(:data:`~callmemaybe.conversation.state.TRANSITIONS`: state and event -> states). The cursor is
:class:`Conversation`, which takes one event at a time, refuses what the table or the ids do not allow,
and keeps what is committed as a list of entries. The driver is whoever asks models and runs tools: it
follows :func:`~callmemaybe.conversation.loop.conversation_loop`, a generator that says what has to be
done next. Every committed call gets exactly one result, by id.

This room is pure: ids are handed in, and it owns no clock, randomness, socket, thread or file. It knows
tools' calls and results and the events of a stream (:mod:`callmemaybe.tools.events`); it knows no
token, no grammar, no wire format and no model.
"""

from callmemaybe.conversation.conversation import Conversation
from callmemaybe.conversation.events import (
    ConversationEvent,
    FinishReason,
    ModelTurn,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from callmemaybe.conversation.state import TRANSITIONS, ConversationState

__all__ = [
    "TRANSITIONS",
    "Conversation",
    "ConversationEvent",
    "ConversationState",
    "FinishReason",
    "ModelTurn",
    "TurnEnded",
    "TurnStarted",
    "UserMessage",
]
