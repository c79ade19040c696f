"""How each keyword of a schema is treated: masked, checked afterwards, an annotation, refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from callmemaybe.errors import GrammarError, UnsupportedSchema
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.grammar.json_schema.document import (
    DeferredCheck,
    DynamicScopeNeeded,
    SchemaDocument,
    SchemaNode,
    escape_token,
)
from callmemaybe.grammar.json_schema.emit import Emitter
from callmemaybe.grammar.json_schema.grounding import GroundingSource
from callmemaybe.grammar.json_schema.keywords import ANNOTATIONS, KEYWORDS, why_ignored
from callmemaybe.grammar.json_schema.strings import FORMATS, SUPERSETS
from callmemaybe.grammar.json_schema.values import STYLES

#: The possible treatments, the best first.
MASKED, ANNOTATION, CHECKED, REFUSED = "masked", "annotation", "checked", "refused"
#: Keywords that are read together with another one.
_READ_WITH = {
    "then": "if", "else": "if", "additionalItems": "items", "minContains": "contains",
    "maxContains": "contains", "nullable": "type",
}  # fmt: skip
#: The search for refusals ends after this many.
_MAX_REFUSALS = 200


#: No automaton can check this, since there is no limit on the number of keys.
_REPEATED_KEYS = "that no unlisted key comes twice is checked when the value is complete"


#: The reason of a check that would only take too large a grammar.
_WHEN_COMPLETE = "when the value is complete"


class Keyword(NamedTuple):
    """One keyword: its pointer, its treatment, and the reason where it is not obvious."""

    pointer: str
    keyword: str
    how: str
    why: str = ""


class Certificate(NamedTuple):
    """Every keyword of a schema in document order, and the grammar (None if any is refused)."""

    keywords: tuple[Keyword, ...]
    grammar: Grammar | None

    def count(self, how: str) -> int:
        """Return the number of keywords with a treatment."""
        return sum(row.how == how for row in self.keywords)


def certificate(
    schema: Any,
    *,
    style: str = "spaced",
    order: str = "schema",
    additional: bool = True,
    remotes: Mapping[str, Any] | None = None,
    ground: GroundingSource | str | None = None,
    masked_alone: bool = False,
) -> Certificate:
    """Compile a schema as ``json_schema(..., checks=[...])`` does, and report the treatment of each keyword.

    ``masked_alone``: compile without ``checks``, as the arguments of functions are at first; what would be
    checked is then refused, or masked more narrowly.

    Refusals are not raised: the keyword is excluded and the rest is compiled, so that all refusals are found
    at once.
    """
    source = GroundingSource(ground) if isinstance(ground, str) else ground
    excluded_keywords: dict[str, str] = {}
    while True:
        checks: list[DeferredCheck] | None = None if masked_alone else []
        document = SchemaDocument(
            schema,
            remotes,
            checks=checks,
            ground=source,
            excluded_keywords=frozenset(excluded_keywords),
        )
        found, error = _compiled(document, style, order == "any", additional, checks)
        if error is None:
            break
        known = error.pointer in excluded_keywords or len(excluded_keywords) == _MAX_REFUSALS
        excluded_keywords.setdefault(error.pointer, error.message)
        if known or not _is_keyword(error.pointer, document):
            break
    document, visited_schemas, grammar = found
    rows = _rows(
        document,
        visited_schemas,
        {check.pointer: check.reason for check in checks or ()},
        excluded_keywords,
    )
    return Certificate(tuple(rows), None if excluded_keywords else grammar)


_Found = tuple[SchemaDocument, frozenset[int], Grammar | None]


def _compiled(
    document: SchemaDocument,
    style: str,
    unordered: bool,
    additional: bool,
    checks: list[DeferredCheck] | None,
) -> tuple[_Found, UnsupportedSchema | None]:
    """Return the document, the schemas that were opened (by id), and the grammar or the error."""
    emitter = Emitter(
        document, STYLES[style], "", additional, unordered=unordered, use_fast_path=False
    )
    error: UnsupportedSchema | None = None
    grammar: Grammar | None = None
    try:
        node = emitter.node(((document.root, True),))
        grammar = Grammar(node, emitter.rules)
    except DynamicScopeNeeded:
        if checks is not None:
            checks.clear()
        return _compiled(document.with_scopes(), style, unordered, additional, checks)
    except UnsupportedSchema as refused:
        error = refused
    except RecursionError:
        error = UnsupportedSchema("the schema nests too deep", pointer="")
    except GrammarError as refused:
        empty = "no finite string" in refused.message
        message = "no value meets this schema" if empty else refused.message
        error = UnsupportedSchema(message, pointer="")
    return (document, emitter.visited_schemas, grammar), error


def _is_keyword(pointer: str, document: SchemaDocument) -> bool:
    """Whether a pointer leads to a keyword of a schema that is read."""
    return any(
        pointer == f"{schema_node.pointer}/{escape_token(k)}"
        for schema_node in document.subschemas()
        for k in schema_node.value
    )


def _rows(
    document: SchemaDocument,
    visited_schemas: frozenset[int],
    checks: Mapping[str, str],
    excluded_keywords: Mapping[str, str],
) -> Iterator[Keyword]:
    listed_pointers: set[str] = set()
    for schema_node in document.subschemas():
        for keyword in schema_node.value:
            pointer = f"{schema_node.pointer}/{escape_token(keyword)}"
            listed_pointers.add(pointer)
            if pointer in excluded_keywords:
                yield Keyword(pointer, keyword, REFUSED, excluded_keywords[pointer])
            elif pointer in checks:
                plain = checks[pointer] == f"{keyword} is not supported here"
                yield Keyword(
                    pointer, keyword, CHECKED, _WHEN_COMPLETE if plain else checks[pointer]
                )
            else:
                yield Keyword(
                    pointer,
                    keyword,
                    *_treatment(schema_node, keyword, id(schema_node.value) in visited_schemas),
                )
    for how, reasons in ((REFUSED, excluded_keywords), (CHECKED, checks)):
        for pointer, reason in reasons.items():
            if pointer not in listed_pointers:
                yield Keyword(pointer, "", how, reason)


def _treatment(schema_node: SchemaNode, keyword: str, is_visited: bool) -> tuple[str, str]:
    """Return the treatment of a keyword that is neither checked nor refused."""
    schema = schema_node.value
    if schema_node.draft <= 7 and "$ref" in schema and keyword != "$ref" and keyword in KEYWORDS:
        return ANNOTATION, "draft 7 and before: ignored beside $ref"
    if why := why_ignored(keyword, schema_node):
        return ANNOTATION, why
    if keyword not in KEYWORDS:
        partner = _READ_WITH.get(keyword)
        if partner is not None:
            is_read = partner in schema and not why_ignored(partner, schema_node)
            return (MASKED, "") if is_read else (ANNOTATION, f"nothing without {partner}")
        return ANNOTATION, "" if keyword in ANNOTATIONS else "unknown keyword"
    named = schema[keyword]
    # A schema for no value may be anything: a name in a group of definitions, for example.
    if keyword == "format" and isinstance(named, str) and named not in FORMATS.keys() | SUPERSETS:
        return ANNOTATION, "unknown format"
    if is_visited:
        return MASKED, _REPEATED_KEYS if _allows_unlisted_keys(keyword, schema) else ""
    if "/$defs/" in schema_node.pointer or "/definitions/" in schema_node.pointer:
        return ANNOTATION, "no value is described by this schema"
    return MASKED, "no value gets here"


def _allows_unlisted_keys(keyword: str, schema: Mapping[str, Any]) -> bool:
    """Whether a keyword lets objects have keys that are not listed."""
    if keyword in ("additionalProperties", "unevaluatedProperties"):
        return schema[keyword] is not False
    if keyword == "patternProperties":
        return bool(schema[keyword])
    kinds = schema.get("type") if keyword == "type" else ()
    closed = {"properties", "additionalProperties", "patternProperties"} & schema.keys()
    named = kinds if isinstance(kinds, list | tuple) else [kinds]
    return not closed and ("object" in named or "dict" in named)
