"""A Python signature as a JSON Schema, and JSON arguments as Python values of the hinted types.

pydantic converts the types (models, dataclasses, TypedDicts, enums, Literal, Annotated constraints,
unions); a type that it cannot express in JSON Schema is refused with the name of the parameter.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
import typing
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin

import pydantic
import typing_extensions
from pydantic import ConfigDict, Field, TypeAdapter, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from callmemaybe.errors import InputError
from callmemaybe.jsonio import dumps, float_if_exact, join_pointer, map_decimals
from callmemaybe.tools.docstrings import Docstring, parse_docstring

_PASSED = "passed by the gateway"


@dataclass(frozen=True)
class Signature:
    """The parameters and result of a function, as JSON Schema and as a pydantic model."""

    description: str
    parameters: Mapping[str, Any]
    """The JSON Schema of the arguments object."""
    returns: Mapping[str, Any] | None
    model: type[pydantic.BaseModel]
    fields: Mapping[str, str]
    """Parameter name -> field name in ``model``."""
    injected: Mapping[str, type]
    """Parameters that the gateway passes: name -> marker class."""
    positional: tuple[str, ...] = field(default=())
    """The positional-only parameters, in order."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Parameter name -> the function's own default."""

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return keyword arguments as Python values; raises InputError with the pointer of a mistake."""
        validated = self._validate(arguments)
        passed = validated.model_fields_set
        # The function does not know a default that is declared in `Annotated[T, Field(default=...)]`.
        return {
            name: getattr(validated, inner)
            for name, inner in self.fields.items()
            if inner in passed or name not in self.defaults
        }

    def _validate(self, arguments: Mapping[str, Any]) -> pydantic.BaseModel:
        validator = self.model.__pydantic_validator__
        try:
            made: pydantic.BaseModel = validator.validate_python(dict(arguments))
        except pydantic.ValidationError as found:
            error = found
        else:
            return made
        try:
            # A strict type accepts a string for a type that JSON lacks (a date), but only from JSON text.
            if not _would_be_rounded(arguments):
                return self.model.model_validate_json(dumps(dict(arguments)))
        except pydantic.ValidationError as found:
            error = found
        except (TypeError, InputError):
            pass  # JSON cannot carry them
        first = error.errors(include_url=False)[0]
        pointer = join_pointer(first["loc"])
        raise InputError(first["msg"], where=pointer or "/")

    def split_positional(self, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments to pass by position, and those to pass by name.

        A positional argument that is absent is passed as its default, so that later ones do not move up.
        """
        known = {**self.defaults, **values}
        positional = [known[name] for name in self.positional if name in known]
        return positional, {
            name: item for name, item in values.items() if name not in self.positional
        }


def read_signature(
    function: Callable[..., Any],
    name: str,
    *,
    hidden: frozenset[str] = frozenset(),
    markers: tuple[type, ...] = (),
    skip_first: bool = False,
    requires_return_schema: bool = True,
) -> Signature:
    """Read the signature, type hints and docstring of ``function``; ``name`` is that of the tool.

    Those of a `functools.partial` or a callable object are those of the function that runs, without
    the parameters that the partial has fixed. A model sees neither ``hidden`` parameters (secrets) nor those
    annotated with one of ``markers``; ``skip_first`` leaves out ``self``. Raises InputError naming the first
    parameter that JSON Schema cannot express. If it cannot express the result, that is an error as well
    unless ``requires_return_schema`` is False: then ``returns`` is None.
    """
    written = unwrap_callable(function)
    doc = parse_docstring(inspect.getdoc(written))
    hints = _hints(written, name)
    parameters = _parameters(function, name)[1 if skip_first else 0 :]
    injected: dict[str, type] = {}
    shown: dict[str, tuple[Any, FieldInfo]] = {}
    for parameter in parameters:
        hint = hints.get(parameter.name, inspect.Parameter.empty)
        marker = next((item for item in markers if hint is item), None)
        if marker is not None:
            injected[parameter.name] = marker
        elif parameter.name in hidden:
            continue
        else:
            shown[parameter.name] = _field(name, parameter, hint, doc)
    missing = hidden - {parameter.name for parameter in parameters}
    if missing:
        raise InputError(f"there is no parameter {min(missing)!r}", where=f"tool {name}")
    fields = {parameter: f"p{index}" for index, parameter in enumerate(shown)}
    model = _model(name, shown, fields)
    return Signature(
        doc.description,
        _schema(model),
        _returns(name, hints, doc, is_required=requires_return_schema),
        model,
        fields,
        injected,
        tuple(p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_ONLY),
        {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty},
    )


