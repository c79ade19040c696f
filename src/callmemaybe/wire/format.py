"""A model family's way to write calls: one tree, from which everything else is derived.

``render`` writes calls, ``grammar`` says what a model may write, ``reader`` understands what was
written. All three walk the same tree, so they agree by construction; the laws that say so are
tested on every format of the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from callmemaybe._json import rewrite
from callmemaybe.calls import ToolCall, ToolSpec, check_distinct
from callmemaybe.errors import InputError, UnsupportedSchema
from callmemaybe.grammar.characters import ALL, utf8
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.grammar.nodes import (
    Control,
    Except,
    Mark,
    Node,
    alt,
    byte_range,
    capture,
    lexeme,
    lit,
    many,
    seq,
    words_then,
)
from callmemaybe.grammar.schema import json_schema_node
from callmemaybe.wire.pieces import (
    Answer,
    Arguments,
    Calls,
    Chain,
    Controls,
    Either,
    Name,
    Part,
    Parts,
    Piece,
    Text,
    Token,
    join,
)
from callmemaybe.wire.prompt import ChatTemplate
from callmemaybe.wire.reader import CallEnded, CallStarted, Reader

#: One message of a conversation, in OpenAI's shape: {"role": ..., "content": ...}.
Message = Mapping[str, Any]
#: Writes the part of a prompt that does not depend on the request.
Prefix = Callable[[Sequence[ToolSpec], Controls], Parts]
#: Writes the rest, up to where the model begins.
Request = Callable[[Sequence[Message], Sequence[ToolSpec], Controls], Parts]


@dataclass(frozen=True)
class Format:
    """How one family of models is asked, and how it answers.

    ``controls``, wherever a method takes it, is the set of control tokens the vocabulary has, by
    text; None means that it has all of them.
    """

    name: str
    summary: str
    tree: Piece
    prefix: Prefix
    request: Request
    #: Control tokens that give this format away, all of them.
    controls: frozenset[str] = frozenset()
    #: Texts of a chat template that give it away (all), and that speak against it (any).
    template_has: tuple[str, ...] = ()
    template_lacks: tuple[str, ...] = ()
    #: Among formats that fit, the higher number wins.
    priority: int = 0

    def fits(self, template: str | None, controls: frozenset[str]) -> bool:
        """Whether a model with this chat template and these control tokens uses this format."""
        if not self.controls <= controls:
            return False
        if template is None or not self.template_has:
            return bool(self.controls)
        return all(sign in template for sign in self.template_has) and not any(
            sign in template for sign in self.template_lacks
        )

    def with_template(self, source: str, **names: str) -> Format:
        """Return the same format with the prompts of a model's own chat template (Jinja).

        ``names`` are what the template may call by name: ``bos_token``, ``eos_token``.

        Raises ModelError if the template is not valid.
        """
        template = ChatTemplate(source, **names)
        return replace(self, prefix=template.prefix, request=template.request)

    def prompt(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        controls: Controls = None,
    ) -> Parts:
        """Return the whole prompt: the static prefix, then the request."""
        return join([*self.prefix(tools, controls), *self.request(messages, tools, controls)])

    def grammar(
        self,
        tools: Sequence[ToolSpec],
        *,
        no_call: bool = False,
        parallel: bool = False,
        controls: Controls = None,
    ) -> Grammar:
        """Return what a model may write: one call (or, ``parallel``, several) of these tools.

        Captures: "name" and "arguments" of each call; "no_call" where ``no_call`` allows that
        branch. Raises InputError without tools or for a name that occurs twice, and
        UnsupportedSchema (its ``where`` names the tool) for a schema that cannot be kept.
        """
        if not tools:
            raise InputError("there is no function to call", hint="give at least one")
        check_distinct(tools, "tools")
        return _Writer(tools, controls, no_call, parallel).grammar(self.tree)

    def spellings(self, tools: Sequence[ToolSpec]) -> Mapping[bytes, str]:
        """Return what the capture "name" holds for each tool, and the tool's name."""
        (leaf,) = {leaf for leaf in _leaves(self.tree) if isinstance(leaf, Name)}
        return {leaf.encode(tool.name).encode(): tool.name for tool in tools}

    def render(
        self,
        calls: Sequence[ToolCall],
        *,
        answer: str = "",
        controls: Controls = None,
    ) -> Parts:
        """Return what a model writes for these calls; without any, the no-call branch.

        ``answer`` is the free text of formats that answer in text.
        """
        return join(list(_render(self.tree, tuple(calls), answer, controls)))

    def reader(self, *, controls: Controls = None) -> Reader:
        """Return a fresh incremental reader of what a model writes."""
        return Reader(self.tree, controls)

    def read(
        self,
        parts: Iterable[Part | bytes],
        *,
        controls: Controls = None,
    ) -> list[ToolCall]:
        """Return the calls of a complete answer (none: the model called nothing).

        Raises InputError if the answer is cut off or not in this format.
        """
        reader = self.reader(controls=controls)
        events = [event for part in parts for event in reader.feed(part)]
        calls: list[ToolCall] = []
        name = ""
        for event in [*events, *reader.end()]:
            if isinstance(event, CallStarted):
                name = event.name
            elif isinstance(event, CallEnded):
                calls.append(ToolCall(name, event.arguments))
        return calls


