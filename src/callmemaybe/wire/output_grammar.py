"""The grammar of a format's tree for one list of tools: the second reading of the tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

from callmemaybe.errors import (
    GrammarError,
    GroundingError,
    InputError,
    UnsupportedSchema,
    VocabularyError,
)
from callmemaybe.grammar.automaton import EXHAUSTED
from callmemaybe.grammar.characters import ALL, chars, complement, utf8
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.grammar.nodes import (
    EMPTY,
    NOTHING,
    Control,
    Except,
    Mark,
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
from callmemaybe.grammar.schema import Ground, json_schema_node
from callmemaybe.grammar.schema.front import NoValue
from callmemaybe.grammar.schema.ground import asks
from callmemaybe.grammar.schema.references import Check
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire.arg_grammar import arguments_node
from callmemaybe.wire.format_nodes import (
    Answer,
    Arguments,
    Calls,
    Chain,
    Controls,
    Either,
    Id,
    Name,
    Parts,
    Piece,
    SchemaEcho,
    Text,
    Thought,
    Token,
)
from callmemaybe.wire.rendering import has, render_call

#: Calls of one turn where several are allowed and nothing else was said: an end to endless calls.
MOST_CALLS = 16
_ANYTHING = many(byte_range(0x00, 0xFF))
_NAME_BEGINS, _NAME_ENDS = Mark("name", True), Mark("name", False)
_ARGUMENTS_BEGIN, _ARGUMENTS_END = Mark("arguments", True), Mark("arguments", False)
#: What a grammar leaves to be checked, by the names of functions; None: of the answer.
DeferredChecks = dict[str | None, tuple[Check, ...]]
#: What is written for each tool anew.
_OF_A_TOOL = (Arguments, SchemaEcho, Chain)
_ALPHANUMERIC = byte_set(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True)
class OutputSpec:
    """What an answer may be.

    ``calls``: whether it may call at all. ``no_call``: whether it may say that it calls nothing (in
    text, where the format has that). ``most``: calls in all; ``only``: names they are limited to.
    ``given``: calls that the answer begins with, as they are. ``thinking`` and ``text``: most
    tokens of thought, and of text in front of a call that is required; the grammar says only where they
    may stand, whoever decodes counts them. ``answer_length``: most characters of a text; ``answer``: the
    JSON Schema, or the grammar, of an answer that is no free text. ``order`` and ``ground`` limit the
    arguments (see :class:`callmemaybe.wire.grounding.GroundingConfig`); without ``ground``, ``x-ground`` is refused.
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
    ground: Ground | None = None


class _Frame(NamedTuple):
    """What stands before a name, how it is written, what hangs on it, and what stands behind all."""

    before: tuple[Node, ...]
    name: Name
    rest: tuple[Piece | Node, ...]
    after: tuple[Node, ...]


#: Frames that are kept, by tree, and what else they depend on.
KEPT_FRAMES = 64
_FRAMES: dict[tuple[int, bool, int | None, Controls], tuple[Piece, _Frame | None]] = {}


