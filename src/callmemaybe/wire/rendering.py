"""What a model writes for some calls: the first reading of a format's tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from callmemaybe.errors import InputError, VocabularyError
from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio.writer import rewrite
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire.arg_syntax import holds, written
from callmemaybe.wire.format_nodes import (
    Answer,
    Arguments,
    Calls,
    Chain,
    Controls,
    Either,
    Id,
    Name,
    Part,
    Parts,
    Piece,
    SchemaEcho,
    Text,
    Thought,
    Token,
    join,
)


def has(token: Token, controls: Controls) -> bool:
    """Whether the vocabulary has this control token."""
    return controls is None or token.text in controls


def render(
    tree: Piece,
    calls: Sequence[ToolCall],
    *,
    answer: str = "",
    thought: str = "",
    tools: Sequence[ToolSpec] = (),
    controls: Controls = None,
) -> Parts:
    """Return what a model writes; see :meth:`Format.render`."""
    writer = _Renderer({tool.name: tool for tool in tools}, answer, thought, controls)
    return join(list(writer.parts(tree, tuple(calls))))


def render_call(
    piece: Chain, call: ToolCall, tools: Sequence[ToolSpec], controls: Controls
) -> Parts:
    """Return one call as it is written."""
    writer = _Renderer({tool.name: tool for tool in tools}, "", "", controls)
    return join(list(writer.parts(piece, (call,))))


class _Renderer:
    def __init__(
        self, tools: dict[str, ToolSpec], answer: str, thought: str, controls: Controls
    ) -> None:
        self._tools = tools
        self._answer = answer
        self._thought = thought
        self._controls = controls

    def parts(self, piece: Piece, calls: tuple[ToolCall, ...]) -> Iterable[Part]:
        match piece:
            case Text():
                yield piece.text
            case Token():
                yield Control(piece.text) if has(piece, self._controls) else piece.text
            case Name():
                yield piece.encode(calls[0].name)
            case Id():
                yield piece.encode(calls[0].id)
            case SchemaEcho():
                yield self._reminder(piece, calls[0].name)
            case Arguments():
                yield from self._arguments(piece, calls[0])
            case Answer():
                yield self._free(piece, self._answer)
            case Thought():
                if self._thought:
                    yield from self.parts(piece.begin, ())
                    yield self._thought
                    yield from self.parts(piece.end, ())
            case Chain():
                for part in piece.pieces:
                    yield from self.parts(part, calls)
            case Either():
                if calls and self._answer and (free := _free_of(piece.no_call)):
                    if not free.stop:
                        raise InputError("this format has no text in front of a call")
                    yield self._free(free, self._answer)
                yield from self.parts(piece.calls if calls else piece.no_call, calls)
            case Calls():
                yield from self._calls(piece, calls)

    def _reminder(self, piece: SchemaEcho, name: str) -> str:
        if name not in self._tools:
            raise InputError(
                f"this format writes the parameters of the called function, and {name!r} is unknown",
                hint="give it among the tools",
            )
        return piece.write(self._tools[name])

    def _arguments(self, piece: Arguments, call: ToolCall) -> Iterable[Part]:
        notation = piece.notation
        if notation.outer is None:
            yield rewrite(call.arguments, compact=piece.style == "compact")
            return
        if notation.fence and not has(Token(notation.fence), self._controls):
            raise VocabularyError(
                f"this format needs the control token {notation.fence!r}, which the vocabulary "
                "does not have"
            )
        tool = self._tools.get(call.name)
        yield from written(notation, call.arguments, None if tool is None else tool.parameters)

    def _calls(self, piece: Calls, calls: tuple[ToolCall, ...]) -> Iterable[Part]:
        if not calls:
            raise InputError("this format has no way to call nothing")
        if piece.between is None and len(calls) > 1:
            raise InputError("this format calls one function at a time")
        for position, call in enumerate(calls):
            if position and piece.between is not None:
                yield from self.parts(piece.between, (call,))
            yield from self.parts(piece.call, (call,))

    def _free(self, piece: Answer, text: str) -> str:
        """Return free text, if the format can tell it from a call."""
        spelled = piece.stop and not has(Token(piece.stop), self._controls)
        if text[:1] and text[:1] in piece.not_first:
            raise InputError(f"in this format no text begins with {text[:1]!r}")
        if spelled and holds(text, piece.stop):
            raise InputError(f"in this format no text holds {piece.stop!r}")
        return text


def _free_of(piece: Piece) -> Answer | None:
    return piece if isinstance(piece, Answer) else None
