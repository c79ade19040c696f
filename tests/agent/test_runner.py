"""Conversations with a model: choices among tools, the loop, its limits, plans and clarifications."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
import json
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter

from callmemaybe.agent.executors import PythonExecutor
from callmemaybe.caller import Caller
from callmemaybe.conversation import Conversation, ModelTurn, UserMessage
from callmemaybe.conversation.loop import (
    ExecuteCalls,
    GenerateTurn,
    LoopConfig,
    ModelReply,
    conversation_loop,
)
from callmemaybe.errors import ConversationError, InputError
from callmemaybe.generation.config import TEMPLATES, DecodingConfig
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.retrieval import ToolIndex
from callmemaybe.tools import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Context,
    ToolCall,
    ToolResult,
    ToolSpec,
    tool,
)
from callmemaybe.wire import PromptPart, formats
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.tool_choice import output_spec
from tests.decoding.helpers import CHATML, vocabulary
from tests.settings import configured
from tests.talking import brief, speaks

VOCABULARY = vocabulary(CHATML, ("<|im_end|>",))
PLAIN = vocabulary((), ("<|im_end|>",))
HERMES = formats.get("hermes")
TOOLS = [
    ToolSpec(
        "get_weather",
        "Weather",
        {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
        returns={
            "type": "object",
            "properties": {"temperature": {"type": "number"}, "sky": {"type": "string"}},
            "required": ["temperature", "sky"],
        },
    ),
    ToolSpec("say", parameters={"type": "object", "properties": {"n": {"type": "number"}},
                                "required": ["n"]}),
    ToolSpec("ping"),
]  # fmt: skip
PARIS = ToolCall("get_weather", '{"city": "Paris"}')
BERN = ToolCall("get_weather", '{"city": "Bern"}')
PING = ToolCall("ping", "{}")


def calls(*some: ToolCall) -> tuple[PromptPart, ...]:
    return HERMES.render(some)


def said(text: str) -> tuple[PromptPart, ...]:
    return (text,)


def turns_so_far(text: bytes) -> int:
    return text.count(b"<|im_start|>assistant\n")


ASK = b"<|im_start|>assistant\n<think>\n\n</think>\n\n"


def caller(*wishes: tuple[PromptPart, ...], **options: Any) -> Caller:
    model = speaks(VOCABULARY, wishes, turns_so_far, ASK)
    return Caller(model, TOOLS, format="hermes", vocabulary=VOCABULARY, **configured(options))


def speaker(*wishes: tuple[PromptPart, ...], ask: bytes = ASK) -> LocalGenerator:
    model = speaks(VOCABULARY, wishes, turns_so_far, ask)
    return LocalGenerator(model, format="hermes", vocabulary=VOCABULARY)


USER = [{"role": "user", "content": "Weather in Paris and Bern?"}]
WEATHER = PythonExecutor(
    get_weather=lambda city, days=1: {"temperature": len(city) + days, "sky": "blue"},
    say=lambda n: f"said {n}",
    ping=lambda: "pong",
)


# -- the choice among tools -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "wish", "text", "names"),
    [
        ("auto", calls(PARIS), "", ["get_weather"]),
        ("auto", said("Hello!"), "Hello!", []),
        ("none", calls(PARIS), None, []),
        ("required", said("Hello!"), "", None),
        ({"type": "function", "function": {"name": "ping"}}, calls(PARIS), "", ["ping"]),
        ({"type": "function", "name": "ping"}, said("no"), "", ["ping"]),
        ({"type": "allowed_tools", "mode": "required",
          "tools": [{"type": "function", "name": "say"}, {"type": "function", "name": "ping"}]},
         calls(PARIS), "", {"say", "ping"}),
        ({"type": "allowed_tools", "allowed_tools":
          {"mode": "auto", "tools": [{"type": "function", "function": {"name": "ping"}}]}},
         said("Hello!"), "Hello!", []),
    ],
)  # fmt: skip
def test_the_choice_is_kept_by_the_grammar(choice, wish, text: str | None, names) -> None:
    """Whatever the model wants to say, it says what the choice allows."""
    spoken = speaker(wish).generate(USER, TOOLS, output_spec(choice))
    found = [call.name for call in spoken.calls]
    if text is not None:
        assert spoken.text == text
    if names is None:
        assert len(found) == 1
    elif isinstance(names, set):
        assert len(found) == 1
        assert set(found) <= names
    else:
        assert found == names


@pytest.mark.parametrize(
    "choice",
    ["all", 3, {"type": "tool"}, {"type": "function", "function": {}},
     {"type": "allowed_tools", "mode": "some", "tools": [{"name": "x"}]},
     {"type": "allowed_tools", "tools": []}],
)  # fmt: skip
def test_a_choice_that_is_none_is_refused(choice) -> None:
    """The error names the parameter."""
    with pytest.raises(InputError, match="tool_choice"):
        output_spec(choice)


def test_a_choice_of_an_unknown_function_is_refused() -> None:
    """So is a required call without tools."""
    with pytest.raises(InputError, match="no function 'nope'"):
        speaker(said("x")).generate(USER, TOOLS, output_spec({"type": "function", "name": "nope"}))
    with pytest.raises(InputError, match="required"):
        output_spec("required", has_tools=False)


def test_text_and_calls_are_weighed() -> None:
    """The distribution of auto includes the answer in text."""
    spoken = speaker(calls(PING)).generate(USER, TOOLS, output_spec("auto"))
    assert next(iter(spoken.distribution)) == "ping"
    assert spoken.distribution[None] < 0.1
    assert sum(spoken.distribution.values()) == pytest.approx(1.0)
    assert next(iter(speaker(said("x")).generate(USER, TOOLS, output_spec()).distribution)) is None


def test_parallel_calls_have_a_limit() -> None:
    """As many calls as are allowed, and one where they are not parallel."""
    many = [ToolCall("say", f'{{"n": {n}}}') for n in range(9)]
    for parallel, most, count in ((False, None, 1), (True, 3, 3), (True, None, 9)):
        spoken = speaker(calls(*many)).generate(
            USER,
            TOOLS,
            output_spec("auto", parallel=parallel, most=most),
            DecodingConfig(max_tokens=2_000),
        )
        assert [call.arguments for call in spoken.calls] == [c.arguments for c in many[:count]]


def test_a_call_that_is_repeated_ends_the_turn() -> None:
    """The second of two equal calls is not a call any more, nor is what comes behind it."""
    turn = speaker(calls(PARIS, PING, PARIS, BERN)).stream(USER, TOOLS, output_spec(parallel=True))
    events = [event for some in turn for event in some]
    spoken = turn.result
    assert [call.name for call in spoken.calls] == ["get_weather", "ping"]
    assert spoken.ended == "repeated"
    assert sum(isinstance(event, CallEnded) for event in events) == 2


def test_a_turn_is_told_as_it_is_written() -> None:
    """Events come in order, and the arguments they tell are those of the call."""
    turn = speaker(calls(PARIS)).stream(USER, TOOLS, output_spec("required"))
    events = [event for some in turn for event in some]
    assert isinstance(events[0], CallStarted)
    told = b"".join(event.data for event in events if isinstance(event, ArgumentsDelta))
    assert json.loads(told) == {"city": "Paris"}
    assert isinstance(events[-1], CallEnded)


def test_thinking_is_free_and_bounded() -> None:
    """Thought stands in front of the call, is told apart from it, and ends where it must."""
    thought = HERMES.render([PING], thought="Hm, " * 10)
    ask = b"<|im_start|>assistant\n"
    spoken = speaker(thought, ask=ask).generate(USER, TOOLS, output_spec(thinking=100))
    assert spoken.thought == "Hm, " * 10
    # Three tokens for each, and the mark behind them; marks in front are no thought yet.
    assert spoken.thought_tokens == 31
    assert [call.name for call in spoken.calls] == ["ping"]
    short = speaker(thought, ask=ask).generate(USER, TOOLS, output_spec("required", thinking=10))
    assert short.thought == "Hm, Hm, Hm, H"  # ten tokens: H, m and ", " are one each
    assert short.thought_tokens == 11
    assert len(short.calls) == 1
    none = speaker(thought, ask=ask).generate(USER, TOOLS, output_spec())
    assert (none.thought, none.thought_tokens) == ("", 0)


def test_text_in_front_of_a_call_is_bounded() -> None:
    """Where it is allowed, text may come first; where a call is required, so much of it."""
    both = HERMES.render([PING], answer="Let me see. ")
    spoken = speaker(both).generate(USER, TOOLS, output_spec(text=50))
    assert (spoken.text, [call.name for call in spoken.calls]) == ("Let me see. ", ["ping"])
    cut = speaker(both).generate(USER, TOOLS, output_spec("required", text=5))
    assert (cut.text, len(cut.calls)) == ("Let m", 1)


ANSWER = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
          "additionalProperties": False}  # fmt: skip


def test_a_schema_for_answers_and_tools_are_one_grammar() -> None:
    """Either a call, or JSON that meets the schema; in a format that cannot tell them, an error."""
    wish = output_spec("auto", answer=ANSWER)
    assert speaker(calls(PING)).generate(USER, TOOLS, wish).calls[0].name == "ping"
    spoken = speaker(said('{"ok": true}')).generate(USER, TOOLS, wish)
    assert (spoken.calls, json.loads(spoken.text)) == ((), {"ok": True})
    with pytest.raises(InputError, match="tell such an answer from a call"):
        formats.get("llama3_json").output_grammar(TOOLS, wish)
    formats.get("pythonic").output_grammar(TOOLS, wish)
    with pytest.raises(InputError, match="anything but calls"):
        formats.get("nano").output_grammar(TOOLS, wish)


@pytest.mark.parametrize("name", ["llama3_json", "pythonic", "json_list"])
def test_a_bracket_is_weighed_with_all_tokens_that_begin_with_it(name: str) -> None:
    """Where a bracket begins a call, the call is as likely as all tokens with that bracket together."""
    form = formats.get(name)
    headers = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
    vocab = vocabulary(headers, ("<|eot_id|>",), (b'{"', b'{"name": "', b'[{"', b"[get", b"[ping"))
    opening = form.render([PING])[0]
    assert isinstance(opening, str)
    heads = [i for i, token in enumerate(vocab.tokens) if token[:1] == opening[:1].encode()]

    def script(ids: tuple[int, ...]) -> np.ndarray:
        logits = brief(vocab)
        if vocab.decode(ids).endswith(b"assistant: " if name == "json_list" else b"\n\n"):
            logits[heads] = 8.0
            logits[ord("N")] = 8.5
        return logits

    model = ScriptedModel(vocab.size, script)
    spoken = LocalGenerator(model, format=name, vocabulary=vocab).generate(
        USER, TOOLS, output_spec()
    )
    assert len(spoken.calls) == 1
    assert spoken.distribution[None] < 0.5


EVERY = {
    name: vocabulary(tuple(sorted({*formats.get(name).controls, *CHATML})), ("<|im_end|>",))
    for name in formats.names()
}
TEXT = st.sampled_from([0, 20])
#: Formats whose calls begin as a JSON object does.
CANNOT_TELL = {"llama3_json", "llama4_json"}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    wish=st.builds(
        OutputSpec, calls=st.booleans(), no_call=st.booleans(), most=st.integers(1, 3), thinking=TEXT,
        text=TEXT, answer_length=st.sampled_from([None, 30]),
        only=st.sampled_from([None, ("ping",)]), answer=st.sampled_from([None, ANSWER]),
    ),
    name=st.sampled_from(sorted(EVERY)),
)  # fmt: skip
def test_no_model_can_say_what_was_not_wanted(seed: int, wish: OutputSpec, name: str) -> None:
    """In every format, a model that says anything at all stays within what was wanted."""
    form, vocab = formats.get(name), EVERY[name]
    made = LocalGenerator(ScriptedModel(vocab.size, seed), format=form, vocabulary=vocab)
    if wish.thinking and not form.has_thinking:
        with pytest.raises(InputError, match="no place for thinking"):
            made.stream(USER, TOOLS, wish)
        return
    may_answer = wish.answer is not None and (wish.no_call or not wish.calls)
    if may_answer and (not form.has_free_text or (wish.calls and name in CANNOT_TELL)):
        with pytest.raises(InputError, match="answer: "):
            made.stream(USER, TOOLS, wish)
        return
    speech = made.stream(USER, TOOLS, wish, DecodingConfig(max_tokens=300, trace=True))
    whole = [event for events in speech for event in events if isinstance(event, CallEnded)]
    spoken = speech.result
    assert len(whole) <= wish.most * wish.calls
    if wish.calls and not wish.no_call:
        assert whole
    assert len(spoken.calls) == (0 if spoken.ended == "length" else len(whole))
    if wish.only and wish.calls:
        assert {call.name for call in spoken.calls} <= set(wish.only)
    longest = max(map(len, vocab.tokens))
    assert len(spoken.thought.encode()) <= wish.thinking * longest
    if whole and not wish.no_call:
        assert len(spoken.text.encode()) <= wish.text * longest
    if not whole and wish.answer is not None:
        assert json.loads(spoken.text) in ({"ok": True}, {"ok": False})


def double_check(n: int) -> str:
    """Check a number twice."""
    return f"{n} {n}"


# -- the loop ---------------------------------------------------------------------------------------


def test_the_loop_ends_with_an_answer() -> None:
    """Calls, results, an answer; each call has one result, and the model has read it."""
    made = caller(calls(PARIS, BERN), said("Paris 6, Bern 5."))
    ran = made.run("Weather in Paris and Bern?", WEATHER, parallel=True)
    assert (ran.reason, ran.text) == ("answered", "Paris 6, Bern 5.")
    contents = [m["content"] for m in ran.conversation.messages() if m["role"] == "tool"]
    assert [json.loads(text)["temperature"] for text in contents] == [6, 5]
    again = Conversation.from_json(ran.conversation.to_json())
    assert again.entries == ran.conversation.entries


def test_both_faces_are_the_same() -> None:
    """What is awaited comes to the same as what is waited for."""

    async def execute(some: Sequence[ToolCall]) -> Sequence[ToolResult]:
        await asyncio.sleep(0)
        return list(reversed(WEATHER(some)))

    wishes = (calls(PARIS, BERN), said("Done."))
    one = caller(*wishes).run("Weather in Paris and Bern?", WEATHER, parallel=True)
    made = caller(*wishes)
    two = asyncio.run(made.arun("Weather in Paris and Bern?", execute, parallel=True))
    assert one.conversation.messages() == two.conversation.messages()


def test_a_conversation_goes_on() -> None:
    """A finished conversation takes another request; ids go on counting."""
    made = caller(calls(PARIS), said("Six."), calls(BERN), said("Five."))
    ran = made.run("Paris?", WEATHER)
    ran.conversation.take(UserMessage("user", "And Bern?"))
    ran = made.run(ran.conversation, WEATHER)
    turns = [entry for entry in ran.conversation.entries if isinstance(entry, ModelTurn)]
    assert [[call.id for call in turn.calls] for turn in turns] == [["call_1"], [], ["call_2"], []]
    assert [turn.text for turn in turns] == ["", "Six.", "", "Five."]


def test_steps_are_limited() -> None:
    """A model that always has another call is stopped."""
    made = caller(*(calls(ToolCall("say", f'{{"n": {n}}}')) for n in range(9)))
    ran = made.run("Count", WEATHER, steps=3)
    assert ran.reason == "steps"
    assert sum(isinstance(entry, ModelTurn) for entry in ran.conversation.entries) == 3


def test_the_same_call_again_is_refused_and_ends_the_loop() -> None:
    """The second time the model is told; then only text is left to it; nothing runs twice."""
    ran_calls: list[str] = []

    def execute(some: Sequence[ToolCall]) -> Sequence[ToolResult]:
        ran_calls.extend(call.name for call in some)
        return WEATHER(some)

    ran = caller(calls(PARIS)).run("Weather in Paris?", execute)
    assert ran_calls == ["get_weather"]
    assert ran.reason == "repeated"
    results = [e for e in ran.conversation.entries if isinstance(e, ToolResult)]
    assert results[1].is_error
    assert "made before" in results[1].content


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ('{"a": 1, "b": {"c": [1], "d": ""}}', '{"b": {"d": "", "c": [1.0]}, "a": 1e0}', True),
        ('{"a": 1e999999}', '{"a": 10e999998}', True),
        ('{"a": -0.0}', '{"a": 0}', True),
        ('{"a": true}', '{"a": 1}', False),
        ('{"a": "1"}', '{"a": 1}', False),
        ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
        ('{"a": 12345678901234567890123456789.1}', '{"a": 12345678901234567890123456789.2}', False),
    ],
)
def test_equal_calls_are_equal_as_values(one: str, other: str, is_same: bool) -> None:
    """In one turn and from turn to turn alike: keys in any order, 1 is 1.0, true is no 1."""
    first, second = ToolCall("f", one), ToolCall("f", other)
    assert (first.canonical == second.canonical) is is_same
    conversation = Conversation()
    conversation.take(UserMessage("user", "Go on"))
    loop = conversation_loop(conversation, LoopConfig())
    next(loop)
    assert isinstance(loop.send(ModelReply("", (first,))), ExecuteCalls)
    loop.send([ToolResult("call_1", "done")])
    assert loop.send(ModelReply("", (second,))) == (
        GenerateTurn(may_call=False) if is_same else ExecuteCalls((ToolCall("f", other, "call_2"),))
    )


def test_calls_that_wait_count_as_made() -> None:
    """A run that goes on with calls which were waiting runs none of them again for the model."""
    ran_calls: list[str] = []

    def execute(some: Sequence[ToolCall]) -> Sequence[ToolResult]:
        ran_calls.extend(call.id for call in some)
        return WEATHER(some)

    def fail(_some: Sequence[ToolCall]) -> Sequence[ToolResult]:
        raise OSError

    made = caller(calls(PARIS), calls(PARIS), said("Six."))
    conversation = Conversation()
    conversation.take(UserMessage("user", "Weather in Paris?"))
    with pytest.raises(OSError):  # noqa: PT011 - it is raised as it is
        made.run(conversation, fail)
    ran = made.run(Conversation.from_json(conversation.to_json()), execute)
    assert (ran.reason, ran_calls) == ("repeated", ["call_1"])


#: Adds the content to a text unless there are calls, as the template of Qwen2.5 does.
ADDS_CONTENT = (
    "{% for m in messages %}{% if m.role != 'assistant' or not m.tool_calls %}"
    "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        (said(""), "answered"),
        (calls(ToolCall("get_weather", f'{{"city": "{"x" * 99}"}}')), "length"),
    ],
)
def test_a_conversation_goes_on_behind_an_empty_turn(
    wish: tuple[PromptPart, ...], reason: str
) -> None:
    """Templates that add a content to a text get a text, also of a turn that was cut short."""
    model = speaks(VOCABULARY, [wish, said("Fine.")], turns_so_far, b"<|im_start|>assistant\n")
    form = HERMES.with_template(ADDS_CONTENT, TEMPLATES)
    made = Caller(model, TOOLS, format=form, vocabulary=VOCABULARY, max_tokens=60)
    ran = made.run("Weather?", WEATHER)
    assert (ran.reason, ran.text) == (reason, "")
    ran.conversation.take(UserMessage("user", "Well?"))
    ran = made.run(ran.conversation, WEATHER)
    assert (ran.reason, ran.text) == ("answered", "Fine.")


def test_what_a_tool_raises_comes_back_in_correctable_form() -> None:
    """The model reads where the mistake is and what was expected; then it corrects it."""

    @tool(effect="read")
    def get_weather(city: str, days: Annotated[int, Field(le=14)] = 1) -> str:
        """Tell the weather."""
        if city == "Paris":
            TypeAdapter(dict[str, int]).validate_python({"date": "tomorrow"})
        return "fine" if days else ""

    far = ToolCall("get_weather", '{"city": "Bern", "days": 15}')
    made = caller(calls(PARIS), calls(far), calls(PING), calls(BERN), said("Bern then."))

    def ping() -> None:
        raise TimeoutError

    ran = made.run("Weather?", PythonExecutor(get_weather, ping=ping))
    results = [e for e in ran.conversation.entries if isinstance(e, ToolResult)]
    assert [result.is_error for result in results] == [True, True, True, False]
    assert results[0].content.startswith(
        'invalid value at /arguments/date: "tomorrow", expected a valid integer'
    )
    assert results[1].content == (
        "invalid value at /arguments/days: 15, expected less than or equal to 14"
    )
    assert results[2].content == "TimeoutError"
    assert (results[3].content, ran.reason) == ("fine", "answered")


@pytest.mark.parametrize("clarify", ["off", "ask", "model"])
def test_an_argument_nobody_mentioned_is_asked_for(clarify) -> None:
    """With the policy on, no tool runs on an invented value; the question is the model's turn."""
    made = caller(calls(PARIS), said("never"))
    ran = made.run("What is the weather like?", WEATHER, clarify=clarify)
    if clarify == "off":
        assert ran.reason == "answered"
        return
    assert ran.reason == "asked"
    assert not ran.conversation.pending
    assert not ran.conversation.ids
    if clarify == "ask":
        assert ran.text == "To call get_weather, I need to know: city."
    grounded = made.run("Weather in paris please", WEATHER, clarify=clarify)
    assert grounded.reason == "answered"


