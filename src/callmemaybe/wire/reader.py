"""What a model wrote, as events of its stream: the third reading of a format's tree.

The reader follows every path through the tree that the symbols so far allow (Thompson, 1968), one byte
or control token at a time; what all paths agree on becomes an event at once. So a stream may be cut
anywhere and still gives the same events.

It reads more than the grammar writes: white space at the ends of a family's texts may be missing, and around
the punctuation of JSON, behind arguments and between calls there may be any, as models write them that no
grammar leads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from callmemaybe.errors import InputError
from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio import loads
from callmemaybe.tools import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
    ToolCall,
)
from callmemaybe.wire.arg_parser import ArgParser
from callmemaybe.wire.arg_syntax import BARE_BYTES
from callmemaybe.wire.element_parser import ElementParser
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
    SchemaEchoNode,
    SequenceNode,
    TextNode,
    ThoughtNode,
    TokenNode,
)


class _CallEnd(NamedTuple):
    """A mark behind a call in the tree: here it ends."""


class _ThoughtText(NamedTuple):
    """The text of a thought, up to ``stop``."""

    stop: str


# What is still to come: a node, then the rest.
_Rest = tuple["FormatNode | _CallEnd | _ThoughtText", "_Rest"] | None
# What was read on one path and is no event yet, newest first. Paths that split share it.
_Notes = tuple["_Note", "_Notes"] | None


class _Note(NamedTuple):
    """Something read: "name", "arguments", "id", "text", "thought" or "end", with its data."""

    kind: str
    data: Any


class _TreePath(NamedTuple):
    """One path through the tree: the leaf it is in (None: past the end), and what follows."""

    leaf: FormatNode | _ThoughtText | None
    state: Any
    rest: _Rest
    notes: _Notes


class OutputReader:
    """An incremental reader of one turn; feed it, then end it."""

    def __init__(
        self,
        tree: FormatNode,
        parameters: Mapping[str, Mapping[str, Any]] | None = None,
        controls: Controls = None,
    ) -> None:
        """Begin to read.

        ``parameters`` are those of the tools, by name, for formats that write strings without
        quotes; ``controls`` None means that all are known.
        """
        self._controls = controls
        self._parameters = parameters or {}
        self._name, self._id = "", ""
        self._paths = list(self._enter((tree, None), None))
        self._calls = 0
        self._arguments = bytearray()
        self._read = 0

    def feed(self, part: PromptPart | bytes) -> list[StreamEvent]:
        """Read more of the turn and return what is now certain.

        Raises InputError if this cannot be a turn in this format.
        """
        if isinstance(part, Control):
            return _merge_deltas(self._step_all(part))
        data = part.encode() if isinstance(part, str) else part
        events: list[StreamEvent] = []
        at = 0
        while at < len(data):
            taken = self._skip_run(data, at)
            at += taken
            if not taken:
                events += self._step_all(data[at])
                at += 1
            else:
                events += self._take_certain()
        return _merge_deltas(events)

    def _step_all(self, symbol: int | Control) -> list[StreamEvent]:
        """Move every path over one symbol."""
        paths = [after for path in self._paths for after in self._step(path, symbol)]
        if len(paths) > 1:
            paths = _distinct(paths)
        if not paths:
            shown = symbol.text if isinstance(symbol, Control) else repr(bytes([symbol]))
            raise InputError(
                f"{shown} does not fit the format", where=f"symbol {self._read} of the answer"
            )
        self._paths = paths
        self._read += 1
        return self._take_certain()

    def _skip_run(self, data: bytes, start: int) -> int:
        """Move over many bytes at once where the only path stays in one leaf, or waits for a token.

        Returns how many bytes were taken. An optimisation: stepping over each gives the same.
        """
        first, *others = self._paths
        if isinstance(first.leaf, SchemaEchoNode) and all(
            isinstance(path.leaf, TokenNode) for path in others
        ):
            self._read += len(data) - start
            return len(data) - start  # only a control token leads out of it
        if others:
            return 0
        (leaf, state, rest, notes) = self._paths[0]
        at = start
        if isinstance(leaf, TextNode):
            # The last byte of a text leads elsewhere.
            while at < len(data) and at - start < len(state) - 1 and data[at] == state[at - start]:
                at += 1
            moved: Any = state[at - start :]
        elif isinstance(leaf, ArgumentsNode) and leaf.syntax.top is None:
            moved = state
            while at < len(data):
                after = _object_step(moved, data[at])
                if after is None or after == _COMPLETE:
                    break
                moved = after
                at += 1
            if at > start:
                notes = (_Note("arguments", data[start:at]), notes)
        else:
            return 0
        self._paths = [_TreePath(leaf, moved, rest, notes)]
        self._read += at - start
        return at - start

    @property
    def section(self) -> Literal["thought", "text"] | None:
        """Whether what comes next may be part of a thought, or else of free text."""
        if any(isinstance(path.leaf, _ThoughtText) for path in self._paths):
            return "thought"
        return "text" if any(isinstance(path.leaf, FreeTextNode) for path in self._paths) else None

    def end(self) -> list[StreamEvent]:
        """Return what the end of the turn makes certain.

        Raises InputError if the turn is cut off.
        """
        for path in self._paths:
            for last in self._without_space(path):
                if last.leaf is None:
                    self._paths = [last]
                    return _merge_deltas(self._take_certain())
        raise InputError("the answer is cut off", where=f"symbol {self._read} of the answer")

    def _take_certain(self) -> list[StreamEvent]:
        """Return the events of what every path has read, and drop it from the paths."""
        notes = self._paths[0].notes
        if notes is None or any(path.notes is not notes for path in self._paths):
            return []
        self._paths = [path._replace(notes=None) for path in self._paths]
        certain: list[_Note] = []
        while notes is not None:
            note, notes = notes
            certain.append(note)
        events: list[StreamEvent] = []
        for note in reversed(certain):
            if note.kind == "id":
                self._id += chr(note.data)
            else:
                events.append(self._event(note))
        return events

    def _event(self, note: _Note) -> StreamEvent:
        if note.kind == "name":
            self._name = note.data
            return CallStarted(self._calls, note.data)
        if note.kind == "arguments":
            self._arguments += note.data
            return ArgumentsDelta(self._calls, note.data)
        if note.kind in ("text", "thought"):
            return TextDelta(note.data) if note.kind == "text" else ThoughtDelta(note.data)
        text = self._arguments.decode(errors="replace")
        loads(text, where=f"arguments of call {self._calls}")
        self._arguments.clear()
        self._calls += 1
        call_id, self._id = self._id, ""
        return CallEnded(self._calls - 1, ToolCall(self._name, text, call_id))

    # -- the paths ---------------------------------------------------------------------------

    def _enter(self, rest: _Rest, notes: _Notes) -> Iterator[_TreePath]:
        """Yield a path for every leaf that the next symbol may belong to."""
        if rest is None:
            yield _TreePath(None, None, None, notes)
            return
        node, rest = rest
        match node:
            case _CallEnd():
                yield from self._enter_behind(rest, (_Note("end", None), notes))
            case SequenceNode():
                for inner in reversed(node.nodes):
                    rest = (inner, rest)
                yield from self._enter(rest, notes)
            case ChoiceNode(calls, FreeTextNode() as free) if free.stop:
                # The same text may be the whole turn, or stand in front of a call.
                yield from self._enter((free, (ChoiceNode(calls, SequenceNode(())), rest)), notes)
            case ChoiceNode(SequenceNode(), SequenceNode()) if shared := _shared(node):
                # Both begin alike, so neither is chosen before they part.
                yield from self._enter((shared[0], (shared[1], rest)), notes)
            case ChoiceNode():
                yield from self._enter((node.calls, rest), notes)
                yield from self._enter((node.no_call, rest), notes)
            case CallsNode():
                if node.between is not None:
                    rest = (
                        ChoiceNode(SequenceNode((node.between, node)), SequenceNode(())),
                        rest,
                    )
                yield from self._enter((node.call, (_CallEnd(), rest)), notes)
            case ThoughtNode():
                end = node.end.nodes[0]
                text = _ThoughtText(end.text if isinstance(end, TextNode | TokenNode) else "")
                yield from self._enter((node.begin, (text, (node.end, rest))), notes)
                yield from self._enter(rest, notes)
            case TokenNode() if self._controls is not None and node.text not in self._controls:
                yield from self._enter((_TokenText(node.text), rest), notes)
            case TextNode():
                data = node.text.encode()
                yield from (
                    [_TreePath(node, data, rest, notes)] if data else self._enter(rest, notes)
                )
            case FreeTextNode():
                yield _TreePath(node, _AT_START, rest, notes)
                yield from self._enter(rest, notes)
            case _ThoughtText():
                yield _TreePath(node, 0, rest, notes)
                yield from self._enter(rest, notes)
            case _:
                yield from self._enter_leaf(node, rest, notes)

    def _enter_behind(self, rest: _Rest, notes: _Notes) -> Iterator[_TreePath]:
        """Enter what stands behind arguments or a call: white space may precede a token there."""
        for path in self._enter(rest, notes):
            yield path._replace(state=_LOOSE) if isinstance(path.leaf, TokenNode) else path

    def _enter_leaf(
        self, node: FormatNode | _ThoughtText, rest: _Rest, notes: _Notes
    ) -> Iterator[_TreePath]:
        """Yield the path into a leaf of a call."""
        match node:
            case NameNode():
                yield _TreePath(node, b"", rest, notes)
            case NameAgainNode():
                again = _TokenText(NameNode().encode(self._name_on(notes)))
                yield from self._enter((again, rest), notes)
            case SchemaEchoNode():
                yield _TreePath(node, None, rest, notes)
                yield from self._enter(rest, notes)
            case IdNode():
                yield _TreePath(node, node.length, rest, notes)
            case ArgumentsNode() if node.syntax.top is not None:
                parameters = self._parameters.get(self._name_on(notes))
                kind = ElementParser if node.syntax.item else ArgParser
                parser = kind(node.syntax, parameters, self._controls)
                yield _TreePath(node, (parser, parser.start()), rest, notes)
            case ArgumentsNode():
                yield _TreePath(node, (0, _PLAIN), rest, notes)
            case NumberNode():
                yield _TreePath(node, _AT_NUMBER, rest, notes)
            case TokenNode():
                yield _TreePath(node, None, rest, notes)

    def _name_on(self, notes: _Notes) -> str:
        """Return the name of the call that is being read on a path."""
        while notes is not None:
            note, notes = notes
            if note.kind == "name":
                return str(note.data)
        return self._name

    def _step(self, path: _TreePath, symbol: int | Control) -> Iterator[_TreePath]:
        """Yield the paths to which one symbol leads from one path."""
        leaf, state, rest, notes = path
        if leaf is None:
            if symbol in _SPACE_SYMBOLS and (notes[0].kind == "end" if notes else self._calls > 0):
                yield path  # white space behind the last call
            return
        if isinstance(leaf, ArgumentsNode) and leaf.syntax.top is not None:
            yield from self._step_arg_parser(path, symbol)
            return
        if isinstance(symbol, Control):
            yield from self._step_control(path, symbol)
            return
        match leaf:
            case TokenNode() if state == _LOOSE and symbol in _SPACE:
                yield path
            case TextNode():
                yield from self._step_text(path, symbol)
            case NameNode():
                yield from self._step_name(path, symbol)
            case ArgumentsNode() if state == _BEFORE_OBJECT and symbol in _SPACE:
                yield path
            case ArgumentsNode():
                moved = _object_step(state, symbol)
                if moved is not None:
                    notes = (_Note("arguments", bytes([symbol])), notes)
                    if moved == _COMPLETE:
                        yield from self._enter_behind(rest, notes)
                    else:
                        yield _TreePath(leaf, moved, rest, notes)
            case SchemaEchoNode():
                yield path
                yield from self._enter(rest, notes)
            case NumberNode():
                if symbol in _DIGITS and state != _BEHIND_NUMBER:
                    yield path._replace(state=_IN_NUMBER)
                    yield from self._enter(rest, notes)
                elif symbol in _SPACE and state != _AT_NUMBER:
                    yield path._replace(state=_BEHIND_NUMBER)
                    yield from self._enter(rest, notes)
            case IdNode():
                if not (symbol < 0x80 and chr(symbol).isalnum()):
                    return
                notes = (_Note("id", symbol), notes)
                yield from (
                    [_TreePath(leaf, state - 1, rest, notes)]
                    if state > 1
                    else self._enter(rest, notes)
                )
            case FreeTextNode() | _ThoughtText():
                yield from self._step_free_text(path, symbol)

    def _step_free_text(self, path: _TreePath, symbol: int) -> Iterator[_TreePath]:
        """Read on in free text or a thought, up to its stop."""
        leaf, state, rest, notes = path
        if isinstance(leaf, FreeTextNode):
            if state == _AT_START and chr(symbol) in leaf.not_first:
                return
            kind, stop = "text", leaf.stop_text(self._controls)
        else:
            # Where the stop is a control token, the same characters as text do not end anything.
            assert isinstance(leaf, _ThoughtText)
            is_text = self._controls is not None and leaf.stop not in self._controls
            kind, stop = "thought", leaf.stop if is_text else ""
        matched = _stop_step(stop.encode(), max(state, 0), symbol)
        if matched is not None:
            notes = (_Note(kind, bytes([symbol])), notes)
            yield _TreePath(leaf, matched, rest, notes)
            yield from self._enter(rest, notes)

    def _step_arg_parser(self, path: _TreePath, symbol: int | Control) -> Iterator[_TreePath]:
        """Read on in arguments that are not JSON."""
        leaf, (parser, state), rest, notes = path
        taken = parser.step(state, symbol)
        if taken is None:
            return
        state, emitted = taken
        if emitted:
            notes = (_Note("arguments", emitted), notes)
        if state.is_complete:
            yield from self._enter_behind(rest, notes)
        else:
            yield _TreePath(leaf, (parser, state), rest, notes)

    def _step_control(self, path: _TreePath, symbol: Control) -> Iterator[_TreePath]:
        leaf, _state, rest, notes = path
        if isinstance(leaf, TokenNode) and leaf.text == symbol.text:
            yield from self._enter(rest, notes)
        elif isinstance(leaf, NameNode):
            yield from self._end_name(path, symbol)
        elif isinstance(leaf, TextNode):
            for behind in self._without_space(path):
                if behind is not path:
                    yield from self._step(behind, symbol)

    def _step_text(self, path: _TreePath, symbol: int) -> Iterator[_TreePath]:
        """Read on in a text of the family's; white space may be missing, or more than it writes."""
        leaf, state, rest, notes = path
        assert isinstance(leaf, TextNode)
        if state[0] == symbol:
            state = state[1:]
            yield from [path._replace(state=state)] if state else self._enter(rest, notes)
            return
        loose, extra = _spaces(leaf)
        at = len(loose) - len(state)
        if symbol in _SPACE and extra[at]:
            yield path
            return
        behind = at
        while behind < len(loose) and loose[behind]:
            behind += 1
        if behind == at:
            return
        if behind < len(loose):
            yield from self._step(path._replace(state=state[behind - at :]), symbol)
        else:
            for after in self._enter(rest, notes):
                yield from self._step(after, symbol)

    def _without_space(self, path: _TreePath) -> Iterator[_TreePath]:
        """Yield the path, or those behind it if only white space that may be missing is left in its text."""
        if isinstance(path.leaf, TextNode) and all(_spaces(path.leaf)[0][-len(path.state) :]):
            for after in self._enter(path.rest, path.notes):
                yield from self._without_space(after)
        else:
            yield path

    def _step_name(self, path: _TreePath, symbol: int) -> Iterator[_TreePath]:
        """Read on in a name; if it may end here, read the symbol behind it, too."""
        leaf, state, _rest, _notes = path
        assert isinstance(leaf, NameNode)
        escaped = (len(state) - len(state.rstrip(b"\\"))) % 2 == 1
        if leaf.bare:
            quoted = state[:1] == b'"' or (not state and symbol == _QUOTE)
            closed = len(state) > 1 and quoted and state[-1] == _QUOTE and not _escaped_end(state)
            if (quoted and not closed) or (not quoted and symbol in BARE_BYTES):
                yield path._replace(state=state + bytes([symbol]))
            else:
                yield from self._end_name(path, symbol)
            return
        if escaped or symbol not in b'"\n':
            yield path._replace(state=state + bytes([symbol]))
        if not escaped:
            yield from self._end_name(path, symbol)

    def _end_name(self, path: _TreePath, symbol: int | Control) -> Iterator[_TreePath]:
        """End the name, if it may end here, and read ``symbol`` behind it."""
        leaf, state, rest, notes = path
        assert isinstance(leaf, NameNode)
        try:
            name = leaf.decode(state.decode())
        except ValueError:
            return
        for behind in self._enter(rest, (_Note("name", name), notes)):
            yield from self._step(behind, symbol)


