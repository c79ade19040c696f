"""How some families write arguments that are not JSON: a table of marks per notation.

::

    JSON      {"city": "Paris", "days": 2, "wet": true}
    PYTHON    (city="Paris", days=2, wet=True)
    GEMMA     {city:<escape>Paris<escape>,days:2,wet:true}
    XML       <parameter=city>
              Paris
              </parameter>
              <parameter=days>
              2
              </parameter>
              </function>

From the table derive what arguments look like (``written``, here), which of them a schema allows
(``spelling``), and what was written (``translating``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio.writer import dumps
from callmemaybe.tools.dialects import standard
from callmemaybe.wire.history_args import object_of

#: What a bare key or name consists of; anything beyond ASCII is fine too.
BARE = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@$"
) | frozenset(range(0x80, 0x100))
_NOT_BARE_FIRST = frozenset(b"-./0123456789")
#: A text that begins like a JSON value other than a word.
LOOKS_LIKE_JSON = re.compile(r'["\[{\-0-9]|(?:true|false|null)\Z')


@dataclass(frozen=True, slots=True)
class Outer:
    """How the arguments as a whole are written, around and between their members."""

    begin: str
    before_key: str
    after_key: str
    after_value: str
    between: str
    end: str


@dataclass(frozen=True, slots=True)
class Notation:
    """The marks of one notation.

    ``quotes`` are those that strings may stand in (the first is written); a ``fence`` is a control
    token that stands in front of and behind a text instead, in which nothing is escaped; ``raw``
    strings at the top have neither and end with what follows the value. ``bare`` says that keys
    inside of values have no quotes either. ``is_sorted``: members stand in the order of their keys.
    """

    name: str
    outer: Outer | None = None
    comma: str = ", "
    colon: str = ": "
    words: tuple[str, str, str] = ("true", "false", "null")
    quotes: str = '"'
    fence: str = ""
    raw: bool = False
    bare: bool = False
    is_sorted: bool = False


JSON = Notation("json")
PYTHON = Notation(
    "python",
    Outer("(", "", "=", "", ", ", ")"),
    words=("True", "False", "None"),
    quotes="\"'",
)
XML = Notation(
    "xml", Outer("", "<parameter=", ">\n", "\n</parameter>\n", "", "</function>"), raw=True
)


def gemma(fence: str) -> Notation:
    """Return Gemma's notation with this token around strings."""
    return Notation(
        f"gemma {fence}", Outer("{", "", ":", "", ",", "}"), comma=",", colon=":", fence=fence,
        bare=True, is_sorted=True,
    )  # fmt: skip


def is_bare(text: str) -> bool:
    """Whether a key or name needs no quotes."""
    data = text.encode(errors="surrogatepass")
    return bool(data) and data[0] not in _NOT_BARE_FIRST and BARE.issuperset(data)


def in_order(keys: Mapping[str, Any]) -> list[str]:
    """Sort keys as Jinja's ``dictsort`` does, without looking at their case first."""
    return sorted(keys, key=lambda key: (key.lower(), key))


def ordered(schema: Any) -> Any:
    """Return a schema with the properties of every object in order."""
    if isinstance(schema, list | tuple):
        return [ordered(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {key: ordered(value) for key, value in schema.items()}
    if isinstance(properties := found.get("properties"), dict):
        found["properties"] = {key: properties[key] for key in in_order(properties)}
    return found


def kinds(schema: Any, root: Mapping[str, Any], depth: int = 0) -> frozenset[str]:
    """Return "text" and "other", as far as a value of a schema may be a string, or something else.

    An upper bound; the same in the grammar, in what is rendered and in what is read.
    """
    if isinstance(schema, bool) or depth > 20 or not isinstance(schema, Mapping):
        return frozenset(("text", "other"))
    found = {"text", "other"}
    if isinstance(reference := schema.get("$ref"), str):
        found &= kinds(_pointed(reference, root), root, depth + 1)
    told = {key: schema[key] for key in ("type", "nullable") if key in schema}
    if (kind := standard(told).get("type")) is not None:
        given = set(kind) if isinstance(kind, list) else {kind}
        found &= {"text" if one == "string" else "other" for one in given}
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list):
        found &= {"text" if isinstance(value, str) else "other" for value in values}
    for keyword in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(keyword), list):
            found &= {one for option in options for one in kinds(option, root, depth + 1)}
    if isinstance(every := schema.get("allOf"), list):
        for one in every:
            found &= kinds(one, root, depth + 1)
    return frozenset(found)


