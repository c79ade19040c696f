"""ToolSpec, ToolCall, ToolResult and Effect: pure values.

A :class:`ToolSpec` keeps the schema as it was given: the model reads it, and a finished call is
checked against it. A :class:`ToolCall` keeps its arguments as the JSON text that was generated; the
parsed view never rounds a number.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.jsonio import dumps, escape_token, loads

_SCHEMA_ONLY = ("$ref", "$defs", "$schema", "anyOf", "oneOf", "allOf")
_NO_OBJECTS = frozenset(("array", "boolean", "integer", "null", "number", "string"))
#: Keywords whose value may be a schema, which may have a type.
_SCHEMA_KEYWORDS = frozenset((
    "additionalProperties", "unevaluatedProperties", "propertyNames", "properties", "patternProperties",
    "not", "if", "then", "else", "$defs", "definitions", "dependentSchemas", "dependencies", "items",
    "contains", "default", "const",
))  # fmt: skip
#: The key of the arguments' schema in definitions of OpenAI, MCP and Anthropic.
_PARAMETERS = ("parameters", "inputSchema", "input_schema")
#: The keys that definitions are known to have; others mean nothing here, but one that is nearly one of these is a slip.
_KEYS = (
    *_PARAMETERS, "name", "description", "returns", "type", "function", "strict", "title", "annotations",
    "outputSchema", "cache_control", "examples", "example", "tags", "icons",
)  # fmt: skip
#: What people write for ``parameters``; without it the function would have none.
_OTHER_NAMES = ("params", "arguments", "args", "properties", "schema")


class Effect(StrEnum):
    """What running a tool does to the world; a tool that declares nothing is ``once``."""

    PURE = "pure"
    """Computes from its arguments alone; reads and changes nothing."""
    READ = "read"
    """Reads the world and changes nothing."""
    IDEMPOTENT = "idempotent"
    """Running it again with the same arguments changes nothing more."""
    KEYED = "keyed"
    """Passes the call's key to a service that carries out each key once."""
    TRANSACTIONAL = "transactional"
    """Writes through the transaction of the store that records the result."""
    ONCE = "once"
    """Must not happen twice, and only the gateway prevents that."""

    @property
    def writes(self) -> bool:
        """Whether running it may change the world."""
        return self not in {Effect.PURE, Effect.READ}


@dataclass(frozen=True)
class ToolSpec:
    """The definition of a function that a model may call: name, description, parameters.

    ``parameters`` is the JSON Schema of the arguments object, as given (by default: no arguments);
    ``returns`` is the schema of the result, if known. Raises InputError for a name that JSON cannot
    carry and for parameters that are not the schema of an object. :meth:`from_json` reads other forms.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    returns: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "name")
        if not isinstance(self.description, str):
            raise InputError("the description must be a string", where=f"tool {self.name!r}")
        if not isinstance(self.parameters, Mapping):
            raise InputError("the parameters must be a JSON Schema", where=f"tool {self.name!r}")
        kind = self.parameters.get("type")
        if isinstance(kind, str) and kind in _NO_OBJECTS:
            raise InputError(
                f"the parameters are of type {kind!r}, but a call passes an object",
                where=f"tool {self.name!r}",
                hint='use "type": "object"',
            )
        if _is_flat(self.parameters):
            raise InputError(
                "the parameters are a JSON Schema here, and these are parameters by name",
                where=f"tool {self.name!r}",
                hint='say {"type": "object", "properties": {...}, "required": [...]}, or use '
                "ToolSpec.from_json for the short form",
            )

    def __hash__(self) -> int:
        return hash((self.name, self.description))

    @classmethod
    def from_json(cls, value: object, where: str = "") -> ToolSpec:
        """Read a definition in the flat form of the exercise or that of OpenAI, MCP or Anthropic.

        Flat: ``{"name", "description", "parameters": {"a": {"type": "number"}}, "returns"}``, where
        every parameter is required and no other is allowed. OpenAI's: ``{"type": "function",
        "function": {"name", "description", "parameters": <JSON Schema>}}``, or the inner object alone.
        MCP's and Anthropic's have the schema under ``inputSchema`` and ``input_schema``. ``where`` is
        the JSON pointer of ``value``, for messages. Raises InputError with the pointer of the mistake.
        """
        return _tool_from_json(value, where)

    def as_openai(self) -> dict[str, Any]:
        """Return the definition in the form of OpenAI's ``tools``, which chat templates expect."""
        function: dict[str, Any] = {"name": self.name}
        if self.description:
            function["description"] = self.description
        function["parameters"] = dict(self.parameters)
        return {"type": "function", "function": function}

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema of the arguments: ``parameters`` with ``"type": "object"``."""
        parameters = self.parameters
        if type(parameters) is dict and parameters.get("type") == "object":
            return parameters
        return {**parameters, "type": "object"}


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool: its name, its arguments and the id of the call (empty if it has none).

    ``arguments`` is the JSON text of an object, exactly as it was written.
    """

    name: str
    arguments: str = "{}"
    id: str = ""

    @cached_property
    def parsed(self) -> dict[str, Any]:
        """The arguments as Python values; integers of any size, other numbers as Decimal.

        Raises InputError if the text is not a JSON object.
        """
        value = loads(self.arguments, where="arguments")
        if not isinstance(value, dict):
            raise InputError("the arguments must be a JSON object", where="arguments")
        return value

    @cached_property
    def canonical(self) -> str:
        """A text that is equal for two calls iff their names and the values of their arguments are.

        The order of keys does not matter; 1 and 1.0 are equal, true and 1 are not. Raises InputError
        as :attr:`parsed` does.
        """
        return dumps([self.name, self.parsed], canonical=True)


