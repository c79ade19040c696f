"""The grammar of arguments as elements inside of elements.

As in ``arg_grammar``, the schema first becomes a JSON grammar with marks for commas and colons; here its brackets
become tags, too. What a text is depends on what else the schema allows at its place, so each rule of that grammar is
built for each place where it is used. The closing tag of a member that no property names has any name that its
opening tag could have: a grammar cannot repeat what was written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar.json_schema import GroundingSource, json_schema_node
from callmemaybe.grammar.json_schema.document import DeferredCheck
from callmemaybe.grammar.nodes import (
    EMPTY,
    NOTHING,
    Alternation,
    Concat,
    Control,
    Difference,
    Intersection,
    Literal,
    Node,
    Ref,
    Repeat,
    WordTrie,
    alt,
    byte_set,
    lexeme,
    lit,
    many,
    repeat,
    seq,
    words,
)
from callmemaybe.grammar.unordered import Members, Unordered
from callmemaybe.wire.arg_grammar import (
    COLON,
    JSON_LIKE,
    MARKED,
    end_of_value,
    is_brace,
    respell_strings,
    split_strings,
    without_stop,
)
from callmemaybe.wire.arg_syntax import ArgSyntax
from callmemaybe.wire.element_args import (
    Place,
    ValuePlaces,
    can_be_tag,
    empty_kind,
    lead_of,
    may_be_either,
)

_NOT_CLOSE = frozenset(range(0x100)) - {ord(">")}
#: Names of elements.
_TAG = lexeme(seq(byte_set(_NOT_CLOSE - {ord("/")}), many(byte_set(_NOT_CLOSE))))
_BRACES = {"{": ("object", "members"), "[": ("array", "items")}


def elements_grammar(
    schema: Mapping[str, Any],
    syntax: ArgSyntax,
    prefix: str,
    *,
    order: str = "schema",
    ground: GroundingSource | None = None,
    checks: list[DeferredCheck] | None = None,
) -> tuple[Node, dict[str, Node]]:
    """Return the grammar of the arguments that a schema allows, as elements, and its rules.

    The parameters and errors are those of ``arguments_grammar``.
    """
    node, rules = json_schema_node(
        schema, style=MARKED, prefix=prefix, additional=False, order=order, ground=ground,
        checks=checks,
    )  # fmt: skip
    builder = _ElementGrammarBuilder(syntax, ValuePlaces(schema), rules)
    root = builder.arguments(node)
    written: dict[str, Node] = {}
    while builder.pending:
        name, (rule, way, place) = builder.pending.popitem()
        written[name] = builder.build(rules[rule], way, place)
    return root, written


class _ElementGrammarBuilder:
    """Replaces the tokens of JSON in a grammar by tags and texts.

    A node is built in one of three ways: as "content" of an element, as "members" of an object, or as "items".
    """

    def __init__(self, syntax: ArgSyntax, places: ValuePlaces, rules: Mapping[str, Node]) -> None:
        assert syntax.top is not None
        self._syntax = syntax
        self._places = places
        self._rules = rules
        lead = lead_of(syntax)
        self._lead = seq(*(lit(one) if isinstance(one, str) else one for one in syntax.split(lead)))
        self._stop = syntax.text_stop(lead)
        self._end = seq(self._lead, lit(syntax.top.end.removeprefix(lead)))
        self._built: dict[tuple[Node, str, Place], Node] = {}
        self._names: dict[tuple[str, str, Place], str] = {}
        #: Rules that are referred to and not built yet.
        self.pending: dict[str, tuple[str, str, Place]] = {}

    def arguments(self, node: Node) -> Node:
        """Return the grammar of the arguments as a whole."""
        if isinstance(node, Ref):
            return self.arguments(self._rules[node.name])
        if isinstance(node, Alternation):
            return alt(*map(self.arguments, node.options))
        assert isinstance(node, Concat)
        inner = seq(*(part for part in node.parts if not is_brace(part, "{}")))
        return seq(self.build(inner, "members", self._places.root), self._end)

    def build(self, node: Node, way: str, place: Place) -> Node:
        """Return the grammar of a node of JSON at a place, built in one of the ways."""
        key = (node, way, place)
        if key not in self._built:
            self._built[key] = self._build(node, way, place)
        return self._built[key]

    def _build(self, node: Node, way: str, place: Place) -> Node:
        match node:
            case Alternation():
                return alt(*(self.build(option, way, place) for option in node.options))
            case Repeat():
                return repeat(self.build(node.body, way, place), node.at_least, node.at_most)
            case Ref():
                return Ref(self._rule_name(node.name, way, place))
            case Control():  # a comma, or padding
                return EMPTY
            case Unordered():
                return self._unordered(node, place)
            case Concat():
                return self._sequence(node.parts, way, place)
        if way == "items":
            return self._item(self._scalar(node, self._places.item(place)))
        return self._scalar(node, place)

    def _rule_name(self, rule: str, way: str, place: Place) -> str:
        """Return the name of a rule of the JSON grammar as it is built here; it may have to be built."""
        key = (rule, way, place)
        if key not in self._names:
            self._names[key] = f"{rule} as {way} of {sorted(place)} in {self._syntax.name}"
            self.pending[self._names[key]] = key
        return self._names[key]

    def _sequence(self, parts: tuple[Node, ...], way: str, place: Place) -> Node:
        found: list[Node] = []
        at = 0
        while at < len(parts):
            part, end = parts[at], at + 1
            if parts[end : end + 1] == (COLON,):
                end = end_of_value(parts, at + 2)
                value = seq(*parts[at + 2 : end])
                found.append(self._member(part, value, place, is_bare=way == "bare members"))
            elif is_brace(part, "{["):
                end = end_of_value(parts, at)
                if way == "items":
                    found.append(self._item(self._holder(parts[at:end], self._places.item(place))))
                else:
                    found.append(self._holder(parts[at:end], place))
            else:
                found.append(self.build(part, way, place))
            at = end
        return seq(*found)

    # -- contents -------------------------------------------------------------------------------

    def _scalar(self, node: Node, place: Place) -> Node:
        kinds = self._places.kinds(place)
        texts, others = split_strings(node, self._rules)
        if texts is NOTHING or "text" not in kinds:
            return node
        plain = without_stop(respell_strings(texts, ""), self._stop)
        if kinds == {"text"}:
            return plain
        return alt(Difference(plain, JSON_LIKE), texts, others)

    def _holder(self, parts: tuple[Node, ...], place: Place) -> Node:
        """Build a list or an object, from bracket to bracket."""
        kind, way = next(found for brace, found in _BRACES.items() if is_brace(parts[0], brace))
        inner = seq(*parts[1:-1])
        if empty_kind(self._places.kinds(place)) == kind:
            return self.build(inner, way, place)
        empty = lit("{}" if kind == "object" else "[]") if self._may_be_empty(inner) else NOTHING
        return alt(empty, self.build(self._filled(inner), way, place))

    def _may_be_empty(self, node: Node) -> bool:
        """Whether what stands between two brackets of JSON may be nothing but padding."""
        match node:
            case Control():
                return True
            case Concat():
                return all(map(self._may_be_empty, node.parts))
            case Alternation():
                return any(map(self._may_be_empty, node.options))
            case Repeat():
                return node.at_least == 0 or self._may_be_empty(node.body)
            case Ref():
                return self._may_be_empty(self._rules[node.name])
            case Unordered():
                return node.at_least <= 0 and not node.required_count
        return False

    def _filled(self, node: Node) -> Node:
        """Return what stands between two brackets of JSON without the ways in which it is empty."""
        if not self._may_be_empty(node):
            return node
        match node:
            case Concat():
                ways = enumerate(node.parts)
                return alt(*(seq(self._filled(one), *node.parts[at + 1 :]) for at, one in ways))
            case Alternation():
                return alt(*map(self._filled, node.options))
            case Repeat():
                most = None if node.at_most is None else node.at_most - 1
                return seq(self._filled(node.body), repeat(node.body, 0, most))
            case Ref():
                return self._filled(self._rules[node.name])
            case Unordered():
                return Unordered(
                    node.members, node.unwritten, 1, node.at_most, node.has_members, node.last_is_due
                )  # fmt: skip
        return NOTHING

    # -- elements -------------------------------------------------------------------------------

    def _item(self, content: Node) -> Node:
        return self._element(lit(self._syntax.item), content)

    def _element(self, name: Node, content: Node, *, is_bare: bool = False) -> Node:
        """Build an element; ``is_bare``: what stands in front of its name stands elsewhere."""
        begin = EMPTY if is_bare else seq(self._lead, lit("<"))
        return seq(begin, name, lit(">"), content, self._lead, lit("</"), name, lit(">"))

    def _member(self, key: Node, value: Node, place: Place, *, is_bare: bool) -> Node:
        if isinstance(key, Alternation):
            ways = (self._member(one, value, place, is_bare=is_bare) for one in key.options)
            return alt(*ways)
        if isinstance(key, WordTrie):
            ways = (self._member(lit(one), value, place, is_bare=is_bare) for one in key.words)
            return alt(*ways)
        if isinstance(key, Literal):
            name = self._checked(json.loads(key.data), place)
            content = self.build(value, "content", self._places.member(place, name))
            return self._element(lit(name), content, is_bare=is_bare)
        declared = self._places.declared(place)
        # What no property names is the same place whatever its name is.
        other = next(
            name for at in range(len(declared) + 1) if (name := f"other {at}") not in declared
        )
        taken = {self._syntax.item, *declared} if self._is_either(place) else declared
        free: Node = Intersection(respell_strings(key, ""), _TAG)
        if taken:
            free = Difference(free, words(name.encode() for name in sorted(taken)))
        content = self.build(value, "content", self._places.member(place, other))
        return self._element(free, content, is_bare=is_bare)

    def _is_either(self, place: Place) -> bool:
        return may_be_either(self._places.kinds(place))

    def _checked(self, name: str, place: Place) -> str:
        """Return a name that an element may have here."""
        if not can_be_tag(name):
            raise UnsupportedSchema(f"this format cannot write the key {name!r}", pointer="")
        if name == self._syntax.item and self._is_either(place):
            raise UnsupportedSchema(
                f"this format cannot write the key {name!r} where a list may stand", pointer=""
            )
        return name

    def _unordered(self, node: Unordered, place: Place) -> Node:
        """Build members in any order.

        No key can be a word that begins with a token, so the mark in front of a key stands in front of the first
        member, and between two as a comma does.
        """
        members, before = node.members, seq(self._lead, lit("<"))
        written: list[tuple[bytes, Node, int]] = []
        for index, (quoted, value) in enumerate(zip(members.keys, members.values, strict=True)):
            name = self._checked(json.loads(quoted), place)
            assert isinstance(value, Concat)
            content = self.build(seq(*value.parts[1:]), "content", self._places.member(place, name))
            tail = seq(content, self._lead, lit(f"</{name}>"))
            written.append((f"{name}>".encode(), tail, members.required >> index & 1))
        written.sort(key=lambda one: one[0])
        extra, last = (
            self.build(one, "bare members", place) for one in (members.extra, members.last)
        )
        keys, values = tuple(one[0] for one in written), tuple(one[1] for one in written)
        needed = sum(must << index for index, (*_, must) in enumerate(written))
        some = Unordered(
            Members(keys, values, needed, before, extra, last),
            node.unwritten, max(node.at_least, 1), node.at_most, node.has_members, node.last_is_due,
        )  # fmt: skip
        may_be_empty = node.at_least <= 0 and not node.required_count
        return alt(seq(before, some), EMPTY if may_be_empty else NOTHING)
