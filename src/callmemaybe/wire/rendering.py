"""What a model writes for given calls: the first reading of a format's tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from callmemaybe.errors import InputError, VocabularyError
from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio import rewrite
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire.arg_syntax import ends_early, render_arguments, spelled_for
from callmemaybe.wire.element_args import render_elements
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    Controls,
    FormatNode,
    FreeTextNode,
    IdNode,
    NameAgainNode,
    NameNode,
    NumberNode,
    PromptPart,
    PromptParts,
    SchemaEchoNode,
    SequenceNode,
    TextNode,
    ThoughtNode,
    TokenNode,
    join_parts,
)


def has_token(token: TokenNode, controls: Controls) -> bool:
    """Whether the vocabulary has this control token."""
    return controls is None or token.text in controls


def missing_token(text: str) -> VocabularyError:
    """Return the error for a control token that a format cannot do without."""
    return VocabularyError(
        f"this format needs the control token {text!r}, which the vocabulary does not have"
    )


def render(
    tree: FormatNode,
    calls: Sequence[ToolCall],
    *,
    answer: str = "",
    thought: str = "",
    tools: Sequence[ToolSpec] = (),
    controls: Controls = None,
    number: int = 0,
) -> PromptParts:
    """Return what a model writes, see :meth:`Format.render`; ``number`` of calls stand in front."""
    known = {tool.name: tool for tool in tools}
    renderer = _CallRenderer(known, answer, thought, controls, number)
    return join_parts(renderer.parts(tree, tuple(calls)))


class _CallRenderer:
    """Writes one turn, node by node."""

    def __init__(
        self,
        tools: dict[str, ToolSpec],
        answer: str,
        thought: str,
        controls: Controls,
        number: int,
    ) -> None:
        self._tools = tools
        self._answer = answer
        self._thought = thought
        self._controls = controls
        self._number = number

    def parts(self, node: FormatNode, calls: tuple[ToolCall, ...]) -> Iterable[PromptPart]:
        match node:
            case TextNode():
                yield node.text
            case TokenNode():
                yield Control(node.text) if has_token(node, self._controls) else node.text
            case NameNode():
                yield node.encode(calls[0].name)
            case NameAgainNode():
                yield NameNode().encode(calls[0].name)
            case IdNode():
                yield node.encode(calls[0].id)
            case NumberNode():
                yield str(node.first + self._number)
            case SchemaEchoNode():
                yield self._schema_echo(node, calls[0].name)
            case ArgumentsNode():
                yield from self._arguments(node, calls[0])
            case FreeTextNode():
                yield self._free_text(node, self._answer)
            case ThoughtNode():
                if self._thought:
                    yield from self.parts(node.begin, ())
                    yield self._thought
                    yield from self.parts(node.end, ())
            case SequenceNode():
                for part in node.nodes:
                    yield from self.parts(part, calls)
            case ChoiceNode():
                if calls and self._answer and (free := _free_text_of(node.no_call)):
                    if not free.stop:
                        raise InputError("this format has no text in front of a call")
                    yield self._free_text(free, self._answer)
                yield from self.parts(node.calls if calls else node.no_call, calls)
            case CallsNode():
                yield from self._calls(node, calls)

    def _schema_echo(self, node: SchemaEchoNode, name: str) -> str:
        if name not in self._tools:
            raise InputError(
                f"this format writes the parameters of the called function, and {name!r} is unknown",
                hint="give it among the tools",
            )
        return node.write(self._tools[name], "")

    def _arguments(self, node: ArgumentsNode, call: ToolCall) -> Iterable[PromptPart]:
        syntax = node.syntax
        if syntax.top is None:
            yield rewrite(call.arguments, compact=node.style == "compact")
            return
        if syntax.fence and not has_token(TokenNode(syntax.fence), self._controls):
            raise missing_token(syntax.fence)
        tool = self._tools.get(call.name)
        write = render_elements if syntax.item else render_arguments
        yield from write(
            spelled_for(syntax, self._controls),
            call.arguments,
            None if tool is None else tool.parameters,
        )

    def _calls(self, node: CallsNode, calls: tuple[ToolCall, ...]) -> Iterable[PromptPart]:
        if not calls:
            raise InputError("this format has no way to call nothing")
        if node.between is None and len(calls) > 1:
            raise InputError("this format calls one function at a time")
        for position, call in enumerate(calls):
            if position and node.between is not None:
                yield from self.parts(node.between, (call,))
            yield from self.parts(node.call, (call,))
            self._number += 1

    def _free_text(self, node: FreeTextNode, text: str) -> str:
        """Return free text, if the format can tell it from a call."""
        if text[:1] and text[:1] in node.not_first:
            raise InputError(f"in this format no text begins with {text[:1]!r}")
        if ends_early(text, node.stop_text(self._controls)):
            raise InputError(f"in this format no text holds {node.stop!r}")
        return text


def _free_text_of(node: FormatNode) -> FreeTextNode | None:
    return node if isinstance(node, FreeTextNode) else None
