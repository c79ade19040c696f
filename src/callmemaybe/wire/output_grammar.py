"""The grammar of what a model may write, for one list of tools: the second reading of a format's tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

from callmemaybe.errors import (
    GrammarError,
    GroundingError,
    InputError,
    NoValue,
    UnsupportedSchema,
)
from callmemaybe.grammar.automaton import BUDGET_EXCEEDED, steps_limited
from callmemaybe.grammar.characters import ALL, chars, complement, utf8
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.grammar.json_schema import GroundingSource, json_schema_node
from callmemaybe.grammar.json_schema.document import DeferredCheck, SchemaTooLarge
from callmemaybe.grammar.json_schema.entry import MAX_STEPS
from callmemaybe.grammar.json_schema.grounding import uses_grounding
from callmemaybe.grammar.nodes import (
    EMPTY,
    NOTHING,
    CaptureMark,
    Control,
    Difference,
    Node,
    alt,
    byte_range,
    byte_set,
    capture,
    lexeme,
    lit,
    many,
    opt,
    repeat,
    seq,
    words_then,
)
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire.arg_grammar import arguments_grammar
from callmemaybe.wire.arg_syntax import spelled_for
from callmemaybe.wire.element_grammar import elements_grammar
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
    SchemaEchoNode,
    SequenceNode,
    TextNode,
    ThoughtNode,
    TokenNode,
    leaves,
)
from callmemaybe.wire.rendering import has_token, missing_token, render

#: Calls of one turn where several are allowed and no number is given.
MAX_CALLS = 16
_ANYTHING = many(byte_range(0x00, 0xFF))
_NAME_BEGINS, _NAME_ENDS = CaptureMark("name", True), CaptureMark("name", False)
_ARGUMENTS_BEGIN, _ARGUMENTS_END = CaptureMark("arguments", True), CaptureMark("arguments", False)
_ALPHANUMERIC = byte_set(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_DIGIT, _NOT_ZERO = byte_set(b"0123456789"), byte_set(b"123456789")
#: What is checked in the finished call instead of masked, by function name; None: in the answer.
DeferredChecks = dict[str | None, tuple[DeferredCheck, ...]]
#: Nodes behind a name that are built for each tool.
_PER_TOOL = (ArgumentsNode, NameAgainNode, SchemaEchoNode, SequenceNode)


@dataclass(frozen=True)
class OutputSpec:
    """What a model may write in a turn.

    ``calls``: whether it may call. ``no_call``: whether it may call nothing (and answer in text, where
    the format has that). ``most``: the most calls in all; ``only``: the names they are limited to.
    ``given``: calls that the turn begins with, as they are. ``thinking`` and ``text``: the most tokens
    of a thought, and of text in front of a required call; the grammar says only where they may stand,
    the decoder counts them. ``answer_length``: the most characters of a text; ``answer``: the JSON
    Schema, or the grammar, of an answer that is not free text. ``order`` is the order of the arguments'
    keys, "schema" or "any"; ``ground`` is the text their values are limited to (see
    :class:`callmemaybe.wire.grounding.GroundingConfig`), without which ``x-ground`` is refused.
    ``request`` is the last text of a user, where the format writes it into the output
    (:meth:`Format.echoes_request`).
    """

    calls: bool = True
    no_call: bool = False
    most: int = 1
    only: tuple[str, ...] | None = None
    given: tuple[ToolCall, ...] = ()
    thinking: int = 0
    text: int = 0
    answer: Any = None
    answer_length: int | None = None
    order: str = "schema"
    ground: GroundingSource | None = None
    request: str | None = None


class _CallFrame(NamedTuple):
    """A turn of exactly one call: what stands before and behind it, and what follows its name."""

    before: tuple[Node, ...]
    name: NameNode
    rest: tuple[FormatNode | Node, ...]
    after: tuple[Node, ...]


#: Frames do not depend on the tools; the cache is by tree and what else they depend on.
FRAME_CACHE_SIZE = 64
_FRAMES: dict[tuple[int, bool, int | None, Controls], tuple[FormatNode, _CallFrame | None]] = {}


class _CostlyArguments(NamedTuple):
    """The grammar of a tool's arguments, and what it leaves to the validator; the tool and the node that it is for."""

    tool: ToolSpec
    node: ArgumentsNode
    found: tuple[Node, dict[str, Node]]
    checks: tuple[DeferredCheck, ...]