class _Untitled(GenerateJsonSchema):
    """Makes schemas for a small model to read: without titles that repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - overridden
        return False

    def encode_default(self, dft: Any) -> Any:
        """Return a default as a JSON value; refuse infinity and nan."""
        if _is_infinite(dft):
            raise PydanticSerializationError("JSON has no such number")
        return super().encode_default(dft)


def _is_infinite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    parts = value.values() if isinstance(value, Mapping) else value
    is_many = isinstance(value, Mapping | list | tuple | set | frozenset)
    return is_many and any(map(_is_infinite, parts))


def unwrap_callable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that runs: the one in a partial, or ``__call__`` of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return type(function).__call__


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    """Return the parameters that a call may pass; one that a partial has fixed may be a secret."""
    fixed = set[str]()
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise InputError(
            "Python does not tell its parameters", where=f"tool {name}",
            hint="write a function with type hints that calls it",
        ) from None  # fmt: skip
    while isinstance(function, functools.partial):
        fixed.update(function.keywords)
        function = function.func
    return [each for each in found if each.name not in fixed]


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise InputError(
            f"its type hints cannot be resolved ({error})",
            where=f"tool {name}",
            hint="import the names it uses at the top of its module, not for type checkers alone",
        ) from None
    places = {key: "return value" if key == "return" else f"parameter {key}" for key in hints}
    replaced = {
        key: _with_backports(hint, f"tool {name}, {places[key]}") for key, hint in hints.items()
    }
    return {key: hint if key == "return" else _with_floats(hint) for key, hint in replaced.items()}


#: Any JSON value; its numbers are floats, not Decimals, unless that would lose a digit.
_ANYTHING = Annotated[
    Any, pydantic.AfterValidator(lambda value: map_decimals(value, float_if_exact))
]
_OPEN: dict[Any, Any] = {
    Any: _ANYTHING,
    object: _ANYTHING,
    list: list[_ANYTHING],
    dict: dict[Any, _ANYTHING],
    tuple: tuple[_ANYTHING, ...],
    Sequence: Sequence[_ANYTHING],
    Mapping: Mapping[Any, _ANYTHING],
}
#: The same types under the names of typing.
_BARE = {"List": list, "Dict": dict, "Tuple": tuple, "Sequence": Sequence, "Mapping": Mapping}
_OPEN.update({getattr(typing, name): _OPEN[kind] for name, kind in _BARE.items()})


def _with_floats(hint: Any) -> Any:
    """Replace hints that allow any value by hints that convert its Decimals to floats."""
    parts, origin = get_args(hint), get_origin(hint)
    if not parts:
        return _OPEN.get(hint, hint) if isinstance(hint, Hashable) else hint
    if origin is Annotated:
        return Annotated[(_with_floats(parts[0]), *parts[1:])]
    if origin in {typing.Union, types.UnionType}:
        return typing.Union[tuple(map(_with_floats, parts))]  # noqa: UP007 - the parts are computed
    if origin in {list, dict, tuple, Sequence, Mapping}:
        return types.GenericAlias(origin, tuple(map(_with_floats, parts)))
    return hint


def _with_backports(hint: Any, where: str, within: tuple[Any, ...] = ()) -> Any:
    """Replace typing.TypedDict, which pydantic cannot read before Python 3.12, by its backport.

    ``within`` are the classes that enclose the hint. Raises InputError for one that refers to itself.
    """
    if typing_extensions.is_typeddict(hint) and type(hint).__module__ == "typing":
        if hint in within:
            raise InputError(
                f"the TypedDict {hint.__name__} refers to itself", where=where,
                hint="import TypedDict from typing_extensions, not from typing",
            )  # fmt: skip
        fields = {
            name: _key(part, name in hint.__required_keys__, where, (*within, hint))
            for name, part in typing.get_type_hints(hint, include_extras=True).items()
        }
        return typing_extensions.TypedDict(hint.__name__, fields)  # type: ignore[operator]
    parts = get_args(hint)
    if get_origin(hint) is Annotated:
        return Annotated[(_with_backports(parts[0], where, within), *parts[1:])]
    if get_origin(hint) in {typing.Union, types.UnionType}:
        parts = tuple(_with_backports(part, where, within) for part in parts)
        return typing.Union[parts]  # noqa: UP007 - the parts are computed
    if isinstance(hint, types.GenericAlias):
        parts = tuple(_with_backports(part, where, within) for part in parts)
        return types.GenericAlias(typing.cast("type", hint.__origin__), parts)
    return hint


def _key(hint: Any, is_required: bool, where: str, within: tuple[Any, ...]) -> Any:
    """Return the hint of a key of a TypedDict with its qualifier outermost.

    ``is_required`` is what the class recorded. It cannot read a qualifier in a deferred annotation (`from
    __future__ import annotations`), so a qualifier in the hint wins.
    """
    extras: tuple[Any, ...] = ()
    while (origin := get_origin(hint)) in {Annotated, Required, NotRequired}:
        first, *more = get_args(hint)
        if origin is Annotated:
            extras = (*more, *extras)
        else:
            is_required = origin is Required
        hint = first
    hint = _with_backports(Annotated[(hint, *extras)] if extras else hint, where, within)
    return (Required if is_required else NotRequired)[hint]


def _would_be_rounded(value: Any) -> bool:
    """Return whether pydantic, which reads JSON numbers as floats, would round a number."""
    if isinstance(value, Decimal):
        return isinstance(float_if_exact(value), Decimal)
    parts = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, Mapping | list) and any(map(_would_be_rounded, parts))


def _field(
    tool: str, parameter: inspect.Parameter, hint: Any, doc: Docstring
) -> tuple[Any, FieldInfo]:
    where = f"tool {tool}, parameter {parameter.name}"
    if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        raise InputError(
            "a model cannot pass *args or **kwargs", where=where, hint="name each parameter"
        )
    if hint is inspect.Parameter.empty:
        raise InputError("it has no type hint", where=where, hint="say what it is, such as `: str`")
    _check_expressible(hint, where)
    description = _description(hint) or doc.parameters.get(parameter.name)
    about: dict[str, Any] = {"alias": parameter.name}
    if description:
        about["description"] = description
    if parameter.default is not inspect.Parameter.empty:
        if isinstance(parameter.default, FieldInfo):
            raise InputError(
                "put Field(...) into Annotated[...], not into the default", where=where
            )
        about["default"] = parameter.default
    return hint, Field(**about)


def _description(hint: Any) -> str | None:
    """Return the text of ``Annotated[T, "text"]`` or ``Field(description=...)``."""
    if get_origin(hint) is not Annotated:
        return None
    for extra in get_args(hint)[1:]:
        if isinstance(extra, str):
            return extra
        if isinstance(extra, FieldInfo) and extra.description:
            return extra.description
    return None


def _check_expressible(hint: Any, where: str) -> None:
    """Raise InputError if JSON Schema cannot express ``hint``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            TypeAdapter(hint).json_schema()
    except PydanticInvalidForJsonSchema:
        raise InputError(f"JSON Schema cannot express {_hint_name(hint)}", where=where) from None
    except (PydanticUserError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"JSON Schema cannot express {_hint_name(hint)} ({reason})", where=where
        ) from None


