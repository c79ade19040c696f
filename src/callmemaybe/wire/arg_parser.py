"""The arguments that a model wrote in a syntax other than JSON, translated to JSON as they arrive.

A predictive parser (LL(1), but for the ends of raw values, which are searched for): the stack holds
what is still expected, each symbol is matched with its top, and JSON is emitted on the way. A state is
immutable, so a reader may follow several paths at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from callmemaybe.grammar.characters import json_escaped
from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio import dumps
from callmemaybe.wire.arg_syntax import BARE_BYTES, ArgSyntax, argument_kinds, spelled_for

_SPACE, _NUMBER_FIRST = b" \t\n", b"-0123456789"
_NUMBER = frozenset(b"-+.eE0123456789")
_QUOTE, _BACKSLASH = 0x22, 0x5C
_JSON_SPELLING = {byte: bytes([byte]) for byte in range(256)} | {
    code: json_escaped(code).encode() for code in (*range(0x20), _QUOTE, _BACKSLASH)
}
#: Words as any syntax writes them; a model that was trained on several may mix them.
_WORDS = {b"true": b"true", b"false": b"false", b"null": b"null", b"True": b"true",
          b"False": b"false", b"None": b"null"}  # fmt: skip
_JSON_WORDS = (b"true", b"false", b"null")
#: Where a reader of a raw value in JSON is: outside of strings, in one, or behind a backslash in one.
JSON_VALUE, JSON_STRING, JSON_ESCAPE = "json", "json string", "json escape"
_Symbols = tuple[int | Control, ...]
_SPACES: frozenset[int | Control] = frozenset(b" \t\r\n")


class _Op(NamedTuple):
    """Something expected or to be emitted: its kind, and its data."""

    kind: str
    data: Any = None
    more: Any = None


_Stack = tuple[_Op, "_Stack"] | None


class ArgParserState(NamedTuple):
    """How far the arguments are read: what is still expected."""

    stack: _Stack

    @property
    def is_complete(self) -> bool:
        """Whether the arguments are read to their end."""
        return self.stack is None


class ArgParser:
    """Translates one tool's arguments from one syntax to JSON."""

    def __init__(
        self,
        syntax: ArgSyntax,
        parameters: Mapping[str, Any] | None = None,
        controls: frozenset[str] | None = None,
    ) -> None:
        """Prepare to read arguments of a tool with these parameters (None: an unknown tool)."""
        self._syntax = spelled_for(syntax, controls)
        self._parameters = parameters

    def start(self) -> ArgParserState:
        """Return the state before the first symbol."""
        top = self._syntax.top
        assert top is not None
        begin = self._symbols(top.begin)
        kind = "loose" if self._syntax.tokens else "text"
        stack = _push([_Op("emit", b"{"), _Op(kind, begin), _Op("first")], None)
        return ArgParserState(stack)

    def step(
        self, state: ArgParserState, symbol: int | Control
    ) -> tuple[ArgParserState, bytes] | None:
        """Read one symbol; return the state after it and the JSON that is now certain.

        None if the symbol does not fit.
        """
        stack, output = state.stack, bytearray()
        while stack is not None:
            op, stack = stack
            if op.kind == "emit":
                output += op.data
                continue
            taken = self._take(op, symbol)
            if taken is None:
                return None
            is_taken, out, following = taken
            output += out
            stack = _push(following, stack)
            if is_taken:
                while stack is not None and (stack[0].kind == "emit" or stack[0] == _EMPTY):
                    output += stack[0].data or b""
                    stack = stack[1]
                return ArgParserState(stack), bytes(output)
        return None

    def _symbols(self, mark: str) -> _Symbols:
        """Return the symbols of a mark: bytes and control tokens."""
        found: list[int | Control] = []
        for part in self._syntax.split(mark):
            found += [part] if isinstance(part, Control) else part.encode()
        return tuple(found)

    # -- one thing to come ----------------------------------------------------------------------

    def _take(self, op: _Op, symbol: int | Control) -> tuple[bool, bytes, list[_Op]] | None:
        """Return whether the symbol is consumed, the JSON it means, and what replaces ``op``."""
        match op.kind:
            case "text" if not op.data:
                return False, b"", []
            case "text":
                return (True, b"", [_Op("text", op.data[1:])]) if op.data[0] == symbol else None
            case "loose":
                return _loose(op, symbol)
            case "first" | "next" if self._syntax.raw or not isinstance(symbol, Control):
                return self._member(op, symbol)
            case "pick":
                return self._pick(op, symbol)
            case "raw":
                return self._raw(op, symbol)
        if isinstance(symbol, Control):
            return self._take_control(op, symbol)
        match op.kind:
            case "space":
                return (True, b"", [op]) if symbol in _SPACE else (False, b"", [])
            case "key" | "inner key" | "value":
                return self._begin(op.kind, symbol)
            case "bare":
                if symbol in BARE_BYTES:
                    return True, _JSON_SPELLING[symbol], [op]
                return False, b'"', []
            case "word":
                return self._word(op, symbol)
            case "number":
                return (True, bytes([symbol]), [op]) if symbol in _NUMBER else (False, b"", [])
            case "quoted":
                return _quoted(op, symbol)
            case "fenced":
                return True, _JSON_SPELLING[symbol], [op]
            case "open":
                return self._bracket(op.data, symbol, first=True)
            case "close":
                return self._bracket(op.data, symbol, first=False)
        raise AssertionError(op)

    def _take_control(self, op: _Op, symbol: Control) -> tuple[bool, bytes, list[_Op]] | None:
        """Open or close a fence, or end what may end anywhere."""
        syntax = self._syntax
        is_fence = bool(syntax.fence) and symbol.text == syntax.fence
        if op.kind == "fenced":
            return (True, b'"', []) if is_fence else None
        if op.kind == "space":
            return False, b"", []
        if not is_fence:
            return None
        if op.kind in ("key", "inner key", "value"):
            return True, b'"', [_Op("fenced")]
        if op.kind == "first":
            return False, b"", self._key_and_value(first=True)
        if op.kind == "open" and op.data == "{":
            return False, b"", self._inner_member(first=True)
        if op.kind == "open":
            return False, b"", [_Op("value"), _Op("close", "[")]
        return None

    # -- the arguments --------------------------------------------------------------------------

    def _member(self, op: _Op, symbol: int | Control) -> tuple[bool, bytes, list[_Op]] | None:
        """At the first member, or behind one: the end, or (one more) key and value."""
        syntax, top = self._syntax, self._syntax.top
        assert top is not None
        is_first = op.kind == "first"
        end = [_Op("text", self._symbols(top.end)), _Op("emit", b"}")]
        if syntax.raw:
            ways: tuple[tuple[_Symbols, list[_Op]], ...] = ((self._symbols(top.before_key), [_Op("raw", ("key", is_first), (0, b""))]),
                    (self._symbols(top.end), [_Op("emit", b"}")]))  # fmt: skip
            if syntax.tokens:
                ways = tuple((_without_space(mark), then) for mark, then in ways)
                return False, b"", [_Op("loose", ()), _Op("pick", ways)]
            return False, b"", [_Op("pick", ways)]
        if symbol == top.end.encode()[0]:
            return False, b"", end
        if is_first:
            return False, b"", self._key_and_value(first=True)
        between = self._symbols(top.between.strip())
        return False, b"", [_Op("text", between), _Op("space"), *self._key_and_value(first=False)]

    def _key_and_value(self, *, first: bool) -> list[_Op]:
        top = self._syntax.top
        assert top is not None
        return [
            _Op("emit", b"" if first else b", "), _Op("key"),
            _Op("text", self._symbols(top.after_key)), _Op("emit", b": "), _Op("space"),
            _Op("value"), _Op("next"),
        ]  # fmt: skip

    @staticmethod
    def _pick(op: _Op, symbol: int | Control) -> tuple[bool, bytes, list[_Op]] | None:
        """Keep the alternatives that have this symbol next."""
        left = [(text[1:], then) for text, then in op.data if text[:1] == (symbol,)]
        if not left:
            return None
        done = [then for text, then in left if not text]
        return True, b"", done[0] if done else [_Op("pick", tuple(left))]

    # -- values ---------------------------------------------------------------------------------

    def _begin(self, kind: str, symbol: int) -> tuple[bool, bytes, list[_Op]] | None:
        syntax = self._syntax
        if symbol in syntax.quotes.encode():
            return True, b'"', [_Op("quoted", symbol, "")]
        if kind != "value":
            if symbol not in BARE_BYTES or (kind == "inner key" and not syntax.bare):
                return None
            return True, b'"' + _JSON_SPELLING[symbol], [_Op("bare")]
        if symbol == ord("["):
            return True, b"[", [_Op("space"), _Op("open", "[")]
        if symbol == ord("{"):
            return True, b"{", [_Op("space"), _Op("open", "{")]
        if symbol in _NUMBER_FIRST:
            return True, bytes([symbol]), [_Op("number")]
        return self._word(_Op("word", b""), symbol)

    def _inner_member(self, *, first: bool) -> list[_Op]:
        return [
            _Op("emit", b"" if first else b", "), _Op("inner key"), _Op("space"), _Op("text", (0x3A,)),
            _Op("emit", b": "), _Op("space"), _Op("value"), _Op("space"), _Op("close", "{"),
        ]  # fmt: skip

    def _bracket(
        self, kind: str, symbol: int, *, first: bool
    ) -> tuple[bool, bytes, list[_Op]] | None:
        """In an array or an object: its end, or one more item or member."""
        end = {"[": b"]", "{": b"}"}[kind]
        if symbol == end[0]:
            return True, end, []
        if not first and symbol != ord(","):
            return None
        if kind == "{":
            following = self._inner_member(first=first)
        else:
            following = [_Op("value"), _Op("space"), _Op("close", "[")]
            following.insert(0, _Op("emit", b"" if first else b", "))
        return (False, b"", following) if first else (True, b"", [_Op("space"), *following])

    @staticmethod
    def _word(op: _Op, symbol: int) -> tuple[bool, bytes, list[_Op]] | None:
        """Read a word; nothing is emitted before all of it is known."""
        seen = op.data + bytes([symbol])
        if any(word.startswith(seen) for word in _WORDS):
            return True, _WORDS.get(seen, b""), [] if seen in _WORDS else [_Op("word", seen)]
        return None

    # -- raw keys and values --------------------------------------------------------------------

    def _raw(self, op: _Op, symbol: int | Control) -> tuple[bool, bytes, list[_Op]] | None:
        """Read text up to its end mark; what may be the beginning of the mark is held back."""
        (role, detail), (matched, held) = op.data, op.more
        top = self._syntax.top
        assert top is not None
        if detail in (JSON_STRING, JSON_ESCAPE) and isinstance(symbol, int):
            # Inside of a string of a JSON value no text is a mark.
            mode = _json_mode(detail, bytes([symbol]))
            return True, bytes([symbol]), [_Op("raw", (role, mode), (0, b""))]
        # What stands behind a control token is not needed to see the end.
        whole = self._symbols(top.key_end if role == "key" else top.after_value)
        size = next(
            (at + 1 for at, one in enumerate(whole) if isinstance(one, Control)), len(whole)
        )
        behind = whole[size:]
        while role == "value" and behind and behind[-1] in _SPACES:
            behind = behind[:-1]  # which a model may leave out there, as _member reads it
        stop, more = whole[:size], [_Op("loose", behind)] if size < len(whole) else []
        seen: _Symbols = (*stop[:matched], symbol)
        freed: _Symbols = ()
        while stop[: len(seen)] != seen:
            seen, freed = seen[1:], (*freed, seen[0])
        text = bytes(one for one in freed if isinstance(one, int))
        if len(text) < len(freed):
            return None  # no value holds a control token
        if role == "key":
            held += text
            if seen != stop:
                return True, b"", [_Op("raw", (role, detail), (len(seen), held))]
            key = held.decode(errors="replace")
            output = (b"" if detail else b", ") + dumps(key).encode() + b": "
            taken, out, ops = self._behind_key(argument_kinds(key, self._parameters), output)
            return taken, out, [*more, *ops]
        mode, held, output = advance_raw(detail, held, text)
        if seen != stop:
            return True, output, [_Op("raw", (role, mode), (len(seen), held))]
        return True, output + end_raw(mode, held), [*more, _Op("next")]

    def _behind_key(self, kinds: frozenset[str], output: bytes) -> tuple[bool, bytes, list[_Op]]:
        """Behind a key: its value; first, where one tells what kind of value it is, a mark."""
        top = self._syntax.top
        assert top is not None
        if top.after_json_key is None:
            mode = self._mode(kinds)
            value = _Op("raw", ("value", mode), (0, b""))
            return True, output + (b'"' if mode == "text" else b""), [value]
        known = len(top.key_end)
        text = [_Op("emit", b'"'), _Op("raw", ("value", "text"), (0, b""))]
        value = _Op("raw", ("value", JSON_VALUE), (0, b""))
        others = tuple((self._symbols(mark[known:]), [value]) for mark in top.json_marks())
        return True, output, [_Op("pick", ((self._symbols(top.after_key[known:]), text), *others))]

    @staticmethod
    def _mode(kinds: frozenset[str]) -> str:
        if "other" not in kinds:
            return "text"
        return "either" if "text" in kinds else JSON_VALUE


