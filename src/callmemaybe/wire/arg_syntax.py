"""How families write arguments that are not JSON: a table of marks per syntax, and how to write by it.

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

The table has three readings, as the tree of a format does: what arguments look like
(:func:`render_arguments`, here), what a schema allows (``arg_grammar``), and what was written
(``arg_parser``). Here is also how the arguments of earlier calls are read, which come from anywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import takewhile
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio import MAX_INT_DIGITS, dumps, has_lone_surrogate, loads, split_pointer
from callmemaybe.tools.schemas import normalize_dialect

#: The bytes of a bare key or name; all beyond ASCII are among them.
BARE_BYTES = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@$"
) | frozenset(range(0x80, 0x100))
_NOT_BARE_FIRST = frozenset(b"-./0123456789")
#: The types of JSON values that are no strings.
JSON_TYPES = ("boolean", "null", "number", "object", "array")
#: A text that begins like a JSON value.
LOOKS_LIKE_JSON = re.compile(r'["\[{\-0-9]|(?:true|false|null)\Z')
#: How deep arguments may nest where they are not copied as text: templates recurse, and so do we.
MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class TopLevelMarks:
    """What stands around and between the members of the arguments as a whole."""

    begin: str
    before_key: str
    after_key: str
    after_value: str
    between: str
    end: str
    #: What stands behind the key of a value that is not a string, where that tells it from one;
    #: ``{type}`` in it is the type of the value.
    after_json_key: str | None = None

    @property
    def key_end(self) -> str:
        """The text by which a key is seen to end."""
        if self.after_json_key is None:
            return self.after_key
        pairs = zip(self.after_key, self.after_json_key, strict=False)
        return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    @property
    def is_typed(self) -> bool:
        """Whether the mark behind a key says the type of its value."""
        return "{type}" in (self.after_json_key or "")

    def json_mark(self, kind: str) -> str:
        """Return the mark behind the key of a value of this type, one of ``JSON_TYPES``."""
        return (self.after_json_key or "").replace("{type}", kind)

    def json_marks(self) -> tuple[str, ...]:
        """Return all marks behind keys of values that are no strings."""
        return tuple(map(self.json_mark, JSON_TYPES)) if self.is_typed else (self.json_mark(""),)


@dataclass(frozen=True, slots=True)
class ArgSyntax:
    """The marks of one syntax; ``top`` None: it is JSON.

    Strings stand in one of the ``quotes`` (the first is written); or between two ``fence`` control
    tokens, where nothing is escaped; or, ``raw`` and at the top level, without either, up to the mark
    that follows the value. ``bare``: keys inside of values have no quotes either. ``is_sorted``:
    members stand in the order of their keys. ``tokens``: the parts of the marks that are control
    tokens; only ``raw`` syntaxes have any. ``item``: lists and objects are elements inside of elements
    (see ``element_args``), and this is the name of those of a list.
    """

    name: str
    top: TopLevelMarks | None = None
    comma: str = ", "
    colon: str = ": "
    words: tuple[str, str, str] = ("true", "false", "null")
    quotes: str = '"'
    fence: str = ""
    raw: bool = False
    bare: bool = False
    is_sorted: bool = False
    tokens: tuple[str, ...] = ()
    item: str = ""

    def split(self, mark: str) -> tuple[str | Control, ...]:
        """Return a mark as text and control tokens."""
        return _split_mark(mark, self.tokens)

    def text_stop(self, mark: str) -> str:
        """Return the mark if a text could spell it; nothing if a control token is in it."""
        return "" if any(token in mark for token in self.tokens) else mark


@lru_cache(maxsize=512)
def _split_mark(mark: str, tokens: tuple[str, ...]) -> tuple[str | Control, ...]:
    if not tokens:
        return (mark,)
    texts = re.split(f"({'|'.join(map(re.escape, tokens))})", mark)
    return tuple(Control(one) if at % 2 else one for at, one in enumerate(texts) if one)


@lru_cache(maxsize=512)
def spelled_for(syntax: ArgSyntax, controls: frozenset[str] | None) -> ArgSyntax:
    """Return the syntax for a vocabulary: the control tokens that it lacks are text."""
    if controls is None or controls.issuperset(syntax.tokens):
        return syntax
    return replace(syntax, tokens=tuple(one for one in syntax.tokens if one in controls))


JSON_ARGS = ArgSyntax("json")
PYTHON_ARGS = ArgSyntax(
    "python",
    TopLevelMarks("(", "", "=", "", ", ", ")"),
    words=("True", "False", "None"),
    quotes="\"'",
)
XML_ARGS = ArgSyntax(
    "xml", TopLevelMarks("", "<parameter=", ">\n", "\n</parameter>\n", "", "</function>"), raw=True
)


def gemma_args(fence: str) -> ArgSyntax:
    """Return Gemma's syntax with this token around strings."""
    return ArgSyntax(
        f"gemma {fence}", TopLevelMarks("{", "", ":", "", ",", "}"), comma=",", colon=":",
        fence=fence, bare=True, is_sorted=True,
    )  # fmt: skip


