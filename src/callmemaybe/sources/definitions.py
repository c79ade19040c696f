"""Definitions of functions in JSON or YAML: the flat form, OpenAI's, Anthropic's, MCP's, or a mixture.

Definitions say what a model may call; they hold nothing that runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from callmemaybe.errors import InputError, UnsupportedSchema
from callmemaybe.jsonio import escape_token
from callmemaybe.sources.documents import SourceDocument
from callmemaybe.tools import ToolSpec, check_distinct

#: Keywords whose value maps names to schemas, is a schema, and is a list of schemas.
_NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_SCHEMAS = frozenset((
    "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties", "additionalItems",
))  # fmt: skip
_LISTED = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
#: Keywords of OpenAPI and of this package.
_DIALECTS = ("nullable", "example", "xml", "externalDocs", "discriminator", "x-ground")
#: Keys under which lists of functions stand: in requests to models, and in MCP's answers.
LIST_KEYS = ("tools", "functions")


def is_definition(value: Mapping[str, Any]) -> bool:
    """Whether an object is the definition of a function, not a schema."""
    inner = value.get("function")
    if value.get("type") == "function" or (isinstance(inner, dict) and "name" in inner):
        return True
    schemas = {"parameters", "inputSchema", "input_schema"}
    return isinstance(value.get("name"), str) and bool(schemas & {*value})


def read_definitions(document: SourceDocument) -> tuple[ToolSpec, ...]:
    """Return the functions that a document defines, each checked as far as it can be without a model.

    Everything that could not be compiled later is refused here: an empty list, missing or duplicate
    names, unknown types, unsupported schema keywords. Raises InputError.
    """
    pointer, values = _listed(document)
    if not values:
        raise InputError(
            "the list of functions is empty", where=document.place(pointer),
            hint="define at least one",
        )  # fmt: skip
    places = [f"{pointer}/{index}" for index in range(len(values))]
    if values == [document.value]:
        places = [""]
    try:
        tools = tuple(
            ToolSpec.from_json(value, place) for value, place in zip(values, places, strict=True)
        )
        check_distinct(tools, pointer)
    except InputError as error:
        raise document.error(error) from None
    for tool, value, place in zip(tools, values, places, strict=True):
        _check_schema(tool, document, place, value)
    return tools


def _listed(document: SourceDocument) -> tuple[str, Sequence[Any]]:
    """Return the pointer of the list of functions, and the list."""
    value = document.value
    if isinstance(value, list):
        return "", value
    if isinstance(value, dict):
        for key in LIST_KEYS:
            if isinstance(value.get(key), list):
                return f"/{key}", value[key]
        if is_definition(value):
            return "", [value]
    raise InputError(
        f"expected a list of functions, found {kind_of(value)}",
        where=document.place(),
        hint="put the functions between [ and ]",
    )


def check_spelling(schema: Any) -> None:
    """Raise UnsupportedSchema for a keyword that no schema has, but that is nearly one: ``requierd``."""
    from callmemaybe.grammar.json_schema.keywords import ANNOTATIONS, KEYWORDS, REFUSED
    from callmemaybe.tools.spec import check_keys

    known = {*KEYWORDS, *ANNOTATIONS, *REFUSED, *_DIALECTS}
    stack = [("", schema)]
    while stack:
        pointer, part = stack.pop()
        if not isinstance(part, dict):
            continue
        try:
            check_keys(part, known, pointer)
        except InputError as error:
            where = error.where or ""
            raise UnsupportedSchema(error.message, pointer=where, hint=error.hint) from None
        for keyword, inner in part.items():
            below = f"{pointer}/{keyword}"
            if keyword in _NAMED and isinstance(inner, dict):
                stack += [(f"{below}/{escape_token(name)}", one) for name, one in inner.items()]
            elif keyword in _SCHEMAS:
                stack.append((below, inner))
            elif keyword in _LISTED and isinstance(inner, list):
                stack += [(f"{below}/{index}", one) for index, one in enumerate(inner)]


def check_expressible(tool: ToolSpec) -> None:
    """Raise UnsupportedSchema, or InputError, for arguments that cannot be held to their schema.

    They are held to it by a grammar; or, where none expresses a keyword, by a check of the finished call.
    """
    from callmemaybe.grammar import GroundingSource, json_schema
    from callmemaybe.grammar.json_schema.document import DeferredCheck

    # Closed objects, as in the wire formats; the text to ground in comes with each prompt.
    build = partial(
        json_schema, tool.schema, additional=False, ground=GroundingSource("", is_known=False)
    )
    try:
        build()
    except UnsupportedSchema as error:
        from callmemaybe.generation.validation import validator_of_checks
        from callmemaybe.wire.output_grammar import may_be_deferred

        if not may_be_deferred(error):
            raise
        checks: list[DeferredCheck] = []
        build(checks=checks)
        validator_of_checks(tool.parameters, checks, "")


def _check_schema(tool: ToolSpec, document: SourceDocument, pointer: str, value: object) -> None:
    """Build the grammar of the arguments now, so that unsupported keywords get a place in the file."""
    try:
        check_expressible(tool)
        check_spelling(tool.schema)
    except UnsupportedSchema as error:
        where = _file_pointer(tool, value, pointer, error.pointer)
        raise InputError(error.message, where=document.place(where), hint=error.hint) from None
    except InputError as error:
        raise InputError(error.message, where=document.place(pointer), hint=error.hint) from None


def _file_pointer(tool: ToolSpec, definition: object, pointer: str, in_schema: str) -> str:
    """Turn a pointer into a tool's schema into a pointer into the file, for each form of definition."""
    assert isinstance(definition, dict)
    if "function" in definition and "name" not in definition:
        pointer, definition = pointer + "/function", definition["function"]
        assert isinstance(definition, dict)
    keys = ("parameters", "inputSchema", "input_schema")
    key = next((key for key in keys if key in definition), keys[0])
    inner = in_schema.removeprefix("#")
    if definition.get(key) is not tool.parameters:
        # The flat form: its schema was put together from the parameters.
        inner = inner.removeprefix("/properties")
    return f"{pointer}/{key}{inner}"


def kind_of(value: object) -> str:
    """Name the JSON type of a value, for messages."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")
