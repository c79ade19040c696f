"""Validating a value is counted before it is done, and refused if it would hold everybody up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from callmemaybe.errors import InputError
from callmemaybe.gateway import Gateway
from callmemaybe.tools import Effect, Mode, Tool, ToolCall, ToolSpec
from callmemaybe.tools.schemas import validator_for
from callmemaybe.tools.validation_work import WorkCounter


def doubled(levels: int, definition: Any, last: Any = None) -> dict[str, Any]:
    """Return a schema of definitions of which each refers to the next one twice."""
    names = {f"d{n}": definition({"$ref": f"#/$defs/d{n + 1}"}) for n in range(levels)}
    names[f"d{levels}"] = last or {"type": "string"}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": names}


DOUBLINGS = {
    "anyOf": lambda r: {"anyOf": [r, r]},
    "allOf": lambda r: {"allOf": [r, r]},
    "oneOf": lambda r: {"oneOf": [r, r]},
    "not": lambda r: {"not": {"allOf": [r, r]}},
    "if": lambda r: {"if": r, "then": r, "else": r},
    "dependentSchemas": lambda r: {"dependentSchemas": {"a": r, "b": r}},
}


@pytest.mark.parametrize("name", DOUBLINGS)
def test_a_doubling_of_32_levels_is_refused_before_it_is_checked(name: str) -> None:
    """Law: 2**32 checks are counted in a step for each definition, and refused in one sentence."""
    validator = validator_for(doubled(32, DOUBLINGS[name]))
    with pytest.raises(InputError, match="too much work: it takes more than 4,000,000 checks"):
        validator.first_error({"x": {"a": 1, "b": 2}})
    assert validator.is_valid({})


def test_schemas_that_the_validator_reads_again_and_again_are_refused() -> None:
    """Law: what the validator would copy while it reads a schema is counted, too."""
    looking = doubled(32, lambda r: {"anyOf": [r, r], "unevaluatedProperties": False})
    with pytest.raises(InputError, match=r"unevaluated\* looks at"):
        validator_for(looking)
    dynamic = {
        f"d{n}": {"$id": f"d{n}", "$dynamicAnchor": "a", "$ref": f"d{n + 1}"} for n in range(32)
    }
    with pytest.raises(InputError, match="dynamic anchor"):
        validator_for({"$defs": dynamic, "$ref": "d0"})


def test_an_error_that_would_hold_many_copies_of_the_value_has_no_place() -> None:
    """Law: a wrong value is told apart from a right one also where its errors would take gigabytes."""
    validator = validator_for(doubled(12, DOUBLINGS["anyOf"]))
    wrong = validator.first_error({"x": [1] * 20_000})
    assert wrong is not None
    assert wrong.message == "it does not meet its schema"
    assert validator.first_error({"x": "right"}) is None


def test_the_count_is_exact_where_nothing_is_shared() -> None:
    """Law: each schema counts once for each part of the value that it is checked with."""
    schema = {
        "type": "array",
        "items": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    assert WorkCounter(schema).count([{"a": "b"}] * 1).checks == 3
    assert WorkCounter(schema).count([{"a": "b"}, {"c": "d", "e": "f"}]).checks == 6


def test_a_call_that_takes_too_much_checking_is_refused_with_a_sentence() -> None:
    """Law: the gateway answers such a call at once, without an effect, and goes on."""

    async def act(**_: Any) -> str:
        return "done"

    spec = ToolSpec("act", parameters=doubled(32, DOUBLINGS["anyOf"]))
    hostile = Tool(spec, act, Effect.READ, Mode.ASYNC)
    calls = [ToolCall("act", '{"x": 1}', "a"), ToolCall("act", "{}", "b")]

    async def both() -> Any:
        async with Gateway([hostile]) as gateway:
            return await gateway.run(calls, run="r", turn=0)

    bad, good = asyncio.run(both())
    assert (bad.code, bad.effect) == ("invalid_arguments", "none")
    assert "too much work" in bad.content
    assert good.ok