def test_any_error_of_a_function_is_told() -> None:
    """Also one whose `errors` are not those of a validation: it does not end the run."""

    class OddError(Exception):
        def errors(self) -> list[str]:
            return ["odd"]

    def f() -> None:
        raise OddError("no luck")

    assert PythonExecutor(f=f)([ToolCall("f")]) == [
        ToolResult("", "OddError: no luck", is_error=True)
    ]


def test_results_that_belong_to_no_call_are_refused() -> None:
    """The error names the id; the conversation still waits for the right one."""
    with pytest.raises(ConversationError, match="'nope' is unknown; waiting for 'call_1'"):
        caller(calls(PARIS)).run("Weather in Paris?", lambda _calls: [ToolResult("nope", "")])


@pytest.mark.parametrize("found", [None, "6 degrees", ["6 degrees"], {"a": 1}, ToolResult("a", "")])
def test_what_are_no_results_is_shown(found: Any) -> None:
    """The error says what came in place of a list of results, and what makes one."""
    wanted_here = r"what runs the calls returned .*a list with a ToolResult for each call"
    with pytest.raises(ConversationError, match=wanted_here) as caught:
        caller(calls(PARIS)).run("Weather in Paris?", lambda _calls: found)
    assert repr(found) in str(caught.value)


def test_results_in_front_of_what_is_none_count() -> None:
    """What has run does not run again when the run goes on."""
    again: list[ToolCall] = []

    def execute(made: Sequence[ToolCall]) -> list[ToolResult]:
        again.extend(made)
        return [ToolResult(call.id, "sunny") for call in made]

    conversation = Conversation()
    conversation.take(UserMessage("user", "Weather in Paris and Bern?"))
    broken = caller(calls(PARIS, BERN))
    with pytest.raises(ConversationError, match="what runs the calls returned"):
        broken.run(conversation, lambda made: [ToolResult(made[0].id, "6"), "5"], parallel=True)  # type: ignore[list-item]
    assert caller(said("Done.")).run(conversation, execute).reason == "answered"
    assert [call.parsed["city"] for call in again] == ["Bern"]


