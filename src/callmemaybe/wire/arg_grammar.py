"""What a schema allows, in a notation that is not JSON: the grammar's reading of ``notation``.

The schema is first written as JSON in a style whose punctuation are marks of their own, so that every
token of the JSON text stands alone in the tree; then each is replaced. Languages of strings (lengths,
patterns, formats) are automata over JSON's spelling; ``respelled`` makes automata over another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar.automaton import DEAD, Automaton
from callmemaybe.grammar.characters import json_spelling
from callmemaybe.grammar.nodes import (
    EMPTY,
    NOTHING,
    Both,
    Bytes,
    Choice,
    Control,
    Except,
    Lexeme,
    Literal,
    Names,
    Node,
    Ref,
    Repeat,
    Sequence,
    Substrings,
    Table,
    Words,
    alt,
    byte_range,
    byte_set,
    lexeme,
    lit,
    many,
    repeat,
    seq,
    words,
)
from callmemaybe.grammar.schema import Ground, json_schema_node
from callmemaybe.grammar.schema.references import Check
from callmemaybe.grammar.schema.style import Style
from callmemaybe.grammar.tree import machine_of
from callmemaybe.grammar.unordered import Members, Unordered
from callmemaybe.jsonio.writer import dumps
from callmemaybe.wire.arg_syntax import BARE, Notation, holds, is_bare, kinds_of, ordered

_COMMA, _COLON, _PAD = (Control(f"\0{mark}") for mark in ("comma", "colon", "pad"))
_MARKED = Style("marked", _COMMA, _COLON, _PAD)
#: States of one automaton over strings; a length limit of tens of thousands needs so many.
MOST_STATES = 400_000

_QUOTE = lit('"')
_ANY = many(byte_range(0x00, 0xFF))
_BARE = lexeme(seq(byte_set(BARE - frozenset(b"-./0123456789")), many(byte_set(BARE))))
_JSON_LIKE = lexeme(
    alt(seq(byte_set(b'"[{-0123456789'), _ANY), lit("true"), lit("false"), lit("null"))
)
#: What a character is written as inside quotes: as in JSON, but for the quote itself.
_ESCAPES = {code: json_spelling(code).encode() for code in range(0x20)} | {0x5C: b"\\\\"}
_LEAVES = (Literal, Words, Lexeme, Both, Except, Substrings, Table, Names, Bytes)


def arguments_node(
    schema: Mapping[str, Any],
    notation: Notation,
    prefix: str,
    *,
    order: str = "schema",
    ground: Ground | None = None,
    checks: list[Check] | None = None,
) -> tuple[Node, dict[str, Node]]:
    """Return the arguments that a schema allows, in a notation, and the rules they need.

    ``order``, ``ground`` and ``checks`` are those of ``json_schema``. Raises UnsupportedSchema for
    what cannot be promised.
    """
    if notation.is_sorted:
        schema = ordered(schema)
    node, rules = json_schema_node(
        schema, style=_MARKED, prefix=prefix, additional=False, order=order, ground=ground,
        checks=checks,
    )  # fmt: skip
    writer = _Writer(notation, schema, rules)
    root = writer.node(node, outer=True)
    written: dict[str, Node] = {}
    while writer.wanted:
        name = writer.wanted.pop()
        written[writer.named(name)] = writer.node(rules[name], outer=False)
    return root, written


class _Writer:
    """Replaces the tokens of JSON in a tree by those of a notation."""

    def __init__(
        self, notation: Notation, schema: Mapping[str, Any], rules: Mapping[str, Node]
    ) -> None:
        self._notation = notation
        self._schema = schema
        self._rules = rules
        self._known: dict[tuple[Node, bool], Node] = {}
        self._named: set[str] = set()
        #: Rules that are referred to and not written yet.
        self.wanted: list[str] = []

    def named(self, rule: str) -> str:
        """Return the name of a rule in this notation."""
        return f"{rule} in {self._notation.name}"

    def node(self, node: Node, *, outer: bool) -> Node:
        """Write a value, or (``outer``) the arguments as a whole."""
        key = (node, outer)
        if key not in self._known:
            self._known[key] = self._written(node, outer)
        return self._known[key]

    def _written(self, node: Node, outer: bool) -> Node:
        match node:
            case Sequence():
                return self._sequence(node.parts, outer)
            case Choice():
                return alt(*(self.node(option, outer=outer) for option in node.options))
            case Repeat():
                body = self.node(node.body, outer=outer)
                return repeat(body, node.at_least, node.at_most)
            case Ref() if outer:
                return self.node(self._rules[node.name], outer=True)
            case Ref():
                if node.name not in self._named:
                    self._named.add(node.name)
                    self.wanted.append(node.name)
                return Ref(self.named(node.name))
            case Control():
                return self._mark(node, outer)
            case Unordered():
                return self._unordered(node, outer)
            case _ if isinstance(node, _LEAVES):
                return node if _is_punctuation(node) else self._scalar(node)
        raise AssertionError(f"no token of JSON: {node!r}")

    def _mark(self, node: Control, outer: bool) -> Node:
        notation = self._notation
        if node is _COMMA:
            return lit(notation.outer.between if outer and notation.outer else notation.comma)
        return lit(notation.colon) if node is _COLON else lit("")

    def _sequence(self, parts: tuple[Node, ...], outer: bool) -> Node:
        """Write parts in order; what stands between brackets of a value is not outer any more."""
        found: list[Node] = []
        depth, at, marks = 0, 0, self._notation.outer
        while at < len(parts):
            part, is_key = parts[at], parts[at + 1 : at + 2] == (_COLON,)
            is_outer = outer and depth == 0
            at += 1
            if is_outer and marks is not None and _is_brace(part, "{}"):
                found.append(lit(marks.begin if _is_brace(part, "{") else marks.end))
            elif is_outer and is_key:
                end = _end_of_value(parts, at + 1)
                found.append(self._member(part, seq(*parts[at + 1 : end])))
                at = end
            elif is_key:
                found.append(self._key(part, bare=self._notation.bare))
            else:
                depth += _is_brace(part, "{[") - _is_brace(part, "}]")
                found.append(self.node(part, outer=is_outer))
        return seq(*found)

    # -- members in any order -----------------------------------------------------------------

    def _unordered(self, node: Unordered, outer: bool) -> Node:
        """Write members in any order; their keys in one way each, so that they stay words."""
        members = node.members
        written = sorted(
            (self._begin(json.loads(key), outer), self._value(key, value, outer),
             members.needed >> index & 1)
            for index, (key, value) in enumerate(zip(members.keys, members.values, strict=True))
        )  # fmt: skip
        comma = self._mark(_COMMA, outer)
        extra, last = (self.node(one, outer=outer) for one in (members.extra, members.last))
        keys, values = tuple(key for key, *_ in written), tuple(value for _, value, _ in written)
        needed = sum(must << index for index, (*_, must) in enumerate(written))
        return Unordered(
            Members(keys, values, needed, comma, extra, last),
            node.left, node.fewest, node.most, node.begun, node.owed,
        )  # fmt: skip

    def _begin(self, key: str, outer: bool) -> bytes:
        """Return a key with what stands before and behind it."""
        notation, marks = self._notation, self._notation.outer if outer else None
        before, behind = (marks.before_key, marks.after_key) if marks else ("", notation.colon)
        is_raw = notation.raw and outer
        if is_raw and not holds(key, behind):
            return f"{before}{key}{behind}".encode()
        if (notation.bare or outer) and not is_raw and is_bare(key):
            return f"{before}{key}{behind}".encode()
        if is_raw or notation.fence:
            raise UnsupportedSchema(
                f"this format cannot write the key {key!r} in any order", pointer=""
            )
        return f"{before}{dumps(key)}{behind}".encode()

    def _value(self, key: bytes, value: Node, outer: bool) -> Node:
        """Write what follows a key: the colon, which is written already, and the value."""
        assert isinstance(value, Sequence)
        inner, marks = seq(*value.parts[1:]), self._notation.outer if outer else None
        if marks is None:
            return self.node(inner, outer=False)
        if not self._notation.raw:
            return seq(self.node(inner, outer=False), lit(marks.after_value))
        allowed = kinds_of(json.loads(key), self._schema)
        return seq(self._raw(inner, allowed, marks.after_value), lit(marks.after_value))

    # -- members of the arguments ---------------------------------------------------------------

    def _member(self, key: Node, value: Node) -> Node:
        notation, marks = self._notation, self._notation.outer
        assert marks is not None
        if not notation.raw:
            written = self.node(value, outer=False)
            spelled = self._key(key, bare=True)
            return seq(lit(marks.before_key), spelled, lit(marks.after_key), written,
                       lit(marks.after_value))  # fmt: skip
        known = json.loads(key.data) if isinstance(key, Literal) else None
        allowed = kinds_of(known, self._schema) if known is not None else _BOTH
        written = self._raw(value, allowed, marks.after_value)
        spelled = _without(respelled(key, ""), marks.after_key)
        return seq(lit(marks.before_key), spelled, lit(marks.after_key), written,
                   lit(marks.after_value))  # fmt: skip

    def _raw(self, value: Node, allowed: frozenset[str], stop: str) -> Node:
        """Write a value that ends with ``stop``: strings as they are, the rest as JSON."""
        if "text" not in allowed:
            return self.node(value, outer=False)
        texts, others = split(value, self._rules)
        plain = _without(respelled(texts, ""), stop) if texts is not NOTHING else NOTHING
        if "other" not in allowed:
            return plain
        if plain is NOTHING:
            return self.node(others, outer=False)
        return alt(Except(plain, _JSON_LIKE), texts, self.node(others, outer=False))

    # -- keys, strings and words ----------------------------------------------------------------

    def _key(self, key: Node, *, bare: bool) -> Node:
        if not bare:
            return self._string(key)
        if isinstance(key, Literal):
            text = json.loads(key.data)
            return lit(text) if is_bare(text) else self._string(key)
        free = Both(respelled(key, ""), _BARE)
        quoted = Except(key, lexeme(seq(lit('"'), _BARE, lit('"'))))
        return alt(free, self._string(quoted))

    def _string(self, node: Node) -> Node:
        notation = self._notation
        if notation.fence:
            fence = Control(notation.fence)
            return seq(fence, respelled(node, ""), fence)
        quoted = [
            node if quote == '"' else seq(lit(quote), respelled(node, quote), lit(quote))
            for quote in notation.quotes
        ]
        return alt(*quoted)

    def _scalar(self, node: Node) -> Node:
        texts, others = split(node, self._rules)
        return alt(self._string(texts) if texts is not NOTHING else NOTHING, self._words(others))

    def _words(self, node: Node) -> Node:
        """Write words and numbers."""
        spelled = dict(zip((b"true", b"false", b"null"), self._notation.words, strict=True))
        if isinstance(node, Literal):
            return lit(spelled.get(node.data, node.data))
        if isinstance(node, Words):
            return words(spelled.get(word, word) for word in node.words)
        return node


_BOTH = frozenset(("text", "other"))


def _end_of_value(parts: tuple[Node, ...], start: int) -> int:
    """Return where the value that begins at ``start`` ends: one part, or through its bracket."""
    depth = 0
    for at in range(start, len(parts)):
        depth += _is_brace(parts[at], "{[") - _is_brace(parts[at], "}]")
        if depth == 0:
            return at + 1
    raise AssertionError("a bracket without its other")


def split(node: Node, rules: Mapping[str, Node]) -> tuple[Node, Node]:
    """Split a language of JSON values into its strings and all others."""
    match node:
        case Choice():
            pairs = [split(option, rules) for option in node.options]
            return alt(*(text for text, _ in pairs)), alt(*(other for _, other in pairs))
        case Ref():
            texts, _ = split(rules[node.name], rules)
            return (NOTHING, node) if texts is NOTHING else split(rules[node.name], rules)
        case Literal():
            return (node, NOTHING) if node.data[:1] == b'"' else (NOTHING, node)
        case Words():
            quoted = [word for word in node.words if word[:1] == b'"']
            return words(quoted), words(word for word in node.words if word[:1] != b'"')
        case Lexeme() | Both() | Except() | Substrings() | Table() | Names():
            machine = machine_of(node)
            is_text = any(mask >> 0x22 & 1 for mask, _ in machine.edges(machine.start))
            return (node, NOTHING) if is_text else (NOTHING, node)
    return NOTHING, node


def _without(node: Node, stop: str) -> Node:
    """Return the texts of a language that do not end too early where ``stop`` follows them."""
    data = stop.encode()
    # A proper beginning of the stop at the end of the text may complete one with its own beginning.
    tails = [
        seq(_ANY, lit(data[:size]))
        for size in range(1, len(data))
        if (data[:size] + data).find(data) < size
    ]
    return Except(lexeme(node), lexeme(alt(seq(_ANY, lit(data), _ANY), *tails)))


def _is_brace(node: Node, which: str) -> bool:
    return isinstance(node, Literal) and len(node.data) == 1 and node.data in which.encode()


def _is_punctuation(node: Node) -> bool:
    return _is_brace(node, "{}[]")


# -- strings in another spelling ------------------------------------------------------------------


def respelled(node: Node, quote: str) -> Node:
    """Return what stands inside the quotes of a language of JSON strings, in another spelling.

    With a ``quote``, it and backslashes and control characters are escaped; without, nothing is.
    """
    if isinstance(node, Names):  # of which no character is ever escaped
        is_bare = node.opening is _QUOTE
        opening = EMPTY if is_bare else respelled(lexeme(seq(node.opening, _QUOTE)), quote)
        return Names(opening, node.other, False, node.wide, node.mail)
    if isinstance(node, Both):  # each spelling means one text, so what both say can be said of it
        return Both(respelled(node.left, quote), respelled(node.right, quote))
    body = node.body if isinstance(node, Lexeme) else None
    parts = body.parts if isinstance(body, Sequence) else ()
    if len(parts) == 3 and parts[0] is parts[2] is _QUOTE:
        texts = parts[1].options if isinstance(parts[1], Choice) else parts[1:2]
        if all(isinstance(text, Substrings) for text in texts):
            return lexeme(alt(*(_respelled_text(text, quote) for text in texts)))  # type: ignore[arg-type]
    return _respelled_machine(node, quote)


def _escapes_in(quote: str) -> Mapping[int, bytes]:
    return {} if not quote else {**_ESCAPES, ord(quote): b"\\" + quote.encode()}


def _respelled_text(node: Substrings, quote: str) -> Node:
    """Spell a text's characters anew: no need to walk through all its parts."""
    escapes = _escapes_in(quote)
    chars = [json.loads(b'"' + unit + b'"') for unit in node.units]
    units = tuple(escapes.get(ord(char), char.encode()) for char in chars)
    return Substrings(units, node.starts, node.ends)


