"""What descriptions say of values: how people write it, and what is no gloss."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe.tools import ToolSpec
from callmemaybe.wire import enum_glosses as glosses
from callmemaybe.wire.formats import nano

SIZES = ["m", "v", "c"]


@pytest.mark.parametrize(
    "about",
    [
        "Class of the vehicle: m (motorbike), v (van), c (car)",
        "m = motorbike, v = van, c = car. Must be one of the listed values.",
        "Class - m means motorbike, v means van, c means car",
        "\"m\" for motorbike and 'v' for van and `c` for car",
        "Class: m: motorbike; v: van; c: car",
        "The class; m stands for motorbike, v stands for van, and c stands for car.",
        "m - motorbike, v - van, or c - car",
        "“m” → motorbike, “v” → van, “c” → car",
        "A class\nm: motorbike\nv: van\nc: car",
    ],
)
def test_glosses_are_read_however_they_are_written(about: str) -> None:
    """All spellings of one gloss say the same."""
    assert glosses.enum_glosses(SIZES, about) == ["motorbike", "van", "car"]


@pytest.mark.parametrize(
    ("values", "about"),
    [
        (SIZES, ""),
        (SIZES, "a car"),
        ([], "m (motorbike)"),
        (["celsius", "fahrenheit"], "Celsius or fahrenheit, celsius by default."),
        (["celsius", "fahrenheit"], "celsius (default) or fahrenheit"),
        (["low", "high"], "One of low, high."),
        (["m"], "m (motorbike), m (moped)"),
        (["", "m"], "m (motorbike)"),
        (["van", "car"], "van = van, car = Car"),
    ],
)
def test_what_explains_nothing(values: list[str], about: str) -> None:
    """Lists of values, remarks on one alone and what says the value itself are no gloss."""
    assert not any(glosses.enum_glosses(values, about))


def test_a_part_of_a_gloss() -> None:
    """What is not explained stays alone; a value inside another or inside a word is none."""
    about = "How high: high = a lot, highest = all. Not sohigh = 3"
    assert glosses.enum_glosses(["low", "high", "highest"], about) == ["", "a lot", "all"]
    assert glosses.enum_glosses(
        ["nato", "german"], "Defaults to nato: nato = army, german = Anton"
    ) == [
        "army",
        "Anton",
    ]


@pytest.mark.parametrize(
    "about",
    [
        "true: without meat, false: with meat",
        "Which menu - false with meat, true without meat. A flag. Optional.",
        "without meat if true, with meat if false",
        "without meat (true) or with meat (false)",
        "Without stops: without meat when true, otherwise with meat",
        "true means without meat, false with meat",
        "If true, without meat. If false, with meat.",
        "`true` = without meat, `false` = with meat",
        "TRUE for without meat; FALSE for with meat",
        "with meat if false, without meat if true",
    ],
)
def test_both_sides_of_a_switch(about: str) -> None:
    """All spellings of what a switch means say the same."""
    assert glosses.boolean_glosses(about) == ("without meat", "with meat")


@pytest.mark.parametrize(
    "about",
    [
        "",
        "Without meat",
        "Either true or false.",
        "Without meat. Defaults to false.",
        "Without meat (true/false)",
        "Set to true to leave out meat.",
        "true true false false",
        "It is true that (false)",
    ],
)
def test_what_says_nothing_of_both_sides(about: str) -> None:
    """One side, or the two values alone, explain nothing."""
    assert glosses.boolean_glosses(about) is None


@pytest.mark.parametrize(
    "about",
    [
        "Unit. Options: 'km', 'mi' or 'm'.",
        'The unit ("km", "mi", or "m"). Defaults to "km".',
        "One of km, mi and m",
        "Unit: either km or mi or m.",
        "possible values are `km` (metric), `mi` (it's longer), `m`",
        "The unit (km, mi or m)",
        "km | mi | m",
        "Must be one of: km|mi|m",
        "Unit to use, can be 'km'/'mi'/'m'",
        "e.g. 'x' or 'y'. Choices: ‘km’, ‘mi’, ‘m’, ‘km’",
        "One of km (far) or mi (too) or m (near).",
    ],
)
def test_values_that_a_description_lists(about: str) -> None:
    """All spellings of one list give the same values, each once."""
    assert glosses.listed_values(about) == ["km", "mi", "m"]


@pytest.mark.parametrize(
    "about",
    [
        "",
        "The unit",
        "A title, e.g. 'Yesterday' or 'Let it be'",
        'such as "a", "b"',
        "The person's name or the company's",
        "One of the values above.",
        "Either of them",
        "Can be omitted.",
        "One of: kilometres per hour, miles",
        "Only 'km'",
        "'a', 'a'",
        ", ".join(f"'{n}'" for n in range(40)),
    ],
)
def test_what_lists_no_values(about: str) -> None:
    """Examples, one value alone, lists that are cut or too long to be all there is."""
    assert glosses.listed_values(about) == []


@given(st.lists(st.text(max_size=4), max_size=5), st.text() | st.text('tf :=(),.ab-\n"truefals '))
def test_whatever_is_written(values: list[str], about: str) -> None:
    """As many answers as values, each short and on one line."""
    found = glosses.enum_glosses(values, about)
    assert len(found) == len(values)
    found += glosses.boolean_glosses(about) or ()
    listed = glosses.listed_values(about)
    assert len(listed) == len(set(listed)) != 1
    found += listed
    assert all(len(each) <= glosses.MAX_GLOSS_LENGTH and "\n" not in each for each in found)


@pytest.mark.parametrize(
    "part",
    [
        "a or ",
        "'a' (",
        "a | ",
        "(a or ",
        "either ",
        "true ",
        "( ",
        "if ",
        " - ",
        "x: ",
        "and ",
        "if true ",
        " ",
        "“",
        "a" * 50,
    ],
)
def test_long_descriptions_cost_no_more(part: str) -> None:
    """A description of a megabyte is read as quickly as its beginning: nothing is tried again and again."""
    about = part * (1_000_000 // len(part))
    began = time.process_time()
    glosses.boolean_glosses(about)
    glosses.listed_values(about)
    glosses.enum_glosses(["a", "x", "true"], about)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "joint", [" | ", " or ", ", or ", ", or or or ", " (x) or ", "(x) | ", ", AND or ", "/ ", ","]
)
def test_a_list_that_goes_on_costs_no_more(joint: str) -> None:
    """A list is split in one way: where it does not end as it should, no other split is tried."""
    colours = [f"c{n}" for n in range(24)]
    began = time.process_time()
    found = glosses.listed_values(f"Colour of it, one of {joint.join(colours)} as the CSS names")
    assert time.process_time() - began < 2
    assert len(found) <= glosses.MAX_VALUES


@pytest.mark.parametrize(
    ("about", "values"),
    [
        ("One of AND, OR, NOT.", ["AND", "OR", "NOT"]),
        ("either AND or OR", ["AND", "OR"]),
        ("Can be XOR, AND or OR", ["XOR", "AND", "OR"]),
        ("Options: XOR, or AND", ["XOR", "AND"]),
        ("How to join (AND or OR)", ["AND", "OR"]),
        ("AND | OR", ["AND", "OR"]),
        ("One of: AND (both), OR (any), NOT (none).", ["AND", "OR", "NOT"]),
        ("'AND', OR 'OR'", ["AND", "OR"]),
    ],
)
def test_joints_that_are_values(about: str, values: list[str]) -> None:
    """In capitals, "and" and "or" are values where they stand as such."""
    assert glosses.listed_values(about) == values


def test_a_form_says_what_values_stand_for() -> None:
    """Before each value, for choices and switches, as far as the description tells."""
    properties = {
        "size": {"type": "string", "enum": ["m", "v"], "description": "Class:\n m (bike), v (van)"},
        "grade": {"type": "integer", "enum": [1, 2, 3], "description": "1 = best, 3 = worst"},
        "on": {"type": "boolean", "description": "true to start it, false to stop it"},
        "note": {"type": "string", "description": "true: yes, false: no"},
        "list": {"type": "array", "items": {"enum": ["a", "b"]}, "description": "a = x, b = y"},
        "unit": {"type": "string", "description": "One of 'km' (far), 'm' (near)"},
        "day": {"type": "string", "format": "date", "description": "'a' or 'b'"},
        "any": True,
    }
    spec = ToolSpec("f", parameters={"properties": properties, "required": ["size", "note"]})
    assert nano.form(spec).split("\n") == [
        'size bike "m"|van "v"',
        "grade? best 1|2|worst 3",
        "on? to start it true|to stop it false",
        "note string",
        'list? ["a"|"b"]',
        'unit? far "km"|near "m"|string',
        "day? date",
        "any? any",
    ]


def test_glosses_take_only_room_that_is_left() -> None:
    """A form names as many parameters with glosses as without; the first glosses are told."""
    schema = {"enum": ["m", "v"], "description": "m = something like a motorbike, v = a large van"}
    told = {f"size_of_the_vehicle_number_{n}": schema for n in range(40)}
    plain = {name: {"enum": ["m", "v"]} for name in told}
    with_glosses = nano.form(ToolSpec("f", parameters={"properties": told}))
    without = nano.form(ToolSpec("f", parameters={"properties": plain}))
    assert with_glosses.count("\n") == without.count("\n")
    assert len(with_glosses) <= nano.MAX_FORM_LENGTH
    some = dict.fromkeys(list(told)[:7], schema)
    lines = nano.form(ToolSpec("f", parameters={"properties": some})).split("\n")
    is_told = ["motorbike" in line for line in lines]
    assert is_told == sorted(is_told, reverse=True)
    assert 0 < sum(is_told) < len(lines) == len(some)