@pytest.mark.parametrize("execute", [None, [len], {"ping": len}])
def test_what_runs_calls_can_be_called(execute: Any) -> None:
    """It is looked at before the model is asked, on both faces."""
    made = caller(said("never asked"))
    with pytest.raises(InputError, match=r"execute: a function is needed.*PythonExecutor\("):
        made.run("Weather?", execute)
    with pytest.raises(InputError, match=r"execute: a function is needed.*PythonExecutor\("):
        asyncio.run(made.arun("Weather?", execute))


def test_results_that_need_no_waiting_are_taken_as_they_are() -> None:
    """A plain function that ran its calls has results, though `arun` would have awaited it."""
    ran = asyncio.run(caller(calls(PARIS), said("Six.")).arun("Weather in Paris?", WEATHER))
    assert (ran.reason, ran.text) == ("answered", "Six.")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": None}, "steps: it must be a whole number"),
        ({"text": "x"}, "text: it must be a whole number"),
        ({"decoding": {"seed": 3}}, r"decoding: it must be DecodingConfig\(...\)"),
        ({"tools": 3}, "tools: it must be a list of tools"),
    ],
)
def test_settings_of_a_run_are_named(options: dict[str, Any], words: str) -> None:
    """A value of another kind is an error before the model is asked."""
    with pytest.raises(InputError, match=words):
        caller(said("never asked")).run("Weather?", WEATHER, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_tokens": "9"}, "max_tokens: it must be a whole number"),
        ({"temperature": "hot"}, "temperature: it must be a number"),
        ({"top_logprobs": "3"}, "top_logprobs: it must be a whole number"),
        ({"stop": 3}, "stop: it must be a tuple of texts"),
        ({"stop": (3,)}, "stop: it must be a tuple of texts"),
    ],
)
def test_options_of_another_kind_are_named(options: dict[str, Any], words: str) -> None:
    """They were errors of Python's in the middle of the first turn."""
    with pytest.raises(InputError, match=words):
        DecodingConfig(**options)


