"""Values to JSON text on one line, letters as they are: :func:`dumps` and its relatives.

The C encoder of :mod:`json` writes whatever it can write exactly. The encoder in Python below takes
over for Decimal and :class:`RawNumber` (written digit by digit), integers of any size, values that
nest too deep for recursion, canonical text, and numbers that a schema declares to be floats.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.jsonio.pointer import resolve_pointer
from callmemaybe.jsonio.reader import RawNumber, has_lone_surrogate, is_deeper

#: A string that is never closed is one token, too, so that each character is read once.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{}:,]|[^][{}:,"\s]+', re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_STRING = re.compile(r'"[^"\\\x00-\x1f' + "\ud800-\udfff" + r']*"')
_SPACED, _COMPACT = (", ", ": "), (",", ":")
#: Larger integers are written by way of Decimal: str(int) takes time with the square of their digits.
_MAX_INT_BITS = 10_000

#: The schemas that apply to one value, references and combinations resolved.
_Schemas = tuple[Mapping[str, object], ...]
_Pieces = Iterator[str | tuple[Any, _Schemas]]


def dumps(
    value: Any,
    *,
    compact: bool = False,
    default: Callable[[Any], Any] | None = None,
    canonical: bool = False,
    schema: Mapping[str, object] | None = None,
) -> str:
    """Write a value as JSON: Decimal and RawNumber digit by digit, nesting without limit.

    The separators are those of :func:`json.dumps`, or without spaces when ``compact``. Halves of
    surrogate pairs are escaped, so the text always has a UTF-8 form. ``default`` converts a value that
    JSON has no form for, as that of :func:`json.dumps` does, and an object with keys that are not
    strings. ``canonical``: equal values become equal texts, 1 and 1.0 too, and objects whatever the
    order of their keys; true is not 1. ``schema``: a number that it declares a ``number`` and not an
    ``integer`` is written as a float (3 becomes 3.0), by adding to its digits.

    Raises InputError for a value that contains itself and for a number that is not finite, TypeError
    for a value that JSON has no form for.
    """
    if default is None and schema is None and not canonical:
        try:
            return escape_surrogates("".join((_C_COMPACT if compact else _C_SPACED)(value, 0)))
        except (TypeError, ValueError, RecursionError):
            pass  # the encoder below writes it, or says what is wrong
    separators = _COMPACT if compact else _SPACED
    return _Encoder(separators, default, canonical, schema or {}).encode(value)


def dumps_result(value: Any, *, max_depth: int) -> str:
    """Write the value that a Python function returned, which may be a model, dataclass or date.

    Raises InputError if JSON cannot carry it exactly (numbers that are not finite, halves of surrogate
    pairs) or it nests deeper than ``max_depth``.
    """
    try:
        text = "".join(_C_RESULT(value, 0))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"JSON cannot carry it: {error}") from None
    if has_lone_surrogate(text):
        raise InputError("a string holds half of a surrogate pair")
    if is_deeper(text, max_depth):
        raise InputError(f"JSON nested deeper than {max_depth}")
    return text


def to_json_value(value: Any) -> Any:
    """Convert what pydantic, dataclasses and the like return into JSON values. Raises TypeError."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(value, inf_nan_mode="constants")
    except PydanticSerializationError as error:
        raise TypeError(str(error).splitlines()[0]) from None


def rewrite(text: str, *, compact: bool = False) -> str:
    """Change the separators and escapes of a valid JSON text to our style; numbers keep their digits.

    Strings escape only what must be escaped, and halves of surrogate pairs. Only the strings are
    checked: raises InputError for one that is broken or never closed.
    """
    comma, colon = _COMPACT if compact else _SPACED
    marks = {",": comma, ":": colon}
    try:
        return "".join(
            marks.get(token, token)
            if token[0] != '"' or _PLAIN_STRING.fullmatch(token)
            else dumps_string(json.loads(token, strict=False))
            for token in _TOKEN.findall(text)
        )
    except ValueError as error:
        raise InputError(f"not valid JSON: {error}") from None


def dumps_string(text: str) -> str:
    """Write a JSON string that escapes only what must be escaped, and halves of surrogate pairs."""
    return escape_surrogates(json.dumps(text, ensure_ascii=False))


