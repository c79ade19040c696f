"""Arguments that a model wrote as elements inside of elements, translated to JSON as they arrive.

The stack holds the lists and objects that are open. A state is immutable, so a reader may follow several paths at
once. The name in a closing tag is not compared: tags close in the order in which they were opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio import dumps
from callmemaybe.wire.arg_parser import JSON_ESCAPE, JSON_STRING, JSON_VALUE, advance_raw, end_raw
from callmemaybe.wire.arg_syntax import ArgSyntax, spelled_for
from callmemaybe.wire.element_args import (
    Place,
    ValuePlaces,
    can_be_tag,
    empty_kind,
    lead_of,
    may_be_either,
)

_SPACE = b" \t\r\n"
_BRACKETS = {"object": (b"{", b"}"), "array": (b"[", b"]")}


class _Holder(NamedTuple):
    """An open list or object, and those around it."""

    kind: str
    place: Place
    #: Whether it has a member or an item already.
    is_filled: bool
    outer: _Holder | None


class ElementState(NamedTuple):
    """How far the arguments are read."""

    holder: _Holder
    #: The place of the value that is being read; None: between elements.
    place: Place | None = None
    #: How it is read ("": nothing but white space came so far), and what of it is held back.
    mode: str = ""
    held: bytes = b""
    #: The tag so far; None: in none.
    tag: bytes | None = None
    #: Whether the tag closes a value: that has ended already, so the tag's name does not count for it.
    is_ended: bool = False
    #: How many bytes of the mark in front of a tag are read, where it is text.
    matched: int = 0
    is_started: bool = False
    is_complete: bool = False


_Step = tuple[ElementState, bytes] | None


class ElementParser:
    """Translates one tool's arguments from elements to JSON."""

    def __init__(
        self,
        syntax: ArgSyntax,
        parameters: Mapping[str, Any] | None = None,
        controls: frozenset[str] | None = None,
    ) -> None:
        """Prepare to read arguments of a tool with these parameters (None: an unknown tool)."""
        syntax = spelled_for(syntax, controls)
        assert syntax.top is not None
        self._lead = lead_of(syntax)
        #: The mark in front of a tag where it is text.
        self._text_lead = syntax.text_stop(self._lead).encode()
        self._item = syntax.item
        #: The tag that ends the arguments.
        self._end = syntax.top.end.removeprefix(self._lead)
        self._places = ValuePlaces(parameters)

    def start(self) -> ElementState:
        """Return the state before the first symbol."""
        return ElementState(_Holder("object", self._places.root, False, None))

    def step(self, state: ElementState, symbol: int | Control) -> _Step:
        """Read one symbol; return the state after it and the JSON that is now certain.

        None if the symbol does not fit.
        """
        after = self._step(state._replace(is_started=True), symbol)
        if after is None or state.is_started:
            return after
        return after[0], b"{" + after[1]

    def _step(self, state: ElementState, symbol: int | Control) -> _Step:
        if state.tag is not None:
            return None if isinstance(symbol, Control) else self._tag(state, bytes([symbol]))
        # Inside of a string of a JSON value no text is a mark.
        in_string = state.mode in (JSON_STRING, JSON_ESCAPE)
        if isinstance(symbol, Control):
            is_lead = symbol.text == self._lead and not self._text_lead and not in_string
            return (state._replace(tag=b""), b"") if is_lead else None
        if not self._text_lead or in_string:
            return self._text(state, bytes([symbol]))
        seen, freed = self._text_lead[: state.matched] + bytes([symbol]), b""
        if seen == self._text_lead:
            return state._replace(tag=b"", matched=0), b""
        while not self._text_lead.startswith(seen):
            freed, seen = freed + seen[:1], seen[1:]
        after = self._text(state, freed) if freed else (state, b"")
        return None if after is None else (after[0]._replace(matched=len(seen)), after[1])

    def _text(self, state: ElementState, data: bytes) -> _Step:
        """Read bytes that are no part of a tag."""
        if state.place is None:
            return None if data.strip(_SPACE) else (state, b"")
        mode, held, output = state.mode, state.held, b""
        if not mode:
            kinds = self._places.kinds(state.place)
            data, held = held + data, b""
            if kinds & {"array", "object"} and not data.strip(_SPACE):
                return state._replace(held=data), b""
            if "text" not in kinds:
                mode = JSON_VALUE
            elif kinds == {"text"}:
                mode, output = "text", b'"'
            else:
                mode = "either"
        mode, held, more = advance_raw(mode, held, data)
        return state._replace(mode=mode, held=held), output + more

    # -- tags -----------------------------------------------------------------------------------

    def _tag(self, state: ElementState, byte: bytes) -> _Step:
        tag = state.tag
        assert tag is not None
        if not tag:
            if byte in (b" ", b"\t", b"\r", b"\n"):
                return state, b""
            return (state._replace(tag=byte), b"") if byte == b"<" else None
        if tag + byte == b"</" and state.place is not None:
            after = state._replace(place=None, mode="", held=b"", tag=b"</", is_ended=True)
            return after, self._end_of_value(state)
        if byte != b">":
            return state._replace(tag=tag + byte), b""
        name = tag[1:].decode(errors="replace")
        if name.startswith("/"):
            return self._close(state, f"<{name}>")
        return self._open(state, name) if can_be_tag(name) else None

    def _open(self, state: ElementState, name: str) -> _Step:
        holder, output = state.holder, b""
        if state.place is not None:
            if state.mode:
                return None  # text and elements side by side
            kinds, kind = self._places.kinds(state.place), "object"
            if name == self._item if may_be_either(kinds) else "array" in kinds:
                kind = "array"
            holder, output = _Holder(kind, state.place, False, holder), _BRACKETS[kind][0]
        output += b", " if holder.is_filled else b""
        if holder.kind == "array":
            place = self._places.item(holder.place)
        else:
            output += dumps(name).encode() + b": "
            place = self._places.member(holder.place, name)
        holder = holder._replace(is_filled=True)
        return ElementState(holder, place, is_started=True), output

    def _close(self, state: ElementState, tag: str) -> _Step:
        holder = state.holder
        if state.is_ended:
            return ElementState(holder, is_started=True), b""
        output = _BRACKETS[holder.kind][1]
        if holder.outer is not None:
            return ElementState(holder.outer, is_started=True), output
        is_end = tag == self._end
        return (state._replace(tag=None, is_complete=True), output) if is_end else None

    def _end_of_value(self, state: ElementState) -> bytes:
        """Return the JSON that ends a value."""
        assert state.place is not None
        if state.mode:
            return end_raw(state.mode, state.held)
        kind = empty_kind(self._places.kinds(state.place))
        if kind == "text":
            return dumps(state.held.decode()).encode()
        return b"null" if kind == "scalar" else b"".join(_BRACKETS[kind])
