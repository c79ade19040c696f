"""What arguments may be beyond their schema, in every format: keys in any order, only what was said."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from itertools import permutations
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import GroundingError, InputError, UnsupportedSchema
from callmemaybe.grammar import GroundingSource
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.json_schema.grounding import numbers_in
from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio import dumps
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire import Format, formats
from callmemaybe.wire import format as module
from callmemaybe.wire.grounding import GroundingConfig
from callmemaybe.wire.output_grammar import OutputSpec
from tests.wire.test_laws import accepts, every_format, next_symbols

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1},
        "wet": {"type": "boolean"},
        "unit": {"enum": ["c", "f"]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "at": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
            "required": ["x", "y"],
            "additionalProperties": False,
        },
        "note": {"type": "string", "x-ground": False, "maxLength": 3},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOLS = [ToolSpec("weather", parameters=PARAMETERS)]
TEXT = 'Weather in "New York" <b>&amp;</b> for 3 days, at 40.7 and 74, 1\\2\n\u660e\u5929 tomorrow'


def walk(form: Format, spec: OutputSpec, seed: int) -> list[bytes | Control]:
    """Return a random answer, drawn from the grammar."""
    automaton, dice = automaton_of(form.output_grammar(TOOLS, spec)), random.Random(seed)
    state, path = automaton.start, []
    while True:
        ways = next_symbols(automaton, state, ending=len(path) > 150)
        if not ways or (automaton.is_accepting(state) and len(path) > 150):
            assert automaton.is_accepting(state)
            return path
        symbol, state = dice.choice(ways)
        path.append(Control(symbol) if isinstance(symbol, str) else bytes([symbol]))


def is_said(value: Any, text: str) -> bool:
    """Whether every string and number in a value occurs in a text."""
    if isinstance(value, dict):
        return all(is_said(inner, text) for inner in value.values())
    if isinstance(value, list):
        return all(is_said(inner, text) for inner in value)
    if isinstance(value, str):
        return bool(value) and value in text
    return isinstance(value, bool) or Decimal(value) in map(Decimal, numbers_in(text))


@every_format
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), order=st.sampled_from(["schema", "any"]))
def test_whatever_is_written_was_said(form: Format, seed: int, order: str) -> None:
    """Law: in every format a grounded argument occurs in the text, and the call is valid."""
    spec = OutputSpec(order=order, ground=GroundingSource(TEXT, "prompt"))
    (call,) = form.read(walk(form, spec, seed), TOOLS)
    arguments = call.parsed
    jsonschema_rs.validate(PARAMETERS, json.loads(call.arguments))
    for free in ("note", "unit"):
        arguments.pop(free, None)
    assert is_said(arguments, TEXT)


@every_format
def test_any_order_means_every_order(form: Format) -> None:
    """Law: all permutations of a valid call's arguments are allowed and read; repeats are not."""
    automaton = automaton_of(form.output_grammar(TOOLS, OutputSpec(order="any")))
    members = {"city": 'O"slo', "days": 2, "wet": True, "at": {"y": 1, "x": 2}}
    for keys in permutations(members):
        call = ToolCall("weather", dumps({key: members[key] for key in keys}))
        parts = form.render([call], tools=TOOLS)
        assert accepts(automaton, parts)
        assert form.read(parts, TOOLS)[0].parsed == members
    (short,) = form.read(form.render([ToolCall("weather", '{"days": 2}')], tools=TOOLS), TOOLS)
    assert not accepts(automaton, form.render([short], tools=TOOLS))