@dataclass(frozen=True)
class ToolResult:
    """The result of a call: the text for the model, and whether the call failed."""

    call_id: str
    content: str
    is_error: bool = False


def check_name(name: object, where: str) -> str:
    """Return ``name`` if it is a valid name of a function; raise InputError at ``where`` if not.

    Any non-empty Unicode text is valid.
    """
    if not isinstance(name, str):
        raise InputError(f"a function's name must be a string, not {_kind(name)}", where=where)
    if not name:
        raise InputError("a function's name must not be empty", where=where)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(
            "the name holds half of a surrogate pair, which UTF-8 cannot carry", where=where
        ) from None
    return name


def check_keys(value: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raise InputError at ``where`` for a key that is none of ``known``, but nearly: a slip of the pen.

    Other keys are let alone: definitions carry what other programs read.
    """
    for key in [key for key in map(str, value) if key not in known]:
        if close := get_close_matches(key, known, n=1, cutoff=0.8):
            raise InputError(
                f"there is no key {key!r}", where=f"{where}/{escape_token(key)}",
                hint=f"is {close[0]!r} meant?",
            )  # fmt: skip


def check_distinct(tools: Sequence[ToolSpec], where: str = "") -> None:
    """Raise InputError if two tools share a name; the pointer is that of the second."""
    seen: dict[str, int] = {}
    for index, tool in enumerate(tools):
        first = seen.setdefault(tool.name, index)
        if first != index:
            raise InputError(
                f"the name {tool.name!r} is used twice (first at {where}/{first})",
                where=f"{where}/{index}/name",
                hint="give every function a name of its own",
            )


def _tool_from_json(value: object, where: str) -> ToolSpec:
    if not isinstance(value, Mapping):
        raise InputError(
            f"a function must be a JSON object, not {_kind(value)}", where=where or "/"
        )
    if "function" in value and "name" not in value:
        kind = value.get("type", "function")
        if kind != "function":
            raise InputError(f"unknown kind of tool {kind!r}", where=f"{where}/type")
        return _tool_from_json(value["function"], f"{where}/function")
    check_keys(value, _KEYS, where)
    if "name" not in value:
        raise InputError("the function has no name", where=where or "/", hint='add a "name"')
    name = check_name(value["name"], f"{where}/name")
    description = value.get("description")
    if description is not None and not isinstance(description, str):
        raise InputError(
            f"the description must be a string, not {_kind(description)}",
            where=f"{where}/description",
        )
    returns = value.get("returns")
    if returns is not None and not isinstance(returns, Mapping):
        raise InputError(f"it must be an object, not {_kind(returns)}", where=f"{where}/returns")
    key = next((one for one in _PARAMETERS if one in value), _PARAMETERS[0])
    other = next((one for one in _OTHER_NAMES if isinstance(value.get(one), Mapping)), None)
    if key not in value and other is not None:
        raise InputError(
            f"there is no key {other!r} in a definition", where=f"{where}/{other}",
            hint='call it "parameters"',
        )  # fmt: skip
    parameters = _parameters(value.get(key), f"{where}/{key}")
    return ToolSpec(name, description or "", parameters, returns)


def _parameters(value: object, where: str) -> Mapping[str, Any]:
    if value is None:
        return {"type": "object", "properties": {}}
    if not isinstance(value, Mapping):
        raise InputError(f"the parameters must be an object, not {_kind(value)}", where=where)
    if _is_schema(value):
        kinds = value.get("type", "object")
        if kinds != "object" and not (isinstance(kinds, list) and "object" in kinds):
            raise InputError(
                f"the parameters are of type {kinds!r}, but a call passes an object",
                where=f"{where}/type",
                hint='use "type": "object"',
            )
        return value
    for name, schema in value.items():
        if not isinstance(schema, Mapping):
            raise InputError(
                f'the parameter must be an object such as {{"type": "string"}}, not {_kind(schema)}',
                where=f"{where}/{escape_token(name)}",
            )
        if "type" not in schema and not any(
            word in schema for word in (*_SCHEMA_ONLY, "enum", "const")
        ):
            raise InputError(
                "the parameter has no type",
                where=f"{where}/{escape_token(name)}",
                hint='add one, such as "type": "string"',
            )
    return {
        "type": "object",
        "properties": dict(value),
        "required": list(value),
        "additionalProperties": False,
    }


def _is_schema(parameters: Mapping[str, Any]) -> bool:
    """Return whether this is a JSON Schema and not the flat form, whose values are all schemas.

    A parameter of the flat form may be called "type" or "properties"; its value is a schema then.
    """
    if "type" in parameters and not isinstance(parameters["type"], Mapping):
        return True
    if any(key in parameters and _is_keyword(key, parameters[key]) for key in _SCHEMA_ONLY):
        return True
    properties = parameters.get("properties")
    return isinstance(properties, Mapping) and all(
        isinstance(schema, Mapping | bool) for schema in properties.values()
    )


def _is_flat(parameters: Mapping[str, Any]) -> bool:
    """Return whether this can only be the flat form: each value has a type, and no key is a keyword.

    Read as a JSON Schema it would allow anything, and every call would have no arguments.
    """
    return bool(parameters) and all(
        isinstance(schema, Mapping) and "type" in schema and key not in _SCHEMA_KEYWORDS
        for key, schema in parameters.items()
    )


def _is_keyword(key: str, value: object) -> bool:
    return key == "$defs" or not isinstance(value, Mapping)


def _kind(value: object) -> str:
    """Name the JSON type of a value, for messages."""
    if value is None:
        return "null"
    for types, name in (
        (bool, "a boolean"),
        (str, "a string"),
        ((int, float, Decimal), "a number"),
        (list, "an array"),
        (Mapping, "an object"),
    ):
        if isinstance(value, types):
            return name
    return type(value).__name__