def test_functions_are_told_apart() -> None:
    """A name that comes twice would be one function's only; what is no function would never run."""
    with pytest.raises(InputError, match="functions: two functions are called 'double_check'"):
        PythonExecutor(double_check, double_check=len)
    for wrong in (None, [double_check], "double_check"):
        with pytest.raises(InputError, match="functions: a function is needed"):
            PythonExecutor(wrong)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="functions: a function is needed"):
            PythonExecutor(add=wrong)  # type: ignore[arg-type]


async def charge(cents: int, context: Context, token: str) -> str:
    """Charge a card."""
    return f"{cents} {context.key} {token}"


async def look(cents: int, context: Context | None = None, token: str = "none") -> str:
    """Look at a card."""
    return f"{cents} {context} {token}"


def test_what_only_a_gateway_passes_is_missed_before_a_run() -> None:
    """The model read "missing 1 required positional argument" after each of its calls."""
    with pytest.raises(InputError, match=r"tool charge, parameter context: only a gateway passes"):
        PythonExecutor(tool(effect="keyed")(charge))
    with pytest.raises(
        InputError, match=r"tool charge, parameter token: .*GatewayExecutor\(gateway\)"
    ):
        PythonExecutor(tool(secrets={"token": "TOKEN"})(partial(charge, context=Context("key"))))
    held = tool(effect="read", secrets={"token": "TOKEN"})(look)
    assert PythonExecutor(held)([ToolCall("look", '{"cents": 5}')])[0].content == "5 None none"


