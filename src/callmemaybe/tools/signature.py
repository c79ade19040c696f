"""Turns a Python signature into a JSON Schema, and arguments that fit it into Python values.

pydantic does the types (models, dataclasses, TypedDicts, enums, Literal, Annotated constraints, unions);
what it cannot say in JSON Schema is refused with the parameter's name.
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
    """What a function takes and gives, in both worlds."""

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
    """Positional-only parameters, in order."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Parameter name -> the function's own default."""

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return keyword arguments as Python values; raise InputError pointing at what is wrong."""
        made = self._made(arguments)
        given = made.model_fields_set
        # A default of `Annotated[T, Field(default=...)]` is one that the function does not know.
        return {
            name: getattr(made, inner)
            for name, inner in self.fields.items()
            if inner in given or name not in self.defaults
        }

    def _made(self, arguments: Mapping[str, Any]) -> pydantic.BaseModel:
        validator = self.model.__pydantic_validator__
        try:
            made: pydantic.BaseModel = validator.validate_python(dict(arguments))
        except pydantic.ValidationError as found:
            error = found
        else:
            return made
        try:
            # A strict type takes what JSON has no form for (a date) as a text, but from JSON only.
            if not _would_be_rounded(arguments):
                return self.model.model_validate_json(dumps(dict(arguments)))
        except pydantic.ValidationError as found:
            error = found
        except (TypeError, InputError):
            pass  # no JSON
        first = error.errors(include_url=False)[0]
        pointer = join_pointer(first["loc"])
        raise InputError(first["msg"], where=pointer or "/")

    def split(self, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments that go by position, and those that go by name.

        An absent one in front of others would leave them its place: its default stands there.
        """
        known = {**self.defaults, **values}
        first = [known[name] for name in self.positional if name in known]
        return first, {name: item for name, item in values.items() if name not in self.positional}


def read_signature(
    function: Callable[..., Any],
    name: str,
    *,
    hidden: frozenset[str] = frozenset(),
    markers: tuple[type, ...] = (),
    skip_first: bool = False,
    is_run: bool = True,
) -> Signature:
    """Read ``function``'s signature, type hints and docstring.

    Of a `functools.partial`, or an object that can be called, they are those of what runs,
    without what a partial has fixed. ``hidden`` parameters are not shown to a model (secrets); parameters annotated with one of
    ``markers`` neither. Raises InputError naming the first parameter that JSON Schema cannot express, and the tool's ``name``;
    so for what it returns, but where it is not run here (``is_run`` False) that is only not known.
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
        _schema(name, model),
        _returns(name, hints, doc, is_run=is_run),
        model,
        fields,
        injected,
        tuple(p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_ONLY),
        {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty},
    )


class _Untitled(GenerateJsonSchema):
    """A schema for a small model to read: without the titles that repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - overridden
        return False

    def encode_default(self, dft: Any) -> Any:
        """Return the default as JSON has it; infinity and nan are among what it cannot carry."""
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
    """Return the function that somebody wrote: behind a partial, or an object that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return type(function).__call__


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    """Return what a call may pass; what a partial has fixed is decided, and may be a secret."""
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
    modern = {key: _modern(hint, f"tool {name}, {places[key]}") for key, hint in hints.items()}
    return {key: hint if key == "return" else _plain(hint) for key, hint in modern.items()}


#: Whatever JSON has; its numbers as `json` reads them where no digit is lost, not as Decimal.
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
#: typing has names of its own for them.
_BARE = {"List": list, "Dict": dict, "Tuple": tuple, "Sequence": Sequence, "Mapping": Mapping}
_OPEN.update({getattr(typing, name): _OPEN[kind] for name, kind in _BARE.items()})


def _plain(hint: Any) -> Any:
    """Replace what says nothing of numbers by what makes plain ones of them."""
    parts, origin = get_args(hint), get_origin(hint)
    if not parts:
        return _OPEN.get(hint, hint) if isinstance(hint, Hashable) else hint
    if origin is Annotated:
        return Annotated[(_plain(parts[0]), *parts[1:])]
    if origin in {typing.Union, types.UnionType}:
        return typing.Union[tuple(map(_plain, parts))]  # noqa: UP007 - the parts are computed
    if origin in {list, dict, tuple, Sequence, Mapping}:
        return types.GenericAlias(origin, tuple(map(_plain, parts)))
    return hint


def _modern(hint: Any, where: str, within: tuple[Any, ...] = ()) -> Any:
    """Replace typing.TypedDict, which pydantic cannot read before Python 3.12, by its backport.

    ``within`` are those that are being replaced. Raises InputError for one that refers to itself.
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
        return Annotated[(_modern(parts[0], where, within), *parts[1:])]
    if get_origin(hint) in {typing.Union, types.UnionType}:
        parts = tuple(_modern(part, where, within) for part in parts)
        return typing.Union[parts]  # noqa: UP007 - the parts are computed
    if isinstance(hint, types.GenericAlias):
        parts = tuple(_modern(part, where, within) for part in parts)
        return types.GenericAlias(typing.cast("type", hint.__origin__), parts)
    return hint