class OutputGrammar:
    """Writes the grammar of a tree for one list of tools."""

    def __init__(
        self,
        tools: Sequence[ToolSpec],
        wanted: OutputSpec,
        controls: Controls,
        *,
        may_leave: bool = False,
    ) -> None:
        self._tools = [t for t in tools if wanted.only is None or t.name in wanted.only]
        self._all_tools = tools
        self._wanted = wanted
        self._controls = controls
        self._rules: dict[str, Node] = {}
        #: What is not in the grammar and has to be checked, if anything may.
        self.left: DeferredChecks = {}
        self._may_leave = may_leave
        #: Functions that cannot be called with what was said.
        self._unsaid: list[str] = []
        if wanted.only is not None and (unknown := {*wanted.only} - {tool.name for tool in tools}):
            raise InputError(
                f"there is no function {min(unknown)!r} to choose", where="tool_choice"
            )

    def grammar(self, tree: Piece) -> Grammar:
        """Return the whole grammar."""
        if self._wanted.thinking and not _thinks(tree):
            raise InputError("this format has no place for thinking")
        frame = self._frame(tree)
        root = self._node(tree, None) if frame is None else self._framed(frame)
        if root is NOTHING and self._unsaid:
            raise GroundingError(self._unsaid)
        return Grammar(root, self._rules)

    def _frame(self, tree: Piece) -> _Frame | None:
        """Return what stands around the one call of a turn, whatever the tools; None if there is more."""
        wanted = self._wanted
        if wanted.no_call or wanted.text or wanted.given or wanted.most != 1 or not wanted.calls:
            return None
        key = id(tree), wanted.thinking > 0, wanted.answer_length, self._controls
        known = _FRAMES.get(key)
        if known is None or known[0] is not tree:
            before: list[Node] = []
            after: list[Node] = []
            call = self._around(tree, before, after)
            frame = None if call is None else _Frame(tuple(before), *call, tuple(after))
            if len(_FRAMES) >= KEPT_FRAMES:
                _FRAMES.clear()
            known = _FRAMES[key] = tree, frame
        return known[1]

    def _around(
        self, piece: Piece, before: list[Node], after: list[Node]
    ) -> tuple[Name, tuple[Piece | Node, ...]] | None:
        """Collect what stands before and behind a call; return its name and what hangs on that."""
        if isinstance(piece, Either):
            return self._around(piece.calls, before, after)
        if isinstance(piece, Calls):
            return self._around(piece.call, before, after)
        pieces = piece.pieces if isinstance(piece, Chain) else ()
        for position, one in enumerate(pieces):
            if isinstance(one, Name):
                return one, tuple(self._behind_a_name(pieces[position + 1 :]))
            if isinstance(one, Either | Calls | Chain):
                found = self._around(one, before, after)
                after += [self._node(last, None) for last in pieces[position + 1 :]]
                return found
            before.append(self._node(one, None))
        return None

    def _framed(self, frame: _Frame) -> Node:
        before, name, rest, after = frame
        if len(self._tools) == 1:
            word = lit(name.encode(self._tools[0].name))
            return seq(*before, _NAME_BEGINS, word, *self._behind(rest, 0), *after)
        return seq(*before, _NAME_BEGINS, self._words(name, rest), *after)

    def _words(self, name: Name, rest: Sequence[Piece | Node]) -> Node:
        then: dict[str | bytes, Node] = {
            name.encode(tool.name): seq(*self._behind(rest, index))
            for index, tool in enumerate(self._tools)
        }
        return words_then(then)

    def _behind_a_name(self, pieces: Sequence[Piece]) -> list[Piece | Node]:
        """Write what stands behind a name, but for what depends on the tool."""
        return [one if isinstance(one, _OF_A_TOOL) else self._node(one, None) for one in pieces]

    def _node(self, piece: Piece, tool: int | None) -> Node:
        return self._ways[type(piece)](self, piece, tool)

    # -- calls and what may stand instead ---------------------------------------------------------

    def _calls(self, piece: Calls) -> Node:
        most = self._wanted.most if piece.between is not None else 1
        given = self._wanted.given
        call = self._node(piece.call, None) if len(given) < most else NOTHING
        if not given:
            if most == 1:
                return call
            between = self._node(piece.between, None) if piece.between is not None else EMPTY
            return seq(call, repeat(seq(between, call), 0, most - 1))
        parts: list[Node] = []
        for index, one in enumerate(given):
            if index and piece.between is not None:
                parts.append(self._node(piece.between, None))
            parts.append(_literal(render_call(piece.call, one, self._all_tools, self._controls)))
        if piece.between is None or call is NOTHING:
            return seq(*parts)
        return seq(*parts, repeat(seq(self._node(piece.between, None), call), 0, most - len(given)))

    def _either(self, piece: Either) -> Node:
        wanted = self._wanted
        # Text that has a frame of its own (a channel) cannot stand in front of a call.
        free = piece.no_call if isinstance(piece.no_call, Answer) else None
        if not wanted.calls:
            return capture("no_call", self._no_call(piece))
        calls = self._node(piece.calls, None)
        if wanted.text and free is not None and free.stop:
            lead = self._text(free, wanted.answer_length)
            if not wanted.no_call:
                return seq(lead, calls)
            if wanted.answer is None:
                # One text, behind which a call may come or not.
                return seq(lead, opt(calls))
            return alt(seq(lead, calls), capture("no_call", self._no_call(piece)))
        if not wanted.no_call or wanted.given:
            return calls
        return alt(calls, capture("no_call", self._no_call(piece)))

    def _no_call(self, piece: Either) -> Node:
        """Write the way that calls nothing: free text, or the JSON that was asked for."""
        wanted = self._wanted
        if wanted.answer is None:
            return self._node(piece.no_call, None)
        free = _answer_of(piece.no_call)
        if free is None:
            raise InputError("this format cannot answer in anything but calls", where="answer")
        if isinstance(wanted.answer, Grammar):
            node, rules = wanted.answer.root, wanted.answer.rules
        else:
            # An answer is in the model's own words, but for what its schema grounds itself.
            said = wanted.ground if asks(wanted.answer) else None
            said = None if said is None else replace(said, everywhere=None)
            node, rules = self._json(said)
        if wanted.calls and free.not_first:
            answers = Grammar(node, rules)
            first = _first_bytes(answers)
            if any(ord(char) in first for char in free.not_first):
                raise InputError(
                    "in this format nobody could tell such an answer from a call; "
                    "wrap it, or do not offer functions", where="answer",
                )  # fmt: skip
        self._rules.update(rules)
        if not isinstance(piece.no_call, Chain):
            return node
        return seq(
            *(node if one is free else self._node(one, None) for one in piece.no_call.pieces)
        )

    def _json(self, ground: Ground | None) -> tuple[Node, dict[str, Node]]:
        """Write the answer that was asked for by a JSON Schema."""
        schema = self._wanted.answer
        write = partial(json_schema_node, schema, style="spaced", prefix="answer/", ground=ground)
        try:
            return write()
        except UnsupportedSchema as error:
            checks = self._leaving(error, ground, schema)
            found = write(checks=checks)
            self.left[None] = tuple(checks)
            return found

    def _text(self, piece: Answer, most: int | None) -> Node:
        """Write free text of at most so many characters, without what would begin a call."""
        any_character = utf8(ALL)
        if piece.not_first and self._wanted.calls:
            first = utf8(complement(chars(piece.not_first)))
            rest = repeat(any_character, 0, None if most is None else max(most - 1, 0))
            return lexeme(opt(seq(first, rest)))
        text = repeat(any_character, 0, most)
        if not piece.stop or has(Token(piece.stop), self._controls):
            return lexeme(text)
        return Except(text, seq(_ANYTHING, lit(piece.stop), _ANYTHING))

    def _thought(self, piece: Thought) -> Node:
        if not self._wanted.thinking:
            return EMPTY
        end = piece.end.pieces[0]
        stop = end.text if isinstance(end, Token) else ""
        body = self._text(Answer(stop), None)
        return seq(
            self._node(piece.begin, None), capture("thinking", body), self._node(piece.end, None)
        )

    # -- one call -------------------------------------------------------------------------------

    def _chain(self, pieces: tuple[Piece, ...], tool: int | None) -> Node:
        """Concatenate; what stands behind the name belongs to one tool, so it hangs on its word."""
        parts: list[Node] = []
        for position, piece in enumerate(pieces):
            if isinstance(piece, Name):
                rest = self._behind_a_name(pieces[position + 1 :])
                return seq(*parts, _NAME_BEGINS, self._words(piece, rest))
            parts.append(self._node(piece, tool))
        return seq(*parts)

    def _behind(self, rest: Sequence[Piece | Node], tool: int) -> list[Node]:
        """Write what stands behind the name of a tool."""
        parts: list[Node] = [_NAME_ENDS]
        for piece in rest:
            if isinstance(piece, Node):
                parts.append(piece)
            elif isinstance(piece, Arguments):
                parts += (_ARGUMENTS_BEGIN, self._arguments(tool, piece), _ARGUMENTS_END)
            else:
                parts.append(self._node(piece, tool))
        return parts

    def _given(self, piece: Arguments, tool: int | None) -> Node:
        assert tool is not None, "the arguments stand behind the name"
        return seq(_ARGUMENTS_BEGIN, self._arguments(tool, piece), _ARGUMENTS_END)

    def _reminder(self, piece: SchemaEcho, tool: int | None) -> Node:
        assert tool is not None, "the reminder stands behind the name"
        return lit(piece.write(self._tools[tool]))

    def _token(self, piece: Token, _: int | None) -> Node:
        return Control(piece.text) if has(piece, self._controls) else lit(piece.text)

    #: How each kind of piece is written.
    _ways: ClassVar[Mapping[type[Any], Callable[[OutputGrammar, Any, int | None], Node]]] = {
        Text: lambda _, piece, __: lit(piece.text),
        Token: _token,
        Chain: lambda self, piece, tool: self._chain(piece.pieces, tool),
        Name: lambda self, piece, tool: self._chain((piece,), tool),
        Arguments: _given,
        SchemaEcho: _reminder,
        Calls: lambda self, piece, _: self._calls(piece),
        Either: lambda self, piece, _: self._either(piece),
        Answer: lambda self, piece, _: self._text(piece, self._wanted.answer_length),
        Thought: lambda self, piece, _: self._thought(piece),
        Id: lambda _, piece, __: repeat(_ALPHANUMERIC, piece.length, piece.length),
    }

    def _arguments(self, index: int, piece: Arguments) -> Node:
        """Write the arguments of a tool; NOTHING where nothing that was said can be one of them."""
        tool = self._tools[index]
        ground = self._wanted.ground
        if ground is not None and ground.everywhere is None and not asks(tool.schema):
            ground = None
        try:
            try:
                node, rules = self._written(tool, f"{index}/", piece, ground)
            except UnsupportedSchema as error:
                checks = self._leaving(error, ground, tool.schema)
                node, rules = self._written(tool, f"{index}/", piece, ground, checks)
                self.left[tool.name] = tuple(checks)
            if ground is not None and ground.is_known:
                Grammar(node, rules)  # an emptiness may show only once rules are followed
        except UnsupportedSchema as error:
            if isinstance(error, NoValue) and ground is not None and ground.is_known:
                return self._left_out(tool)
            raise UnsupportedSchema(
                error.message,
                pointer=error.pointer,
                where=f"function {tool.name!r}, parameters{error.pointer}",
                hint=error.hint,
            ) from None
        except GrammarError:
            return self._left_out(tool)
        self._rules.update(rules)
        return node

    def _written(
        self,
        tool: ToolSpec,
        prefix: str,
        piece: Arguments,
        ground: Ground | None,
        checks: list[Check] | None = None,
    ) -> tuple[Node, dict[str, Node]]:
        order = self._wanted.order
        if piece.notation.outer is not None:
            self._check_fence(piece.notation.fence)
            return arguments_node(
                tool.schema, piece.notation, prefix, order=order, ground=ground, checks=checks
            )
        # A model that invents arguments nobody declared helps nobody: additional=False.
        return json_schema_node(
            tool.schema, style=piece.style, prefix=prefix, additional=False, order=order,
            ground=ground, checks=checks,
        )  # fmt: skip

    def _leaving(self, error: UnsupportedSchema, ground: Ground | None, schema: Any) -> list[Check]:
        """Return a list to leave things to be checked in; raise ``error`` where nothing may be left.

        All is masked that can be, so nothing is left of a schema that a grammar can say.
        """
        # That nothing was said, no validator can check; what took all the work allowed would take it again.
        if not self._may_leave or isinstance(error, NoValue) or (ground is None and asks(schema)):
            raise error
        if error.message.startswith(EXHAUSTED):
            raise error
        return []

    def _left_out(self, tool: ToolSpec) -> Node:
        self._unsaid.append(tool.name)
        return NOTHING

    def _check_fence(self, fence: str) -> None:
        if fence and not has(Token(fence), self._controls):
            raise VocabularyError(
                f"this format needs the control token {fence!r}, which the vocabulary does not have"
            )


def _literal(parts: Parts) -> Node:
    return seq(*(lit(part) if isinstance(part, str) else part for part in parts))


def _answer_of(piece: Piece) -> Answer | None:
    """Return the free text in the way that calls nothing, if it is free text."""
    if isinstance(piece, Answer):
        return piece
    inner: Sequence[Piece] = piece.pieces if isinstance(piece, Chain) else ()
    return next((one for one in inner if isinstance(one, Answer)), None)


def _thinks(piece: Piece) -> bool:
    match piece:
        case Thought():
            return True
        case Chain():
            return any(map(_thinks, piece.pieces))
        case Either():
            return _thinks(piece.calls) or _thinks(piece.no_call)
    return False


def _first_bytes(grammar: Grammar) -> frozenset[int]:
    """Return the bytes that a text of the grammar may begin with."""
    from callmemaybe.grammar import compile as compile_grammar

    automaton = compile_grammar(grammar)
    masks = [mask for mask, _ in automaton.edges(automaton.start)]
    return frozenset(byte for byte in range(256) if any(mask >> byte & 1 for mask in masks))


__all__ = ["MOST_CALLS", "DeferredChecks", "OutputGrammar", "OutputSpec"]