def test_a_turn_that_is_cut_short_commits_nothing() -> None:
    """Where the budget ends an answer in text, the run says so."""
    ran = caller(said("word " * 200), max_tokens=60).run("Talk", WEATHER)
    assert ran.reason == "length"
    assert not ran.conversation.ids


# -- plans ------------------------------------------------------------------------------------------


def test_a_plan_refers_to_earlier_results() -> None:
    """The reference is committed as it was written, and replaced before the call runs."""
    say = ToolCall("say", '{"n": {"$ref": "call_1.temperature"}}')
    seen: list[ToolCall] = []

    def execute(some: Sequence[ToolCall]) -> Sequence[ToolResult]:
        seen.extend(some)
        return WEATHER(some)

    ran = caller(calls(PARIS, say), said("Done.")).run("Say it", execute, plan=True)
    assert [call.arguments for call in seen] == ['{"city": "Paris"}', '{"n": 6}']
    turn = next(entry for entry in ran.conversation.entries if isinstance(entry, ModelTurn))
    assert turn.calls[1].parsed == {"n": {"$ref": "call_1.temperature"}}


def test_a_result_that_does_not_fit_is_told() -> None:
    """The type fits, the value does not: the tool does not run, and the model reads why."""
    small = {"type": "object", "properties": {"n": {"type": "number", "maximum": 5}}}
    tools = [TOOLS[0], ToolSpec("say", parameters={**small, "required": ["n"]})]
    say = ToolCall("say", '{"n": {"$ref": "call_1.temperature"}}')
    model = speaks(VOCABULARY, [calls(PARIS, say), said("Oh.")], turns_so_far, ASK)
    made = Caller(model, tools, format="hermes", vocabulary=VOCABULARY)
    ran = made.run("Say it", WEATHER, plan=True)
    results = [e for e in ran.conversation.entries if isinstance(e, ToolResult)]
    assert [one.is_error for one in results] == [False, True]
    assert results[1].content == (
        "invalid value at /arguments/n: 6 is greater than the maximum of 5"
    )


