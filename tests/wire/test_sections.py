"""Formats whose answer has a section of its own, in front of calls too, and arguments that say their types."""

from __future__ import annotations

import json

import pytest

from callmemaybe.errors import InputError
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.nodes import Control
from callmemaybe.tools import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    TextDelta,
    ThoughtDelta,
    ToolCall,
    ToolSpec,
)
from callmemaybe.wire import formats
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.prompt import split_controls

FORM = formats.get("kimi_k3")
CONTROLS = frozenset(("<|open|>", "<|close|>", "<|sep|>"))
TOOL = ToolSpec(
    "f",
    parameters={
        "type": "object",
        "properties": {"n": {"type": ["number", "null"]}, "any": {}, "list": {"type": "array"}},
    },
)
ANSWER = "<|open|>response<|sep|>{}<|close|>response<|sep|>"
CALL = '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>{}<|close|>call<|sep|><|close|>tools<|sep|>'
END = "<|close|>message<|sep|>"


def argument(key: str, kind: str, value: str) -> str:
    return f'<|open|>argument key="{key}" type="{kind}"<|sep|>{value}<|close|>argument<|sep|>'


def allowed(spec: OutputSpec, text: str) -> bool:
    """Whether the grammar of this spec has the text, its control tokens as tokens."""
    automaton = compile_grammar(FORM.output_grammar([TOOL], spec))
    state = automaton.start
    for part in split_controls(text, CONTROLS):
        for symbol in [part] if isinstance(part, Control) else part.encode():
            if state < 0:
                return False
            if isinstance(symbol, Control):
                state = automaton.controls(state).get(symbol.text, -1)
            else:
                state = automaton.step(state, symbol)
    return state >= 0 and automaton.is_accepting(state)


def test_a_text_is_told_before_it_is_known_whether_a_call_follows() -> None:
    """The section of text stands in both branches; its text is not held back until they part."""
    reader = FORM.reader([TOOL], controls=CONTROLS)
    seen = [event for part in split_controls(ANSWER.format("Hi"), CONTROLS) for event in reader.feed(part)]  # fmt: skip
    assert seen == [TextDelta(b"Hi")]
    after = CALL.format(argument("n", "number", "1.5")) + END
    seen = [event for part in split_controls(after, CONTROLS) for event in reader.feed(part)]
    seen += reader.end()
    assert [type(one) for one in seen if not isinstance(one, ArgumentsDelta)] == [CallStarted, CallEnded]  # fmt: skip
    assert isinstance(seen[-1], CallEnded)
    assert seen[-1].call.parsed == {"n": 1.5}


def test_a_thought_an_answer_and_a_call_are_read_from_one_turn() -> None:
    """Each section is told as what it is."""
    turn = "<|open|>think<|sep|>Hm.<|close|>think<|sep|>" + ANSWER.format("On it.") + CALL.format("") + END  # fmt: skip
    reader = FORM.reader([TOOL], controls=CONTROLS)
    events = [event for part in split_controls(turn, CONTROLS) for event in reader.feed(part)]
    events += reader.end()
    assert ThoughtDelta(b"Hm.") in events
    assert TextDelta(b"On it.") in events
    assert isinstance(events[-1], CallEnded)
    assert events[-1].call == ToolCall("f", "{}")


@pytest.mark.parametrize(
    ("spec", "text", "call", "fits"),
    [
        (OutputSpec(), "", True, True),
        (OutputSpec(), "Hi", True, False),
        (OutputSpec(), "Hi", False, False),
        (OutputSpec(text=9), "Hi", True, True),
        (OutputSpec(text=9), "Hi", False, False),
        (OutputSpec(no_call=True), "Hi", False, True),
        (OutputSpec(no_call=True), "Hi", True, False),
        (OutputSpec(no_call=True, text=9), "Hi", True, True),
        (OutputSpec(calls=False, no_call=True), "Hi", False, True),
        (OutputSpec(calls=False, no_call=True), "Hi", True, False),
    ],
)
def test_text_stands_in_front_of_a_call_only_where_it_was_asked_for(
    spec: OutputSpec, text: str, call: bool, fits: bool
) -> None:
    """The section is always written; there is text in it where the turn may have one."""
    turn = ANSWER.format(text) + (CALL.format("") if call else "") + END
    assert allowed(spec, turn) is fits


@pytest.mark.parametrize(
    ("key", "kind", "value", "fits"),
    [
        ("n", "number", "-1.5", True),
        ("n", "null", "null", True),
        ("n", "number", "null", False),
        ("n", "string", "x", False),
        ("any", "string", "null", True),
        ("any", "boolean", "true", True),
        ("any", "boolean", "1", False),
        ("any", "object", '{"a": [1, "<|close|>"]}', False),  # a token is no text
        ("any", "object", '{"a": [1, "x"]}', True),
        ("any", "array", "[]", True),
        ("any", "array", "{}", False),
        ("list", "array", '[1, "a"]', True),
        ("list", "object", "[]", False),
    ],
)
@pytest.mark.parametrize("order", ["schema", "any"])
def test_an_argument_says_the_type_of_its_value(
    key: str, kind: str, value: str, fits: bool, order: str
) -> None:
    """The grammar has a value behind the mark of its own type alone, and the reader reads it as that."""
    turn = ANSWER.format("") + CALL.format(argument(key, kind, value)) + END
    assert allowed(OutputSpec(order=order), turn) is fits
    if fits:
        (call,) = FORM.read(split_controls(turn, CONTROLS), [TOOL], controls=CONTROLS)
        wanted = value if kind == "string" else json.loads(value)
        assert call.parsed == {key: wanted}


def test_a_string_that_looks_like_json_is_a_string() -> None:
    """The type in front of a value tells "null" from null, so nothing is in quotes."""
    calls = [ToolCall("f", '{"any": "null"}'), ToolCall("f", '{"any": null}')]
    parts = FORM.render(calls, tools=[TOOL])
    assert [one.parsed for one in FORM.read(parts, [TOOL])] == [{"any": "null"}, {"any": None}]


def test_text_in_front_of_earlier_calls_stands_in_its_section() -> None:
    """What a model said with its calls is written where it said it."""
    called = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Do."},
        {"role": "assistant", "content": "On it.", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "1", "content": "done"},
    ]
    shown = "".join(
        part.text if isinstance(part, Control) else part for part in FORM.prompt(messages, [TOOL])
    )
    assert ANSWER.format("On it.") + CALL.format("") + END in shown
    assert ANSWER.format("") not in shown


def test_a_turn_that_lacks_its_end_is_cut_off() -> None:
    """The section of calls may be closed and the message not."""
    turn = ANSWER.format("") + CALL.format("")
    with pytest.raises(InputError, match="cut off"):
        FORM.read(split_controls(turn, CONTROLS), [TOOL], controls=CONTROLS)
