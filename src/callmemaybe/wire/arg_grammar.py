"""The grammar of arguments in a syntax that is not JSON.

The schema first becomes a JSON grammar in a style with a mark of its own for every comma and colon, so
that each token of the JSON text is a node of its own; then each node is replaced. The languages of
strings (lengths, patterns, formats) are automata over JSON's escapes; ``respell_strings`` makes
automata over other escapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar.automata.tree import machine_of
from callmemaybe.grammar.automaton import DEAD, Automaton
from callmemaybe.grammar.characters import json_escaped
from callmemaybe.grammar.json_schema import GroundingSource, json_schema_node
from callmemaybe.grammar.json_schema.document import DeferredCheck
from callmemaybe.grammar.json_schema.values import JsonStyle
from callmemaybe.grammar.nodes import (
    NOTHING,
    Alternation,
    Bytes,
    Concat,
    Control,
    DfaTable,
    Difference,
    Intersection,
    Lexeme,
    Literal,
    Node,
    Ref,
    Repeat,
    Substrings,
    WordTrie,
    alt,
    byte_range,
    byte_set,
    bytes_of,
    lexeme,
    lit,
    many,
    repeat,
    seq,
    words,
)
from callmemaybe.grammar.unordered import Members, Unordered
from callmemaybe.jsonio import dumps
from callmemaybe.wire.arg_syntax import (
    BARE_BYTES,
    ArgSyntax,
    TopLevelMarks,
    argument_kinds,
    ends_early,
    is_bare,
    sort_properties,
)

_COMMA, COLON, _PAD = (Control(f"\0{mark}") for mark in ("comma", "colon", "pad"))
MARKED = JsonStyle("marked", _COMMA, COLON, _PAD)
#: States of one automaton over strings; a length limit of tens of thousands needs so many.
MAX_STATES = 400_000

_QUOTE = lit('"')
_ANY = many(byte_range(0x00, 0xFF))
_BARE = lexeme(seq(byte_set(BARE_BYTES - frozenset(b"-./0123456789")), many(byte_set(BARE_BYTES))))
JSON_LIKE = lexeme(
    alt(seq(byte_set(b'"[{-0123456789'), _ANY), lit("true"), lit("false"), lit("null"))
)
#: What a character is written as inside quotes: as in JSON, but for the quote itself.
_ESCAPES = {code: json_escaped(code).encode() for code in range(0x20)} | {0x5C: b"\\\\"}
#: The first byte of a JSON value that is no string -> its type.
_TYPES = {
    **dict.fromkeys(b"-0123456789", "number"), **dict.fromkeys(b"tf", "boolean"),
    ord("n"): "null", ord("{"): "object", ord("["): "array",
}  # fmt: skip
_TERMINALS = (Literal, WordTrie, Lexeme, Intersection, Difference, Substrings, DfaTable, Bytes)


def arguments_grammar(
    schema: Mapping[str, Any],
    syntax: ArgSyntax,
    prefix: str,
    *,
    order: str = "schema",
    ground: GroundingSource | None = None,
    checks: list[DeferredCheck] | None = None,
) -> tuple[Node, dict[str, Node]]:
    """Return the grammar of the arguments that a schema allows, in a syntax, and its rules.

    ``order``, ``ground`` and ``checks`` are those of ``json_schema``. Raises UnsupportedSchema for
    what cannot be promised.
    """
    if syntax.is_sorted:
        schema = sort_properties(schema)
    node, rules = json_schema_node(
        schema, style=MARKED, prefix=prefix, additional=False, order=order, ground=ground,
        checks=checks,
    )  # fmt: skip
    builder = _ArgGrammarBuilder(syntax, schema, rules)
    root = builder.node(node, top=True)
    written: dict[str, Node] = {}
    while builder.pending:
        name = builder.pending.pop()
        written[builder.rule_name(name)] = builder.node(rules[name], top=False)
    return root, written


class _ArgGrammarBuilder:
    """Replaces the tokens of JSON in a grammar by those of another syntax."""

    def __init__(
        self, syntax: ArgSyntax, schema: Mapping[str, Any], rules: Mapping[str, Node]
    ) -> None:
        self._syntax = syntax
        self._schema = schema
        self._rules = rules
        self._built: dict[tuple[Node, bool], Node] = {}
        self._named_rules: set[str] = set()
        #: Whether the mark in front of a key stands elsewhere.
        self._is_marked = False
        #: Rules that are referred to and not built yet.
        self.pending: list[str] = []

    def rule_name(self, rule: str) -> str:
        """Return the name that a rule of the JSON grammar gets in this syntax."""
        return f"{rule} in {self._syntax.name}"

    def node(self, node: Node, *, top: bool) -> Node:
        """Return the grammar of a value, or (``top``) of the arguments as a whole."""
        key = (node, top)
        if key not in self._built:
            self._built[key] = self._build(node, top)
        return self._built[key]

    def _build(self, node: Node, top: bool) -> Node:
        match node:
            case Concat():
                return self._sequence(node.parts, top)
            case Alternation():
                return alt(*(self.node(option, top=top) for option in node.options))
            case Repeat():
                body = self.node(node.body, top=top)
                return repeat(body, node.at_least, node.at_most)
            case Ref() if top:
                return self.node(self._rules[node.name], top=True)
            case Ref():
                if node.name not in self._named_rules:
                    self._named_rules.add(node.name)
                    self.pending.append(node.name)
                return Ref(self.rule_name(node.name))
            case Control():
                return self._mark(node, top)
            case Unordered():
                return self._unordered(node, top)
            case _ if isinstance(node, _TERMINALS):
                return node if _is_punctuation(node) else self._scalar(node)
        raise AssertionError(f"not a token of JSON: {node!r}")

    def _mark(self, node: Control, top: bool) -> Node:
        syntax = self._syntax
        if node is _COMMA:
            return lit(syntax.top.between if top and syntax.top else syntax.comma)
        return lit(syntax.colon) if node is COLON else lit("")

    def _sequence(self, parts: tuple[Node, ...], top: bool) -> Node:
        """Build parts in order; what stands between the brackets of a value is not top level."""
        found: list[Node] = []
        depth, at, marks = 0, 0, self._syntax.top
        while at < len(parts):
            part, is_key = parts[at], parts[at + 1 : at + 2] == (COLON,)
            is_top = top and depth == 0
            at += 1
            if is_top and marks is not None and is_brace(part, "{}"):
                found.append(self._marks(marks.begin if is_brace(part, "{") else marks.end))
            elif is_top and is_key:
                end = end_of_value(parts, at + 1)
                found.append(self._member(part, seq(*parts[at + 1 : end])))
                at = end
            elif is_key:
                found.append(self._key(part, bare=self._syntax.bare))
            else:
                depth += is_brace(part, "{[") - is_brace(part, "}]")
                found.append(self.node(part, top=is_top))
        return seq(*found)

    # -- members in any order -----------------------------------------------------------------

    def _unordered(self, node: Unordered, top: bool) -> Node:
        """Build members in any order; each key is spelled in one way, so that the keys stay words."""
        marks = self._syntax.top
        if top and marks and (self._syntax.tokens or marks.after_json_key is not None):
            return self._marked_members(node, marks)
        members = node.members
        written = sorted(
            (self._key_prefix(json.loads(key), top), self._value(key, value, top),
             members.required >> index & 1)
            for index, (key, value) in enumerate(zip(members.keys, members.values, strict=True))
        )  # fmt: skip
        comma = self._mark(_COMMA, top)
        extra, last = (self.node(one, top=top) for one in (members.extra, members.last))
        keys, values = tuple(key for key, *_ in written), tuple(value for _, value, _ in written)
        needed = sum(must << index for index, (*_, must) in enumerate(written))
        return Unordered(
            Members(keys, values, needed, comma, extra, last),
            node.unwritten, node.at_least, node.at_most, node.has_members, node.last_is_due,
        )  # fmt: skip

    def _marked_members(self, node: Unordered, marks: TopLevelMarks) -> Node:
        """Build the members of the arguments where their marks hold control tokens.

        No key can be a word that begins with a token, so the mark in front of a key stands in front of
        the first member, and between two as a comma does.
        """
        members, before = node.members, self._marks(marks.before_key)
        end = marks.key_end
        lead = re.split("|".join(map(re.escape, self._syntax.tokens)) or "$", end)[0]
        written: list[tuple[bytes, Node, int]] = []
        for index, (quoted, value) in enumerate(zip(members.keys, members.values, strict=True)):
            key = json.loads(quoted)
            if ends_early(key, self._syntax.text_stop(end)):
                raise UnsupportedSchema(
                    f"this format cannot write the key {key!r} in any order", pointer=""
                )
            assert isinstance(value, Concat)
            kinds = argument_kinds(key, self._schema)
            rest = self._behind_key(marks, seq(*value.parts[1:]), kinds, skip=len(lead))
            tail = seq(rest, self._marks(marks.after_value))
            written.append((f"{key}{lead}".encode(), tail, members.required >> index & 1))
        written.sort(key=lambda one: one[0])
        self._is_marked = True
        extra, last = (self.node(one, top=True) for one in (members.extra, members.last))
        self._is_marked = False
        keys, values = tuple(one[0] for one in written), tuple(one[1] for one in written)
        needed = sum(must << index for index, (*_, must) in enumerate(written))
        some = Unordered(
            Members(keys, values, needed, before, extra, last),
            node.unwritten, max(node.at_least, 1), node.at_most, node.has_members, node.last_is_due,
        )  # fmt: skip
        may_be_empty = node.at_least <= 0 and not node.required_count
        return alt(seq(before, some), lit("") if may_be_empty else NOTHING)

    def _key_prefix(self, key: str, top: bool) -> bytes:
        """Return a key with the marks before and behind it."""
        syntax, marks = self._syntax, self._syntax.top if top else None
        before, behind = (marks.before_key, marks.after_key) if marks else ("", syntax.colon)
        is_raw = syntax.raw and top
        if is_raw and not ends_early(key, behind):
            return f"{before}{key}{behind}".encode()
        if (syntax.bare or top) and not is_raw and is_bare(key):
            return f"{before}{key}{behind}".encode()
        if is_raw or syntax.fence:
            raise UnsupportedSchema(
                f"this format cannot write the key {key!r} in any order", pointer=""
            )
        return f"{before}{dumps(key)}{behind}".encode()

    def _value(self, key: bytes, value: Node, top: bool) -> Node:
        """Build the value behind a key; the key's prefix has the colon already."""
        assert isinstance(value, Concat)
        inner, marks = seq(*value.parts[1:]), self._syntax.top if top else None
        if marks is None:
            return self.node(inner, top=False)
        if not self._syntax.raw:
            return seq(self.node(inner, top=False), lit(marks.after_value))
        kinds = argument_kinds(json.loads(key), self._schema)
        return seq(self._raw(inner, kinds), self._marks(marks.after_value))

    # -- members of the arguments ---------------------------------------------------------------

    def _member(self, key: Node, value: Node) -> Node:
        syntax, marks = self._syntax, self._syntax.top
        assert marks is not None
        if not syntax.raw:
            value_node = self.node(value, top=False)
            key_node = self._key(key, bare=True)
            return seq(lit(marks.before_key), key_node, lit(marks.after_key), value_node,
                       lit(marks.after_value))  # fmt: skip
        known = json.loads(key.data) if isinstance(key, Literal) else None
        kinds = argument_kinds(known, self._schema) if known is not None else _BOTH
        key_node = without_stop(respell_strings(key, ""), syntax.text_stop(marks.key_end))
        before = "" if self._is_marked else marks.before_key
        return seq(self._marks(before), key_node, self._behind_key(marks, value, kinds),
                   self._marks(marks.after_value))  # fmt: skip

    def _marks(self, mark: str) -> Node:
        return seq(*(lit(one) if isinstance(one, str) else one for one in self._syntax.split(mark)))

    def _behind_key(
        self, marks: TopLevelMarks, value: Node, kinds: frozenset[str], skip: int = 0
    ) -> Node:
        """Build the mark behind a key (from ``skip`` on) and the value; it may say what kind that is."""
        if marks.after_json_key is None:
            return seq(self._marks(marks.after_key[skip:]), self._raw(value, kinds))
        ways: list[Node] = []
        texts, others = split_strings(value, self._rules)
        if "text" in kinds and texts is not NOTHING:
            text = self._raw(texts, frozenset(("text",)))
            ways.append(seq(self._marks(marks.after_key[skip:]), text))
        if "other" in kinds and others is not NOTHING:
            typed = split_types(others, self._rules) if marks.is_typed else {"": others}
            for kind, values in typed.items():
                mark = self._marks(marks.json_mark(kind)[skip:])
                ways.append(seq(mark, self.node(values, top=False)))
        return alt(*ways)

    def _raw(self, value: Node, kinds: frozenset[str]) -> Node:
        """Build a raw value, up to the mark behind it: strings as they are, all else as JSON."""
        assert self._syntax.top is not None
        stop = self._syntax.text_stop(self._syntax.top.after_value)
        if "text" not in kinds:
            return self.node(value, top=False)
        texts, others = split_strings(value, self._rules)
        plain = without_stop(respell_strings(texts, ""), stop) if texts is not NOTHING else NOTHING
        if "other" not in kinds:
            return plain
        if plain is NOTHING:
            return self.node(others, top=False)
        return alt(Difference(plain, JSON_LIKE), texts, self.node(others, top=False))

    # -- keys, strings and words ----------------------------------------------------------------

    def _key(self, key: Node, *, bare: bool) -> Node:
        if not bare:
            return self._string(key)
        if isinstance(key, Literal):
            text = json.loads(key.data)
            return lit(text) if is_bare(text) else self._string(key)
        free = Intersection(respell_strings(key, ""), _BARE)
        quoted = Difference(key, lexeme(seq(lit('"'), _BARE, lit('"'))))
        return alt(free, self._string(quoted))

    def _string(self, node: Node) -> Node:
        syntax = self._syntax
        if syntax.fence:
            fence = Control(syntax.fence)
            return seq(fence, respell_strings(node, ""), fence)
        quoted = [
            node if quote == '"' else seq(lit(quote), respell_strings(node, quote), lit(quote))
            for quote in syntax.quotes
        ]
        return alt(*quoted)

    def _scalar(self, node: Node) -> Node:
        texts, others = split_strings(node, self._rules)
        return alt(self._string(texts) if texts is not NOTHING else NOTHING, self._words(others))

    def _words(self, node: Node) -> Node:
        """Build words and numbers."""
        written = dict(zip((b"true", b"false", b"null"), self._syntax.words, strict=True))
        if isinstance(node, Literal):
            return lit(written.get(node.data, node.data))
        if isinstance(node, WordTrie):
            return words(written.get(word, word) for word in node.words)
        return node