_EMPTY = _Op("text", ())


def _loose(op: _Op, symbol: int | Control) -> tuple[bool, bytes, list[_Op]] | None:
    """Read a mark between control tokens, whatever white space stands there instead of its own."""
    if symbol in _SPACES:
        return True, b"", [_Op("loose", op.data[1:] if op.data[:1] == (symbol,) else op.data)]
    left = _without_space(op.data)
    return False, b"", [_Op("text", left)] if left else []


def _without_space(mark: _Symbols) -> _Symbols:
    """Return a mark without white space at its beginning."""
    at = 0
    while at < len(mark) and mark[at] in _SPACES:
        at += 1
    return mark[at:]


def _push(ops: list[_Op], stack: _Stack) -> _Stack:
    for op in reversed(ops):
        stack = (op, stack)
    return stack


def _quoted(op: _Op, symbol: int) -> tuple[bool, bytes, list[_Op]]:
    """Read on in a quoted string: escapes are copied, but for those that only Python has."""
    quote, escape = op.data, op.more
    if escape == "\\":
        if symbol == ord("'"):
            return True, b"'", [_Op("quoted", quote, "")]
        spelled = b"\\u00" if symbol == ord("x") else b"\\" + bytes([symbol])
        return True, spelled, [_Op("quoted", quote, "")]
    if symbol == _BACKSLASH:
        return True, b"", [_Op("quoted", quote, "\\")]
    if symbol == quote:
        return True, b'"', []
    return True, _JSON_SPELLING[symbol], [op]


