"""Which arguments count as right."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import InputError
from callmemaybe.evals.case import Case
from callmemaybe.evals.compare import by_output, exact, leaderboard, same
from callmemaybe.jsonio import loads
from callmemaybe.tools import ToolSpec

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
TOOL = ToolSpec("f")


@settings(max_examples=60)
@given(JSON)
def test_a_value_equals_itself_however_it_was_read(value: Any) -> None:
    """The value of a JSON text is the same, whether numbers were read as floats or as decimals."""
    assert same(loads(json.dumps(value)), value)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (2, 2.0, True),
        (Decimal("0.1"), 0.1, True),
        (1e22, 10**22, True),
        (True, 1, False),
        (None, 0, False),
        ("a", "A", False),
        ([1, 2], [2, 1], False),
        ({"a": 1, "b": [True]}, {"b": [True], "a": 1}, True),
        ({"a": [True]}, {"a": [1]}, False),
        (["constant", True], True, False),
    ],
)
def test_values_are_compared_as_json(one: Any, other: Any, is_same: bool) -> None:
    """Numbers are equal by value, booleans are no numbers, lists are ordered, objects are not."""
    assert same(one, other) is same(other, one) is is_same


def test_what_is_no_json_equals_nothing() -> None:
    """Python's reader takes NaN and 1e400 out of a published set; no call can hold them."""
    for value in (float("nan"), float("inf")):
        assert not same(value, 1)
        assert not same(Decimal("1e400"), value)


@pytest.mark.parametrize("depth", [300, 900, 100_000])
def test_no_depth_ends_a_comparison(depth: int) -> None:
    """A model may write brackets to the end of its budget: that is wrong by every rule, and no more."""
    deep = loads("[" * depth + "]" * depth)
    tool = ToolSpec("f", "", {"type": "object", "properties": {"a": {"type": "array"}}})
    assert exact(tool, {"a": deep}, {"a": [1]}) == {"a": False}
    assert by_output(tool, {"a": deep}, {"a": [1]}) == {"a": False}
    assert leaderboard(tool, {"a": deep}, {"a": [[1]]}) == {"a": False}
    assert same(deep, deep)
    assert not same([deep], deep)


def test_missing_and_superfluous_arguments_are_wrong() -> None:
    """Every argument expected or given has a verdict."""
    assert exact(TOOL, {"a": 1, "c": 3}, {"a": 1, "b": 2}) == {"a": True, "b": False, "c": False}


SCHEMA = {
    "properties": {
        "i": {"type": "integer"},
        "x": {"type": "number"},
        "s": {"type": "string"},
        "b": {"type": "boolean"},
        "l": {"type": "array", "items": {"type": "string"}},
        "d": {"type": "object"},
        "ds": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["i"],
}


@pytest.mark.parametrize(
    ("name", "given_", "possible", "is_right"),
    [
        ("i", 5, [5], True),
        ("i", Decimal("5.0"), [5], False),
        ("i", True, [1], False),
        ("i", 6, [5], False),
        ("x", 5, [5.0], True),
        ("x", Decimal("5.0"), [5], True),
        ("x", Decimal("0.1"), [0.1], True),
        ("s", "New York, NY", ["new york ny"], True),
        ("s", "it's", ['it"s'], True),
        ("s", "Boston", ["New York"], False),
        ("s", "n", ["m", 3], False),
        ("b", True, [True], True),
        ("b", False, [True], False),
        ("l", ["A", "b-c"], [["a", "bc"]], True),
        ("l", ["b", "a"], [["a", "b"]], False),
        ("d", {"k": "V"}, [{"k": ["v", ""], "m": ["", 1]}], True),
        ("d", {"k": "v"}, [{"k": ["v"], "m": [1]}], False),
        ("d", {"z": 1}, [{"k": [1]}], False),
        ("ds", [{"k": 1}, {"k": 2}], [[{"k": [1]}, {"k": [2]}]], True),
        ("ds", [{"k": 1}], [[{"k": [1]}, {"k": [2]}]], False),
        ("unknown", 1, None, False),
    ],
)
def test_the_leaderboard_compares_so(name: str, given_: Any, possible: Any, is_right: bool) -> None:
    """Types are exact, an integer will do for a float, strings are compared by their letters."""
    tool = ToolSpec("f", "", {"type": "object", **SCHEMA})
    expected = {} if possible is None else {name: possible}
    assert leaderboard(tool, {name: given_}, expected)[name] is is_right


def test_the_leaderboard_lets_optional_arguments_go() -> None:
    """An argument may be missing if its answers say so and the schema does not ask for it."""
    tool = ToolSpec("f", "", {"type": "object", **SCHEMA})
    assert leaderboard(tool, {"i": 1}, {"i": [1], "s": ["", "x"]}) == {"i": True}
    assert leaderboard(tool, {}, {"i": ["", 1], "s": ["x"]}) == {"i": False, "s": False}


@pytest.mark.parametrize(
    ("kind", "given_", "possible", "is_right"),
    [
        (["string", "null"], "oslo", ["Oslo"], True),
        (["string", "null"], "oslo", [None, "Oslo"], True),
        (["null", "string"], None, [None, "Oslo"], True),
        (["string", "null"], None, ["Oslo"], False),
        (["string", "null"], 5, ["Oslo"], False),
        (["number", "null"], 5, [5.0], True),
        (["integer", "string"], "five", [5, "Five"], True),
        ("string", None, ["Oslo"], False),
        ("number", 10**400, [5.0], False),
    ],
)
def test_an_argument_may_have_several_types(
    kind: Any, given_: Any, possible: list[Any], is_right: bool
) -> None:
    """Each type of a list will do, and null where it is listed and a possible answer."""
    tool = ToolSpec("f", "", {"type": "object", "properties": {"a": {"type": kind}}})
    assert leaderboard(tool, {"a": given_}, {"a": possible}) == {"a": is_right}


@pytest.mark.parametrize("possible", ["Oslo", 5, None, {"b": [1]}])
def test_an_expected_argument_lists_its_possible_values(possible: Any) -> None:
    """By the leaderboard's rules a bare value is refused: letters of a text are no values."""
    value = {
        "functions": [{"name": "f", "parameters": {"a/b": {"type": "string"}}}],
        "prompt": "p",
        "expected": [{"name": "f", "arguments": {"a/b": possible}}],
    }
    assert Case.from_json(value).wants_call
    with pytest.raises(
        InputError, match=r"^/expected/0/arguments/a~1b: must be a list of possible"
    ):
        Case.from_json({**value, "compare": "bfcl"})


def test_another_expression_with_the_same_output_is_right() -> None:
    """Outputs are compared; an expression that fails or runs forever is wrong, not fatal."""
    tool = ToolSpec("fn_substitute_string_with_regex")
    wanted = {"source_string": "a1b22", "regex": "\\d+", "replacement": "#"}
    assert all(by_output(tool, wanted | {"regex": "[0-9]+"}, wanted).values())
    assert not all(by_output(tool, wanted | {"regex": "\\d"}, wanted).values())
    assert not all(by_output(tool, wanted | {"regex": "("}, wanted).values())
    assert by_output(ToolSpec("other"), {"a": 1}, {"a": 2}) == {"a": False}
    assert all(by_output(ToolSpec("fn_add_numbers"), {"a": 3, "b": 2}, {"a": 2, "b": 3}).values())