def planned(say: ToolCall) -> Conversation:
    """Return a conversation that waits for both calls of a plan."""
    told = [
        {"id": call.id, "type": "function",
         "function": {"name": call.name, "arguments": call.arguments}}
        for call in (ToolCall(PARIS.name, PARIS.arguments, "call_1"), say)
    ]  # fmt: skip
    return Conversation.from_messages([*USER, {"role": "assistant", "tool_calls": told}])


def test_a_plan_goes_on_from_results_that_are_there() -> None:
    """A plan that was saved half answered finds what its other half refers to."""
    conversation = planned(ToolCall("say", '{"n": {"$ref": "call_1.temperature"}}', "call_2"))

    def execute(some: Sequence[ToolCall]) -> Sequence[ToolResult]:
        if some[0].name == "say":
            raise OSError
        return WEATHER(some)

    with pytest.raises(OSError):  # noqa: PT011 - it is raised as it is
        caller(said("Done.")).run(conversation, execute, plan=True)
    again = Conversation.from_json(conversation.to_json())
    assert [call.id for call in again.pending] == ["call_2"]
    ran = caller(said("Done.")).run(again, WEATHER, plan=True)
    assert [e.content for e in ran.conversation.entries if isinstance(e, ToolResult)][1] == "said 6"


@pytest.mark.parametrize(
    ("kind", "result", "given"),
    [
        ("string", "4711", "4711"),
        ("string", "null", "null"),
        ("string", "blue", "blue"),
        ("number", "4711", 4711),
        ("object", '{"a": 1}', {"a": 1}),
        ("boolean", "4711", None),
    ],
)
def test_a_text_that_reads_as_json_is_a_text_where_one_is_wanted(
    kind: str, result: str, given: Any
) -> None:
    """A result 4711 is a number or a text, whichever fits; where neither does, the model is told."""
    tools = [
        ToolSpec("find"),
        ToolSpec("use", parameters={"type": "object", "properties": {"a/b": {"type": kind}},
                                    "required": ["a/b"]}),
    ]  # fmt: skip
    wish = calls(ToolCall("find", "{}"), ToolCall("use", '{"a/b": {"$ref": "call_1"}}'))
    model = speaks(VOCABULARY, [wish, said("Done.")], turns_so_far, ASK)
    made = Caller(model, tools, format="hermes", vocabulary=VOCABULARY)
    seen: list[Any] = []
    ran = made.run(
        "Use it", PythonExecutor(find=lambda: result, use=lambda **a: seen.append(a)), plan=True
    )
    if given is not None:
        assert seen == [{"a/b": given}]
    else:
        results = [e for e in ran.conversation.entries if isinstance(e, ToolResult)]
        assert (seen, results[1].is_error) == ([], True)
        assert '4711 is not of type "boolean"' in results[1].content