def _key(hint: Any, is_required: bool, where: str, within: tuple[Any, ...]) -> Any:
    """Return the hint of a TypedDict's key with its qualifier outermost.

    ``is_required`` is what the class recorded. It cannot read a qualifier in an annotation that was
    deferred (`from __future__ import annotations`), so one that stands there wins.
    """
    extras: tuple[Any, ...] = ()
    while (origin := get_origin(hint)) in {Annotated, Required, NotRequired}:
        first, *more = get_args(hint)
        if origin is Annotated:
            extras = (*more, *extras)
        else:
            is_required = origin is Required
        hint = first
    hint = _modern(Annotated[(hint, *extras)] if extras else hint, where, within)
    return (Required if is_required else NotRequired)[hint]


def _would_be_rounded(value: Any) -> bool:
    """Whether pydantic, which reads numbers of JSON as floats, would round a number that is no float."""
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
    _express(hint, where)
    said = _description(hint) or doc.parameters.get(parameter.name)
    about: dict[str, Any] = {"alias": parameter.name}
    if said:
        about["description"] = said
    if parameter.default is not inspect.Parameter.empty:
        if isinstance(parameter.default, FieldInfo):
            raise InputError(
                "put Field(...) into Annotated[...], not into the default", where=where
            )
        about["default"] = parameter.default
    return hint, Field(**about)


def _description(hint: Any) -> str | None:
    """Return what ``Annotated[T, "text"]`` or ``Field(description=...)`` says."""
    if get_origin(hint) is not Annotated:
        return None
    for extra in get_args(hint)[1:]:
        if isinstance(extra, str):
            return extra
        if isinstance(extra, FieldInfo) and extra.description:
            return extra.description
    return None


def _express(hint: Any, where: str) -> None:
    """Raise InputError if JSON Schema has no words for ``hint``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            TypeAdapter(hint).json_schema()
    except PydanticInvalidForJsonSchema:
        raise InputError(f"JSON Schema cannot express {_spelt(hint)}", where=where) from None
    except (PydanticUserError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"JSON Schema cannot express {_spelt(hint)} ({reason})", where=where
        ) from None


def _spelt(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) else str(hint)


def _model(
    tool: str, shown: Mapping[str, tuple[Any, FieldInfo]], fields: Mapping[str, str]
) -> type[pydantic.BaseModel]:
    config = ConfigDict(extra="forbid", protected_namespaces=(), validate_default=False)
    definitions: dict[str, Any] = {fields[name]: value for name, value in shown.items()}
    return create_model(tool, __config__=config, **definitions)


def _schema(tool: str, model: type[pydantic.BaseModel]) -> Mapping[str, Any]:
    with warnings.catch_warnings():
        # A default that JSON cannot carry makes the parameter optional, without saying its default.
        warnings.simplefilter("ignore")
        schema = model.model_json_schema(by_alias=True, schema_generator=_Untitled)
    schema.pop("title", None)
    schema.pop("description", None)
    for part in schema.get("$defs", {}).values():
        part.pop("title", None)
    schema.setdefault("properties", {})
    if not schema["properties"]:
        schema = {"type": "object", "properties": {}, "additionalProperties": False}
    del tool
    return schema


def _returns(
    tool: str, hints: Mapping[str, Any], doc: Docstring, *, is_run: bool
) -> Mapping[str, Any] | None:
    if "return" not in hints or hints["return"] is Any:
        return None
    try:
        _express(hints["return"], f"tool {tool}, return value")
    except InputError:
        if is_run:
            raise
        return None
    schema = TypeAdapter(hints["return"]).json_schema(
        mode="serialization", schema_generator=_Untitled
    )
    schema.pop("title", None)
    if doc.returns:
        schema.setdefault("description", doc.returns)
    return schema
