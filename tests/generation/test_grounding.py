"""Only what was said, keys in any order: from the settings of a caller to its calls."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.caller import Caller
from callmemaybe.errors import BudgetError, GroundingError, InputError, UnsupportedSchema
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.wire.grounding import GroundingConfig
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.tool_choice import output_spec
from tests.test_caller import HERMES, MARKED, caller
from tests.wire.test_grounding import PARAMETERS, TEXT, TOOLS, is_said

MARKED_TOOL: dict[str, Any] = {
    "name": "book",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "x-ground": "prompt"},
            "remark": {"type": "string"},
        },
        "required": ["city", "remark"],
    },
}


@pytest.mark.parametrize(("form", "vocab"), [("hermes", HERMES), ("nano", MARKED)])
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    order=st.sampled_from(["schema", "any"]),
    temperature=st.sampled_from([0.0, 1.0]),
    speculate=st.booleans(),
)
def test_random_logits_say_only_what_was_said(
    form: str, vocab: Any, seed: int, order: Any, temperature: float, speculate: bool
) -> None:
    """Law: whatever the logits, every string and number of a call occurs in the request."""
    asking = caller(
        form, vocab, seed, TOOLS, order=order, ground="prompt", temperature=temperature,
        speculate=speculate, seed=1, max_tokens=400,
    )  # fmt: skip
    outcome = asking.call(TEXT)
    assert outcome.call is not None
    arguments = outcome.call.parsed
    assert arguments.keys() <= PARAMETERS["properties"].keys()
    for free in ("note", "unit"):
        arguments.pop(free, None)
    assert is_said(arguments, TEXT)


def test_a_parameter_may_ask_for_it_by_itself() -> None:
    """Law: ``x-ground`` in a schema holds without any setting, for that parameter alone."""
    for seed in range(8):
        outcome = caller("hermes", HERMES, seed, [MARKED_TOOL]).call("to Oslo or Rome?")
        assert outcome.call is not None
        assert outcome.call.parsed["city"] in {
            "to", "to Oslo", "to Oslo or", "to Oslo or Rome", "to Oslo or Rome?", "Oslo",
            "Oslo or", "Oslo or Rome", "Oslo or Rome?", "or", "or Rome", "or Rome?", "Rome",
            "Rome?", "?",
        }  # fmt: skip


def test_nothing_to_say_is_said() -> None:
    """Law: where nothing fits, no call is made up: the outcome has none and says which function."""
    outcome = caller("hermes", HERMES, 0, [MARKED_TOOL]).call(" ")
    assert outcome.call is None
    assert "book" in outcome.remarks[0]
    both = caller("hermes", HERMES, 0, [MARKED_TOOL, {"name": "ping"}]).call(" ")
    assert both.call is not None
    assert both.call.name == "ping"


def test_a_wrong_mark_is_refused_before_any_request() -> None:
    """Law: what is wrong with the tools is known when a caller is made, with or without a text."""
    wrong = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"x-ground": 1}}}}
    with pytest.raises(UnsupportedSchema, match="x-ground"):
        caller("hermes", HERMES, 0, [wrong])
    with pytest.raises(InputError, match="ground: there is no 'all'"):
        caller("hermes", HERMES, 0, [MARKED_TOOL], ground="all")
    long = {"type": "string", "x-ground": "prompt", "minLength": 60}
    tool = {
        "name": "f",
        "parameters": {"type": "object", "properties": {"a": long}, "required": ["a"]},
    }
    with pytest.raises(BudgetError):
        caller("hermes", HERMES, 0, [tool], max_tokens=20)


def test_requests_share_what_they_can() -> None:
    """Law: a text of one request leaves nothing in the store of automata, and changes no other call."""
    grounded = caller("hermes", HERMES, 3, TOOLS, ground="prompt", max_tokens=400)
    kept = import_module("callmemaybe.grammar.compile")._cache
    before = len(kept)
    first = grounded.call(TEXT).call
    for number in range(3):
        grounded.call(f"{number + 1} days in Oslo")
    assert len(kept) == before
    assert grounded.call(TEXT).call == first


MESSAGES = [
    {"role": "user", "content": "Oslo"},
    {"role": "assistant", "content": "Rome"},
    {"role": "tool", "content": "Lima 5", "tool_call_id": "call_1"},
    {"role": "user", "content": "Well, Bonn?"},
]


@pytest.mark.parametrize(("where", "said"), [("request", "Well, Bonn?"), ("conversation", None)])
def test_turns_of_a_conversation_are_grounded(where: str, said: str | None) -> None:
    """Law: a turn's arguments occur in the last message of the user, or in what all said."""
    texts = ["Oslo", "Lima 5", "Well, Bonn?"] if said is None else [said]
    found = set()
    for seed in range(12):
        model = ScriptedModel(HERMES.size, seed)
        speaker = LocalGenerator(
            model, format="hermes", vocabulary=HERMES, grounding=GroundingConfig(ground_in=where)
        )
        spoken = speaker.generate(MESSAGES, [TOOL], output_spec("required"))
        city = spoken.calls[0].parsed["city"]
        assert any(city in text for text in texts)
        found.add(city)
    assert len(found) > 1


TOOL = Caller(
    ScriptedModel(HERMES.size, 0), [MARKED_TOOL], format="hermes", vocabulary=HERMES
).tools[0]


def test_an_answer_may_be_grounded_too() -> None:
    """Law: ``x-ground`` in the schema of an answer holds; the setting for arguments does not."""
    quote = {"type": "object", "properties": {"quote": {"type": "string", "x-ground": "prompt"},
             "mood": {"type": "string", "maxLength": 2}}, "required": ["quote", "mood"],
             "additionalProperties": False}  # fmt: skip
    speaker = LocalGenerator(
        ScriptedModel(HERMES.size, 5), format="hermes", vocabulary=HERMES,
        grounding=GroundingConfig(ground="prompt"),
    )  # fmt: skip
    wish = OutputSpec(calls=False, no_call=True, answer=quote)
    text = speaker.generate([{"role": "user", "content": "yes"}], [], wish).text
    assert text.startswith('{"quote": "yes", "mood": "')


def test_a_turn_that_must_call_and_cannot() -> None:
    """Law: a required call that nothing said allows is the asker's error, and says so."""
    speaker = LocalGenerator(ScriptedModel(HERMES.size, 0), format="hermes", vocabulary=HERMES)
    with pytest.raises(GroundingError):
        speaker.generate([{"role": "user", "content": " "}], [TOOL], output_spec("required"))
    assert (
        speaker.generate([{"role": "user", "content": " "}], [TOOL], output_spec("auto")).calls
        == ()
    )