_BOTH = frozenset(("text", "other"))


def end_of_value(parts: tuple[Node, ...], start: int) -> int:
    """Return where the value that begins at ``start`` ends: one part, or through its bracket."""
    depth = 0
    for at in range(start, len(parts)):
        depth += is_brace(parts[at], "{[") - is_brace(parts[at], "}]")
        if depth == 0:
            return at + 1
    raise AssertionError("a bracket without its other")


def split_strings(node: Node, rules: Mapping[str, Node]) -> tuple[Node, Node]:
    """Split a language of JSON values into its strings and all others."""
    match node:
        case Alternation():
            pairs = [split_strings(option, rules) for option in node.options]
            return alt(*(text for text, _ in pairs)), alt(*(other for _, other in pairs))
        case Ref():
            texts, _ = split_strings(rules[node.name], rules)
            return (NOTHING, node) if texts is NOTHING else split_strings(rules[node.name], rules)
        case Literal():
            return (node, NOTHING) if node.data[:1] == b'"' else (NOTHING, node)
        case WordTrie():
            quoted = [word for word in node.words if word[:1] == b'"']
            return words(quoted), words(word for word in node.words if word[:1] != b'"')
        case Lexeme() | Intersection() | Difference() | Substrings() | DfaTable():
            machine = machine_of(node)
            is_text = any(mask >> 0x22 & 1 for mask, _ in machine.edges(machine.start))
            return (node, NOTHING) if is_text else (NOTHING, node)
    return NOTHING, node