def _pointed(reference: str, root: Mapping[str, Any]) -> Any:
    """Follow a pointer within the schema; True (anything) for anchors and what leads elsewhere."""
    if reference != "#" and not reference.startswith("#/"):
        return True
    at: Any = root
    for step in reference[1:].split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(at, Mapping) or step not in at:
            return True
        at = at[step]
    return at


def kinds_of(key: str, parameters: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the kinds of the argument ``key`` of a tool with these parameters (None: unknown)."""
    properties = None if parameters is None else parameters.get("properties")
    schema = properties.get(key, True) if isinstance(properties, Mapping) else True
    return kinds(schema, parameters or {})


def written(
    notation: Notation, arguments: str, parameters: Mapping[str, Any] | None
) -> Iterator[str | Control]:
    """Write arguments (JSON text) of a tool with these parameters in a notation.

    Raises InputError for a text that the notation has no way to write, and what ``object_of`` does.
    """
    value = object_of(arguments, "arguments")
    outer = notation.outer
    assert outer is not None
    yield outer.begin
    for index, key in enumerate(in_order(value) if notation.is_sorted else value):
        yield outer.between * bool(index) + outer.before_key
        if notation.raw:
            yield _ending(key, outer.after_key, "a parameter's name")
        else:
            yield from _key(notation, key)
        yield outer.after_key
        if notation.raw:
            yield _raw(value[key], kinds_of(key, parameters), outer.after_value)
        else:
            yield from _value(notation, value[key])
        yield outer.after_value
    yield outer.end


def _raw(value: Any, allowed: frozenset[str], stop: str) -> str:
    if isinstance(value, str):
        if "other" not in allowed:
            return _ending(value, stop, "a string")
        if LOOKS_LIKE_JSON.match(value) is None and not holds(value, stop):
            return value
    return dumps(value)


def holds(text: str, stop: str) -> bool:
    """Whether ``text`` followed by ``stop`` would end too early."""
    return (text + stop).find(stop) != len(text)


def _ending(text: str, stop: str, what: str) -> str:
    if holds(text, stop):
        raise InputError(f"this format cannot write {what} that holds {stop!r}")
    return text


def _key(notation: Notation, key: str) -> Iterator[str | Control]:
    if is_bare(key):
        yield key
    else:
        yield from _string(notation, key)


def _string(notation: Notation, text: str) -> Iterator[str | Control]:
    if not notation.fence:
        yield dumps(text)
        return
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise InputError("this format cannot write half of a surrogate pair")
    yield from (Control(notation.fence), text, Control(notation.fence))


def _value(notation: Notation, value: Any) -> Iterator[str | Control]:
    true, false, null = notation.words
    if isinstance(value, str):
        yield from _string(notation, value)
    elif value is None or isinstance(value, bool):
        yield null if value is None else true if value else false
    elif isinstance(value, dict):
        yield "{"
        for index, key in enumerate(in_order(value) if notation.is_sorted else value):
            yield notation.comma * bool(index)
            yield from _key(notation, key) if notation.bare else _string(notation, key)
            yield notation.colon
            yield from _value(notation, value[key])
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for index, item in enumerate(value):
            yield notation.comma * bool(index)
            yield from _value(notation, item)
        yield "]"
    else:
        yield dumps(value) if isinstance(value, Decimal) else json.dumps(value)