def _hint_name(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) else str(hint)


def _model(
    tool: str, shown: Mapping[str, tuple[Any, FieldInfo]], fields: Mapping[str, str]
) -> type[pydantic.BaseModel]:
    config = ConfigDict(extra="forbid", protected_namespaces=(), validate_default=False)
    definitions: dict[str, Any] = {fields[name]: value for name, value in shown.items()}
    return create_model(tool, __config__=config, **definitions)


def _schema(model: type[pydantic.BaseModel]) -> Mapping[str, Any]:
    with warnings.catch_warnings():
        # A parameter whose default JSON cannot carry is optional, and its schema has no default.
        warnings.simplefilter("ignore")
        schema = model.model_json_schema(by_alias=True, schema_generator=_Untitled)
    schema.pop("title", None)
    schema.pop("description", None)
    for part in schema.get("$defs", {}).values():
        part.pop("title", None)
    schema.setdefault("properties", {})
    if not schema["properties"]:
        schema = {"type": "object", "properties": {}, "additionalProperties": False}
    return schema


def _returns(
    tool: str, hints: Mapping[str, Any], doc: Docstring, *, is_required: bool
) -> Mapping[str, Any] | None:
    if "return" not in hints or hints["return"] is Any:
        return None
    try:
        _check_expressible(hints["return"], f"tool {tool}, return value")
    except InputError:
        if is_required:
            raise
        return None
    schema = TypeAdapter(hints["return"]).json_schema(
        mode="serialization", schema_generator=_Untitled
    )
    schema.pop("title", None)
    if doc.returns:
        schema.setdefault("description", doc.returns)
    return schema