@pytest.mark.parametrize("tools", [TOOLS, ToolIndex(TOOLS, k=1)], ids=["list", "catalogue"])
def test_a_plan_that_waits_is_checked(tools: Any) -> None:
    """Results that do not fit are told also where a run begins with the calls of a saved plan."""
    conversation = planned(ToolCall("say", '{"n": {"$ref": "call_1.sky"}}', "call_2"))
    model = speaks(VOCABULARY, [said("Done.")], turns_so_far, ASK)
    made = Caller(model, tools, format="hermes", vocabulary=VOCABULARY)
    ran = made.run(conversation, WEATHER, plan=True)
    results = [e for e in ran.conversation.entries if isinstance(e, ToolResult)]
    assert [one.is_error for one in results] == [False, True]
    assert results[1].content == 'invalid value at /arguments/n: "blue" is not of type "number"'


@pytest.mark.parametrize("plan", [False, True])
def test_an_argument_that_names_no_call_is_no_reference(plan: bool) -> None:
    """A tool that takes JSON Schemas gets them as they were written, next to references, too."""
    free = {"type": "object", "additionalProperties": {"type": "string"}}
    tool = ToolSpec(
        "validate", parameters={"type": "object", "properties": {"schema": free, "by": free},
                                "required": ["schema"]},
        returns=free,
    )  # fmt: skip
    some = [ToolCall("validate", '{"schema": {"$ref": "#/$defs/a.b"}}')]
    if plan:
        some.append(ToolCall("validate", '{"schema": {"$ref": "x"}, "by": {"$ref": "call_1"}}'))
    model = speaks(VOCABULARY, [calls(*some), said("Done.")], turns_so_far, ASK)
    made = Caller(model, [tool], format="hermes", vocabulary=VOCABULARY)
    seen: list[Any] = []

    def execute(some: Sequence[ToolCall]) -> Sequence[ToolResult]:
        seen.extend(call.parsed for call in some)
        return [ToolResult(call.id, '{"ok": "yes"}') for call in some]

    made.run("Validate it", execute, plan=plan)
    assert seen[0] == {"schema": {"$ref": "#/$defs/a.b"}}
    assert seen[1:] == [{"schema": {"$ref": "x"}, "by": {"ok": "yes"}}] * plan


def test_each_call_of_a_plan_has_an_id_of_its_own() -> None:
    """Where earlier ids have gaps, too; a reference leads to the call that it was written for."""
    say = ToolCall("say", '{"n": {"$ref": "call_4.temperature"}}')
    spoken = (
        speaker(calls(PARIS, BERN, say)).stream_plan(USER, TOOLS, taken={"call_3"}).run_to_end()
    )
    assert [call.id for call in spoken.calls] == ["call_2", "call_4", "call_5"]
    assert spoken.calls[2].parsed == say.parsed


@pytest.mark.parametrize(
    "target", ["call_1.sky", "call_2.temperature", "call_1.humidity", "call_1"]
)
def test_a_plan_cannot_refer_to_what_does_not_fit(target: str) -> None:
    """A text for a number, a later call, a field that is not declared: the grammar has no such way."""
    say = ToolCall("say", f'{{"n": {{"$ref": "{target}"}}}}')
    spoken = speaker(calls(PARIS, say)).stream_plan(USER, TOOLS, most=2).run_to_end()
    assert spoken.calls[0].parsed == PARIS.parsed
    assert all(target not in call.arguments.split('"') for call in spoken.calls)


class Tone(enum.Enum):
    LOUD = "loud"