def advance_raw(mode: str, held: bytes, freed: bytes) -> tuple[str, bytes, bytes]:
    """Return the mode, what is held back, and the JSON for ``freed``, more of a raw value."""
    if mode == "text":
        return mode, b"", b"".join(_JSON_SPELLING[byte] for byte in freed)
    if mode != "either":
        return _json_mode(mode, freed), b"", freed
    held += freed
    if not held or any(word.startswith(held) for word in _JSON_WORDS):
        return mode, held, b""
    if held[0] in b'"[{' or held[0] in _NUMBER_FIRST:
        return _json_mode(JSON_VALUE, held), b"", held
    return "text", b"", b'"' + b"".join(_JSON_SPELLING[byte] for byte in held)


def _json_mode(mode: str, data: bytes) -> str:
    """Return where in a JSON value a reader is after these bytes."""
    for byte in data:
        if mode == JSON_VALUE:
            mode = JSON_STRING if byte == _QUOTE else JSON_VALUE
        elif mode == JSON_ESCAPE:
            mode = JSON_STRING
        elif byte in (_QUOTE, _BACKSLASH):
            mode = JSON_VALUE if byte == _QUOTE else JSON_ESCAPE
    return mode


def end_raw(mode: str, held: bytes) -> bytes:
    """Return the JSON that ends a raw value."""
    if mode == "either":
        return held if held in _JSON_WORDS else b'"' + held + b'"'
    return b'"' if mode == "text" else b""
