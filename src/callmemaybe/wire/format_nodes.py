"""The nodes of which the tree of a wire format is made: frozen values, no behaviour.

A format's tree says what a model writes after the prompt. The leaves that stand for something (a name,
arguments, an id, free text) know how it is spelled; everything else is structure.
"""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring

from callmemaybe.grammar.nodes import Control
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.arg_syntax import JSON_ARGS, ArgSyntax, is_bare

#: A part of a prompt or of what a model writes: plain text, or a control token.
PromptPart = str | Control
PromptParts = tuple[PromptPart, ...]
#: The control tokens a vocabulary has, by text; None: all that a format knows.
Controls = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class TextNode:
    """Exactly this text."""

    text: str


@dataclass(frozen=True, slots=True)
class TokenNode:
    """This control token; the same characters as text where the vocabulary has no such token."""

    text: str


@dataclass(frozen=True, slots=True)
class NameNode:
    """The tool's name: as the inside of a JSON string, or ``bare``.

    A bare name that contains anything but letters, digits and ``_ - . / @ $`` is written in quotes.
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
class NameAgainNode:
    """The tool's name once more, behind its NameNode, as the inside of a JSON string."""


@dataclass(frozen=True, slots=True)
class SchemaEchoNode:
    """Text that depends on the called tool and the request, between its name and a control token.

    The grammar forces it: it repeats the tool's parameters behind the request, where a causal model
    reads them knowing what was asked for. ``needs_request`` says for which tools the request counts.
    """

    write: Callable[[ToolSpec, str], str]
    needs_request: Callable[[ToolSpec], bool]


@dataclass(frozen=True, slots=True)
class ArgumentsNode:
    """The arguments, in JSON ("spaced" or "compact") or in a syntax of the family's own."""

    style: str = "spaced"
    syntax: ArgSyntax = JSON_ARGS


@dataclass(frozen=True, slots=True)
class IdNode:
    """The call's id: exactly so many letters and digits, written by the model."""

    length: int = 9

    def encode(self, call_id: str) -> str:
        """Return the id as it is if it has this form, else letters computed from it (SHA-256)."""
        if re.fullmatch(rf"[A-Za-z0-9]{{{self.length}}}", call_id):
            return call_id
        digest = int.from_bytes(hashlib.sha256(call_id.encode()).digest(), "big")
        letters = string.ascii_letters + string.digits
        return "".join(letters[digest // 62**place % 62] for place in range(self.length))


@dataclass(frozen=True, slots=True)
class NumberNode:
    """The number of the call in its turn, counted from ``first``; a model may write any, it is no id."""

    first: int = 0


@dataclass(frozen=True, slots=True)
class FreeTextNode:
    """Free text: without ``stop`` (which would begin a call), not beginning with one of ``not_first``.

    With a ``stop`` the same text may also stand in front of a call. ``stop`` is a control token where
    the vocabulary has it, or, ``text_stop``, text in any vocabulary.
    """

    stop: str = ""
    not_first: str = ""
    text_stop: bool = False

    def stop_text(self, controls: Controls) -> str:
        """Return the stop where it is text in a vocabulary with these control tokens."""
        is_token = controls is None or self.stop in controls
        return "" if is_token and not self.text_stop else self.stop


@dataclass(frozen=True, slots=True)
class ThoughtNode:
    """Reasoning between ``begin`` and ``end``, in front of everything else; only where it is allowed."""

    begin: SequenceNode
    end: SequenceNode


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """One node after the other."""

    nodes: tuple[FormatNode, ...]


@dataclass(frozen=True, slots=True)
class CallsNode:
    """One call or, where several are allowed, more of them with ``between`` in between.

    ``between`` None: this family writes one call a turn.
    """

    call: SequenceNode
    between: SequenceNode | None = SequenceNode(())


@dataclass(frozen=True, slots=True)
class ChoiceNode:
    """Calls, or what this family writes when it calls nothing."""

    calls: FormatNode
    no_call: FormatNode


FormatNode = (
    TextNode | TokenNode | NameNode | NameAgainNode | SchemaEchoNode | ArgumentsNode | IdNode | NumberNode
    | FreeTextNode | ThoughtNode | SequenceNode | CallsNode | ChoiceNode
)  # fmt: skip


def sequence(*nodes: FormatNode | str) -> SequenceNode:
    """Return one node after the other; a string is the text of a TextNode."""
    return SequenceNode(tuple(TextNode(one) if isinstance(one, str) else one for one in nodes))


def leaves(node: FormatNode) -> Iterator[FormatNode]:
    """Yield every node of a tree that is not mere structure, and each CallsNode before its call."""
    match node:
        case SequenceNode():
            for inner in node.nodes:
                yield from leaves(inner)
        case CallsNode():
            yield node
            yield from (*leaves(node.call), *leaves(node.between or SequenceNode(())))
        case ChoiceNode():
            yield from (*leaves(node.calls), *leaves(node.no_call))
        case _:
            yield node


def join_parts(parts: Iterable[PromptPart]) -> PromptParts:
    """Join neighbouring texts and drop empty ones, so that equal content becomes equal parts."""
    joined: list[PromptPart] = []
    for part in parts:
        if part == "":
            continue
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return tuple(joined)