#: Arguments that took more steps than these are kept, a few of them: the parts of a compound request, and formats whose
#: output depends on the request, ask for the same again.
COSTLY_STEPS, COSTLY_CACHE_SIZE = 5_000, 4
_COSTLY: dict[tuple[int, int, int, str, Controls, bool], _CostlyArguments] = {}


class OutputGrammarBuilder:
    """Builds the grammar of a tree for one list of tools."""

    def __init__(
        self,
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        controls: Controls,
        *,
        may_defer: bool = False,
    ) -> None:
        self._tools = [tool for tool in tools if spec.only is None or tool.name in spec.only]
        self._all_tools = tools
        self._spec = spec
        self._controls = controls
        self._rules: dict[str, Node] = {}
        #: What the grammar does not say and has to be checked; stays empty unless ``may_defer``.
        self.deferred: DeferredChecks = {}
        self._may_defer = may_defer
        #: Functions whose arguments cannot be grounded in the text.
        self._ungrounded: list[str] = []
        if spec.only is not None and (unknown := {*spec.only} - {tool.name for tool in tools}):
            raise InputError(
                f"there is no function {min(unknown)!r} to choose", where="tool_choice"
            )

    def grammar(self, tree: FormatNode) -> Grammar:
        """Return the whole grammar."""
        if self._spec.thinking and not any(isinstance(leaf, ThoughtNode) for leaf in leaves(tree)):
            raise InputError("this format has no place for thinking")
        frame = self._frame(tree)
        root = self._build(tree, None) if frame is None else self._framed_call(frame)
        if root is NOTHING and self._ungrounded:
            raise GroundingError(self._ungrounded)
        return Grammar(root, self._rules)

    def _frame(self, tree: FormatNode) -> _CallFrame | None:
        """Return what stands around the one call of a turn; None if the turn may be anything else."""
        spec = self._spec
        if spec.no_call or spec.text or spec.given or spec.most != 1 or not spec.calls:
            return None
        key = id(tree), spec.thinking > 0, spec.answer_length, self._controls
        known = _FRAMES.get(key)
        if known is None or known[0] is not tree:
            before: list[Node] = []
            after: list[Node] = []
            call = self._split_call(tree, before, after)
            frame = None if call is None else _CallFrame(tuple(before), *call, tuple(after))
            if len(_FRAMES) >= FRAME_CACHE_SIZE:
                _FRAMES.clear()
            known = _FRAMES[key] = tree, frame
        return known[1]

    def _split_call(
        self, node: FormatNode, before: list[Node], after: list[Node]
    ) -> tuple[NameNode, tuple[FormatNode | Node, ...]] | None:
        """Collect what stands before and behind a call; return its name and what follows the name."""
        if isinstance(node, ChoiceNode):
            return self._split_call(node.calls, before, after)
        if isinstance(node, CallsNode):
            return self._split_call(node.call, before, after)
        nodes = node.nodes if isinstance(node, SequenceNode) else ()
        for position, inner in enumerate(nodes):
            if isinstance(inner, NameNode):
                return inner, tuple(self._rest_of_call(nodes[position + 1 :]))
            if isinstance(inner, FreeTextNode):
                continue  # no text is asked for in front of the call
            if isinstance(inner, ChoiceNode | CallsNode | SequenceNode):
                found = self._split_call(inner, before, after)
                after += [self._build(last, None) for last in nodes[position + 1 :]]
                return found
            before.append(self._build(inner, None))
        return None

    def _framed_call(self, frame: _CallFrame) -> Node:
        before, name, rest, after = frame
        if len(self._tools) == 1:
            word = lit(name.encode(self._tools[0].name))
            return seq(*before, _NAME_BEGINS, word, *self._after_name(rest, 0), *after)
        return seq(*before, _NAME_BEGINS, self._names(name, rest), *after)

    def _build(self, node: FormatNode, tool: int | None) -> Node:
        return self._builders[type(node)](self, node, tool)

    # -- calls and what may stand instead ---------------------------------------------------------

    def _calls(self, node: CallsNode) -> Node:
        most = self._spec.most if node.between is not None else 1
        given = self._spec.given
        call = self._build(node.call, None) if len(given) < most else NOTHING
        if not given:
            if most == 1:
                return call
            between = self._build(node.between, None) if node.between is not None else EMPTY
            return seq(call, repeat(seq(between, call), 0, most - 1))
        parts: list[Node] = []
        for index, one in enumerate(given):
            if index and node.between is not None:
                parts.append(self._build(node.between, None))
            text = render(
                node.call, (one,), tools=self._all_tools, controls=self._controls, number=index
            )
            parts += (lit(part) if isinstance(part, str) else part for part in text)
        if node.between is None or call is NOTHING:
            return seq(*parts)
        between = self._build(node.between, None)
        return seq(*parts, repeat(seq(between, call), 0, most - len(given)))

    def _choice(self, node: ChoiceNode) -> Node:
        spec = self._spec
        if not spec.calls:
            return capture("no_call", self._no_call(node))
        # Text with marks of its own around it (a channel) stands in front of a call only where that has a place for it.
        free = node.no_call if isinstance(node.no_call, FreeTextNode) else None
        calls = self._build(node.calls if spec.text else _without_text(node.calls), None)
        if spec.text and free is not None and free.stop:
            lead = self._free_text(free, spec.answer_length)
            if not spec.no_call:
                return seq(lead, calls)
            if spec.answer is None:
                # One text, with or without a call behind it.
                return seq(lead, opt(calls))
            return alt(seq(lead, calls), capture("no_call", self._no_call(node)))
        if not spec.no_call or spec.given:
            return calls
        return alt(calls, capture("no_call", self._no_call(node)))

    def _no_call(self, node: ChoiceNode) -> Node:
        """Build the branch that calls nothing: what the family writes, or the answer of the spec."""
        spec, branch = self._spec, node.no_call
        if spec.answer is None:
            return self._build(branch, None)
        nodes = branch.nodes if isinstance(branch, SequenceNode) else (branch,)
        free = next((one for one in nodes if isinstance(one, FreeTextNode)), None)
        if free is None:
            raise InputError("this format cannot answer in anything but calls", where="answer")
        if isinstance(spec.answer, Grammar):
            root, rules = spec.answer.root, spec.answer.rules
        else:
            # An answer is in the model's own words, but for what its schema grounds itself.
            is_grounded = spec.ground is not None and uses_grounding(spec.answer)
            ground = replace(spec.ground, everywhere=None) if is_grounded else None  # type: ignore[type-var]
            root, rules = self._json_answer(ground)
        if spec.calls and free.not_first:
            first = _first_bytes(Grammar(root, rules))
            if any(ord(char) in first for char in free.not_first):
                raise InputError(
                    "in this format nobody could tell such an answer from a call; "
                    "wrap it, or do not offer functions", where="answer",
                )  # fmt: skip
        self._rules.update(rules)
        return seq(*(root if one is free else self._build(one, None) for one in nodes))

    def _json_answer(self, ground: GroundingSource | None) -> tuple[Node, dict[str, Node]]:
        """Build an answer by a JSON Schema."""
        schema = self._spec.answer
        build = partial(json_schema_node, schema, style="spaced", prefix="answer/", ground=ground)
        try:
            return build()
        except UnsupportedSchema as error:
            checks = self._defer(error, ground, schema)
            built = build(checks=checks)
            self.deferred[None] = tuple(checks)
            return built

    def _free_text(self, node: FreeTextNode, most: int | None) -> Node:
        """Build free text of at most so many characters, without what would begin a call."""
        any_character = utf8(ALL)
        if node.not_first and self._spec.calls:
            first = utf8(complement(chars(node.not_first)))
            rest = repeat(any_character, 0, None if most is None else max(most - 1, 0))
            return lexeme(opt(seq(first, rest)))
        text = repeat(any_character, 0, most)
        stop = node.stop_text(self._controls)
        return Difference(text, seq(_ANYTHING, lit(stop), _ANYTHING)) if stop else lexeme(text)

    def _thought(self, node: ThoughtNode) -> Node:
        if not self._spec.thinking:
            return EMPTY
        end = node.end.nodes[0]
        body = self._free_text(FreeTextNode(end.text if isinstance(end, TokenNode) else ""), None)
        return seq(
            self._build(node.begin, None), capture("thinking", body), self._build(node.end, None)
        )

    # -- one call -------------------------------------------------------------------------------

    def _sequence(self, nodes: tuple[FormatNode, ...], tool: int | None) -> Node:
        """Concatenate; what stands behind the name depends on the tool, so it hangs on that word."""
        parts: list[Node] = []
        for position, node in enumerate(nodes):
            if isinstance(node, NameNode):
                rest = self._rest_of_call(nodes[position + 1 :])
                return seq(*parts, _NAME_BEGINS, self._names(node, rest))
            parts.append(self._build(node, tool))
        return seq(*parts)

    def _names(self, name: NameNode, rest: Sequence[FormatNode | Node]) -> Node:
        """Build the choice among the names of all tools, each with what follows it."""
        then: dict[str | bytes, Node] = {
            name.encode(tool.name): seq(*self._after_name(rest, index))
            for index, tool in enumerate(self._tools)
        }
        return words_then(then)

    def _rest_of_call(self, nodes: Sequence[FormatNode]) -> list[FormatNode | Node]:
        """Build what stands behind a name, but for what depends on the tool."""
        return [one if isinstance(one, _PER_TOOL) else self._build(one, None) for one in nodes]

    def _after_name(self, rest: Sequence[FormatNode | Node], tool: int) -> list[Node]:
        """Return the end of the name and what stands behind the name of this tool."""
        parts: list[Node] = [_NAME_ENDS]
        for node in rest:
            if isinstance(node, Node):
                parts.append(node)
            elif isinstance(node, ArgumentsNode):
                parts += (_ARGUMENTS_BEGIN, self._arguments(tool, node), _ARGUMENTS_END)
            else:
                parts.append(self._build(node, tool))
        return parts

    def _captured_arguments(self, node: ArgumentsNode, tool: int | None) -> Node:
        assert tool is not None, "the arguments stand behind the name"
        return seq(_ARGUMENTS_BEGIN, self._arguments(tool, node), _ARGUMENTS_END)

    def _schema_echo(self, node: SchemaEchoNode, tool: int | None) -> Node:
        assert tool is not None, "the echo stands behind the name"
        return lit(node.write(self._tools[tool], self._spec.request or ""))

    def _name_again(self, _: NameAgainNode, tool: int | None) -> Node:
        assert tool is not None, "a name stands in front of it"
        return lit(NameNode().encode(self._tools[tool].name))

    def _token(self, node: TokenNode, _: int | None) -> Node:
        return Control(node.text) if has_token(node, self._controls) else lit(node.text)

    #: How each kind of node is built.
    _builders: ClassVar[
        Mapping[type[Any], Callable[[OutputGrammarBuilder, Any, int | None], Node]]
    ] = {
        TextNode: lambda _, node, __: lit(node.text),
        TokenNode: _token,
        SequenceNode: lambda self, node, tool: self._sequence(node.nodes, tool),
        NameNode: lambda self, node, tool: self._sequence((node,), tool),
        ArgumentsNode: _captured_arguments,
        NameAgainNode: _name_again,
        SchemaEchoNode: _schema_echo,
        CallsNode: lambda self, node, _: self._calls(node),
        ChoiceNode: lambda self, node, _: self._choice(node),
        FreeTextNode: lambda self, node, _: self._free_text(node, self._spec.answer_length),
        ThoughtNode: lambda self, node, _: self._thought(node),
        IdNode: lambda _, node, __: repeat(_ALPHANUMERIC, node.length, node.length),
        NumberNode: lambda _, __, ___: alt(lit("0"), seq(_NOT_ZERO, repeat(_DIGIT, 0, 2))),
    }

    def _arguments(self, index: int, node: ArgumentsNode) -> Node:
        """Build the arguments of a tool; NOTHING where no part of the text can ground one of them."""
        tool = self._tools[index]
        ground = self._spec.ground
        if ground is not None and ground.everywhere is None and not uses_grounding(tool.schema):
            ground = None
        try:
            root, rules = self._masked_or_deferred(index, node, ground)
            if ground is not None and ground.is_known:
                Grammar(root, rules)  # an emptiness may show only once rules are followed
        except UnsupportedSchema as error:
            if isinstance(error, NoValue) and ground is not None and ground.is_known:
                return self._leave_out(tool)
            raise UnsupportedSchema(
                error.message,
                pointer=error.pointer,
                where=f"function {tool.name!r}, parameters{error.pointer}",
                hint=error.hint,
            ) from None
        except GrammarError:
            return self._leave_out(tool)
        self._rules.update(rules)
        return root

    def _masked_or_deferred(
        self, index: int, node: ArgumentsNode, ground: GroundingSource | None
    ) -> tuple[Node, dict[str, Node]]:
        """Return the grammar of a tool's arguments; what no grammar expresses is deferred to the validator.

        Both attempts together take no more steps than one schema may.
        """
        tool, prefix = self._tools[index], f"{index}/"
        key = index, id(tool), id(node), self._spec.order, self._controls, self._may_defer
        known = _COSTLY.get(key) if ground is None else None
        if known is None or known.tool is not tool or known.node is not node:
            checks: list[DeferredCheck] = []
            with steps_limited(MAX_STEPS, lambda: SchemaTooLarge(MAX_STEPS)) as steps:
                try:
                    found = self._schema_grammar(tool, prefix, node, ground)
                except UnsupportedSchema as error:
                    checks = self._defer(error, ground, tool.schema)
                    found = self._schema_grammar(tool, prefix, node, ground, checks)
            known = _CostlyArguments(tool, node, found, tuple(checks))
            if ground is None and steps() > COSTLY_STEPS:
                _COSTLY[key] = known
                while len(_COSTLY) > COSTLY_CACHE_SIZE:
                    _COSTLY.pop(next(iter(_COSTLY)), None)
        if known.checks:
            self.deferred[tool.name] = known.checks
        return known.found

    def _schema_grammar(
        self,
        tool: ToolSpec,
        prefix: str,
        node: ArgumentsNode,
        ground: GroundingSource | None,
        checks: list[DeferredCheck] | None = None,
    ) -> tuple[Node, dict[str, Node]]:
        order = self._spec.order
        if node.syntax.top is not None:
            fence = node.syntax.fence
            if fence and not has_token(TokenNode(fence), self._controls):
                raise missing_token(fence)
            syntax = spelled_for(node.syntax, self._controls)
            write = elements_grammar if syntax.item else arguments_grammar
            return write(tool.schema, syntax, prefix, order=order, ground=ground, checks=checks)
        # Arguments that nobody declared are of no use to a tool: additional=False.
        return json_schema_node(
            tool.schema, style=node.style, prefix=prefix, additional=False, order=order,
            ground=ground, checks=checks,
        )  # fmt: skip

    def _defer(
        self, error: UnsupportedSchema, ground: GroundingSource | None, schema: Any
    ) -> list[DeferredCheck]:
        """Return an empty list for deferred checks; raise ``error`` where nothing may be deferred.

        Called only for schemas that no grammar expresses, so whatever can be masked is masked.
        """
        # No validator can check an ungrounded value.
        ungrounded = ground is None and uses_grounding(schema)
        if not self._may_defer or ungrounded or not may_be_deferred(error):
            raise error
        return []

    def _leave_out(self, tool: ToolSpec) -> Node:
        self._ungrounded.append(tool.name)
        return NOTHING


def _without_text(node: FormatNode) -> FormatNode:
    """Return the branch that calls, without the text that may stand in it."""
    if not isinstance(node, SequenceNode):
        return node
    return SequenceNode(tuple(one for one in node.nodes if not isinstance(one, FreeTextNode)))


def may_be_deferred(error: UnsupportedSchema) -> bool:
    """Whether a schema that no grammar expresses, as ``error`` says, may be left to a validator."""
    # A schema that no value meets is no better checked, and one that exhausted the work allowed would do so again.
    is_costly = isinstance(error, SchemaTooLarge) or error.message.startswith(BUDGET_EXCEEDED)
    return not is_costly and not isinstance(error, NoValue)


def _first_bytes(grammar: Grammar) -> frozenset[int]:
    """Return the bytes that a text of the grammar may begin with."""
    from callmemaybe.grammar import compile as compile_grammar

    automaton = compile_grammar(grammar)
    masks = [mask for mask, _ in automaton.edges(automaton.start)]
    return frozenset(byte for byte in range(256) if any(mask >> byte & 1 for mask in masks))
