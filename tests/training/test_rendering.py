"""Training writes what the package reads."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.tuning import rendering
from callmemaybe.tuning.rendering import (
    ChoiceKind,
    NumberText,
    completion,
    escape,
    form,
    object_segments,
    to_json,
    tool_text,
    type_text,
)
from callmemaybe.wire.formats import nano
from callmemaybe.wire.said_values import SaidValues
from training.data.requests import draw_request
from training.data.tasks import read_tasks
from training.data.variants import BlockStyle, draw_variant

SCHEMAS: list[Any] = [
    True,
    {},
    {"type": "string"},
    {"type": "string", "format": "date"},
    {"type": ["integer", "null"]},
    {"enum": ["a b", 'q"', 1, None, "é"]},
    {"const": 3},
    {"type": "array"},
    {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
    {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
    {"type": "object"},
    {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "number"}},
        "required": ["a"],
    },
]


PARAMETERS = {
    "type": "object",
    "properties": {"x": {"enum": ["m", "n"]}, "y": {"type": "string"}},
}


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_types_read_as_in_the_package(schema: Any) -> None:
    """The same schema is the same text in training and in the product."""
    assert type_text(schema) == nano.type_text(schema)


def test_segments_join_to_compact_json() -> None:
    """Whatever is drawn, the segments of a completion spell its compact JSON."""
    rng = Random("rendering")
    style = BlockStyle.draw(rng)
    for function in read_tasks():
        variant = draw_variant(function, rng, style)
        _, arguments = draw_request(function, variant, rng)
        segments = list(object_segments(arguments, variant.tool["parameters"]))
        assert "".join(segment.text for segment in segments) == to_json(arguments)
        json.loads(to_json(arguments))
        assert tool_text(variant.tool).startswith(variant.tool["name"])


def test_optional_keys_are_choices() -> None:
    """A key is chosen where the schema leaves several next keys or an end, and forced elsewhere."""
    schema = {"properties": {"a": {}, "b": {}, "c": {}}, "required": ["a"]}
    marks = [(s.text, s.choice) for s in object_segments({"a": "x", "c": "y"}, schema)]
    assert ('a"', ChoiceKind.FORCED) in marks
    assert (",", ChoiceKind.KEY) in marks
    assert ('c"', ChoiceKind.KEY) in marks
    assert marks[-1] == ("}", ChoiceKind.FORCED)


def test_a_refusal_is_one_choice() -> None:
    """No call is the token for none and the forced end."""
    assert [s.choice for s in completion([], [])] == [ChoiceKind.CONTROL, ChoiceKind.FORCED]


def test_calls_are_written_as_the_package_reads_them() -> None:
    """A name is text that `<|args|>` ends; the form follows; `<|call|>` asks for a second call."""
    tools = [{"name": "a_b", "parameters": {}}, {"name": "c.d", "parameters": PARAMETERS}]
    one = "".join(s.text for s in completion([(1, {"x": "n"})], tools))
    two = "".join(s.text for s in completion([(0, {}), (1, {})], tools))
    form = 'x? "m"|"n"\ny? string'
    assert one == f'c.d<|args|>{form}<|fill|>{{"x":"n"}}<|end|>'
    assert two == f"a_b<|args|><|fill|>{{}}<|call|>c.d<|args|>{form}<|fill|>{{}}<|end|>"
    calls = [ToolCall("a_b", "{}"), ToolCall("c.d", "{}")]
    specs = [ToolSpec(tool["name"], parameters=tool["parameters"]) for tool in tools]
    written = nano.FORMAT.render(calls, tools=specs)
    assert "".join(p if isinstance(p, str) else p.text for p in written) == two


@pytest.mark.parametrize("count", [0, 1, 7, 40, 500])
def test_a_form_has_an_end(count: int) -> None:
    """The package writes the same form as training, and one of bounded length for many parameters."""
    kinds = [{"enum": ["alpha", "beta"]}, {"enum": [f"value {n}" for n in range(99)]}, {}]
    properties = {f"setting_{at}": kinds[at % 3] for at in range(count)}
    parameters = {"type": "object", "properties": properties, "required": ["setting_3"]}
    made = form({"parameters": parameters}, {"setting_0": "beta"}).text
    assert made == nano.form(ToolSpec("f", parameters=parameters))
    assert len(made) <= nano.MAX_FORM_LENGTH
    assert made.count("setting_") == min(count, made.count("\n") + 1 if count else 0)


def test_a_form_says_what_is_meant() -> None:
    """Marks of a form stand where optional parameters begin and end, and at the values of a given enum."""
    made = form({"parameters": PARAMETERS}, {"x": "n"})
    assert [(made.text[at], true) for at, true in made.marks] == [
        ("x", True), ("m", False), ("n", True), ("\n", True), ("y", False), ("g", False),
    ]  # fmt: skip
    assert [(made.text[at], value) for at, value in made.lines] == [("\n", "n")]


def test_numbers_keep_their_digits() -> None:
    """A number is written as it was said; a request is the inside of a JSON string."""
    assert to_json({"a": NumberText("2.50"), "b": [NumberText("-1")]}) == '{"a":2.50,"b":[-1]}'
    assert escape('say "hi"\n') == 'say \\"hi\\"\\n'


def test_a_switch_is_asked_where_its_type_stands() -> None:
    """Whether it is on, not whether it is given; not at the end of the form, where that is asked."""
    properties = {"on": {"type": "boolean"}, "dim": {"type": "boolean"}, "off": {"type": "boolean"}}
    tool = {"name": "lamp", "parameters": {"properties": properties, "required": ["on"]}}
    made = form(tool, {"on": False, "off": True})
    assert [(made.text[at : at + 7], true) for at, true in made.marks if true or at < 5] == [
        ("boolean", False),
        ("off? bo", True),
        ("n", True),
    ]


def test_what_values_stand_for_moves_the_marks() -> None:
    """A form has glosses as the package does; what is asked is still asked at values and types."""
    properties = {
        "size": {"enum": ["m", "v", "c"], "description": "m = bike, c = car"},
        "on": {"type": "boolean", "description": "true to start, false to stop"},
        "unit": {"type": "string", "description": "'km' or 'm'"},
        "grade": {"type": "integer", "enum": [1, 2], "description": "1 (best), 2 (worst)"},
    }
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    given = {"size": "c", "on": True, "unit": "m", "grade": 2}
    made = form({"parameters": parameters}, given)
    assert made.text.split("\n") == [
        'size bike "m"|"v"|car "c"',
        "on to start true|to stop false",
        'unit "km"|"m"|string',
        "grade best 1|worst 2",
    ]
    assert made.text == nano.form(ToolSpec("f", parameters=parameters))
    assert [(made.text[at : at + 4], true) for at, true in made.marks] == [
        ('m"|"', False), ('v"|c', False), ('c"\no', True), ("true", True), ("fals", False),
        ('km"|', False), ('m"|s', True), ("1|wo", False), ("2", True),
    ]  # fmt: skip
    assert [(made.text[at - 3 : at + 1], value) for at, value in made.lines] == [
        ('"c"\n', "c"), ("lse\n", True), ("ing\n", "m"), ("st 2", 2),
    ]  # fmt: skip


def test_values_that_are_said_are_shown_as_the_package_shows_them() -> None:
    """Training and use narrow a function alike, where the expected arguments are among what is said."""
    day = {"type": "string", "format": "date"}
    parameters = {
        "type": "object",
        "properties": {"day": day, "n": {"type": "integer"}},
        "required": ["n"],
    }
    tool = {"name": "f", "parameters": parameters}
    for request, arguments, shown in [
        ("two dozen", {"n": 24}, "n two dozen 24"),
        ("7 on 3 May 2027 or on 2027-05-04", {"n": 7, "day": "2027-05-03"},
         'day? 3 May 2027 "2027-05-03"|"2027-05-04"\nn integer'),
    ]:  # fmt: skip
        made = rendering.narrowed(tool, arguments, request)
        spec, _ = SaidValues.of(request, rendering.NOW).narrow(ToolSpec("f", parameters=parameters))
        assert form(made).text == nano.form(spec) == shown
    other = rendering.narrowed(tool, {"n": 25}, "two dozen")
    assert other["parameters"]["properties"]["n"] == {"type": "integer"}
    left_out = rendering.narrowed(tool, {"n": 24}, "two dozen")
    assert list(left_out["parameters"]["properties"]) == ["n"]