def is_bare(text: str) -> bool:
    """Whether a key or name needs no quotes."""
    data = text.encode(errors="surrogatepass")
    return bool(data) and data[0] not in _NOT_BARE_FIRST and BARE_BYTES.issuperset(data)


def sorted_keys(keys: Mapping[str, Any]) -> list[str]:
    """Sort keys as Jinja's ``dictsort`` does: without regard to case, then by case."""
    return sorted(keys, key=lambda key: (key.lower(), key))


def sort_properties(schema: Any) -> Any:
    """Return a schema with the properties of every object sorted."""
    if isinstance(schema, list | tuple):
        return [sort_properties(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {key: sort_properties(value) for key, value in schema.items()}
    if isinstance(properties := found.get("properties"), dict):
        found["properties"] = {key: properties[key] for key in sorted_keys(properties)}
    return found


def ends_early(text: str, stop: str) -> bool:
    """Whether ``text`` followed by ``stop`` would be read as ending before its end."""
    return bool(stop) and (text + stop).find(stop) != len(text)


# -- strings or other values ----------------------------------------------------------------------


def argument_kinds(key: str, parameters: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the kinds of the argument ``key`` of a tool with these parameters (None: unknown)."""
    properties = None if parameters is None else parameters.get("properties")
    schema = properties.get(key, True) if isinstance(properties, Mapping) else True
    return value_kinds(schema, parameters or {})


def value_kinds(schema: Any, root: Mapping[str, Any], depth: int = 0) -> frozenset[str]:
    """Return the kinds of values of a schema: "text" for strings, "other" for all else.

    An upper bound; the grammar, the renderer and the parser all use this one.
    """
    if isinstance(schema, bool) or depth > 20 or not isinstance(schema, Mapping):
        return frozenset(("text", "other"))
    found = {"text", "other"}
    if isinstance(reference := schema.get("$ref"), str):
        found &= value_kinds(follow_reference(reference, root), root, depth + 1)
    type_keywords = {key: schema[key] for key in ("type", "nullable") if key in schema}
    if (kind := normalize_dialect(type_keywords).get("type")) is not None:
        types = set(kind) if isinstance(kind, list) else {kind}
        found &= {"text" if one == "string" else "other" for one in types}
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list):
        found &= {"text" if isinstance(value, str) else "other" for value in values}
    for keyword in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(keyword), list):
            found &= {one for option in options for one in value_kinds(option, root, depth + 1)}
    if isinstance(every := schema.get("allOf"), list):
        for one in every:
            found &= value_kinds(one, root, depth + 1)
    return frozenset(found)


def follow_reference(reference: str, root: Mapping[str, Any]) -> Any:
    """Follow a pointer within the schema; True (anything) for anchors and other documents."""
    if reference != "#" and not reference.startswith("#/"):
        return True
    at: Any = root
    for step in split_pointer(reference[1:]):
        if not isinstance(at, Mapping) or step not in at:
            return True
        at = at[step]
    return at


def json_type(value: Any) -> str:
    """Return the type of a JSON value."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "number"


# -- writing --------------------------------------------------------------------------------------


def render_arguments(
    syntax: ArgSyntax, arguments: str, parameters: Mapping[str, Any] | None
) -> Iterator[str | Control]:
    """Write arguments (JSON text) of a tool with these parameters in a syntax that is not JSON.

    Raises InputError for a text that the syntax cannot write, and what ``arguments_object`` does.
    """
    value = arguments_object(arguments, "arguments")
    top = syntax.top
    assert top is not None
    yield from syntax.split(top.begin)
    for index, key in enumerate(sorted_keys(value) if syntax.is_sorted else value):
        yield from syntax.split(top.between * bool(index) + top.before_key)
        if syntax.raw:
            yield _checked(key, syntax.text_stop(top.key_end), "a parameter's name")
            yield from _raw_value(syntax, value[key], argument_kinds(key, parameters))
        else:
            yield from _key(syntax, key)
            yield top.after_key
            yield from _value(syntax, value[key])
        yield from syntax.split(top.after_value)
    yield from syntax.split(top.end)


def _raw_value(syntax: ArgSyntax, value: Any, kinds: frozenset[str]) -> Iterator[str | Control]:
    """Write what stands behind a key, and the value."""
    top = syntax.top
    assert top is not None
    is_json = top.after_json_key is not None and not isinstance(value, str)
    yield from syntax.split(top.json_mark(json_type(value)) if is_json else top.after_key)
    if top.after_json_key is not None:
        kinds = frozenset(("other" if is_json else "text",))
    yield _raw_text(value, kinds, syntax.text_stop(top.after_value))


def _raw_text(value: Any, kinds: frozenset[str], stop: str) -> str:
    if isinstance(value, str):
        if "other" not in kinds:
            return _checked(value, stop, "a string")
        if LOOKS_LIKE_JSON.match(value) is None and not ends_early(value, stop):
            return value
    return dumps(value)


def _checked(text: str, stop: str, what: str) -> str:
    if ends_early(text, stop):
        raise InputError(f"this format cannot write {what} that holds {stop!r}")
    return text


def _key(syntax: ArgSyntax, key: str) -> Iterator[str | Control]:
    if is_bare(key):
        yield key
    else:
        yield from _string(syntax, key)


def _string(syntax: ArgSyntax, text: str) -> Iterator[str | Control]:
    if not syntax.fence:
        yield dumps(text)
        return
    if has_lone_surrogate(text):
        raise InputError("this format cannot write half of a surrogate pair")
    yield from (Control(syntax.fence), text, Control(syntax.fence))


def _value(syntax: ArgSyntax, value: Any) -> Iterator[str | Control]:
    true, false, null = syntax.words
    if isinstance(value, str):
        yield from _string(syntax, value)
    elif value is None or isinstance(value, bool):
        yield null if value is None else true if value else false
    elif isinstance(value, dict):
        yield "{"
        for index, key in enumerate(sorted_keys(value) if syntax.is_sorted else value):
            yield syntax.comma * bool(index)
            yield from _key(syntax, key) if syntax.bare else _string(syntax, key)
            yield syntax.colon
            yield from _value(syntax, value[key])
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for index, item in enumerate(value):
            yield syntax.comma * bool(index)
            yield from _value(syntax, item)
        yield "]"
    else:
        yield dumps(value) if isinstance(value, Decimal) else json.dumps(value)


# -- arguments of earlier calls -------------------------------------------------------------------


def arguments_text(arguments: str) -> str:
    """Return arguments as the text of an object: for a call without any, clients send null or nothing."""
    return "{}" if arguments.strip() in ("", "null") else arguments


def arguments_object(arguments: str, where: str) -> dict[str, Any]:
    """Return arguments as values.

    Raises InputError naming ``where`` for what is no JSON object, nests deeper than ``MAX_DEPTH``, or
    contains a number of more than ``PLAIN_DIGITS`` digits.
    """
    value = loads(arguments_text(arguments), where=where, max_digits=MAX_INT_DIGITS)
    if not isinstance(value, dict):
        raise InputError("the arguments must be a JSON object", where=where)
    if _is_too_deep(value):
        raise InputError(f"the arguments nest deeper than {MAX_DEPTH} levels", where=where)
    return value


def arguments_place(message: int, call: int) -> str:
    """Return the place of a call's arguments in a list of messages, as OpenAI names it."""
    return f"messages[{message}].tool_calls[{call}].function.arguments"


def _is_too_deep(value: Any) -> bool:
    """Whether more than ``MAX_DEPTH`` arrays and objects are nested; does not recurse."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