def split_types(node: Node, rules: Mapping[str, Node]) -> dict[str, Node]:
    """Split a language of JSON values without strings by the types of its values."""
    match node:
        case Alternation():
            found: dict[str, Node] = {}
            for option in node.options:
                for kind, values in split_types(option, rules).items():
                    found[kind] = alt(found.get(kind, NOTHING), values)
            return found
        case Ref():
            found = split_types(rules[node.name], rules)
            return found if len(found) != 1 else dict.fromkeys(found, node)
        case Concat():
            # A bracket, or a value that is alone but for the marks around it.
            at = next(at for at, one in enumerate(node.parts) if not isinstance(one, Control))
            firsts = split_types(node.parts[at], rules)
            if len(firsts) == 1:
                return dict.fromkeys(firsts, node)
            before, behind = node.parts[:at], node.parts[at + 1 :]
            return {kind: seq(*before, one, *behind) for kind, one in firsts.items()}
        case WordTrie():
            by_type: dict[str, list[bytes]] = {}
            for word in node.words:
                by_type.setdefault(_TYPES[word[0]], []).append(word)
            return {kind: words(those) for kind, those in by_type.items()}
        case Literal():
            return {_TYPES[node.data[0]]: node}
    machine = machine_of(node)
    firsts_of: dict[str, set[int]] = {}
    for mask, _ in machine.edges(machine.start):
        for byte in bytes_of(mask):
            firsts_of.setdefault(_TYPES[byte], set()).add(byte)
    if len(firsts_of) == 1:
        return dict.fromkeys(firsts_of, node)
    return {
        kind: Intersection(node, lexeme(seq(byte_set(frozenset(those)), _ANY)))
        for kind, those in firsts_of.items()
    }


