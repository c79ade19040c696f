"""How nano reads tools and writes calls, as text with control tokens.

The package holds the same format as a declaration (`callmemaybe.wire.formats.nano`); this twin knows what
is chosen and what is meant besides, and a test compares the two. What descriptions say of values is found by
the package's own reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import Any

from callmemaybe.tools import ToolSpec
from callmemaybe.wire.enum_glosses import boolean_glosses, enum_glosses, listed_values
from callmemaybe.wire.formats import nano
from callmemaybe.wire.said_values import SAID, SaidValues, has_readable

PAD, TOOLS, USER, CALL, NONE, END = (
    "<|pad|>",
    "<|tools|>",
    "<|user|>",
    "<|call|>",
    "<|none|>",
    "<|end|>",
)
TOOL, ARGS, AGAIN, FILL = "<|tool|>", "<|args|>", "<|again|>", "<|fill|>"
SPARE = tuple(f"<|spare{index}|>" for index in range(2, 5))
RESERVED = ("<|think|>", "<|text|>", "<|result|>", "<|error|>")
CONTROL_TOKENS = (PAD, TOOLS, USER, CALL, NONE, END, TOOL, ARGS, AGAIN, FILL, *SPARE, *RESERVED)


NOW = datetime(2026, 6, 15, 10, tzinfo=UTC)  # what "tomorrow" counts from, where a request says it
LONGEST_TYPE, LONGEST_FORM = 200, 400  # characters of a type in a form, and of a form


class NumberText(str):
    """A number as it was written, so that `2.50` stays `2.50`."""

    __slots__ = ()


class ChoiceKind(Enum):
    """Who decides a piece of a completion."""

    FORCED = "forced"  # the grammar leaves one way
    CONTROL = "control"  # `<|none|>`: no function
    NAME = "name"  # the name of a function
    VALUE = "value"  # an argument, with the token that ends it
    KEY = "key"  # the next optional key, or the end of the object
    STOP = "stop"  # the end of a name; after a call: the end, or one more call


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a completion; `control` distinguishes a control token from its text."""

    text: str
    choice: ChoiceKind
    control: bool = False
    kind: str = ""  # for values: the parameter's type, for reports
    marks: tuple[
        tuple[int, bool], ...
    ] = ()  # in a form: from which character on, and whether meant
    lines: tuple[tuple[int, Any], ...] = ()  # in a form: where a line ends, and the given argument


def one_line(text: str) -> str:
    """Collapse whitespace: a description never looks like a new parameter."""
    return re.sub(r"\s+", " ", text).strip()


