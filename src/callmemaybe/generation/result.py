"""What one request came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from callmemaybe.decoding.decoder import Step
from callmemaybe.decoding.name_choice import Symbol
from callmemaybe.grammar.nodes import Control
from callmemaybe.tools import ArgumentsDelta, ToolCall
from callmemaybe.wire.reader import OutputReader


@dataclass(frozen=True)
class CallResult:
    """What one request came to.

    ``call`` is None when the model decided that no function fits, or when none can be called with what
    was said (``remarks`` then says so).
    """

    call: ToolCall | None
    #: Probability of what was chosen (the name, or no call) among all names and no call; None where
    #: names were chosen token by token. It is the model's own, not a calibrated chance to be right.
    name_probability: float | None = None
    #: By how much that is likelier than the next likeliest; in [-1, 1], negative only by chance.
    margin: float | None = None
    #: Probability of each name, likeliest first; None stands for no call.
    distribution: Mapping[str | None, float] = field(default_factory=dict)
    #: Tokens that needed no decision, tokens that the model chose, and its forward passes.
    forced: int = 0
    chosen: int = 0
    passes: int = 0
    #: Log-probability (nats) under the model of what was written, and of each argument's value, where
    #: they were asked for: exact, forced tokens included, under no mask. Where a text would have stood in
    #: place of a call, that of calling nothing.
    logprob: float | None = None
    argument_logprobs: Mapping[str, float] = field(default_factory=dict)
    #: What a server that was asked did not hold to, though the call is valid; what of its schema was
    #: checked in the finished call, and not masked; why nothing was asked.
    remarks: tuple[str, ...] = ()
    #: Tokens left out of the middle of a request that did not fit into the model's context.
    omitted: int = 0
    #: Seconds by phase: "prompt" (text to ids), "model" (forward passes), "engine" (all else of
    #: the decoding), "check" (reading and validating the call), and their "total".
    seconds: Mapping[str, float] = field(default_factory=dict)
    #: What the model wrote, control tokens by their text.
    text: bytes = b""
    #: Every step, if they were asked for.
    steps: tuple[Step, ...] = ()


def argument_places(reader: OutputReader, symbols: Sequence[Symbol]) -> list[int]:
    """Return, for each byte of a call's arguments in JSON, which symbol of the answer made it certain."""
    places: list[int] = []
    for at, symbol in enumerate(symbols):
        events = reader.feed(Control(symbol) if isinstance(symbol, str) else bytes([symbol]))
        for event in events:
            if isinstance(event, ArgumentsDelta):
                places += [at] * len(event.data)
    return places