@lru_cache(maxsize=512)
def _respelled_machine(node: Node, quote: str) -> Node:
    escapes = _escapes_in(quote)
    machine = machine_of(lexeme(node))
    opened = machine.step(machine.start, 0x22)
    if opened == DEAD:
        return NOTHING
    rows, accepting = _rows(machine, opened, escapes)
    return _table(rows, accepting)


def _rows(
    machine: Automaton, opened: int, escapes: Mapping[int, bytes]
) -> tuple[list[dict[int, int]], set[int]]:
    """Follow every character through the machine; rows are (byte -> row)."""
    numbers: dict[int, int] = {opened: 0}
    waiting = [opened]
    rows: list[dict[int, int]] = [{}]
    accepting: set[int] = set()

    def number(state: int) -> int:
        if state not in numbers:
            numbers[state] = len(rows)
            rows.append({})
            waiting.append(state)
        return numbers[state]

    while waiting:
        state = waiting.pop()
        row = numbers[state]
        closed = machine.step(state, 0x22)
        if closed != DEAD and machine.is_accepting(closed):
            accepting.add(row)
        if len(rows) > MOST_STATES:
            raise UnsupportedSchema("the limits of this string are too large", pointer="")
        for mask, target in machine.edges(state):
            for byte in range(0x20, 0x100):
                if not mask >> byte & 1 or byte in (0x22, 0x5C):
                    continue
                _spell(rows, row, escapes.get(byte, bytes([byte])), number(target))
        for code in (*range(0x20), 0x22, 0x5C):
            target = machine.walk(state, json_spelling(code).encode())
            if target != DEAD:
                _spell(rows, row, escapes.get(code, bytes([code])), number(target))
    return rows, accepting