# -- leaves ---------------------------------------------------------------------------------------

_PLAIN, _STRING, _ESCAPE = range(3)
_DIGITS = b"0123456789"
_AT_START = -1
_BEFORE_OBJECT = (0, _PLAIN)
#: Where a reader of a number is: at its first digit, in it, or in the white space behind it.
_AT_NUMBER, _IN_NUMBER, _BEHIND_NUMBER = range(3)
#: A token in front of which white space may stand.
_LOOSE = "loose"
_SPACE = b" \t\r\n"
_SPACE_SYMBOLS: frozenset[int | Control] = frozenset(_SPACE)
_PUNCTUATION = "{}[]:,"


@dataclass(frozen=True, slots=True)
class _TokenText(TextNode):
    """A control token that is text in this vocabulary: exactly its characters."""


@lru_cache(maxsize=1024)
def _spaces(node: TextNode) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Return, for each byte of a text, whether it may be missing, and whether white space may precede it."""
    text = node.text
    data = text.encode()
    if isinstance(node, _TokenText) or len(data) != len(text):
        return (False,) * len(data), (False,) * len(data)
    inner = text.strip()
    is_json = set(inner) <= {*_PUNCTUATION, " ", "\n"} or any(
        one in text for one in ('{"', '": ', '", "')
    )
    # A text that begins with a quote ends the name in front of it.
    in_string = text[:1] == '"' if is_json else True
    loose, extra = [], []
    for at, char in enumerate(text):
        at_end = not text[:at].strip() or not text[at:].strip()
        pair = (text[:at].rstrip()[-1:], char)
        is_between = is_json and not in_string and any(one in _PUNCTUATION for one in pair if one)
        next_to = is_json and not in_string and char.isspace()
        loose.append(char.isspace() and (at_end or next_to))
        extra.append(is_between)
        if is_json and char == '"':
            in_string = not in_string
    return tuple(loose), tuple(extra)


@lru_cache(maxsize=256)
def _shared(node: ChoiceNode) -> tuple[SequenceNode, ChoiceNode] | None:
    """Return what both branches of a choice begin with, and the choice behind it; None for nothing."""
    if not isinstance(node.calls, SequenceNode) or not isinstance(node.no_call, SequenceNode):
        return None
    calls, no_call = node.calls.nodes, node.no_call.nodes
    size = 0
    while size < min(len(calls), len(no_call)) and calls[size] == no_call[size]:
        size += 1
    if not size:
        return None
    behind = ChoiceNode(SequenceNode(calls[size:]), SequenceNode(no_call[size:]))
    return SequenceNode(calls[:size]), behind


def _distinct(paths: list[_TreePath]) -> list[_TreePath]:
    """Leave one of the paths that go on alike: that which has read less text."""
    found: list[_TreePath] = []
    for path in paths:
        for at, other in enumerate(found):
            if path[:3] == other[:3]:
                if _length(path.notes) < _length(other.notes):
                    found[at] = path
                break
        else:
            found.append(path)
    return found


def _length(notes: _Notes) -> int:
    count = 0
    while notes is not None:
        count, notes = count + 1, notes[1]
    return count


_COMPLETE = (0, _STRING)
_OPENING, _CLOSING, _QUOTE, _BACKSLASH, _BRACE = b"[{", b"]}", 0x22, 0x5C, 0x7B


def _object_step(state: tuple[int, int], byte: int) -> tuple[int, int] | None:
    """Find the end of a JSON object by its brackets and quotes; it is parsed once it is complete."""
    depth, mode = state
    if mode == _ESCAPE:
        return depth, _STRING
    if mode == _STRING:
        return depth, _ESCAPE if byte == _BACKSLASH else _PLAIN if byte == _QUOTE else _STRING
    if depth == 0:
        return (1, _PLAIN) if byte == _BRACE else None
    if byte in _OPENING:
        return depth + 1, _PLAIN
    if byte in _CLOSING:
        return (depth - 1, _PLAIN) if depth > 1 else _COMPLETE
    return depth, _STRING if byte == _QUOTE else _PLAIN


def _escaped_end(state: bytes) -> bool:
    """Whether the quote at the end of a name in quotes is escaped."""
    body = state[:-1]
    return (len(body) - len(body.rstrip(b"\\"))) % 2 == 1


def _stop_step(stop: bytes, matched: int, byte: int) -> int | None:
    """How much of ``stop`` the text now ends with (Knuth, Morris, Pratt); None once it is all."""
    if not stop:
        return 0
    seen = stop[:matched] + bytes([byte])
    while not stop.startswith(seen):
        seen = seen[1:]
    return None if seen == stop else len(seen)


def _merge_deltas(events: list[StreamEvent]) -> list[StreamEvent]:
    """Join neighbouring deltas of one kind; between those of two calls stands the end of the first."""
    if len(events) < 2:
        return events
    merged: list[StreamEvent] = []
    for event in events:
        last = merged[-1] if merged else None
        if type(event) is not type(last):
            merged.append(event)
        elif isinstance(event, TextDelta | ThoughtDelta | ArgumentsDelta):
            merged[-1] = replace(event, data=last.data + event.data)  # type: ignore[union-attr]
        else:
            merged.append(event)
    return merged