def test_keys_that_are_no_words_in_any_order() -> None:
    """Law: where a key needs quotes it keeps them; where that takes tokens, any order is refused."""
    tools = [ToolSpec("f", parameters={"type": "object", "properties": {"a b": {}, "c>\nd": {}}})]
    call = ToolCall("f", '{"c>\\nd": 1, "a b": {"a b": 2}}')
    for form in map(formats.get, formats.names()):
        try:
            parts = form.render([call], tools=tools)
        except InputError:
            parts = None
        if parts is None or form.name in {"gemma4", "functiongemma"}:
            with pytest.raises(UnsupportedSchema, match=r"in any order|cannot write the key"):
                form.output_grammar(tools, OutputSpec(order="any"))
            continue
        automaton = automaton_of(form.output_grammar(tools, OutputSpec(order="any")))
        assert accepts(automaton, parts)


def _needs(name: str, kind: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}


def test_a_function_without_anything_to_say_is_left_out() -> None:
    """Law: what cannot be called with what was said is not in the language; with nothing left, an error."""
    form = formats.get("hermes")
    add = ToolSpec("add", parameters=_needs("a", "number"))
    echo = ToolSpec("echo", parameters=_needs("text", "string"))
    ping = ToolSpec("ping")
    ground = GroundingSource("no number", "prompt")
    automaton = automaton_of(form.output_grammar([add, echo, ping], OutputSpec(ground=ground)))
    for call, allowed in (
        (ToolCall("add", '{"a": 1}'), False),
        (ToolCall("echo", '{"text": "number"}'), True),
        (ToolCall("echo", '{"text": "numb"}'), False),
        (ToolCall("ping", "{}"), True),
    ):
        assert accepts(automaton, form.render([call])) is allowed
    with pytest.raises(GroundingError, match="the request contains no value") as caught:
        form.output_grammar([add], OutputSpec(ground=ground))
    assert caught.value.functions == ("add",)
    silent = automaton_of(form.output_grammar([add], OutputSpec(ground=ground, no_call=True)))
    assert accepts(silent, form.render([], answer="which?"))
    loose = GroundingSource("no number", "prompt-or-free")
    assert accepts(
        automaton_of(form.output_grammar([add], OutputSpec(ground=loose))),
        form.render([ToolCall("add", '{"a": 1}')]),
    )


def test_an_emptiness_behind_rules_is_found() -> None:
    """Law: a recursive schema in which nothing was said leaves its function out as well."""
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "more": {"$ref": "#"}},
        "required": ["n"],
    }
    with pytest.raises(GroundingError):
        formats.get("hermes").output_grammar(
            [ToolSpec("f", parameters=schema)], OutputSpec(ground=GroundingSource("none", "prompt"))
        )


def test_a_request_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: what was said in one request takes no place among the languages that requests share."""
    kept: dict[Any, Any] = {}
    monkeypatch.setattr(module, "_GRAMMARS", kept)
    form = formats.get("hermes")
    for number in range(5):
        form.output_grammar(
            TOOLS, OutputSpec(ground=GroundingSource(f"{number + 1} days in Oslo", "prompt"))
        )
    assert not kept


MESSAGES = [
    {"role": "system", "content": "Be kind to Ada."},
    {"role": "user", "content": "Paris"},
    {"role": "assistant", "content": "Berlin"},
    {"role": "tool", "content": "Lima"},
    {"role": "user", "content": "Oslo"},
    {"role": "assistant", "content": "Rome"},
]


@pytest.mark.parametrize(
    ("where", "texts"), [("request", ("Oslo",)), ("conversation", ("Paris", "Lima", "Oslo"))]
)
def test_what_counts_as_said(where: str, texts: tuple[str, ...]) -> None:
    """Law: users count, and in a conversation what tools returned; the model and its orders never."""
    spec = GroundingConfig(ground="prompt", ground_in=where).for_messages(OutputSpec(), MESSAGES)
    assert spec.ground == GroundingSource(texts, "prompt")


@pytest.mark.parametrize("name", ["ground", "ground_in"])
def test_settings_are_checked(name: str) -> None:
    """Law: a value that is none of those there are is refused by the name of its setting."""
    with pytest.raises(InputError, match=f"{name}: there is no 'x'"):
        GroundingConfig(**{name: "x"})
