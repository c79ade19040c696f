"""The words of which wire formats are made: values of a small language, no behaviour.

A format's tree says what a model writes after the prompt. The leaves that stand for something
(a name, arguments, free text) know how to spell it; everything else is structure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from callmemaybe.grammar.nodes import Control

#: A piece of a prompt or a completion: plain text, or a control token.
Part = str | Control
Parts = tuple[Part, ...]
#: The control tokens a vocabulary has, by text; None: all that a format knows.
Controls = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Text:
    """Exactly this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Token:
    """This control token; the same characters as text where the vocabulary has no such token."""

    text: str


@dataclass(frozen=True, slots=True)
class Name:
    """The tool's name, as the inside of a JSON string."""

    def encode(self, name: str) -> str:
        """Return how the name is written."""
        return json.dumps(name, ensure_ascii=False)[1:-1]

    def decode(self, text: str) -> str:
        """Return the name that was written; ValueError if it is not the inside of a string."""
        return str(json.loads(f'"{text}"'))


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments, as a JSON object in the "spaced" or the "compact" style."""

    style: str = "spaced"


@dataclass(frozen=True, slots=True)
class Answer:
    """Free text that does not contain ``stop`` (which would begin a call)."""

    stop: str = ""


@dataclass(frozen=True, slots=True)
class Chain:
    """One piece after the other."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Calls:
    """One call or, where several are allowed, more of them with ``between`` in between."""

    call: Chain
    between: Chain = Chain(())


@dataclass(frozen=True, slots=True)
class Either:
    """Calls, or the way this family says that it calls nothing."""

    calls: Piece
    no_call: Piece


Piece = Text | Token | Name | Arguments | Answer | Chain | Calls | Either


def chain(*pieces: Piece) -> Chain:
    """One piece after the other."""
    return Chain(pieces)


def join(parts: list[Part] | Parts) -> Parts:
    """Join neighbouring texts and drop empty ones: equal content becomes equal parts."""
    joined: list[Part] = []
    for part in parts:
        if part == "":
            continue
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return tuple(joined)
