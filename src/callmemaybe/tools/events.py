"""The events of a model's turn as it is written, from the decoder's bytes up to the server.

One vocabulary for every room that handles a stream: :class:`callmemaybe.wire.reader.OutputReader` makes the
events from what a model writes, ``generation`` passes them on, a conversation takes them, and the
server tells its clients of them. They are declared here, below all of these rooms, next to the call
and the result.

Three things are not events of this stream, because they are not about what was written:
``decoding.decoder.Step`` is about tokens (how one was chosen, its probability), and no room that handles
these events knows a token; ``conversation.loop.GenerateTurn`` and ``ExecuteCalls`` are requests of the
pure loop to whoever drives it; and the begin and end of a turn are declared by those who decide them,
the conversation (``TurnStarted``, ``TurnEnded``) and generation (``TurnResult``).
"""

from __future__ import annotations

from dataclasses import dataclass

from callmemaybe.tools.spec import ToolCall


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the text for the user, in UTF-8; a cut may split a character."""

    data: bytes


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """More of the model's reasoning, in UTF-8; a cut may split a character."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The name of call number ``index`` of this turn is known; the call may still be cut off.

    ``id`` is empty as long as none is known: many formats have no ids, others write them later.
    """

    index: int
    name: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More of the JSON text of the arguments of call number ``index``, in UTF-8; may split a character."""

    index: int
    data: bytes


@dataclass(frozen=True, slots=True)
class CallEnded:
    """Call number ``index`` is complete; it counts once its turn has ended with "stop"."""

    index: int
    call: ToolCall


StreamEvent = TextDelta | ThoughtDelta | CallStarted | ArgumentsDelta | CallEnded
