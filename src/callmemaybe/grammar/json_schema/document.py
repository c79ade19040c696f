"""The schemas of a document and what `$ref` means at each: base URIs, anchors, JSON pointers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar.automaton import report_progress
from callmemaybe.grammar.json_schema.grounding import GroundingSource

#: Keywords whose value is a schema / a list of schemas / a map of schemas; some may be other things.
_SCHEMA_KEYWORDS = frozenset(
    ["not", "if", "then", "else", "items", "additionalItems", "contains", "propertyNames",
     "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contentSchema"]
)  # fmt: skip
_SCHEMA_LIST_KEYWORDS = frozenset(["allOf", "anyOf", "oneOf", "prefixItems", "items"])
_SCHEMA_MAP_KEYWORDS = frozenset(
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"]
)
#: Steps of an automaton that take about as long as reading one schema (see ``WORK_BUDGET``).
STEPS_PER_NODE = 2
#: Steps that take about as long as following one reference, the validator's own included.
STEPS_PER_REFERENCE = 20
_DRAFTS = {"draft-03": 3, "draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 2019}
LATEST_DRAFT = 2020
#: The name of a `$recursiveAnchor` among dynamic anchors; no anchor of a schema's own has a space.
_RECURSIVE = "recursive anchor"
#: The latest draft in a dialect without the validation vocabulary (Core, section 8.1.2).
WITHOUT_VALIDATION = 2021


class SchemaNode:
    """One schema within a document: its value, its pointer, and what its references resolve against.

    ``base`` is the URI of its resource. ``scope`` holds the resources through which it was reached, outermost
    first, if that matters (see :meth:`SchemaDocument.resolve_dynamic`).
    """

    __slots__ = ("base", "draft", "pointer", "scope", "value")

    def __init__(
        self,
        value: Any,
        pointer: str,
        base: str = "",
        draft: int = LATEST_DRAFT,
        scope: tuple[str, ...] = (),
    ) -> None:
        self.value = value
        self.pointer = pointer
        self.base = base
        self.draft = draft
        self.scope = scope

    def __repr__(self) -> str:
        return f"Spot({self.pointer or '/'!r})"


#: The schemas true and false; one object each, wherever they occur.
TRUE_SCHEMA: SchemaNode = SchemaNode(True, "")
FALSE_SCHEMA: SchemaNode = SchemaNode(False, "")


def escape_token(token: str) -> str:
    """Escape one token of a JSON pointer (RFC 6901)."""
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


class DeferredCheck(NamedTuple):
    """A part of a schema that the grammar does not enforce; a validator must check the complete value."""

    pointer: str
    reason: str


class SchemaTooLarge(UnsupportedSchema):
    """A schema, or several together, take more steps than they may to become a grammar."""

    def __init__(
        self,
        steps: int,
        pointer: str = "",
        what: str = "this schema",
        setting: str = "json_schema.entry.MAX_STEPS",
    ) -> None:
        self.steps, self._what, self._setting = steps, what, setting
        super().__init__(
            f"compiling {what} takes more than {steps:,} steps",
            pointer=pointer,
            hint="use fewer references to the same definitions, alternatives and patterns, "
            f"or allow more steps ({setting})",
        )

    def at(self, pointer: str) -> SchemaTooLarge:
        """Return this error with the place of the schema that was being compiled."""
        if self.pointer:
            return self
        return SchemaTooLarge(self.steps, pointer, self._what, self._setting)


class DynamicScopeNeeded(Exception):
    """The meaning of a `$dynamicRef` depends on the path to it: the document must be read with scopes."""


class SchemaDocument:
    """A schema with everything it may refer to; there is one SchemaNode for each subschema.

    ``remotes`` are further schemas by URI; nothing is ever fetched. With ``scoped`` a schema that is reached
    through different resources is a different node each time. ``checks`` collects what the grammar does not
    enforce; None refuses it. ``ground`` is the text of `x-ground`. Keywords whose pointers are in
    ``excluded_keywords`` are ignored.
    """

    def __init__(
        self,
        schema: Any,
        remotes: Mapping[str, Any] | None = None,
        *,
        scoped: bool = False,
        checks: list[DeferredCheck] | None = None,
        ground: GroundingSource | None = None,
        excluded_keywords: frozenset[str] = frozenset(),
        dynamic: dict[str, set[str]] | None = None,
    ) -> None:
        self._schema_nodes: dict[tuple[int, str, tuple[str, ...]], SchemaNode] = {}
        self._remotes = remotes or {}
        self._scoped = scoped
        self._checks = checks
        self.ground = ground
        self.excluded_keywords = excluded_keywords
        self._schema = schema
        self._names: dict[str, SchemaNode] | None = None
        # The resources that have a $dynamicAnchor of some name; read with scopes, the document must know them.
        self._dynamic: dict[str, set[str]] = dynamic or {}
        self.root = self._schema_node(schema, "", SchemaNode(None, ""))

    def with_scopes(self) -> SchemaDocument:
        """Return the same document, read with scopes (see :class:`DynamicScopeNeeded`)."""
        self._by_uri()
        return SchemaDocument(
            self._schema,
            self._remotes,
            scoped=True,
            dynamic=self._dynamic,
            checks=self._checks,
            ground=self.ground,
            excluded_keywords=self.excluded_keywords,
        )

    def subschemas(self) -> Iterator[SchemaNode]:
        """Yield every schema of the document that is an object, in document order."""
        stack, seen = [self.root], set()
        while stack:
            schema_node = stack.pop()
            if isinstance(schema_node.value, dict) and schema_node.pointer not in seen:
                seen.add(schema_node.pointer)
                yield schema_node
                stack += reversed(list(self._children(schema_node)))

    @property
    def may_defer(self) -> bool:
        """Whether something may be deferred to a validator."""
        return self._checks is not None

    def defer(self, pointer: str, reason: str, hint: str | None = None) -> None:
        """Defer a check to the validator; raises UnsupportedSchema if there is none."""
        if self._checks is None:
            raise UnsupportedSchema(reason, pointer=pointer, hint=hint)
        check = DeferredCheck(pointer, reason)
        if check not in self._checks:
            self._checks.append(check)

    def child(self, parent: SchemaNode, *tokens: str | int) -> SchemaNode:
        """Return the schema at some keys below another one."""
        value, pointer = parent.value, parent.pointer
        for token in tokens:
            value = value[token]
            pointer += f"/{escape_token(str(token))}"
        return self._schema_node(value, pointer, parent)

    def _schema_node(self, value: Any, pointer: str, parent: SchemaNode) -> SchemaNode:
        if value is True:
            return TRUE_SCHEMA
        if value is False:
            return FALSE_SCHEMA
        if not isinstance(value, dict):
            return SchemaNode(value, pointer, parent.base, parent.draft)
        key = (id(value), parent.base, parent.scope)
        found = self._schema_nodes.get(key)
        if found is None:
            base, draft = _base_and_draft(value, parent, self._remotes)
            found = SchemaNode(value, pointer, base, draft, self._scope_with(parent.scope, base))
            if self._scoped:  # else there is one for each schema as it was written
                report_progress(STEPS_PER_NODE)
            self._schema_nodes[key] = found
            self._schema_nodes.setdefault((id(value), base, found.scope), found)
        return found

    def _scope_with(self, scope: tuple[str, ...], base: str) -> tuple[str, ...]:
        """Return the resources of a scope that some `$dynamicRef` can lead to, with those of one more.

        Only the outermost resource with an anchor matters, so that a scope is no longer than there are anchors.
        """
        if not self._scoped or base in scope:
            return scope
        decides = any(
            base in resources and resources.isdisjoint(scope)
            for resources in self._dynamic.values()
        )
        return (*scope, base) if decides else scope

    def _in_scope(self, schema_node: SchemaNode, scope: tuple[str, ...]) -> SchemaNode:
        """Return a schema as it is when it is reached through these resources."""
        if not self._scoped or not isinstance(schema_node.value, dict):
            return schema_node
        inner = self._scope_with(scope, schema_node.base)
        key = (id(schema_node.value), schema_node.base, inner)
        return self._schema_nodes.setdefault(
            key,
            SchemaNode(
                schema_node.value, schema_node.pointer, schema_node.base, schema_node.draft, inner
            ),
        )

    def resolve(self, schema_node: SchemaNode, reference: Any, keyword: str) -> SchemaNode:
        """Return the target of a reference; UnsupportedSchema if there is none."""
        report_progress(STEPS_PER_REFERENCE)
        where = f"{schema_node.pointer}/{keyword}"
        if not isinstance(reference, str):
            raise UnsupportedSchema(f"{keyword} must be a string", pointer=where)
        uri, fragment = _split_fragment(_resolve_uri(schema_node.base, reference))
        if uri == self.root.base and fragment[:1] in ("", "/"):
            found: SchemaNode | None = self._walk(self.root, unquote(fragment))
        elif fragment[:1] in ("", "/"):
            start = self._by_uri().get(uri)
            found = start and self._walk(start, unquote(fragment))
        else:
            found = self._by_uri().get(f"{uri}#{unquote(fragment)}")
        if found is None:
            raise UnsupportedSchema(
                f"{keyword} points at {reference!r}, which is not in the schema",
                pointer=where,
                hint="schemas elsewhere must be handed in; nothing is fetched",
            )
        return self._in_scope(found, schema_node.scope)

    def resolve_dynamic(self, schema_node: SchemaNode, reference: Any) -> SchemaNode:
        """Return the target of a `$dynamicRef`.

        "the initial starting point URI is replaced by the URI for the outermost schema resource in the
        dynamic scope that defines an identically named fragment with $dynamicAnchor" (Core, section 8.2.3.2).
        Raises DynamicScopeNeeded if the document is read without scopes and they matter.
        """
        found = self.resolve(schema_node, reference, "$dynamicRef")
        _, anchor = _split_fragment(str(reference))
        is_dynamic = isinstance(found.value, dict) and found.value.get("$dynamicAnchor") == anchor
        return self._outermost(schema_node, found, anchor) if is_dynamic else found

    def resolve_recursive(self, schema_node: SchemaNode) -> SchemaNode:
        """Return the target of a `$recursiveRef` (draft 2019-09, Core, section 8.2.4.2.2).

        That is the root of the resource or, if it has a true `$recursiveAnchor`, the outermost one in the dynamic
        scope that has one, too. Raises DynamicScopeNeeded like ``resolve_dynamic``.
        """
        found = self.resolve(schema_node, "#", "$recursiveRef")
        is_dynamic = isinstance(found.value, dict) and found.value.get("$recursiveAnchor") is True
        return self._outermost(schema_node, found, _RECURSIVE) if is_dynamic else found

    def _outermost(self, schema_node: SchemaNode, found: SchemaNode, anchor: str) -> SchemaNode:
        """Return the schema with a dynamic anchor of this name in the outermost resource of the scope that has one."""
        names = self._by_uri()
        resources = self._dynamic.get(anchor, set())
        if len(resources) < 2:
            return found
        if not self._scoped:
            raise DynamicScopeNeeded
        outermost = next((base for base in schema_node.scope if base in resources), found.base)
        return self._in_scope(names[f"{outermost}#{anchor}"], schema_node.scope)

    def _walk(self, start: SchemaNode, pointer: str) -> SchemaNode | None:
        schema_node = start
        for token in pointer.split("/")[1:]:
            token = token.replace("~1", "/").replace("~0", "~")
            value = schema_node.value
            index = _index(token)
            if isinstance(value, list) and index is not None and index < len(value):
                schema_node = self.child(schema_node, index)
            elif isinstance(value, dict) and token in value:
                schema_node = self.child(schema_node, token)
            else:
                return None
        return schema_node

    def _by_uri(self) -> dict[str, SchemaNode]:
        """Return every schema with an identifier or an anchor, by its absolute URI."""
        if self._names is None:
            self._names = {}
            for uri, schema in self._remotes.items():
                clean, _ = _split_fragment(uri)
                start = self._schema_node(schema, "", SchemaNode(None, "", clean, self.root.draft))
                self._names.setdefault(clean, start)
                self._register(start, self._names)
            self._names[self.root.base] = self.root
            self._register(self.root, self._names)
        return self._names

    def _register(self, start: SchemaNode, names: dict[str, SchemaNode]) -> None:
        stack = [(start, "")]
        while stack:
            schema_node, outer = stack.pop()
            if not isinstance(schema_node.value, dict):
                continue
            if schema_node.base != outer:
                names[schema_node.base] = schema_node
            identifier = schema_node.value.get("$id", schema_node.value.get("id"))
            if isinstance(identifier, str) and identifier.startswith("#"):
                names[f"{schema_node.base}{identifier}"] = schema_node
            is_root = schema_node is start or schema_node.base != outer
            if is_root and schema_node.value.get("$recursiveAnchor") is True:
                names[f"{schema_node.base}#{_RECURSIVE}"] = schema_node
                self._dynamic.setdefault(_RECURSIVE, set()).add(schema_node.base)
            for keyword in ("$anchor", "$dynamicAnchor"):
                anchor = schema_node.value.get(keyword)
                if isinstance(anchor, str):
                    names[f"{schema_node.base}#{anchor}"] = schema_node
                    if keyword == "$dynamicAnchor":
                        self._dynamic.setdefault(anchor, set()).add(schema_node.base)
            stack.extend((inner, schema_node.base) for inner in self._children(schema_node))

    def _children(self, schema_node: SchemaNode) -> Iterator[SchemaNode]:
        for keyword, value in schema_node.value.items():
            if isinstance(value, dict):
                if keyword in _SCHEMA_KEYWORDS:
                    yield self.child(schema_node, keyword)
                elif keyword in _SCHEMA_MAP_KEYWORDS:
                    for name, inner in value.items():
                        if isinstance(inner, dict):
                            yield self.child(schema_node, keyword, name)
            elif isinstance(value, list) and keyword in _SCHEMA_LIST_KEYWORDS:
                for index in range(len(value)):
                    yield self.child(schema_node, keyword, index)


def _index(token: str) -> int | None:
    """Return the list index that a pointer token names, or None."""
    # ASCII digits without zeros in front (RFC 6901, section 4); int() reads at most 4,300 of them.
    return int(token) if re.fullmatch("0|[1-9][0-9]{0,17}", token) else None


def _resolve_uri(base: str, reference: str) -> str:
    """Resolve a reference (RFC 3986, section 5; urljoin does not know fragments of URNs)."""
    if reference.startswith("#"):
        return _split_fragment(base)[0] + reference
    try:
        return urljoin(base, reference)
    except ValueError:  # not a URI ("http://[x"): it names only itself
        return reference


def _split_fragment(uri: str) -> tuple[str, str]:
    """Split a URI, or a text that is none, into the part before its fragment, and the fragment."""
    try:
        return urldefrag(uri)
    except ValueError:
        url, _, fragment = uri.partition("#")
        return url, fragment


def _base_and_draft(
    value: dict[str, Any], parent: SchemaNode, remotes: Mapping[str, Any]
) -> tuple[str, int]:
    """Return the base URI and the draft that hold inside a schema."""
    draft = parent.draft
    dialect = value.get("$schema")
    if isinstance(dialect, str):
        draft = next((number for name, number in _DRAFTS.items() if name in dialect), LATEST_DRAFT)
        metaschema = remotes.get(dialect)
        words = metaschema.get("$vocabulary") if isinstance(metaschema, dict) else None
        if isinstance(words, dict) and not any(uri.endswith("/vocab/validation") for uri in words):
            draft = WITHOUT_VALIDATION
    identifier = value.get("id" if draft <= 4 else "$id")
    if not isinstance(identifier, str) or (draft <= 7 and "$ref" in value):
        return parent.base, draft
    return _split_fragment(_resolve_uri(parent.base, identifier))[0], draft
