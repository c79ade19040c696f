"""The embedded model: a short prompt, names as text, arguments as compact JSON.

::

    <|tools|><|tool|>get_weather Current weather of a city.
    city string The city
    unit? "c"|"f" Temperature unit<|tool|>...<|user|>REQUEST<|again|>REQUEST<|call|>

    one call    get_weather<|args|>city string
                unit? "c"|"f"<|fill|>{"city":"Paris","unit":"c"}<|end|>
    two calls   get_weather<|args|>...<|fill|>{...}<|call|>get_time<|args|>...<|fill|>{...}<|end|>
    no call     <|none|><|end|>

The request is written as the inside of a JSON string, so that copying from it into an argument is
verbatim; and twice, so that a causal model has read its end when it reads its beginning again. A control
token ends the name, so that no name can be mistaken for the beginning of another. Then the called tool's
parameters are written once more, as a form to be filled in (a SchemaEchoNode): the grammar forces it, and
the model reads it knowing the request, which it did not when it read the tools. Where a description
explains the values of a choice or a switch, the form has these glosses before the values, and it lists
values that only the description of a string lists: ``size? van "v"|car "c"``, ``round_up? always up
true|to the nearest false``, ``unit? "celsius"|"fahrenheit"|string``. Of more values than a line holds, the
form lists those that the request names, and the prompt only says what kind they are of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio import dumps
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.enum_glosses import boolean_glosses, enum_glosses, listed_values
from callmemaybe.wire.format import Format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    Controls,
    NameNode,
    PromptPart,
    PromptParts,
    SchemaEchoNode,
    TokenNode,
    join_parts,
    sequence,
)
from callmemaybe.wire.nearest_values import ValueIndex
from callmemaybe.wire.prompt import last_user_text
from callmemaybe.wire.said_values import SAID

_TOOLS, _TOOL, _USER, _CALL = "<|tools|>", "<|tool|>", "<|user|>", "<|call|>"
_AGAIN, _ARGS, _FILL, _NONE, _END = "<|again|>", "<|args|>", "<|fill|>", "<|none|>", "<|end|>"

#: The most characters of a type in a form, and of a form, in the training data, too: a function of many
#: parameters must not become slow to call.
MAX_TYPE_LENGTH, MAX_FORM_LENGTH = 200, 400
#: Levels of a type that are written; a level takes two characters, so deeper ones are too long to be shown.
DEEPEST = MAX_TYPE_LENGTH // 2


def prefix(tools: Sequence[ToolSpec], _controls: Controls) -> PromptParts:
    """Write the tools and begin the request."""
    parts: list[PromptPart] = [Control(_TOOLS)]
    for tool in tools:
        parts += [Control(_TOOL), "\n".join(_lines(tool))]
    return join_parts([*parts, Control(_USER)])


def request(
    messages: Sequence[Mapping[str, Any]], _tools: Sequence[ToolSpec], _controls: Controls
) -> PromptParts:
    """Write the request and ask for the call."""
    text = dumps(last_user_text(messages))[1:-1]
    return join_parts([text, Control(_AGAIN), text, Control(_CALL)])


def form(tool: ToolSpec, request: str = "") -> str:
    """Write the parameters without descriptions and long types, as many as there is room for.

    Where room is left, values are written with their glosses; of many values, those nearest to ``request``.
    """
    near = partial(near_values, request)
    properties = tool.parameters.get("properties")
    if not isinstance(properties, Mapping):
        return ""
    required = _required(tool.parameters)
    lines: list[tuple[str, str, str]] = []
    size = -1
    for name, inner in properties.items():
        head, plain = f"{name}{'' if name in required else '?'}", _short(type_text(inner, near))
        if size + len(head) + len(plain) >= MAX_FORM_LENGTH:
            break
        size += len(head) + len(plain) + 1
        lines.append((head, plain, _short(_said_type(inner) or glossed_type(inner)) or plain))
    room = MAX_FORM_LENGTH - size
    text = []
    for head, plain, glossed in lines:
        longer = len(glossed) - len(plain)
        fits = longer <= room
        room -= longer if fits else 0
        text.append(head + (glossed if fits else plain))
    return "\n".join(text)


def _said_type(schema: Any) -> str:
    """Return the values that a request says, each behind the words that say it."""
    inner = schema.get("items", schema) if isinstance(schema, Mapping) else None
    if not isinstance(inner, Mapping) or SAID not in inner:
        return ""
    pairs = zip(inner[SAID], inner["enum"], strict=True)
    values = "|".join(
        ("" if words == str(each) else f"{words} ") + dumps(each, compact=True)
        for words, each in pairs
    )
    return values if inner is schema else f"[{values}]"


def glossed_type(schema: Any) -> str:
    """Return the text of ``type_text``, with the glosses of the values in the description."""
    plain = type_text(schema)
    about = schema.get("description") if isinstance(schema, Mapping) else None
    if not isinstance(about, str) or len(plain) >= MAX_TYPE_LENGTH:
        return plain
    about = " ".join(about.split())
    if isinstance(schema.get("enum"), list):
        return _glossed_values(schema["enum"], about)
    if plain == "boolean" and (sides := boolean_glosses(about)):
        return "{} true|{} false".format(*sides)
    if plain == "string" and (listed := listed_values(about)):
        return f"{_glossed_values(listed, about)}|{plain}"
    return plain


def _glossed_values(values: Sequence[Any], about: str) -> str:
    texts = [each if isinstance(each, str) else dumps(each) for each in values]
    written = (dumps(each, compact=True) for each in values)
    pairs = zip(enum_glosses(texts, about), written, strict=True)
    return "|".join(f"{gloss} {each}".lstrip() for gloss, each in pairs)


def _short(text: str) -> str:
    return f" {text}" if len(text) <= MAX_TYPE_LENGTH else ""


def _lines(tool: ToolSpec) -> Iterator[str]:
    yield _described(tool.name, tool.description)
    yield from _fields(tool.parameters)


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    required = _required(schema)
    for name, inner in properties.items():
        description = inner.get("description") if isinstance(inner, Mapping) else None
        yield _described(_field(name, inner, required, values_or_kind), description)


def _required(schema: Mapping[str, Any]) -> frozenset[Any]:
    return frozenset(schema.get("required") or ())


def _field(
    name: str,
    inner: Any,
    required: frozenset[Any],
    write_values: Callable[[Sequence[Any]], str],
    depth: int = DEEPEST,
) -> str:
    mark = "" if name in required else "?"
    return f"{name}{mark} {type_text(inner, write_values, depth)}"


def _described(text: str, description: object) -> str:
    """Add a description on the same line, so that it cannot look like another parameter."""
    line = " ".join(description.split()) if isinstance(description, str) else ""
    return f"{text} {line}" if line else text


def has_many_values(tool: ToolSpec) -> bool:
    """Whether a parameter has an enum that is too long to be shown."""
    found = []

    def look(values: Sequence[Any]) -> str:
        found.append(len(_all_values(values)) > MAX_TYPE_LENGTH)
        return ""

    properties = tool.parameters.get("properties")
    for inner in properties.values() if isinstance(properties, Mapping) else ():
        type_text(inner, look)
    return any(found)


def _all_values(values: Sequence[Any]) -> str:
    """Write the values of an enum; of too many to be shown, as many as tell so."""
    texts: list[str] = []
    length = -1
    for value in values:
        texts.append(dumps(value, compact=True))
        length += len(texts[-1]) + 1
        if length > MAX_TYPE_LENGTH:
            break
    return "|".join(texts)


def values_or_kind(values: Sequence[Any]) -> str:
    """Write the values of an enum, or of too many only what they are."""
    text = _all_values(values)
    if len(text) <= MAX_TYPE_LENGTH:
        return text
    return "string" if all(isinstance(value, str) for value in values) else "any"


def near_values(request: str, values: Sequence[Any]) -> str:
    """Write all values; of too many, those that the request may name, the nearest first."""
    kind = values_or_kind(values)
    if len(_all_values(values)) <= MAX_TYPE_LENGTH:
        return kind
    texts = tuple(
        value if isinstance(value, str) else str(value) if type(value) is int else dumps(value)
        for value in values
    )
    shown = [dumps(values[at], compact=True) for at in _index_of(texts).named(request)]
    while len("|".join(shown)) > MAX_TYPE_LENGTH:
        shown.pop()
    return "|".join(shown) or kind


@lru_cache(maxsize=64)
def _index_of(texts: tuple[str, ...]) -> ValueIndex:
    return ValueIndex(texts)


def type_text(
    schema: Any,
    write_values: Callable[[Sequence[Any]], str] = _all_values,
    depth: int = DEEPEST,
) -> str:
    """Return a short text for the values that a schema allows; ``write_values`` writes those of an enum.

    What nests more than ``depth`` levels deep is "any".
    """
    if not isinstance(schema, Mapping) or not depth:
        return "any"
    if isinstance(schema.get("enum"), list):
        return write_values(schema["enum"])
    if "const" in schema:
        return dumps(schema["const"], compact=True)
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return "|".join(type_text(each, write_values, depth - 1) for each in schema[keyword])
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        each_kind = ({**schema, "type": each} for each in kind)
        return "|".join(type_text(each, write_values, depth - 1) for each in each_kind)
    if kind == "array":
        return f"[{type_text(schema.get('items'), write_values, depth - 1)}]"
    if kind == "object":
        properties = schema.get("properties")
        fields = properties.items() if isinstance(properties, Mapping) else ()
        required = _required(schema)
        texts = (_field(name, inner, required, write_values, depth - 1) for name, inner in fields)
        return "{" + ",".join(texts) + "}"
    if kind == "string":
        return str(schema.get("format", "string"))
    return str(kind)


FORMAT = Format(
    name="nano",
    summary="the embedded model: a short prompt, compact JSON",
    tree=sequence(
        ChoiceNode(
            CallsNode(
                sequence(
                    NameNode(),
                    TokenNode(_ARGS),
                    SchemaEchoNode(form, has_many_values),
                    TokenNode(_FILL),
                    ArgumentsNode("compact"),
                ),
                between=sequence(TokenNode(_CALL)),
            ),
            no_call=TokenNode(_NONE),
        ),
        TokenNode(_END),
    ),
    prefix=prefix,
    request=request,
    controls=frozenset((_TOOLS, _TOOL, _USER, _AGAIN, _CALL, _ARGS, _FILL, _NONE, _END)),
    priority=1,
    trained_on_choices=True,
    reads_values=True,
    sorts_parameters=True,
    languages=("English", "French", "German", "Spanish"),
    most_tools=64,
)