def without_stop(node: Node, stop: str) -> Node:
    """Return the texts of a language that are not read as ending early if ``stop`` follows them."""
    if not stop:
        return lexeme(node)
    data = stop.encode()
    # A prefix of the stop at the end of the text may form a whole one with the stop behind it.
    tails = [
        seq(_ANY, lit(data[:size]))
        for size in range(1, len(data))
        if (data[:size] + data).find(data) < size
    ]
    return Difference(lexeme(node), lexeme(alt(seq(_ANY, lit(data), _ANY), *tails)))


def is_brace(node: Node, which: str) -> bool:
    """Whether a node is one of these characters, alone."""
    return isinstance(node, Literal) and len(node.data) == 1 and node.data in which.encode()


def _is_punctuation(node: Node) -> bool:
    return is_brace(node, "{}[]")


# -- strings with other escapes -------------------------------------------------------------------


def respell_strings(node: Node, quote: str) -> Node:
    """Return the inside of the quotes of a language of JSON strings, with other escapes.

    With a ``quote``, it and backslashes and control characters are escaped; without, nothing is.
    """
    if isinstance(node, Intersection):  # escapes are one to one, so an intersection stays one
        return Intersection(respell_strings(node.left, quote), respell_strings(node.right, quote))
    body = node.body if isinstance(node, Lexeme) else None
    parts = body.parts if isinstance(body, Concat) else ()
    if len(parts) == 3 and parts[0] is parts[2] is _QUOTE:
        texts = parts[1].options if isinstance(parts[1], Alternation) else parts[1:2]
        if all(isinstance(text, Substrings) for text in texts):
            return lexeme(alt(*(_respell_substrings(text, quote) for text in texts)))  # type: ignore[arg-type]
    return _respell_automaton(node, quote)


