"""Bodies of OpenAPI operations: which media type is sent, and how a form is written.

A body is JSON where that is offered, else a form (``application/x-www-form-urlencoded``). OpenAPI 3.1.1, section
4.8.15 (Encoding Object): a property of a form with ``style``, ``explode`` or ``allowReserved`` is written as a
parameter of a query; any other one by its content type, which is JSON for an object and text for the rest,
and an array is its name once for each item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from callmemaybe.errors import InputError, NotExecuted
from callmemaybe.jsonio import dumps
from callmemaybe.tools.openapi_parameters import OpenApiParameter, parse_parameter

JSON_MEDIA = "application/json"
FORM_MEDIA = "application/x-www-form-urlencoded"
#: Keywords of an encoding that make a property a parameter of a query.
_STYLED = ("style", "explode", "allowReserved")


@dataclass(frozen=True)
class OpenApiBody:
    """How a body is written: its media type and, of a form, the properties that are not written as usual."""

    media: str = JSON_MEDIA
    is_form: bool = False
    encodings: Mapping[str, OpenApiParameter] = field(default_factory=dict)

    def write(self, value: Any) -> bytes:
        """Return a body. Raises NotExecuted for a value that has no form."""
        if not self.is_form:
            return dumps(value).encode()
        if not isinstance(value, Mapping):
            raise NotExecuted("the body is a form and must be an object, so nothing was sent")
        return "&".join(self._pairs(value)).encode()

    def _pairs(self, value: Mapping[str, Any]) -> Iterator[str]:
        for name, one in value.items():
            encoding = self.encodings.get(name)
            for part in one if encoding is None and isinstance(one, list | tuple) else [one]:
                as_json = isinstance(part, Mapping | list | tuple)
                usual = OpenApiParameter(name, "query", "form", True, is_json=as_json)
                text = None if part is None else (encoding or usual).serialize(part)
                if text is not None:
                    yield text


def parse_body(content: Mapping[str, Any], where: str) -> tuple[OpenApiBody, Any]:
    """Return how the body of a request is written, and its schema as declared.

    Raises InputError naming the media types where none can be written.
    """
    kinds = {str(kind).partition(";")[0].strip().lower(): str(kind) for kind in content}
    json = (kind for kind in kinds if kind == JSON_MEDIA or kind.endswith("+json"))
    media = JSON_MEDIA if JSON_MEDIA in kinds else next(json, None)
    if media is None and "*/*" in kinds:
        return OpenApiBody(), _schema(content[kinds["*/*"]], where)
    if media is not None:
        return OpenApiBody(media), _schema(content[kinds[media]], where)
    if FORM_MEDIA not in kinds:
        raise InputError(
            f"the body is written as {' or '.join(map(repr, kinds)) or 'nothing'}", where=where,
            hint=f"it may be {JSON_MEDIA} or {FORM_MEDIA}",
        )  # fmt: skip
    declared = content[kinds[FORM_MEDIA]]
    schema = _schema(declared, where)
    encodings = {}
    for name, encoding in (declared.get("encoding") or {}).items():
        if (parameter := _encoding(name, encoding, where)) is not None:
            encodings[name] = parameter
    return OpenApiBody(FORM_MEDIA, True, encodings), schema


def _schema(declared: Any, where: str) -> Any:
    if not isinstance(declared, Mapping):
        raise InputError("an object is expected", where=f"{where}/content")
    return declared.get("schema", {})


def _encoding(name: str, encoding: Any, where: str) -> OpenApiParameter | None:
    """Return how a property is written, None if as usual."""
    if not isinstance(encoding, Mapping):
        raise InputError(f"the encoding of {name!r} must be an object", where=where)
    declared: dict[str, Any] = {"name": name, "in": "query"}
    if styled := {key: encoding[key] for key in _STYLED if key in encoding}:
        declared |= styled
    else:
        kind = str(encoding.get("contentType", "text/plain"))
        if kind.partition(";")[0].strip().lower() == "text/plain":
            return None
        declared["content"] = {kind: {}}
    parsed = parse_parameter(declared, where)
    return None if parsed is None else parsed[0]
