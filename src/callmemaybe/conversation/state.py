"""The states of a conversation and the table that says what may happen in each.

The table is the specification: the conversation looks here and nowhere else, the diagram in the
documentation is drawn from it, and the tests walk it. Where an event may lead to several states, the
conversation's data decide (does the turn have calls? did it stop by itself?).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Self

from callmemaybe.conversation.events import (
    ConversationEvent,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from callmemaybe.tools import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    TextDelta,
    ThoughtDelta,
    ToolResult,
)


class ConversationState(Enum):
    """What the conversation waits for."""

    IDLE = "idle", "Nothing waits for an answer."
    AWAITING_MODEL = "awaiting_model", "There is something for the model to answer."
    GENERATING = "generating", "The model writes its turn, between calls."
    WRITING_CALL = "writing_call", "The model is in the middle of a call."
    AWAITING_RESULTS = "awaiting_results", "Committed calls wait for their results."

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """Make a state of its name and what it means."""
        made = object.__new__(cls)
        made._value_ = value
        made.meaning = meaning
        return made


_S = ConversationState

#: (state, event) -> the states it may lead to. What is not here is a protocol error.
TRANSITIONS: Mapping[
    tuple[ConversationState, type[ConversationEvent]], tuple[ConversationState, ...]
] = MappingProxyType({
    (_S.IDLE, UserMessage): (_S.AWAITING_MODEL, _S.IDLE),
    # A model may begin: with a greeting, or with a second message in a row.
    (_S.IDLE, TurnStarted): (_S.GENERATING,),
    (_S.AWAITING_MODEL, UserMessage): (_S.AWAITING_MODEL,),
    (_S.AWAITING_MODEL, TurnStarted): (_S.GENERATING,),
    (_S.GENERATING, TextDelta): (_S.GENERATING,),
    (_S.GENERATING, ThoughtDelta): (_S.GENERATING,),
    (_S.GENERATING, CallStarted): (_S.WRITING_CALL,),
    (_S.WRITING_CALL, ArgumentsDelta): (_S.WRITING_CALL,),
    (_S.WRITING_CALL, CallEnded): (_S.GENERATING,),
    # Cut short, the question is still open; stopped, its calls wait for results if it has any.
    (_S.GENERATING, TurnEnded): (_S.IDLE, _S.AWAITING_RESULTS, _S.AWAITING_MODEL),
    (_S.WRITING_CALL, TurnEnded): (_S.AWAITING_MODEL,),
    (_S.AWAITING_RESULTS, ToolResult): (_S.AWAITING_RESULTS, _S.AWAITING_MODEL),
})  # fmt: skip


def may_follow(state: ConversationState) -> tuple[type[ConversationEvent], ...]:
    """Return the kinds of event that may happen in ``state``, in the table's order."""
    return tuple(event for at, event in TRANSITIONS if at is state)


def diagram() -> str:
    """Draw the table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {ConversationState.IDLE.value}"]
    for (state, event), targets in TRANSITIONS.items():
        lines.extend(f"    {state.value} --> {t.value}: {event.__name__}" for t in targets)
    return "\n".join(lines)