def _spell(rows: list[dict[int, int]], row: int, data: bytes, target: int) -> None:
    """Lead from ``row`` by ``data`` to ``target``."""
    for byte in data[:-1]:
        if byte not in rows[row]:
            rows[row][byte] = len(rows)
            rows.append({})
        row = rows[row][byte]
    rows[row][data[-1]] = target


def _table(rows: list[dict[int, int]], accepting: set[int]) -> Node:
    """Return the table without the rows that lead nowhere."""
    before: list[list[int]] = [[] for _ in rows]
    for index, row in enumerate(rows):
        for target in row.values():
            before[target].append(index)
    live, waiting = set(accepting), list(accepting)
    while waiting:
        for index in before[waiting.pop()]:
            if index not in live:
                live.add(index)
                waiting.append(index)
    if 0 not in live:
        return NOTHING
    numbers = {old: new for new, old in enumerate(sorted(live))}
    found: list[tuple[tuple[int, int], ...]] = []
    for old in numbers:
        masks: dict[int, int] = {}
        for byte, target in rows[old].items():
            if target in live:
                masks[numbers[target]] = masks.get(numbers[target], 0) | 1 << byte
        found.append(tuple((mask, target) for target, mask in masks.items()))
    return Table(tuple(found), frozenset(numbers[row] for row in accepting))