def _leaves(piece: Piece) -> Iterator[Piece]:
    match piece:
        case Chain():
            for inner in piece.pieces:
                yield from _leaves(inner)
        case Calls():
            yield from (*_leaves(piece.call), *_leaves(piece.between))
        case Either():
            yield from (*_leaves(piece.calls), *_leaves(piece.no_call))
        case _:
            yield piece


def _has(token: Token, controls: Controls) -> bool:
    return controls is None or token.text in controls


# -- rendering ------------------------------------------------------------------------------------


def _render(
    piece: Piece,
    calls: tuple[ToolCall, ...],
    answer: str,
    controls: Controls,
) -> Iterable[Part]:
    match piece:
        case Text():
            yield piece.text
        case Token():
            yield Control(piece.text) if _has(piece, controls) else piece.text
        case Name():
            yield piece.encode(calls[0].name)
        case Arguments():
            yield rewrite(calls[0].arguments, compact=piece.style == "compact")
        case Answer():
            yield answer
        case Chain():
            for part in piece.pieces:
                yield from _render(part, calls, answer, controls)
        case Either():
            chosen = piece.calls if calls else piece.no_call
            yield from _render(chosen, calls, answer, controls)
        case Calls():
            if not calls:
                raise InputError("this format has no way to call nothing")
            for position, call in enumerate(calls):
                if position:
                    yield from _render(piece.between, (call,), answer, controls)
                yield from _render(piece.call, (call,), answer, controls)


# -- the grammar ----------------------------------------------------------------------------------

_ANYTHING = many(byte_range(0x00, 0xFF))


class _Writer:
    """Writes the grammar of a tree for one list of tools."""

    def __init__(
        self,
        tools: Sequence[ToolSpec],
        controls: Controls,
        no_call: bool,
        parallel: bool,
    ) -> None:
        self._tools = tools
        self._controls = controls
        self._no_call = no_call
        self._parallel = parallel
        self._rules: dict[str, Node] = {}

    def grammar(self, tree: Piece) -> Grammar:
        return Grammar(self._node(tree, None), self._rules)

    def _node(self, piece: Piece, tool: int | None) -> Node:
        match piece:
            case Text():
                return lit(piece.text)
            case Token():
                return Control(piece.text) if _has(piece, self._controls) else lit(piece.text)
            case Chain():
                return self._chain(piece.pieces, tool)
            case Calls():
                call = self._node(piece.call, None)
                if not self._parallel:
                    return call
                return seq(call, many(seq(self._node(piece.between, None), call)))
            case Either():
                calls = self._node(piece.calls, None)
                if not self._no_call:
                    return calls
                return alt(calls, capture("no_call", self._node(piece.no_call, None)))
            case Answer():
                return self._answer(piece)
            case Arguments():
                assert tool is not None, "the arguments stand behind the name"
                return capture("arguments", self._arguments(tool, piece.style))
            case Name():
                return self._chain((piece,), tool)

    def _chain(self, pieces: tuple[Piece, ...], tool: int | None) -> Node:
        """Concatenate; what stands behind the name belongs to one tool, so it hangs on its word."""
        parts: list[Node] = []
        for position, piece in enumerate(pieces):
            if isinstance(piece, Name):
                rest = pieces[position + 1 :]
                then = [
                    seq(Mark("name", False), self._chain(rest, index))
                    for index in range(len(self._tools))
                ]
                return seq(*parts, Mark("name", True), self._words(piece, then))
            parts.append(self._node(piece, tool))
        return seq(*parts)

    def _words(self, piece: Name, then: Sequence[Node]) -> Node:
        return words_then(
            {piece.encode(tool.name): node for tool, node in zip(self._tools, then, strict=True)}
        )

    def _answer(self, piece: Answer) -> Node:
        text = many(utf8(ALL))
        if not piece.stop or _has(Token(piece.stop), self._controls):
            return lexeme(text)
        return Except(text, seq(_ANYTHING, lit(piece.stop), _ANYTHING))

    def _arguments(self, index: int, style: str) -> Node:
        tool = self._tools[index]
        try:
            # A model that invents arguments nobody declared helps nobody: additional=False.
            node, rules = json_schema_node(
                tool.schema, style=style, prefix=f"{index}/", additional=False
            )
        except UnsupportedSchema as error:
            raise UnsupportedSchema(
                error.message,
                pointer=error.pointer,
                where=f"function {tool.name!r}, parameters{error.pointer}",
                hint=error.hint,
            ) from None
        self._rules.update(rules)
        return node
