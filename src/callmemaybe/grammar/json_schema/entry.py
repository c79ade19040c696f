"""The entry points: a schema as a whole grammar, or as a node to embed in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from callmemaybe.errors import GrammarError, NoValue, UnsupportedSchema
from callmemaybe.grammar.automaton import steps_limited
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.grammar.json_schema.analysis import may_be_named
from callmemaybe.grammar.json_schema.document import (
    DeferredCheck,
    DynamicScopeNeeded,
    SchemaDocument,
    SchemaTooLarge,
)
from callmemaybe.grammar.json_schema.emit import Emitter
from callmemaybe.grammar.json_schema.fast_path import FastPath
from callmemaybe.grammar.json_schema.grounding import GroundingSource
from callmemaybe.grammar.json_schema.normalise import Normaliser
from callmemaybe.grammar.json_schema.shapes import (
    ARRAY,
    OBJECT,
    ArrayFacet,
    Conjunction,
    ObjectFacet,
)
from callmemaybe.grammar.json_schema.strings import key_matches
from callmemaybe.grammar.json_schema.values import STYLES, JsonStyle
from callmemaybe.grammar.nodes import NOTHING, Node

#: The steps (see ``automaton.WORK_BUDGET``) that one schema may take to become a node, over all automata that are
#: searched on the way. The largest of 800 schemas of MaskBench takes 73,000. Set it to allow more or less.
MAX_STEPS = 200_000
#: In which order the keys of an object may come.
ORDERS = ("schema", "any")


def json_schema(
    schema: Any,
    *,
    style: str = "spaced",
    order: str = "schema",
    additional: bool = True,
    remotes: Mapping[str, Any] | None = None,
    checks: list[DeferredCheck] | None = None,
    ground: GroundingSource | str | None = None,
) -> Grammar:
    """Return the grammar of the JSON texts (bytes, UTF-8) that a schema allows.

    ``schema`` is a JSON Schema as Python data (drafts 4 to 2020-12; without ``$schema``: 2020-12).
    ``style`` is the spacing: "spaced" as json.dumps writes, "compact" without, "flexible" with any
    bounded whitespace. ``order``: "schema" has declared keys in schema order and undeclared ones
    last, which forces the most bytes; "any" has them in any order, each declared key at most once.

    An object whose schema lists properties without `additionalProperties` may have others, as the
    specification has it; ``additional=False`` forbids them, as the arguments of a tool should.
    ``remotes`` are schemas by URI that references may point at; nothing is fetched. ``ground`` is the
    text (or a GroundingSource) for ``x-ground``.

    What no grammar can enforce (items that all differ, for example) is refused; or, if a list
    ``checks`` is given, it is deferred: left out of the grammar and added to that list. Every valid
    value is then still in the language, and a complete value must be validated against the schema.

    Raises UnsupportedSchema, with the JSON pointer, for an unsupported or malformed keyword, a
    reference to nothing or without progress, and a schema that no value meets; ValueError for an
    unknown style or order.
    """
    node, rules = json_schema_node(
        schema, style=style, order=order, additional=additional, remotes=remotes, checks=checks,
        ground=ground,
    )  # fmt: skip
    keywords = partial(
        _keywords, schema, style=style, order=order, additional=additional, remotes=remotes,
        ground=ground,
    )  # fmt: skip
    try:
        return Grammar(node, rules, keywords=keywords)
    except GrammarError as error:
        raise _translated(error) from None


def _keywords(schema: Any, **options: Any) -> Sequence[tuple[str, str, str, str]]:
    from callmemaybe.grammar.json_schema.certificate import certificate

    return certificate(schema, **options).keywords


def json_schema_node(
    schema: Any,
    *,
    style: str | JsonStyle = "spaced",
    order: str = "schema",
    prefix: str = "",
    additional: bool = True,
    remotes: Mapping[str, Any] | None = None,
    checks: list[DeferredCheck] | None = None,
    ground: GroundingSource | str | None = None,
) -> tuple[Node, dict[str, Node]]:
    """Return the node of a schema and the rules it needs, to embed in a larger grammar.

    ``prefix`` separates the names of the rules from those of other schemas (the rules of free JSON values are
    shared on purpose: same name, same rule). ``style`` may also be a `JsonStyle` of the caller. Everything else
    is as in :func:`json_schema`.
    """
    if isinstance(style, str):
        if style not in STYLES:
            raise ValueError(f"style must be one of {', '.join(STYLES)}, not {style!r}")
        style = STYLES[style]
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, not {order!r}")
    unordered = order == "any"
    source = GroundingSource(ground) if isinstance(ground, str) else ground
    is_plain = (
        source is None and not unordered and remotes is None and STYLES.get(style.name) is style
    )
    try:
        with steps_limited(MAX_STEPS, lambda: SchemaTooLarge(MAX_STEPS)):
            if is_plain:
                found = _fast_path(schema, style, prefix, additional, may_defer=checks is not None)
                if found is not None:
                    return found
            document = SchemaDocument(schema, remotes, checks=checks, ground=source)
            try:
                node, rules = _emitted(document, style, prefix, additional, unordered)
            except DynamicScopeNeeded:
                node, rules = _emitted(document.with_scopes(), style, prefix, additional, unordered)
    except RecursionError:
        raise UnsupportedSchema("the schema nests too deep", pointer="") from None
    except GrammarError as error:
        raise _translated(error) from None
    if node is NOTHING:
        raise _empty()
    return node, rules


def _fast_path(
    schema: Any, style: JsonStyle, prefix: str, additional: bool, *, may_defer: bool
) -> tuple[Node, dict[str, Node]] | None:
    """Build the node on the fast path if that covers the whole schema, else return None."""
    if type(schema) is not dict or "$schema" in schema:
        return None
    made: list[Emitter] = []

    def emitter() -> Emitter:
        if not made:
            made.append(Emitter(SchemaDocument(schema), style, prefix, additional))
        return made[0]

    fast_path = FastPath(
        style, additional, lambda leaf: emitter().general_node(leaf), lambda: emitter().any_value(),
        may_defer=may_defer,
    )  # fmt: skip
    node = fast_path.node(schema)
    return None if node is None or node is NOTHING else (node, made[0].rules if made else {})


def _emitted(
    document: SchemaDocument, style: JsonStyle, prefix: str, additional: bool, unordered: bool
) -> tuple[Node, dict[str, Node]]:
    emitter = Emitter(document, style, prefix, additional, unordered=unordered)
    return emitter.node(((document.root, True),)), emitter.rules


def _empty() -> UnsupportedSchema:
    return NoValue(
        "no value meets this schema",
        pointer="",
        hint="look for keywords that contradict each other, and for required properties without an end",
    )


def _translated(error: GrammarError) -> UnsupportedSchema:
    if "no finite string" in error.message:
        return _empty()
    what = f"pattern {error.where}: {error.message}" if error.where else error.message
    return UnsupportedSchema(what, pointer="", hint=error.hint)


def in_schema_order(schema: Any, value: Any, *, remotes: Mapping[str, Any] | None = None) -> Any:
    """Return ``value`` with the keys of every object in schema order, undeclared keys last.

    The order is that of the first shape that the value meets; a value that meets none is returned unchanged.
    Raises UnsupportedSchema as json_schema does.
    """
    try:
        return _sorted(value, SchemaDocument(schema, remotes, checks=[]))
    except DynamicScopeNeeded:
        return _sorted(value, SchemaDocument(schema, remotes, checks=[]).with_scopes())


def _sorted(value: Any, document: SchemaDocument) -> Any:
    return _Sorter(Normaliser(document)).sort(value, ((document.root, True),))


class _Sorter:
    def __init__(self, normaliser: Normaliser) -> None:
        self._normaliser = normaliser

    def sort(self, value: Any, conjunction: Conjunction) -> Any:
        """Sort a value that must meet a conjunction."""
        if not isinstance(value, dict | list):
            return value
        accepts = self._normaliser.checker.accepts
        for shape in self._normaliser.shapes(conjunction):
            if accepts(shape, value):
                if shape.enum is not None:
                    return next(v for v in shape.enum.values() if v == value)
                if isinstance(value, list):
                    return self._array(value, shape.facets.get(ARRAY) or ArrayFacet())
                return self._object(value, shape.facets.get(OBJECT) or ObjectFacet())
        return value

    def _array(self, value: list[Any], facet: ArrayFacet) -> list[Any]:
        return [self.sort(item, facet.item(index)) for index, item in enumerate(value)]

    def _object(self, value: dict[str, Any], facet: ObjectFacet) -> dict[str, Any]:
        declared = dict.fromkeys((*facet.properties, *facet.required))
        names = [name for name in declared if name in value]
        others = [name for name in value if name not in declared]
        for member in facet.trailing_members:  # it must come last
            meets = self._normaliser.checker.meets
            fit = [
                name
                for name in others
                if may_be_named(member, name, self._normaliser.checker)
                and meets(value[name], member.conjunction)
            ]
            others = [name for name in others if name not in fit[:1]] + fit[:1]
        names += others
        return {name: self.sort(value[name], facet.need_of(name, key_matches)) for name in names}