@dataclasses.dataclass
class Sized:
    name: str
    size: Decimal


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Sized("a", Decimal("1.10")), '{"name": "a", "size": "1.10"}'),
        (TypeAdapter(Sized).validate_python({"name": "b", "size": 2}), '{"name": "b", "size": "2"}'),
        ([Tone.LOUD, dt.date(2024, 2, 29)], '["loud", "2024-02-29"]'),
        (Tone.LOUD, '"loud"'),
        ({"at": Path("a/b"), "n": Decimal("1.10")}, '{"at": "a/b", "n": 1.10}'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (({1}, (2, 3)), "[[1], [2, 3]]"),
        ({1: Tone.LOUD}, '{"1": "loud"}'),
    ],
    ids=repr,
)  # fmt: skip
def test_results_of_plain_functions_are_written_as_json(value: Any, text: str) -> None:
    """What a function returns reaches the model as it would through a gateway; numbers stay exact."""

    async def later() -> Any:
        return value

    execute = PythonExecutor(now=lambda: value, later=later)
    for result in execute([ToolCall("now"), ToolCall("later")]):
        assert (result.content, result.is_error) == (text, False)


@pytest.mark.parametrize("value", [object(), float("nan")], ids=["object", "nan"])
def test_a_result_that_json_cannot_carry_is_no_error(value: Any) -> None:
    """The function ran: the model is not told to correct and repeat the call."""
    result = PythonExecutor(f=lambda: value)([ToolCall("f")])[0]
    assert not result.is_error
    assert result.content.startswith("done, but its result cannot be written as JSON")


def test_functions_pass_arguments_by_position_where_they_must() -> None:
    """A declared tool is called as a gateway calls it."""

    @tool(effect="pure")
    def pair(a: int = 1, b: int = 2, /) -> tuple[int, int]:
        return a, b

    assert PythonExecutor(pair)([ToolCall("pair", '{"b": 7}')])[0].content == "[1, 7]"


def test_functions_get_the_numbers_that_they_expect() -> None:
    """A plain function gets floats, as everywhere in Python; what no float is keeps its digits."""
    seen: list[Any] = []
    text = '{"a": 2.5, "b": [{"c": 1e3}, 7], "d": 0.1000000000000000000001, "e": 1e400}'
    PythonExecutor(f=lambda **given: seen.append(given))([ToolCall("f", text)])
    given = seen[0]
    assert given == {"a": 2.5, "b": [{"c": 1000.0}, 7], "d": Decimal("0.1000000000000000000001"),
                     "e": Decimal("1e400")}  # fmt: skip
    assert [type(given["a"]), type(given["b"][0]["c"]), type(given["b"][1])] == [float, float, int]
    area = PythonExecutor(area=lambda r: r * 3.25)([ToolCall("area", '{"r": 0.5}')])
    assert area == [ToolResult("", "1.625")]


def test_a_result_that_holds_itself_is_written_to_no_end() -> None:
    """The function ran, so that is no error; what stands there twice does not hold itself."""
    leaf: list[Any] = [1]
    tree: dict[str, Any] = {"one": leaf, "two": [leaf, leaf, (), ()]}
    twice, round_ = PythonExecutor(f=lambda: tree)([ToolCall("f")] * 2)
    assert twice.content == round_.content == '{"one": [1], "two": [[1], [1], [], []]}'
    leaf.append({"up": tree})
    told = PythonExecutor(f=lambda: tree)([ToolCall("f")])[0]
    assert not told.is_error
    assert told.content.startswith(
        "done, but its result cannot be written as JSON: the value contains"
    )


def test_plain_functions_are_awaited_too() -> None:
    """`arun` takes the same functions: an `async def` runs in its loop, any other beside it."""
    loops: list[Any] = []

    async def say(n: float) -> str:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return f"said {n}"

    def ping() -> None:
        loops.append(None)
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        raise StopIteration("over")

    execute = PythonExecutor(say=say, ping=ping)
    wishes = (calls(ToolCall("say", '{"n": 1.5}'), PING), said("Done."))

    async def scene() -> Any:
        ran = await caller(*wishes).arun("Say it", execute, parallel=True)
        assert loops == [asyncio.get_running_loop(), None]
        with pytest.raises(InputError, match=r"an event loop runs here already.*arun"):
            caller(*wishes).run("Say it", execute, parallel=True)
        return ran

    ran = asyncio.run(scene())
    results = [e for e in ran.conversation.entries if isinstance(e, ToolResult)]
    assert [one.content for one in results] == ["said 1.5", "StopIteration: over"]
    assert (ran.reason, len(loops)) == ("answered", 2)


def test_a_text_that_ends_an_answer_is_one_of_several() -> None:
    """A single text would be as many as it has letters; it is refused."""
    with pytest.raises(InputError, match="stop: it must be a tuple of texts"):
        DecodingConfig(stop="END")  # type: ignore[arg-type]


def test_plain_functions_get_what_their_hints_ask_for() -> None:
    """As a declared tool does, closures and coroutines, too."""
    seen: list[dt.date] = []

    def note(day: dt.date) -> str:
        seen.append(day)
        return "noted"

    async def later(day: dt.date) -> str:
        return note(day)

    calls = [ToolCall(name, '{"day": "2024-02-29"}') for name in ("note", "later")]
    assert [one.content for one in PythonExecutor(note, later)(calls)] == ["noted", "noted"]
    assert seen == [dt.date(2024, 2, 29)] * 2
    wrong = PythonExecutor(note)([ToolCall("note", '{"day": "soon"}')])[0]
    assert wrong.is_error
    assert "/day" in wrong.content
