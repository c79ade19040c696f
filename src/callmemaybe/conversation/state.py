"""The states of a conversation and the table that says what may happen in each.

The table is the specification: the conversation looks here and nowhere else, the diagram in the
documentation is drawn from it, and the tests walk it. Where an event may lead to several states, the
conversation's data decide (are there calls to answer? did the turn stop by itself?).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Self

from callmemaybe.conversation.events import (
    ArgumentsAdded,
    CallClosed,
    CallOpened,
    Event,
    ResultGiven,
    TextAdded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)


class ConversationState(Enum):
    """Whose turn it is, and how far they are."""

    IDLE = "idle", "Nobody has anything to answer."
    ASKED = "asked", "There is something for the model to answer."
    SPEAKING = "speaking", "The model is answering, between calls."
    CALLING = "calling", "The model is in the middle of a call."
    AWAITING = "awaiting", "Committed calls wait for their results."

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """Make a state of its name and what it means."""
        made = object.__new__(cls)
        made._value_ = value
        made.meaning = meaning
        return made


#: (state, event) -> the states it may lead to. What is not here is a protocol error.
TRANSITIONS: Mapping[tuple[ConversationState, type[Event]], tuple[ConversationState, ...]] = (
    MappingProxyType(
        {
            (ConversationState.IDLE, UserMessage): (
                ConversationState.ASKED,
                ConversationState.IDLE,
            ),
            # A model may speak first: a greeting, or a second message in a row.
            (ConversationState.IDLE, TurnStarted): (ConversationState.SPEAKING,),
            (ConversationState.ASKED, UserMessage): (ConversationState.ASKED,),
            (ConversationState.ASKED, TurnStarted): (ConversationState.SPEAKING,),
            (ConversationState.SPEAKING, TextAdded): (ConversationState.SPEAKING,),
            (ConversationState.SPEAKING, CallOpened): (ConversationState.CALLING,),
            (ConversationState.CALLING, ArgumentsAdded): (ConversationState.CALLING,),
            (ConversationState.CALLING, CallClosed): (ConversationState.SPEAKING,),
            # Cut short, the question is still open; stopped, calls wait for results, or all is said.
            (ConversationState.SPEAKING, TurnEnded): (
                ConversationState.IDLE,
                ConversationState.AWAITING,
                ConversationState.ASKED,
            ),
            (ConversationState.CALLING, TurnEnded): (ConversationState.ASKED,),
            (ConversationState.AWAITING, ResultGiven): (
                ConversationState.AWAITING,
                ConversationState.ASKED,
            ),
        }
    )
)


def may_follow(state: ConversationState) -> tuple[type[Event], ...]:
    """Return the kinds of event that may happen in ``state``, in the table's order."""
    return tuple(event for at, event in TRANSITIONS if at is state)


def diagram() -> str:
    """Draw the table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {ConversationState.IDLE.value}"]
    for (state, event), targets in TRANSITIONS.items():
        lines.extend(f"    {state.value} --> {t.value}: {event.__name__}" for t in targets)
    return "\n".join(lines)
