"""Understand what a model writes, as it is written: the third reading of a format's tree.

The reader follows every way through the tree that the symbols so far allow (Thompson, 1968), one
byte or control token at a time; what all ways agree on is told at once. So a stream may be cut
anywhere and still gives the same events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from callmemaybe.errors import InputError
from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio.writer import loads
from callmemaybe.tools import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
    ToolCall,
)
from callmemaybe.wire.arg_parser import Translator
from callmemaybe.wire.arg_syntax import BARE
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
    Piece,
    SchemaEcho,
    Text,
    Thought,
    Token,
)


class _End(NamedTuple):
    """Stands behind a call in the tree: here it ends."""


class _Thinking(NamedTuple):
    """The text of a thought, up to where it ends."""

    stop: str


# What is still to come: a piece, then the rest.
_Rest = tuple["Piece | _End | _Thinking", "_Rest"] | None
# What was told so far on one way, newest first. Ways that split share what they had.
_Told = tuple["_Note", "_Told"] | None


class _Note(NamedTuple):
    """Something read: "name", "arguments", "id", "answer", "thought" or "end", with its data."""

    kind: str
    data: Any


class _Way(NamedTuple):
    """One way through the tree: the leaf it stands in (None: past the end), and what follows."""

    leaf: Piece | _Thinking | None
    state: Any
    rest: _Rest
    told: _Told


class Reader:
    """An incremental reader of one answer; feed it, then end it."""

    def __init__(
        self,
        tree: Piece,
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
        self._ways = list(self._enter((tree, None), None))
        self._calls = 0
        self._arguments = bytearray()
        self._read = 0

    def feed(self, part: Part | bytes) -> list[StreamEvent]:
        """Read more of the answer and return what is now certain.

        Raises InputError if this cannot be an answer in this format.
        """
        if isinstance(part, Control):
            return _merged(self._one(part))
        data = part.encode() if isinstance(part, str) else part
        events: list[StreamEvent] = []
        at = 0
        while at < len(data):
            taken = self._run(data, at)
            at += taken
            if not taken:
                events += self._one(data[at])
                at += 1
            else:
                events += self._certain()
        return _merged(events)

    def _one(self, symbol: int | Control) -> list[StreamEvent]:
        """Move every way over one symbol."""
        ways = [after for way in self._ways for after in self._step(way, symbol)]
        if not ways:
            shown = symbol.text if isinstance(symbol, Control) else repr(bytes([symbol]))
            raise InputError(
                f"{shown} does not fit the format", where=f"symbol {self._read} of the answer"
            )
        self._ways = ways
        self._read += 1
        return self._certain()

    def _run(self, data: bytes, start: int) -> int:
        """Move over many bytes at once where there is one way and it stays in one leaf, or waits for a token.

        Returns how many bytes were taken; the same as one after the other, only faster.
        """
        first, *others = self._ways
        if isinstance(first.leaf, SchemaEcho) and all(
            isinstance(way.leaf, Token) for way in others
        ):
            self._read += len(data) - start
            return len(data) - start  # only a control token leads out of it
        if others:
            return 0
        (leaf, state, rest, told) = self._ways[0]
        at = start
        if isinstance(leaf, Text):
            # The last byte of a text leads elsewhere.
            while at < len(data) and at - start < len(state) - 1 and data[at] == state[at - start]:
                at += 1
            moved: Any = state[at - start :]
        elif isinstance(leaf, Arguments) and leaf.notation.outer is None:
            moved = state
            while at < len(data):
                after = _object_step(moved, data[at])
                if after is None or after == _COMPLETE:
                    break
                moved = after
                at += 1
            if at > start:
                told = (_Note("arguments", data[start:at]), told)
        else:
            return 0
        self._ways = [_Way(leaf, moved, rest, told)]
        self._read += at - start
        return at - start

    @property
    def place(self) -> Literal["thought", "answer"] | None:
        """Whether what comes next may be more of a thought, or else of a text."""
        if any(isinstance(way.leaf, _Thinking) for way in self._ways):
            return "thought"
        return "answer" if any(isinstance(way.leaf, Answer) for way in self._ways) else None

    def end(self) -> list[StreamEvent]:
        """Return what the end of the answer makes certain.

        Raises InputError if the answer is cut off.
        """
        for way in self._ways:
            if way.leaf is None:
                self._ways = [way]
                return _merged(self._certain())
        raise InputError("the answer is cut off", where=f"symbol {self._read} of the answer")

    def _certain(self) -> list[StreamEvent]:
        """Tell what every way has told, and let the ways forget it."""
        told = self._ways[0].told
        if told is None or any(way.told is not told for way in self._ways):
            return []
        self._ways = [way._replace(told=None) for way in self._ways]
        notes: list[_Note] = []
        while told is not None:
            note, told = told
            notes.append(note)
        events: list[StreamEvent] = []
        for note in reversed(notes):
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
        if note.kind in ("answer", "thought"):
            return TextDelta(note.data) if note.kind == "answer" else ThoughtDelta(note.data)
        text = self._arguments.decode(errors="replace")
        loads(text, where=f"arguments of call {self._calls}")
        self._arguments.clear()
        self._calls += 1
        call_id, self._id = self._id, ""
        return CallEnded(self._calls - 1, ToolCall(self._name, text, call_id))

    # -- the ways ---------------------------------------------------------------------------

    def _enter(self, rest: _Rest, told: _Told) -> Iterator[_Way]:
        """Every leaf that the next symbol may fall into."""
        if rest is None:
            yield _Way(None, None, None, told)
            return
        piece, rest = rest
        match piece:
            case _End():
                yield from self._enter(rest, (_Note("end", None), told))
            case Chain():
                for inner in reversed(piece.pieces):
                    rest = (inner, rest)
                yield from self._enter(rest, told)
            case Either(calls, Answer() as free) if free.stop:
                # The same text may be all there is, or stand in front of a call.
                yield from self._enter((free, (Either(calls, Chain(())), rest)), told)
            case Either():
                yield from self._enter((piece.calls, rest), told)
                yield from self._enter((piece.no_call, rest), told)
            case Calls():
                if piece.between is not None:
                    rest = (Either(Chain((piece.between, piece)), Chain(())), rest)
                yield from self._enter((piece.call, (_End(), rest)), told)
            case Thought():
                end = piece.end.pieces[0]
                text = _Thinking(end.text if isinstance(end, Text | Token) else "")
                yield from self._enter((piece.begin, (text, (piece.end, rest))), told)
                yield from self._enter(rest, told)
            case Token() if self._controls is not None and piece.text not in self._controls:
                yield from self._enter((Text(piece.text), rest), told)
            case Text():
                data = piece.text.encode()
                yield from [_Way(piece, data, rest, told)] if data else self._enter(rest, told)
            case Answer():
                yield _Way(piece, _NOTHING_YET, rest, told)
                yield from self._enter(rest, told)
            case _Thinking():
                yield _Way(piece, 0, rest, told)
                yield from self._enter(rest, told)
            case Name():
                yield _Way(piece, b"", rest, told)
            case SchemaEcho():
                yield _Way(piece, None, rest, told)
                yield from self._enter(rest, told)
            case Id():
                yield _Way(piece, piece.length, rest, told)
            case Arguments() if piece.notation.outer is not None:
                translator = Translator(piece.notation, self._parameters.get(self._named(told)))
                yield _Way(piece, (translator, translator.start()), rest, told)
            case Arguments():
                yield _Way(piece, (0, _PLAIN), rest, told)
            case Token():
                yield _Way(piece, None, rest, told)

    def _named(self, told: _Told) -> str:
        """Return the name of the call that is being read on a way."""
        while told is not None:
            note, told = told
            if note.kind == "name":
                return str(note.data)
        return self._name

    def _step(self, way: _Way, symbol: int | Control) -> Iterator[_Way]:
        """Where one symbol leads from one way."""
        leaf, state, rest, told = way
        if isinstance(leaf, Arguments) and leaf.notation.outer is not None:
            yield from self._step_translated(way, symbol)
            return
        if isinstance(symbol, Control):
            yield from self._step_control(way, symbol)
            return
        match leaf:
            case Text():
                if state[0] == symbol:
                    state = state[1:]
                    yield from [way._replace(state=state)] if state else self._enter(rest, told)
            case Name():
                yield from self._step_name(way, symbol)
            case Arguments():
                moved = _object_step(state, symbol)
                if moved is not None:
                    told = (_Note("arguments", bytes([symbol])), told)
                    if moved == _COMPLETE:
                        yield from self._enter(rest, told)
                    else:
                        yield _Way(leaf, moved, rest, told)
            case SchemaEcho():
                yield way
                yield from self._enter(rest, told)
            case Id():
                if not (symbol < 0x80 and chr(symbol).isalnum()):
                    return
                told = (_Note("id", symbol), told)
                yield from (
                    [_Way(leaf, state - 1, rest, told)] if state > 1 else self._enter(rest, told)
                )
            case Answer() | _Thinking():
                if (
                    isinstance(leaf, Answer)
                    and state == _NOTHING_YET
                    and chr(symbol) in leaf.not_first
                ):
                    return
                # Where the stop is a control token, its characters are only characters.
                is_text = self._controls is not None and leaf.stop not in self._controls
                stop = leaf.stop.encode() if is_text else b""
                matched = _stop_step(stop, max(state, 0), symbol)
                if matched is not None:
                    kind = "answer" if isinstance(leaf, Answer) else "thought"
                    told = (_Note(kind, bytes([symbol])), told)
                    yield _Way(leaf, matched, rest, told)
                    yield from self._enter(rest, told)

    def _step_translated(self, way: _Way, symbol: int | Control) -> Iterator[_Way]:
        """Read on in arguments that are not JSON."""
        leaf, (translator, state), rest, told = way
        taken = translator.step(state, symbol)
        if taken is None:
            return
        state, said = taken
        if said:
            told = (_Note("arguments", said), told)
        if state.is_complete:
            yield from self._enter(rest, told)
        else:
            yield _Way(leaf, (translator, state), rest, told)

    def _step_control(self, way: _Way, symbol: Control) -> Iterator[_Way]:
        leaf, _state, rest, told = way
        if isinstance(leaf, Token) and leaf.text == symbol.text:
            yield from self._enter(rest, told)
        elif isinstance(leaf, Name):
            yield from self._leave_name(way, symbol)

    def _step_name(self, way: _Way, symbol: int) -> Iterator[_Way]:
        """Read on in a name, and leave it before what follows if it may end here."""
        leaf, state, _rest, _told = way
        assert isinstance(leaf, Name)
        escaped = (len(state) - len(state.rstrip(b"\\"))) % 2 == 1
        if leaf.bare:
            quoted = state[:1] == b'"' or (not state and symbol == _QUOTE)
            closed = len(state) > 1 and quoted and state[-1] == _QUOTE and not _escaped_end(state)
            if (quoted and not closed) or (not quoted and symbol in BARE):
                yield way._replace(state=state + bytes([symbol]))
            else:
                yield from self._leave_name(way, symbol)
            return
        if escaped or symbol not in b'"\n':
            yield way._replace(state=state + bytes([symbol]))
        if not escaped:
            yield from self._leave_name(way, symbol)

    def _leave_name(self, way: _Way, symbol: int | Control) -> Iterator[_Way]:
        """End the name, if it may end here, and read ``symbol`` behind it."""
        leaf, state, rest, told = way
        assert isinstance(leaf, Name)
        try:
            name = leaf.decode(state.decode())
        except ValueError:
            return
        for behind in self._enter(rest, (_Note("name", name), told)):
            yield from self._step(behind, symbol)


# -- leaves ---------------------------------------------------------------------------------------

_PLAIN, _STRING, _ESCAPE = range(3)
_NOTHING_YET = -1
_COMPLETE = (0, _STRING)
_OPENING, _CLOSING, _QUOTE, _BACKSLASH, _BRACE = b"[{", b"]}", 0x22, 0x5C, 0x7B


def _object_step(state: tuple[int, int], byte: int) -> tuple[int, int] | None:
    """Follow a JSON object by its brackets and quotes; the text is checked once it is complete."""
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


def _merged(events: list[StreamEvent]) -> list[StreamEvent]:
    """Join neighbouring deltas."""
    merged: list[StreamEvent] = []
    for event in events:
        last = merged[-1] if merged else None
        if isinstance(event, ArgumentsDelta) and isinstance(last, ArgumentsDelta):
            merged[-1] = ArgumentsDelta(last.index, last.data + event.data)
        elif isinstance(event, TextDelta) and isinstance(last, TextDelta):
            merged[-1] = TextDelta(last.data + event.data)
        elif isinstance(event, ThoughtDelta) and isinstance(last, ThoughtDelta):
            merged[-1] = ThoughtDelta(last.data + event.data)
        else:
            merged.append(event)
    return merged
