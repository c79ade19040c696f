"""What compiling the functions of one request may take, counted in steps."""

from __future__ import annotations

from typing import Any

import pytest

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar.automaton import progress_reported_to
from callmemaybe.grammar.json_schema.entry import MAX_STEPS
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.formats.hermes import FORMAT
from callmemaybe.wire.output_grammar import COSTLY_STEPS, OutputSpec


def _tools(count: int, value: dict[str, Any]) -> list[ToolSpec]:
    parameters = {"type": "object", "properties": {"v": value}, "required": ["v"]}
    return [ToolSpec(f"f{number}", "", parameters) for number in range(count)]


def _steps(tools: list[ToolSpec]) -> tuple[int, str]:
    """Return the steps that compiling takes, and the message of its refusal."""
    steps = 0

    def count(more: int) -> None:
        nonlocal steps
        steps += more

    message = ""
    with progress_reported_to(count):
        try:
            FORMAT.output_grammar(tools, OutputSpec(calls=True), deferred={})
        except UnsupportedSchema as error:
            message = str(error)
    return steps, message


def _when(number: int) -> dict[str, Any]:
    has_key = {"properties": {f"k{number}": {"const": 1}}, "required": [f"k{number}"]}
    return {"if": has_key, "then": {"required": [f"m{number}"]}}


def test_masking_and_then_deferring_take_the_steps_of_one_schema() -> None:
    """A schema that no grammar expresses is compiled again without what is checked afterwards; both share a budget."""
    steps, message = _steps(_tools(1, {"allOf": [_when(number) for number in range(30)]}))
    assert "compiling this schema takes more than" in message
    assert steps <= MAX_STEPS


def test_what_was_costly_is_kept_for_the_same_function() -> None:
    """Asked for again, in another grammar, a costly schema takes no steps; another function with it does."""
    value = {"allOf": [{"enum": [f"v{number}" for number in range(40_000)]}]}
    first, second = _tools(2, value)
    steps, message = _steps([first])
    assert not message
    assert steps > COSTLY_STEPS
    with_text = OutputSpec(calls=True, no_call=True)
    told: list[int] = []
    with progress_reported_to(told.append):
        FORMAT.output_grammar([first], with_text, deferred={})
    assert sum(told) < COSTLY_STEPS
    with progress_reported_to(told.append):
        FORMAT.output_grammar([second], with_text, deferred={})
    assert sum(told) > COSTLY_STEPS


def test_ordinary_functions_are_far_from_the_budget() -> None:
    """A catalogue of a thousand functions is compiled."""
    value = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "array", "items": {"type": "integer"}},
        },
    }
    steps, message = _steps(_tools(1000, value))
    assert not message
    assert steps < MAX_STEPS


@pytest.mark.parametrize(("count", "is_fine"), [(2000, True), (20_000, False)])
def test_a_chain_of_references_counts(count: int, is_fine: bool) -> None:
    """Each reference that is followed takes steps, since the validator reads it as well."""
    definitions: dict[str, Any] = {"n0": {"type": "string"}}
    for number in range(1, count):
        definitions[f"n{number}"] = {"$ref": f"#/$defs/n{number - 1}"}
    last = {"v": {"$ref": f"#/$defs/n{count - 1}"}}
    tool = ToolSpec("f", "", {"type": "object", "properties": last, "$defs": definitions})
    assert (not _steps([tool])[1]) == is_fine
