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
    Said,
    TextAdded,
    TurnEnded,
    TurnStarted,
)


class State(Enum):
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
TRANSITIONS: Mapping[tuple[State, type[Event]], tuple[State, ...]] = MappingProxyType(
    {
        (State.IDLE, Said): (State.ASKED, State.IDLE),
        # A model may speak first: a greeting, or a second message in a row.
        (State.IDLE, TurnStarted): (State.SPEAKING,),
        (State.ASKED, Said): (State.ASKED,),
        (State.ASKED, TurnStarted): (State.SPEAKING,),
        (State.SPEAKING, TextAdded): (State.SPEAKING,),
        (State.SPEAKING, CallOpened): (State.CALLING,),
        (State.CALLING, ArgumentsAdded): (State.CALLING,),
        (State.CALLING, CallClosed): (State.SPEAKING,),
        # Cut short, the question is still open; stopped, calls wait for results, or all is said.
        (State.SPEAKING, TurnEnded): (State.IDLE, State.AWAITING, State.ASKED),
        (State.CALLING, TurnEnded): (State.ASKED,),
        (State.AWAITING, ResultGiven): (State.AWAITING, State.ASKED),
    }
)


def may_follow(state: State) -> tuple[type[Event], ...]:
    """Return the kinds of event that may happen in ``state``, in the table's order."""
    return tuple(event for at, event in TRANSITIONS if at is state)


def diagram() -> str:
    """Draw the table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.IDLE.value}"]
    for (state, event), targets in TRANSITIONS.items():
        lines.extend(f"    {state.value} --> {t.value}: {event.__name__}" for t in targets)
    return "\n".join(lines)
