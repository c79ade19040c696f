"""The words of which wire formats are made: values of a small language, no behaviour.

A format's tree says what a model writes after the prompt. The leaves that stand for something
(a name, arguments, an id, free text) know how to spell it; everything else is structure.
"""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from json.encoder import encode_basestring

from callmemaybe.grammar.nodes import Control
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.arg_syntax import JSON, Notation, is_bare

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
    """The tool's name: as the inside of a JSON string, or ``bare``.

    A bare name that holds anything else than letters, digits and ``_ - . / @ $`` stands in quotes.
    """

    bare: bool = False

    def encode(self, name: str) -> str:
        """Return how the name is written."""
        quoted = encode_basestring(name)
        return (name if is_bare(name) else quoted) if self.bare else quoted[1:-1]

    def decode(self, text: str) -> str:
        """Return the name that was written; ValueError if it is not written like that."""
        if not self.bare:
            return str(json.loads(f'"{text}"'))
        if is_bare(text):
            return text
        name = json.loads(text)
        if not isinstance(name, str) or is_bare(name):
            raise ValueError(text)
        return name


@dataclass(frozen=True, slots=True)
class SchemaEcho:
    """Text that the called tool alone decides, between its name and a control token.

    Nothing is chosen in it: the model reads it again where it now matters, knowing the request.
    """

    write: Callable[[ToolSpec], str]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments, in JSON ("spaced" or "compact") or in a notation of their own."""

    style: str = "spaced"
    notation: Notation = JSON


@dataclass(frozen=True, slots=True)
class Id:
    """The call's id: exactly so many letters and digits, written by the model."""

    length: int = 9

    def encode(self, call_id: str) -> str:
        """Return the id as it is if it fits, else letters that follow from it."""
        if re.fullmatch(rf"[A-Za-z0-9]{{{self.length}}}", call_id):
            return call_id
        digest = int.from_bytes(hashlib.sha256(call_id.encode()).digest(), "big")
        letters = string.ascii_letters + string.digits
        return "".join(letters[digest // 62**place % 62] for place in range(self.length))


@dataclass(frozen=True, slots=True)
class Answer:
    """Free text: without ``stop`` (which would begin a call), not beginning like ``not_first``.

    With a ``stop`` the same text may also stand in front of a call.
    """

    stop: str = ""
    not_first: str = ""


@dataclass(frozen=True, slots=True)
class Thought:
    """Thinking aloud between two tokens, in front of everything else; only where it is asked for.

    ``before`` and ``after`` stand inside and behind it. ``begun``: the prompt has opened it already.
    """

    begin: Chain
    end: Chain


@dataclass(frozen=True, slots=True)
class Chain:
    """One piece after the other."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Calls:
    """One call or, where several are allowed, more of them with ``between`` in between.

    ``between`` None: this family calls one function a turn.
    """

    call: Chain
    between: Chain | None = Chain(())


@dataclass(frozen=True, slots=True)
class Either:
    """Calls, or the way this family says that it calls nothing."""

    calls: Piece
    no_call: Piece


Piece = (
    Text | Token | Name | SchemaEcho | Arguments | Id | Answer | Thought | Chain | Calls | Either
)


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