def _escapes_in(quote: str) -> Mapping[int, bytes]:
    return {} if not quote else {**_ESCAPES, ord(quote): b"\\" + quote.encode()}


def _respell_substrings(node: Substrings, quote: str) -> Node:
    """Replace the escapes of each character: no need to walk through all substrings."""
    escapes = _escapes_in(quote)
    chars = [json.loads(b'"' + unit + b'"') for unit in node.units]
    units = tuple(escapes.get(ord(char), char.encode()) for char in chars)
    return Substrings(units, node.starts, node.ends)


@lru_cache(maxsize=512)
def _respell_automaton(node: Node, quote: str) -> Node:
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
    """Follow every character through the automaton; rows are (byte -> row)."""
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
        if len(rows) > MAX_STATES:
            raise UnsupportedSchema("the limits of this string are too large", pointer="")
        for mask, target in machine.edges(state):
            for byte in range(0x20, 0x100):
                if not mask >> byte & 1 or byte in (0x22, 0x5C):
                    continue
                _spell(rows, row, escapes.get(byte, bytes([byte])), number(target))
        for code in (*range(0x20), 0x22, 0x5C):
            target = machine.walk(state, json_escaped(code).encode())
            if target != DEAD:
                _spell(rows, row, escapes.get(code, bytes([code])), number(target))
    return rows, accepting


def _spell(rows: list[dict[int, int]], row: int, data: bytes, target: int) -> None:
    """Add a path from ``row`` by ``data`` to ``target``."""
    for byte in data[:-1]:
        if byte not in rows[row]:
            rows[row][byte] = len(rows)
            rows.append({})
        row = rows[row][byte]
    rows[row][data[-1]] = target


def _table(rows: list[dict[int, int]], accepting: set[int]) -> Node:
    """Return the table without the rows from which no accepting one is reachable."""
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
    return DfaTable(tuple(found), frozenset(numbers[row] for row in accepting))
