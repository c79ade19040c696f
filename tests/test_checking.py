"""Schemas that no grammar can say as a whole: masked as far as may be, and checked before a call counts."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.caller import Caller
from callmemaybe.calls import ToolCall, ToolSpec
from callmemaybe.errors import RepeatedKey, UnmetSchema
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.wire import formats
from tests.decoding.helpers import CHATML, NANO, vocabulary
from tests.talking import speaks

VOCABULARIES = {
    "hermes": vocabulary(CHATML, ("<|im_end|>",)),
    "nano": vocabulary(NANO, ("<|end|>",)),
    "qwen3_coder": vocabulary(CHATML, ("<|im_end|>",)),
}
ASK = b"<|im_start|>assistant\n<think>\n\n</think>\n\n"
USER = [{"role": "user", "content": "Well?"}]
DIGITS = {"type": "array", "items": {"enum": [1, 2, 3, 4, 5, 6, 7, 8, 9]}, "uniqueItems": True}
ONES = {"type": "integer", "minimum": 0, "maximum": 3}
#: What no grammar of bearable size says.
LEFT: dict[str, Any] = {
    "items that differ": {**DIGITS, "maxItems": 3, "minItems": 2},
    "members in number": {
        "type": "object", "propertyNames": {"enum": ["a", "b", "c"]}, "minProperties": 2,
        "maxProperties": 3, "additionalProperties": ONES,
    },
    "look-behind": {"type": "string", "pattern": "^[ab]{2,3}(?<=ab)$", "maxLength": 3},
    "the same once more": {"type": "string", "pattern": r"^([ab])\1$", "maxLength": 3},
    "multiples": {"type": "integer", "multipleOf": 100_003, "minimum": 0, "maximum": 10**6},
}  # fmt: skip


def schema_of(value: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"it": value}, "required": ["it"],
            "additionalProperties": False}  # fmt: skip


def caller(form: str, script: Any, value: Any, **options: Any) -> Caller:
    vocab = VOCABULARIES[form]
    tools = [ToolSpec("f", parameters=schema_of(value))]
    model = ScriptedModel(vocab.size, script)
    return Caller(model, tools, format=form, vocabulary=vocab, **({"max_tokens": 90} | options))


def wants(text: str) -> Any:
    """Return a model that wants to call ``f`` with arguments in JSON."""
    wish = formats.get("hermes").render([ToolCall("f", text)])
    return speaks(VOCABULARIES["hermes"], [tuple(wish)], lambda _: 0, ASK)


@pytest.mark.parametrize("form", sorted(VOCABULARIES))
@pytest.mark.parametrize("what", LEFT)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), temperature=st.sampled_from([0.0, 1.0]))
def test_a_call_is_valid_or_an_error(form: str, what: str, seed: int, temperature: float) -> None:
    """Law: whatever a model says, what counts is valid by a validator of another make, and is remarked."""
    value = LEFT[what]
    made = caller(form, seed, value, temperature=temperature, seed=seed)
    try:
        outcome = made.call("x")
    except UnmetSchema as found:
        error = found
    except RepeatedKey:
        assert what == "members in number"
        return
    else:
        assert outcome.call is not None
        arguments = json.loads(outcome.call.arguments)
        assert jsonschema.Draft202012Validator(schema_of(value)).is_valid(arguments)
        assert "not masked: /properties/it/" in outcome.remarks[0]
        return
    assert (error.function, error.pointer) == ("f", "/it")
    assert error.keyword.startswith("/properties/it/")