def to_json(value: Any) -> str:
    """Write compact JSON, with numbers as they were written."""
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{to_json(k)}:{to_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(to_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def escape(text: str) -> str:
    """Write a request as the inside of a JSON string, so that copying it stays verbatim."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def type_text(schema: Any) -> str:
    """Say the type of a parameter in as few characters as a reader needs."""
    if not isinstance(schema, Mapping):
        return "any"
    if "enum" in schema:
        return "|".join(map(to_json, schema["enum"]))
    if "const" in schema:
        return to_json(schema["const"])
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return "|".join(map(type_text, schema[keyword]))
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return "|".join(type_text({**schema, "type": each}) for each in kind)
    if kind == "array":
        return f"[{type_text(schema.get('items'))}]"
    if kind == "object":
        required = schema.get("required", ())
        fields = schema.get("properties", {}).items()
        inner = (f"{k}{'' if k in required else '?'} {type_text(v)}" for k, v in fields)
        return "{" + ",".join(inner) + "}"
    if kind == "string":
        return str(schema.get("format", "string"))
    return str(kind)


def tool_text(tool: Mapping[str, Any]) -> str:
    """Render one tool, without the token that begins it."""
    head = tool["name"]
    if description := one_line(tool.get("description") or ""):
        head += " " + description
    lines = [head]
    parameters = tool.get("parameters") or {}
    required = parameters.get("required", ())
    for name, schema in parameters.get("properties", {}).items():
        kind = nano.type_text(schema, nano.values_or_kind)
        line = f"{name}{'' if name in required else '?'} {kind}"
        if description := one_line((schema or {}).get("description") or ""):
            line += " " + description
        lines.append(line)
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Line:
    """A parameter as a form shows it."""

    name: str
    mark: str  # "?" if it may be left out
    kind: str  # its type behind a space; empty if that is too long
    choices: Sequence[Any] = ()  # the values that the type shows
    glosses: Sequence[str] = ()  # what they stand for, as far as that is said

    @property
    def values(self) -> int:
        """Offset of the type after the name."""
        return len(self.mark) + 1

    @property
    def text(self) -> str:
        return self.mark + self.kind


def glossed_values(schema: Mapping[str, Any]) -> tuple[str, Sequence[Any], Sequence[str]]:
    """A type with the glosses of its values in the description; the values; and their glosses."""
    if SAID in schema:
        return said_values(schema)
    if schema.get("type") == "array" and SAID in (schema.get("items") or ()):
        return f"[{said_values(schema['items'])[0]}]", (), ()
    kind, about = type_text(schema), one_line(schema.get("description") or "")
    if "enum" in schema:
        return with_glosses(schema["enum"], about)
    if kind == "boolean" and (sides := boolean_glosses(about)):
        return "{} true|{} false".format(*sides), (True, False), sides
    if kind == "string" and (listed := listed_values(about)):
        text, values, glosses = with_glosses(listed, about)
        return f"{text}|{kind}", values, glosses
    return kind, (), ()


def said_values(schema: Mapping[str, Any]) -> tuple[str, Sequence[Any], Sequence[str]]:
    """The values that a request says, each after the words that say it."""
    glosses = [
        "" if words == str(value) else words
        for words, value in zip(schema[SAID], schema["enum"], strict=True)
    ]
    pairs = zip(glosses, map(to_json, schema["enum"]), strict=True)
    return "|".join(f"{words} {value}".lstrip() for words, value in pairs), schema["enum"], glosses


def with_glosses(values: Sequence[Any], about: str) -> tuple[str, Sequence[Any], Sequence[str]]:
    """Values as a type, each after its gloss."""
    glosses = enum_glosses(
        [each if isinstance(each, str) else to_json(each) for each in values], about
    )
    pairs = zip(glosses, map(to_json, values), strict=True)
    return "|".join(f"{words} {value}".lstrip() for words, value in pairs), values, glosses


def form_lines(tool: Mapping[str, Any], request: str = "") -> list[Line]:
    """The parameters as the form names them: as many as there is room for.

    Of many values, those are shown that `request` names. A type that is longer than a form's line may be is
    left out; what values stand for is told where room is left.
    """
    parameters = tool.get("parameters") or {}
    required = parameters.get("required", ())
    plain: list[Line] = []
    size = -1
    for name, schema in parameters.get("properties", {}).items():
        kind = nano.type_text(schema, partial(nano.near_values, request))
        kind = f" {kind}" if len(kind) <= LONGEST_TYPE else ""
        line = Line(name, "" if name in required else "?", kind)
        if size + len(name) + len(line.text) >= LONGEST_FORM:
            break
        size += len(name) + len(line.text) + 1
        plain.append(line)
    room = LONGEST_FORM - size
    lines = []
    for line in plain:
        schema = parameters["properties"][line.name]
        if isinstance(schema, Mapping) and line.kind:
            kind, choices, glosses = glossed_values(schema)
            longer = len(kind) + 1 - len(line.kind)
            if len(kind) <= LONGEST_TYPE and longer <= room:
                room -= longer
                line = replace(line, kind=f" {kind}", choices=choices, glosses=glosses)
            elif line.kind == f" {type_text(schema)}" and "enum" in schema:
                line = replace(line, choices=schema["enum"])
        lines.append(line)
    return lines


def form(
    tool: Mapping[str, Any], arguments: Mapping[str, Any] | None = None, request: str = ""
) -> Segment:
    """Write what is to be filled in: the called tool's parameters once more, without descriptions.

    The model reads them knowing the request; nothing of it is chosen. Those that make it too long are left
    out. With `arguments`, its marks
    say which optional parameters are given (where a line begins, and where it ends), which of several
    values was meant, and which switches are on; its lines, what is given.
    """
    parameters = tool.get("parameters") or {}
    last = next(reversed(parameters.get("properties") or {"": None}))
    text = ""
    marks: list[tuple[int, bool]] = []
    lines: list[tuple[int, Any]] = []
    for line in form_lines(tool, request):
        text += "\n" if text else ""
        given = arguments is not None and line.name in arguments
        if arguments is not None and line.mark:
            marks.append((len(text), given))
        text += line.name
        if arguments is not None and given:
            found = value_marks(line, arguments[line.name], ends_form=line.name == last)
            marks += [(len(text) + at, true) for at, true in found]
        text += line.text
        if arguments is not None and given:
            lines.append((len(text), arguments[line.name]))
        if arguments is not None and line.mark:
            marks.append((len(text), given))
    lines = [(min(at, len(text) - 1), value) for at, value in lines]
    marks = [(min(at, len(text) - 1), true) for at, true in marks]
    return Segment(text, ChoiceKind.FORCED, kind="form", marks=tuple(marks), lines=tuple(lines))


def value_marks(line: Line, value: Any, *, ends_form: bool) -> Iterable[tuple[int, bool]]:
    """Where behind a given parameter's name it is asked whether a switch is on, or each value meant."""
    # Behind the type, a line that ends the form is asked something else.
    is_asked = not line.mark or not ends_form
    if isinstance(value, bool) and line.kind and not line.glosses:
        if is_asked:
            yield line.values, value
        return
    choices = line.choices[:1] if isinstance(value, bool) and not is_asked else line.choices
    if len(line.choices) < 2:
        return
    at = line.values
    for each, words in zip(
        map(to_json, choices), line.glosses or [""] * len(choices), strict=False
    ):
        at += len(words) + 1 if words else 0
        yield at + each.startswith('"'), each == to_json(value)
        at += len(each) + 1


def value_segments(value: Any, schema: Any, kind: str | None = None) -> Iterable[Segment]:
    """Split a value into what is forced (quotes, brackets) and what is chosen."""
    schema = schema if isinstance(schema, Mapping) else {}
    kind = kind or value_kind(schema)
    if isinstance(value, Mapping):
        yield from object_segments(value, schema)
    elif isinstance(value, list):
        yield Segment("[", ChoiceKind.FORCED)
        for index, item in enumerate(value):
            if index:
                yield Segment(",", ChoiceKind.VALUE, kind=kind)
            yield from value_segments(item, schema.get("items"), kind)
        yield Segment("]", ChoiceKind.VALUE, kind=kind)
    elif isinstance(value, str) and not isinstance(value, NumberText):
        yield Segment('"', ChoiceKind.FORCED)
        yield Segment(to_json(value)[1:], ChoiceKind.VALUE, kind=kind)
    else:
        yield Segment(to_json(value), ChoiceKind.VALUE, kind=kind)


def value_kind(schema: Mapping[str, Any]) -> str:
    """Name the type of an argument for loss weights and reports."""
    if "enum" in schema or "const" in schema:
        return "enum"
    kind = schema.get("type", "any")
    return kind if isinstance(kind, str) else "any"


def object_segments(value: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterable[Segment]:
    """Split an object; the next key is a choice only where the schema leaves one."""
    properties = schema.get("properties", {})
    names = list(properties) or list(value)
    required = set(schema.get("required", ()))
    given = [name for name in names if name in value]
    yield Segment("{", ChoiceKind.FORCED)
    after_number = False
    for position, name in enumerate([*given, None]):
        start = names.index(given[position - 1]) + 1 if position else 0
        rest = names[start:]
        may_end = not required.intersection(rest)
        optional_key = may_end and bool(rest)
        mark = (
            ChoiceKind.VALUE
            if after_number
            else ChoiceKind.KEY
            if optional_key
            else ChoiceKind.FORCED
        )
        if name is None:
            yield Segment("}", mark)
            return
        if position:
            yield Segment(",", mark)
        yield Segment('"', mark if not position else ChoiceKind.FORCED)
        several = len(rest) > 1 and rest[0] not in required
        yield Segment(name + '"', ChoiceKind.KEY if several else ChoiceKind.FORCED)
        yield Segment(":", ChoiceKind.FORCED)
        yield from value_segments(value[name], properties.get(name))
        item = value[name]
        after_number = isinstance(item, (int, float, NumberText)) and not isinstance(item, bool)


def narrowed(
    tool: Mapping[str, Any], arguments: Mapping[str, Any], request: str
) -> Mapping[str, Any]:
    """Return the tool with its parameters limited to what the request says, where the arguments are among it."""
    parameters = tool.get("parameters") or {}
    spec = ToolSpec(tool["name"], parameters=parameters) if request and parameters else None
    if spec is None or not has_readable(spec):
        return tool
    changed, _ = SaidValues.of(request, NOW).narrow(spec)
    if changed is spec:
        return tool
    here, there = parameters["properties"], changed.parameters["properties"]
    kept = {
        name: there[name] if name in there and holds(there[name], arguments.get(name)) else schema
        for name, schema in here.items()
        if name in there or name in arguments
    }
    return {**tool, "parameters": {**parameters, "properties": kept}}


def holds(schema: Any, value: Any) -> bool:
    """Whether a narrowed parameter may be left out, or have this value."""
    if not isinstance(schema, Mapping) or (SAID not in schema and "items" not in schema):
        return not (isinstance(schema, Mapping) and schema.get("enum") == [None])
    if isinstance(value, list):
        return all(holds(schema["items"], each) for each in value)
    if SAID not in schema or value is None:
        return True
    if isinstance(value, NumberText):
        return any(float(value) == each for each in schema["enum"] if not isinstance(each, str))
    return value in schema["enum"]


def completion(
    calls: Sequence[tuple[int, Mapping[str, Any]]],
    tools: Sequence[Mapping[str, Any]],
    request: str = "",
) -> list[Segment]:
    """Write calls as (index of the tool, arguments) that `request` asks for; an empty sequence is a refusal."""
    if not calls:
        return [Segment(NONE, ChoiceKind.CONTROL, True), Segment(END, ChoiceKind.FORCED, True)]
    segments: list[Segment] = []
    for position, (index, arguments) in enumerate(calls):
        if position:
            segments.append(Segment(CALL, ChoiceKind.STOP, True))
        tool = narrowed(tools[index], arguments, request)
        segments.append(Segment(escape(tool["name"]), ChoiceKind.NAME))
        segments.append(Segment(ARGS, ChoiceKind.STOP, True))
        segments.append(form(tool, arguments, request))
        segments.append(Segment(FILL, ChoiceKind.FORCED, True))
        segments.extend(object_segments(arguments, tool.get("parameters") or {}))
    segments.append(Segment(END, ChoiceKind.STOP, True))
    return segments
