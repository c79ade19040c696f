"""From shapes to grammar nodes in one style.

The generators `yield` the conjunction of a value inside and are resumed with its node by a loop
(`Emitter.node`), so that schemas may nest to any depth. A conjunction that is met again while it is being
built becomes a rule: that is how recursion is written.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from callmemaybe.errors import GrammarError, UnsupportedSchema
from callmemaybe.grammar.automata.tree import min_length_of
from callmemaybe.grammar.automaton import report_progress
from callmemaybe.grammar.json_schema.arrays import (
    CountLimits,
    array_body,
    counted_body,
    unique_body,
)
from callmemaybe.grammar.json_schema.document import (
    STEPS_PER_NODE,
    SchemaDocument,
    SchemaNode,
    SchemaTooLarge,
)
from callmemaybe.grammar.json_schema.fast_path import FastPath
from callmemaybe.grammar.json_schema.grounding import GROUNDED, NEVER_GROUNDED, OR_FREE, UNSPECIFIED
from callmemaybe.grammar.json_schema.normalise import Normaliser
from callmemaybe.grammar.json_schema.numbers import number_node
from callmemaybe.grammar.json_schema.objects import (
    DeclaredMember,
    KeyClass,
    MemberStatus,
    any_member,
    key_classes,
    object_body,
    union_body,
    union_groups,
    unordered_body,
)
from callmemaybe.grammar.json_schema.shapes import (
    ANYTHING,
    ARRAY,
    FALSE,
    NEVER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE,
    ArrayFacet,
    Conjunction,
    ExistingMember,
    NumberFacet,
    ObjectFacet,
    StringFacet,
    ValueShape,
    both,
    negated,
)
from callmemaybe.grammar.json_schema.strings import (
    ANY_STRING,
    key_matches,
    string_node,
)
from callmemaybe.grammar.json_schema.values import (
    STYLES,
    JsonStyle,
    can_be_written,
    grounded_number_texts,
    identity,
    quoted,
    spellings,
)
from callmemaybe.grammar.nodes import (
    INFINITE,
    NOTHING,
    Intersection,
    Node,
    Ref,
    alt,
    lexeme,
    lit,
    seq,
    words,
)

_NEGATION_REFUSED = "negating what the members of an open object need is not supported here"

Build = Generator[Conjunction, Node, Node]

# The kinds with one text: node, identity as an excluded value, value.
_WORDS = ((TRUE, lit("true"), identity(True), True), (FALSE, lit("false"), identity(False), False),
          (NULL, lit("null"), None, None))  # fmt: skip
_STRINGS: Conjunction = ((SchemaNode({"type": "string", "x-ground": False}, ""), True),)
#: Distinct values for which arrays without repetition are written out.
MAX_UNIQUE_VALUES = 8
#: Items times counted states of one array.
MAX_COUNTED = 20_000
#: Texts and numbers of an enumeration that are written in one step; an object or array takes a step of its own.
VALUES_PER_STEP = 4

_EMPTY_ARRAY, _EMPTY_OBJECT = ArrayFacet(), ObjectFacet()


class Emitter:
    """Writes conjunctions as nodes in one style; collects the rules that recursion needs."""

    def __init__(
        self,
        document: SchemaDocument,
        style: JsonStyle,
        prefix: str,
        additional: bool,
        *,
        unordered: bool = False,
        use_fast_path: bool = True,
    ) -> None:
        """Write for a document; ``use_fast_path`` False skips the fast path."""
        self._document = document
        self._unordered = unordered
        self._normaliser = Normaliser(document)
        self._style = style
        self._prefix = prefix
        self._additional = additional
        self._nodes: dict[Conjunction, Node] = {}
        self._names: dict[Conjunction, str] = {}
        #: How many rules have each name, without the number that tells them apart.
        self._taken: dict[str, int] = {}
        self._open: set[Conjunction] = set()
        self.rules: dict[str, Node] = {}
        self._fast_path: FastPath | None = None
        if (
            use_fast_path
            and not unordered
            and document.ground is None
            and STYLES.get(style.name) is style
        ):
            self._fast_path = FastPath(
                style, additional, self.general_node, self.any_value, may_defer=document.may_defer
            )

    @property
    def visited_schemas(self) -> frozenset[int]:
        """The schemas that were opened so far, by their id()."""
        return self._normaliser.visited_schemas

    def node(self, conjunction: Conjunction) -> Node:
        """Return the JSON texts of the values that meet a conjunction."""
        conjunction = self._normaliser.canonicalize(conjunction)
        answer = self._fast_node(conjunction)
        if answer is not None:
            return answer
        stack: list[tuple[Conjunction, Build]] = [(conjunction, self._values(conjunction))]
        self._open.add(conjunction)
        while True:
            current, build = stack[-1]
            report_progress(STEPS_PER_NODE)
            try:
                wanted = next(build) if answer is None else build.send(answer)
            except SchemaTooLarge as error:
                raise error.at(current[0][0].pointer if current else "") from None
            except StopIteration as finished:
                stack.pop()
                answer = self._close(current, finished.value)
                if not stack:
                    return answer
                continue
            wanted = self._normaliser.canonicalize(wanted)
            answer = self._known(wanted)
            if answer is None:
                self._open.add(wanted)
                stack.append((wanted, self._values(wanted)))

    def _known(self, conjunction: Conjunction) -> Node | None:
        if conjunction in self._open:
            if conjunction not in self._names:
                base = (
                    f"{self._prefix}{conjunction[0][0].pointer or '/'}" if conjunction else "json"
                )
                number = self._taken[base] = self._taken.get(base, 0) + 1
                self._names[conjunction] = base if number == 1 else f"{base} ({number})"
            return Ref(self._names[conjunction])
        if conjunction == ANYTHING:
            return self.any_value()
        found = self._nodes.get(conjunction)
        return self._fast_node(conjunction) if found is None else found

    def _fast_node(self, conjunction: Conjunction) -> Node | None:
        """Use the fast path for a conjunction of one schema, if it covers it."""
        if self._fast_path is None or len(conjunction) != 1 or not conjunction[0][1]:
            return None
        self._fast_path.draft = conjunction[0][0].draft
        found = self._fast_path.node(conjunction[0][0].value)
        if found is not None:
            self._nodes[conjunction] = found
        return found

    def general_node(self, schema: Any) -> Node | None:
        """Write a schema without context on the general path; None if it is refused."""
        emitter = Emitter(
            SchemaDocument(schema), self._style, "", self._additional, use_fast_path=False
        )
        try:
            node = emitter.node(((SchemaNode(schema, ""), True),))
        except UnsupportedSchema:
            return None
        return None if emitter.rules else node

    def _close(self, conjunction: Conjunction, node: Node) -> Node:
        self._open.discard(conjunction)
        if conjunction in self._names:
            self.rules[self._names[conjunction]] = node
            node = Ref(self._names[conjunction])
        self._nodes[conjunction] = node
        return node

    def any_value(self) -> Node:
        """Return any JSON value: one rule, the same in every grammar of this style."""
        name = f"json {self._style.name}"
        value = Ref(name)
        if name not in self.rules:
            facet = ArrayFacet()
            array = array_body(self._style, [], value, facet.at_least, facet.at_most)
            extra = KeyClass(ANY_STRING, value)
            words_ = [node for _, node, *_ in _WORDS]
            body = object_body(self._style, [], [extra], 0, None)
            self.rules[name] = alt(ANY_STRING, number_node(NUMBER, None, {}), *words_, array, body)
        return value

    # -- one conjunction --------------------------------------------------------------------

    def _values(self, conjunction: Conjunction) -> Build:
        options: list[Node] = []
        shapes = self._normaliser.shapes(conjunction)
        for group in [[s] for s in shapes] if self._unordered else union_groups(shapes):
            node = yield from self._shape(group[0]) if len(group) == 1 else self._union(group)
            options.append(node)
        return alt(*options)

    def _union(self, shapes: list[ValueShape]) -> Build:
        """Write objects that differ only in the conjunctions of their declared members."""
        facets: list[ObjectFacet] = [shape.facets[OBJECT] for shape in shapes]
        one = facets[0]
        checker = self._normaliser.checker
        declared = list(dict.fromkeys((*one.properties, *one.required)))
        values: dict[tuple[str, Conjunction], Node] = {}
        cases: dict[tuple[MemberStatus, ...], None] = {}
        for facet in facets:
            case: list[MemberStatus] = []
            for name in declared:
                key = name, facet.properties.get(name, ANYTHING)
                if key not in values:
                    conjunction = facet.need_of(name, key_matches)
                    never = NEVER[0] in conjunction or not can_be_written(name)
                    never = never or not checker.meets(name, facet.names)
                    values[key] = NOTHING if never else (yield conjunction)
                value = values[key]
                case.append(None if value is NOTHING else (value, name in facet.required))
            if all(
                status is not None or n not in facet.required
                for n, status in zip(declared, case, strict=True)
            ):
                cases[tuple(case)] = None
        extras: list[KeyClass] = []
        if self._additional or not one.lists_properties or one.others or one.patterns:
            extras = yield from self._key_classes(one, declared, None)
        keys = [quoted(name) if can_be_written(name) else "" for name in declared]
        node = union_body(self._style, keys, list(cases), any_member(self._style, extras))
        if node is not None:
            return node
        options: list[Node] = []
        for facet in facets:
            options.append((yield from self._object(facet)))  # noqa: PERF401 - a comprehension cannot yield
        return alt(*options)

    def _shape(self, shape: ValueShape) -> Build:
        if shape.enum is not None:
            return self._constants(shape)
        kinds = shape.kinds
        options: list[Node] = []
        if kinds & STRING:
            options.append(self._string(shape))
        if kinds & NUMBER:
            options.append(self._number(shape))
        options += [n for kind, n, key, _ in _WORDS if kinds & kind and key not in shape.excluded]
        if kinds & ARRAY:
            options.append((yield from self._array(shape.facets.get(ARRAY) or _EMPTY_ARRAY)))
        if kinds & OBJECT:
            options.append((yield from self._object(shape.facets.get(OBJECT) or _EMPTY_OBJECT)))
        return alt(*options)

    def _string(self, shape: ValueShape) -> Node:
        facet = shape.facets.get(STRING)
        try:
            node = string_node(facet, shape.excluded)
            min_length_of(node, {})  # an intersection is searched here, not in use
        except GrammarError as error:
            pointer = facet.pointer if facet is not None else ""
            self._document.defer(pointer, error.message, error.hint)
            node = ANY_STRING
        level = self._grounding_level(shape, facet)
        ground = self._document.ground
        if level <= NEVER_GROUNDED or ground is None or not ground.is_known:
            return node
        said = ground.strings
        grounded = said if node is ANY_STRING or said is NOTHING else Intersection(node, said)
        if min_length_of(grounded, {}) < INFINITE:
            return grounded
        return node if level == OR_FREE else NOTHING

    def _grounding_level(self, shape: ValueShape, facet: StringFacet | NumberFacet | None) -> int:
        """Return the level of grounding of a string or number."""
        asked = facet.ground if facet is not None else UNSPECIFIED
        ground = self._document.ground
        if asked != UNSPECIFIED or ground is None or shape.kinds & (ARRAY | OBJECT):
            return asked
        is_described = isinstance(facet, StringFacet) and bool(facet.within or facet.without)
        return UNSPECIFIED if is_described else ground.level

    def _number(self, shape: ValueShape) -> Node:
        facet = shape.facets.get(NUMBER)
        level = self._grounding_level(shape, facet)
        ground = self._document.ground
        if level > NEVER_GROUNDED and ground is not None and ground.is_known:
            accepts = self._normaliser.checker.accepts
            fit = [value for value in ground.values if accepts(shape, value)]
            if fit or level == GROUNDED:
                return words(
                    text for value in fit for text in grounded_number_texts(value, shape.kinds)
                )
        if facet is None:
            return number_node(shape.kinds, None, shape.excluded)
        try:
            return number_node(shape.kinds, facet, shape.excluded)
        except GrammarError as error:
            self._document.defer(facet.pointer, error.message, error.hint)
            return number_node(shape.kinds, NumberFacet(facet.interval), shape.excluded)

    # -- constants --------------------------------------------------------------------------

    def _constants(self, shape: ValueShape) -> Node:
        """Write an enumeration: one trie, and separate nodes for values with many spacings."""
        assert shape.enum is not None
        separators = self._style.separators
        general_node: list[str] = []
        options: list[Node] = []
        report_progress(len(shape.enum) // VALUES_PER_STEP)
        for value in shape.enum.values():
            found = None
            if not (self._unordered and isinstance(value, dict | list | tuple)):
                if isinstance(value, dict | list | tuple):
                    report_progress(1)
                found = spellings(value, shape.kinds, separators)
            if found is None:
                options.append(self._constant(value, shape.kinds))
            else:
                general_node.extend(found)
        return alt(words(general_node), *options)

    def _constant(self, value: Any, kinds: int) -> Node:
        style = self._style
        if isinstance(value, dict):
            if not all(map(can_be_written, value)):
                return NOTHING
            if self._unordered:
                parts = [
                    DeclaredMember(quoted(key), self._constant(inner, NUMBER), required=True)
                    for key, inner in value.items()
                ]
                return unordered_body(style, parts, [], 0, None)
            members: list[Node] = []
            for key, inner in value.items():
                members += [style.comma] if members else [style.padding]
                members += [lit(quoted(key)), style.colon, self._constant(inner, NUMBER)]
            return seq(lit("{"), *members, style.padding, lit("}"))
        if isinstance(value, list | tuple):
            items: list[Node] = []
            for inner in value:
                items += [style.comma if items else style.padding, self._constant(inner, NUMBER)]
            return seq(lit("["), *items, style.padding, lit("]"))
        return words(spellings(value, kinds, None) or ())

    # -- arrays and objects -----------------------------------------------------------------

    def _array(self, facet: ArrayFacet) -> Build:
        if facet.unique and (facet.at_most is None or facet.at_most > 1):
            values = self._few_values(facet)
            if values is not None:
                return unique_body(self._style, values, facet.at_least, facet.at_most)
            self._document.defer(facet.unique[0], "uniqueItems is not supported here")
        if facet.not_unique:
            self._document.defer(facet.not_unique[0], "items that repeat are not supported")
        length = len(facet.prefix)
        if facet.at_most is not None:
            length = min(length, facet.at_most)
        if not facet.contains:
            prefix: list[Node] = []
            for index in range(length):
                prefix.append((yield facet.prefix[index]))  # noqa: PERF401 - as above
            rest = yield facet.rest
            return array_body(self._style, prefix, rest, facet.at_least, facet.at_most)
        return (yield from self._containing(facet, length))

    def _few_values(self, facet: ArrayFacet) -> list[list[str]] | None:
        """Return the texts of every possible item, if there are few."""
        if facet.prefix or facet.contains:
            return None
        values: dict[Any, Any] = {}
        kinds = 0
        for shape in self._normaliser.shapes(facet.rest):
            if shape.enum is None and shape.kinds & ~(TRUE | FALSE | NULL):
                return None
            words = {
                k: v for kind, _, k, v in _WORDS if shape.kinds & kind and k not in shape.excluded
            }
            values.update(words if shape.enum is None else shape.enum)
            kinds |= shape.kinds
        nested = any(isinstance(value, dict | list | tuple) for value in values.values())
        if len(values) > MAX_UNIQUE_VALUES or (nested and self._unordered):
            return None
        found = [spellings(v, kinds, self._style.separators) for v in values.values()]
        return [texts for texts in found if texts is not None] if None not in found else None

    def _containing(self, facet: ArrayFacet, length: int) -> Build:
        """Write arrays of which some items must meet further conjunctions, item by item."""
        limits = [CountLimits(one.at_least, one.at_most) for one in facet.contains]
        period = max(length, *(one.start for one in facet.contains))
        end = period if facet.at_most is None else min(period, facet.at_most)
        states = prod(one.cap + 1 for one in limits) << len(limits)
        if (max(end, facet.at_least, facet.at_most or 0) + 1) * states > MAX_COUNTED:
            self._document.defer(facet.contains[0].pointer, "too large limits around contains")
            return (yield from self._array(replace(facet, contains=())))
        items: list[dict[tuple[int, ...], Node]] = []
        for index in range(end + 1):
            options: dict[tuple[int, ...], Node] = {}
            for step in product((0, 1), repeat=len(limits)):
                conjunctions = _counting_needs(facet, index, step)
                nodes: list[Node] = []
                for conjunction in conjunctions:
                    nodes.append((yield conjunction))  # noqa: PERF401 - as above
                options[step] = alt(*nodes)
            items.append(options)
        return counted_body(self._style, items, limits, facet.at_least, facet.at_most)

    def _object(self, facet: ObjectFacet) -> Build:
        checker = self._normaliser.checker
        if facet.members:
            self._document.defer(facet.members[0].enum.pointer, _NEGATION_REFUSED)
        declared = list(dict.fromkeys((*facet.properties, *facet.required)))
        parts: list[DeclaredMember] = []
        all_required = frozenset(facet.required)
        for name in declared:
            conjunction = facet.need_of(name, key_matches)
            required = name in all_required
            if (
                NEVER[0] in conjunction
                or not checker.meets(name, facet.names)
                or not can_be_written(name)
            ):
                if required:
                    return NOTHING
                continue
            parts.append(DeclaredMember(quoted(name), (yield conjunction), required))
        extras: list[KeyClass] = []
        if self._additional or not facet.lists_properties or facet.others or facet.patterns:
            extras = yield from self._key_classes(facet, declared, None)
        at_least, at_most = self._countable(facet, parts, extras)
        if len(facet.trailing_members) > 1 or (
            facet.trailing_members and (at_least > 1 or at_most is not None)
        ):
            self._document.defer(facet.trailing_members[0].enum.pointer, _NEGATION_REFUSED)
        elif facet.trailing_members:
            return (yield from self._ending(facet, declared, parts, extras))
        body = unordered_body if self._unordered else object_body
        return body(self._style, parts, extras, at_least, at_most)

    def _ending(
        self,
        facet: ObjectFacet,
        declared: list[str],
        parts: list[DeclaredMember],
        extras: list[KeyClass],
    ) -> Build:
        last = yield from self._key_classes(facet, declared, facet.trailing_members[0])
        body = unordered_body if self._unordered else object_body
        return body(self._style, parts, extras, 0, None, last=last)

    def _key_classes(
        self, facet: ObjectFacet, declared: list[str], member: ExistingMember | None
    ) -> Generator[Conjunction, Node, list[KeyClass]]:
        """Write the undeclared members (or those that ``member`` may be)."""
        found: list[KeyClass] = []
        names = facet.names if member is None else both(facet.names, member.key)
        for keys, conjunction in key_classes(facet, declared, member, defer=self._document.defer):
            if names:
                keys = Intersection(keys, lexeme((yield both(names, _STRINGS))))
            found.append(KeyClass(keys, (yield conjunction)))
        return found

    def _countable(
        self, facet: ObjectFacet, parts: list[DeclaredMember], extras: list[KeyClass]
    ) -> tuple[int, int | None]:
        """Return the limits on the number of members that can be counted.

        Undeclared members may repeat a key, so there may be fewer than were written.
        """
        at_least, at_most = facet.at_least, facet.at_most
        known = sum(part.required for part in parts)
        if extras and at_least > known + 1:
            self._document.defer(
                facet.pointer,
                "minProperties above 1 in an open object is not supported",
                "list the properties and forbid others",
            )
            at_least = known + 1
        if (at_least if at_most is None else at_most) * (len(parts) + 1) > MAX_COUNTED and (
            at_least > known or extras or (at_most or 0) < len(parts)
        ):
            self._document.defer(facet.pointer, "too large a limit on the number of members")
            at_least, at_most = 0, None
        return at_least, at_most


def _counting_needs(facet: ArrayFacet, index: int, step: tuple[int, ...]) -> list[Conjunction]:
    """Return the conjunctions of an item that counts for these kinds of items.

    With an upper limit an item either counts or must not be of the kind.
    """
    conjunctions = [facet.item(index)]
    for counts, one in zip(step, facet.contains, strict=True):
        if index < one.start:
            conjunctions = [] if counts else conjunctions
        elif counts:
            conjunctions = [both(conjunction, one.conjunction) for conjunction in conjunctions]
        elif one.at_most is not None:
            conjunctions = [
                both(conjunction, other)
                for conjunction in conjunctions
                for other in negated(one.conjunction)
            ]
    return conjunctions