def escape_surrogates(text: str) -> str:
    """Escape halves of surrogate pairs in JSON text: they have no UTF-8, and survive as escapes."""
    if text.isascii() or not has_lone_surrogate(text):
        return text
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class _Encoder:
    """Writes one value without recursion; the stack holds the open arrays and objects."""

    def __init__(
        self,
        separators: tuple[str, str],
        default: Callable[[Any], Any] | None,
        canonical: bool,
        schema: Mapping[str, object],
    ) -> None:
        self._comma, self._colon = separators
        self._default = default
        self._canonical = canonical
        self._schema = schema

    def encode(self, value: Any) -> str:
        parts: list[str] = []
        open_values: list[Any] = []
        open_ids: set[int] = set()
        stack: list[_Pieces] = [iter([(value, self._resolve([self._schema]))])]
        while stack:
            for item in stack[-1]:
                if isinstance(item, str):
                    parts.append(item)
                    continue
                inner, schemas = item
                if self._default is not None and not _has_json_form(inner):
                    inner = self._default(inner)
                if not isinstance(inner, dict | list | tuple):
                    parts.append(self._scalar(inner, schemas))
                    continue
                if id(inner) in open_ids:
                    raise InputError("the value contains itself, so its JSON text would not end")
                open_ids.add(id(inner))
                open_values.append(inner)
                is_object = isinstance(inner, dict)
                stack.append((self._object if is_object else self._array)(inner, schemas))
                break
            else:
                stack.pop()
                if open_values:
                    open_ids.discard(id(open_values.pop()))
        return "".join(parts)

    def _object(self, value: Any, schemas: _Schemas) -> _Pieces:
        yield "{"
        before = ""
        for key in sorted(value) if self._canonical else value:
            yield f"{before}{dumps_string(key)}{self._colon}"
            yield value[key], self._resolve([one for s in schemas for one in _under_key(s, key)])
            before = self._comma
        yield "}"

    def _array(self, value: Any, schemas: _Schemas) -> _Pieces:
        yield "["
        for position, inner in enumerate(value):
            if position:
                yield self._comma
            yield inner, self._resolve([_under_index(schema, position) for schema in schemas])
        yield "]"

    def _scalar(self, value: Any, schemas: _Schemas) -> str:
        if isinstance(value, str):
            return dumps_string(value)
        if value is None or isinstance(value, bool):
            return json.dumps(value)
        if self._canonical and isinstance(value, int | float | Decimal):
            return _canonical_number(value)
        digits = _digits(value)
        is_integral = not any(letter in digits for letter in ".eE")
        return f"{digits}.0" if is_integral and schemas and _is_float(schemas) else digits

    def _resolve(self, schemas: list[object]) -> _Schemas:
        """Follow references and combinations until nothing new appears."""
        found: dict[int, Mapping[str, object]] = {}
        todo = schemas
        while todo:
            schema = todo.pop()
            if not isinstance(schema, Mapping) or not schema or id(schema) in found:
                continue
            found[id(schema)] = schema
            for keyword in ("allOf", "anyOf", "oneOf"):
                branches = schema.get(keyword)
                todo.extend(branches if isinstance(branches, list) else [])
            todo.extend(schema.get(keyword) for keyword in ("if", "then", "else"))
            reference = schema.get("$ref")
            if isinstance(reference, str) and reference.startswith("#"):
                try:
                    todo.append(resolve_pointer(self._schema, reference[1:]))
                except LookupError:
                    continue
        return tuple(found.values())


def _has_json_form(value: Any) -> bool:
    """Return whether the encoder writes the value itself, whatever it contains."""
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value)
    return value is None or isinstance(value, str | int | float | Decimal | list | tuple)


def _digits(value: Any) -> str:
    """Write a number. Raises InputError if it is not finite, TypeError if it is no number."""
    if isinstance(value, RawNumber):
        return value.digits
    if isinstance(value, int) and value.bit_length() > _MAX_INT_BITS:
        value = Decimal(value)
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise InputError("JSON has no infinity and no NaN")
        return str(value)  # 1E+2 is how Decimal writes 100, which JSON accepts
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        raise InputError("JSON has no infinity and no NaN") from None


def _canonical_number(value: float | Decimal) -> str:
    """Write a number in one way: its digits as d.ddd and the exponent, which is never expanded."""
    exact = Decimal(repr(value) if isinstance(value, float) else value)
    if not exact.is_finite():
        raise InputError("JSON has no infinity and no NaN")
    first, _, exponent = f"{exact:e}".partition("e")
    digits = first.rstrip("0").rstrip(".") if "." in first else first
    return f"{digits}e{exponent}" if exact else "0"


def _is_float(schemas: _Schemas) -> bool:
    types: set[object] = set()
    for schema in schemas:
        named = schema.get("type")
        types.update(named if isinstance(named, list | tuple) else [named])
    # "float" and "any" are types of the Berkeley Function Calling Leaderboard.
    return not types.isdisjoint(("number", "float")) and types.isdisjoint(("integer", "any"))


def _under_key(schema: Mapping[str, object], key: str) -> list[object]:
    properties = schema.get("properties")
    found = [properties[key]] if isinstance(properties, Mapping) and key in properties else []
    patterns = schema.get("patternProperties")
    if isinstance(patterns, Mapping):
        found += [inner for pattern, inner in patterns.items() if _matches(pattern, key)]
    return found or [schema.get("additionalProperties")]


def _matches(pattern: str, key: str) -> bool:
    try:
        return re.search(pattern, key) is not None
    except re.error:
        return False  # an ECMA-262 pattern that Python cannot read: the digits stay as they are


def _under_index(schema: Mapping[str, object], index: int) -> object:
    items = schema.get("items")
    # "prefixItems" since 2020-12; a list under "items" before.
    prefix = items if isinstance(items, list) else schema.get("prefixItems")
    if isinstance(prefix, list):
        if index < len(prefix):
            return prefix[index]
        return schema.get("additionalItems") if prefix is items else items
    return items


def _c_encoder(
    separators: tuple[str, str], default: Callable[[Any], Any] | None = None
) -> Callable[[Any, int], Any]:
    """Return json's own encoder, made once: ``JSONEncoder.encode`` makes one per text.

    It does not look for values that contain themselves: those end in RecursionError.
    """
    encoder = json.JSONEncoder(default=default, allow_nan=False)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # pragma: no cover - an interpreter without the C accelerator
        plain = json.JSONEncoder(
            ensure_ascii=False, allow_nan=False, separators=separators, default=default
        )
        return lambda value, _: plain.encode(value)
    comma, colon = separators
    return make(  # type: ignore[no-any-return]
        None,
        encoder.default,
        json.encoder.encode_basestring,
        None,
        colon,
        comma,
        False,
        False,
        False,
    )


_C_SPACED, _C_COMPACT = _c_encoder(_SPACED), _c_encoder(_COMPACT)
_C_RESULT = _c_encoder(_SPACED, to_json_value)
