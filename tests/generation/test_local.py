"""One turn of a model: what it may be asked for, what is told on the way, and what counts."""

from __future__ import annotations

import asyncio
import importlib
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.caller import Caller
from callmemaybe.errors import (
    BudgetError,
    GrammarError,
    InputError,
    ModelError,
    VocabularyError,
)
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.grammar import automaton as automaton_module
from callmemaybe.grammar import regex
from callmemaybe.grammar.automaton import WORK_BUDGET
from callmemaybe.grammar.ebnf import ebnf
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.tools import CallEnded, CallStarted, TextDelta, ToolCall, ToolSpec
from callmemaybe.wire import formats
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.tool_choice import output_spec
from tests.decoding.helpers import CHATML, vocabulary
from tests.settings import configured
from tests.talking import speaks

VOCABULARY = vocabulary(CHATML, ("<|im_end|>",))
HERMES = formats.get("hermes")
TOOLS = [
    ToolSpec("say", parameters={"type": "object", "properties": {"it": {"type": "string"}},
                                "required": ["it"]}),
    ToolSpec("ping"),
]  # fmt: skip
USER = [{"role": "user", "content": "Well?"}]
ASK = b"<|im_start|>assistant\n<think>\n\n</think>\n\n"
NONE = output_spec("none")


def speaker(*wish: Any, **settings: Any) -> LocalGenerator:
    model = speaks(VOCABULARY, [wish], lambda _: 0, ASK)
    return LocalGenerator(model, format="hermes", vocabulary=VOCABULARY, **configured(settings))


def dreamer(seed: int, **settings: Any) -> LocalGenerator:
    model = ScriptedModel(VOCABULARY.size, seed)
    return LocalGenerator(model, format="hermes", vocabulary=VOCABULARY, **configured(settings))


@settings(max_examples=40, deadline=None)
@given(
    text=st.text(alphabet="abé. ", max_size=24),
    stop=st.lists(st.text(alphabet="abé. ", min_size=1, max_size=4), max_size=3),
)
def test_a_text_ends_in_front_of_the_first_stop(text: str, stop: list[str]) -> None:
    """Nothing of the stop that is whole first is told, nor what is behind it, however it is cut."""
    speech = speaker(text).stream(USER, TOOLS, NONE, DecodingConfig(stop=tuple(stop)))
    told = b""
    for events in speech:
        told += b"".join(event.data for event in events if isinstance(event, TextDelta))
        assert not any(one.encode() in told for one in stop)
    ends = [(text.find(one) + len(one), text.find(one), one) for one in stop if one in text]
    _, place, first = min(ends, default=(0, len(text), None))
    assert told.decode() == speech.result.text == text[:place]
    assert (speech.result.ended, speech.result.stop) == ("stop", first)


def test_stops_are_for_text_only() -> None:
    """An argument may hold what would end a text."""
    call = ToolCall("say", '{"it": "the END is near"}')
    spoken = speaker(*HERMES.render([call])).generate(
        USER, TOOLS, decoding=DecodingConfig(stop=("END",))
    )
    assert [one.arguments for one in spoken.calls] == [call.arguments]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), top=st.integers(0, 7), stop=st.sampled_from([(), ("a",)]))
def test_log_probabilities_are_those_of_the_model(seed: int, top: int, stop: Any) -> None:
    """The tokens spell the text, each with log P under no mask, and the likeliest in its place."""
    wish = OutputSpec(calls=False, no_call=True, answer_length=12)
    options = DecodingConfig(logprobs=True, top_logprobs=top, stop=stop, max_tokens=60)
    made = dreamer(seed)
    speech = made.stream(USER, (), wish, options)
    seen = 0
    for _ in speech:
        assert len(speech.logprobs) >= seen
        seen = len(speech.logprobs)
    spoken = speech.result
    spelled = b"".join(one.data for one in spoken.logprobs)
    assert spoken.raw[: len(spelled)] == spelled or not spelled.isascii()
    if not stop:
        assert spelled.decode(errors="replace") == spoken.text
    for one in spoken.logprobs:
        assert one.logprob <= 0
        assert len(one.top) == top
        assert all(0 <= chance <= 1 for _, chance in one.top)
        if top:
            assert np.exp(one.logprob) <= one.top[0][1] + 1e-5


def test_an_answer_may_have_a_grammar() -> None:
    """A regular expression holds for the text; with tools, calls stay possible beside it."""
    pattern = regex("[0-9]{3}-[a-c]{2}")
    for seed in range(5):
        spoken = dreamer(seed).generate(USER, (), output_spec("none", answer=pattern))
        assert re.fullmatch("[0-9]{3}-[a-c]{2}", spoken.text)
    joint = output_spec("auto", answer=pattern)
    assert speaker(*HERMES.render([ToolCall("ping")])).generate(USER, TOOLS, joint).calls
    assert speaker("123-ab").generate(USER, TOOLS, joint).text == "123-ab"


def test_an_answer_by_a_schema_is_not_searched_for_names() -> None:
    """However large the answers' language, what is weighed is whether to call, and which."""
    for choice, tools in (("none", ()), ("auto", TOOLS)):
        started = time.process_time()
        wish = output_spec(choice, answer={"type": "object"}, has_tools=bool(tools))
        spoken = speaker('{"a": [{"b": 1}, {}]}').generate(USER, tools, wish)
        assert spoken.text == '{"a": [{"b": 1}, {}]}'
        assert time.process_time() - started < 3
        assert set(spoken.distribution) == ({None} if tools else set())


def test_the_budget_makes_no_call() -> None:
    """What the budget cut short was written to an end, and told, but does not count."""
    call = ToolCall("say", '{"it": "' + "so " * 40 + '"}')
    speech = speaker(*HERMES.render([call])).stream(
        USER, TOOLS, None, DecodingConfig(max_tokens=40)
    )
    events = [event for some in speech for event in some]
    assert isinstance(events[0], CallStarted)
    assert isinstance(events[-1], CallEnded)
    assert (speech.result.ended, speech.result.calls) == ("length", ())
    assert speech.result.tokens <= 40
    with pytest.raises(BudgetError, match="max_tokens is 3"):
        speaker("x").generate(USER, TOOLS, output_spec("required"), DecodingConfig(max_tokens=3))


def test_what_fits_exactly_is_not_cut() -> None:
    """A budget that a turn just fills changes nothing; one token less does."""
    for wish in (("so " * 20,), HERMES.render([ToolCall("say", '{"it": "a"}')])):
        made = speaker(*wish)
        whole = made.generate(USER, TOOLS)
        same = made.generate(USER, TOOLS, decoding=DecodingConfig(max_tokens=whole.tokens))
        assert (same.ended, same.text, same.calls) == ("stop", whole.text, whole.calls)
    less = made.generate(USER, TOOLS, decoding=DecodingConfig(max_tokens=whole.tokens - 1))
    assert less.ended == "length"


def test_a_closed_turn_says_nothing() -> None:
    """Closing ends it at once; what it would have been is not known."""
    speech = speaker("a long story").stream(USER)
    next(speech)
    speech.close()
    speech.close()
    assert list(speech) == []
    with pytest.raises(RuntimeError, match="not over"):
        _ = speech.result


def test_turns_may_take_turns() -> None:
    """Interleaved step by step, each turn says what it would have said alone."""
    made = dreamer(3)
    wish = OutputSpec(answer_length=20, no_call=True)
    alone = [
        made.generate(USER, TOOLS, wish, DecodingConfig(temperature=1.0, seed=n)) for n in range(3)
    ]
    speeches = [
        made.stream(USER, TOOLS, wish, DecodingConfig(temperature=1.0, seed=n)) for n in range(3)
    ]
    waiting = list(speeches)
    while waiting:
        waiting = [speech for speech in waiting if next(speech, None) is not None]
    assert [speech.result.raw for speech in speeches] == [spoken.raw for spoken in alone]
    assert len({spoken.raw for spoken in alone}) > 1


def test_a_turn_can_be_awaited() -> None:
    """The asynchronous face gives the same events."""

    async def events() -> list[Any]:
        return [event async for some in speaker("Hello").stream(USER).aiter() for event in some]

    assert asyncio.run(events()) == [
        event for some in speaker("Hello").stream(USER) for event in some
    ]


def test_a_turn_that_is_awaited_can_be_left() -> None:
    """Cancelling waits for the step that runs, and then the turn can be closed."""

    async def leave() -> None:
        speech = speaker("a long story " * 30).stream(USER)

        async def listen() -> None:
            async for _ in speech.aiter():
                heard.set()

        heard = asyncio.Event()
        task = asyncio.create_task(listen())
        await heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        speech.close()
        assert next(speech, None) is None

    asyncio.run(leave())


def test_steps_can_be_watched() -> None:
    """While the turn goes on, its steps are there to be shown; unwatched, none are kept."""
    speech = speaker("Hello").stream(USER, decoding=DecodingConfig(trace=True))
    counts = [len(speech.steps) for _ in speech]
    assert counts == sorted(counts)
    assert speech.result.steps == tuple(speech.steps)
    assert b"".join(step.data for step in speech.steps).startswith(b"Hello")
    assert speaker("Hello").generate(USER).steps == ()


@pytest.mark.parametrize(
    ("settings_", "where"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"stop": ("",)}, "stop"),
        ({"seed": -1}, "seed"),
        ({"temperature": -0.5}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"min_p": 2.0}, "min_p"),
        ({"top_k": -1}, "top_k"),
    ],
)
def test_an_option_out_of_range_is_named(settings_: dict[str, Any], where: str) -> None:
    """The error says which one it is."""
    with pytest.raises(InputError, match=where):
        speaker("x").stream(USER, decoding=DecodingConfig(**settings_))


def test_contents_may_come_in_parts() -> None:
    """Parts of text are joined; what is no text is refused by its place."""
    parts = [{"type": "text", "text": "We"}, {"type": "text", "text": "ll?"}]
    one = speaker("x").generate([{"role": "user", "content": parts}])
    assert one.prompt_tokens == speaker("x").generate(USER).prompt_tokens
    with pytest.raises(InputError, match="/messages/0/content/0"):
        speaker("x").stream([{"role": "user", "content": [{"type": "image_url"}]}])
    with pytest.raises(InputError, match="/messages/0/content"):
        speaker("x").stream([{"role": "user", "content": 3}])


def test_what_cannot_be_said_is_refused_before_the_first_token() -> None:
    """A context that is too short, control tokens that are missing."""
    small = ScriptedModel(VOCABULARY.size, 1, context=20)
    with pytest.raises(ModelError, match="holds 20"):
        LocalGenerator(small, format="hermes", vocabulary=VOCABULARY).stream(USER)
    other = vocabulary((), ("<|im_end|>",))
    with pytest.raises(VocabularyError, match="control token"):
        LocalGenerator(ScriptedModel(other.size, 1), format="nano", vocabulary=other).stream(
            USER, TOOLS
        )


def test_a_prompt_that_does_not_fit_costs_no_grammar() -> None:
    """The context is asked before a schema is compiled, which may take a second."""
    hard = ToolSpec("f", parameters={"type": "object", "properties": {
        "v": {"oneOf": [{"type": "integer", "multipleOf": n + 1} for n in range(300)]}}})  # fmt: skip
    small = ScriptedModel(VOCABULARY.size, 1, context=20)
    steps: list[int] = []
    with (
        automaton_module.progress_reported_to(steps.append),
        pytest.raises(ModelError, match="holds 20"),
    ):
        LocalGenerator(small, format="hermes", vocabulary=VOCABULARY).stream(USER, [hard])
    assert not steps


def test_one_tool_is_weighed_against_text() -> None:
    """With a single function, only whether to call it is open; its probability is told."""
    spoken = speaker(*HERMES.render([ToolCall("ping")])).generate(USER, TOOLS[1:])
    assert set(spoken.distribution) == {"ping", None}
    assert sum(spoken.distribution.values()) == pytest.approx(1.0)


def test_a_language_that_is_worn_is_made_anew() -> None:
    """The work of an automaton is limited over all its turns; none fails for those before it."""
    one = speaker(*HERMES.render([ToolCall("say", '{"it": "x"}')]))
    first = one.generate(USER, TOOLS)
    (constraint,) = one._constraints.values()
    constraint.matcher.automaton.steps = WORK_BUDGET + 1
    again = one.generate(USER, TOOLS)
    assert first.calls == again.calls != ()
    (constraint,) = one._constraints.values()
    assert not constraint.matcher.automaton.needs_renewal


def test_a_refused_language_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is too large is neither the speaker's nor anybody's, as soon as the error is told."""
    monkeypatch.setattr(automaton_module, "WORK_BUDGET", 20_000)
    one = speaker("x")
    with pytest.raises(GrammarError, match="20,000 steps"):
        one.stream(
            USER, (), OutputSpec(calls=False, answer=ebnf('start: ("a"~20000)~20000')),
            DecodingConfig(max_tokens=10**9),
        )  # fmt: skip
    assert not one._constraints
    room = importlib.import_module("callmemaybe.grammar.compile")
    assert not any(automaton.needs_renewal for automaton in room._cache.values())


def test_languages_are_bounded_by_what_they_have_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small ones are kept, or few that have learnt much; the last in any case."""
    one = speaker(*HERMES.render([ToolCall("say", '{"it": "x"}')]))
    for number in range(3):
        one.generate(USER, [replace(TOOLS[0], description=str(number)), ToolSpec(f"f{number}")])
    assert len(one._constraints) == 3
    room = importlib.import_module("callmemaybe.grammar.compile")
    monkeypatch.setattr(room, "CACHE_STEPS", 1)
    one.generate(USER, TOOLS)
    assert len(one._constraints) == 1


def test_a_callers_language_is_made_anew_as_well() -> None:
    """The same, where a list of tools is all there is."""
    model = speaks(VOCABULARY, [HERMES.render([ToolCall("say", '{"it": "x"}')])], lambda _: 0, ASK)
    caller = Caller(model, TOOLS, format="hermes", vocabulary=VOCABULARY)
    first = caller.call("Well?").call
    assert isinstance(caller.generator, LocalGenerator)
    (constraint,) = caller.generator._constraints.values()
    constraint.matcher.automaton.steps = WORK_BUDGET + 1
    assert caller.call("Well?").call == first is not None
    (constraint,) = caller.generator._constraints.values()
    assert not constraint.matcher.automaton.needs_renewal


def test_threads_may_bring_tools_of_their_own() -> None:
    """A caller's generator is used from many threads; what one adds to its caches disturbs no other."""
    model = speaks(VOCABULARY, [HERMES.render([ToolCall("say", '{"it": "x"}')])], lambda _: 0, ASK)
    made = LocalGenerator(model, format="hermes", vocabulary=VOCABULARY)
    say = next(tool for tool in TOOLS if tool.name == "say")

    def work(thread: int) -> set[str]:
        found = set()
        for number in range(15):
            tools = (replace(say), ToolSpec(f"f{thread}_{number}"))
            turn = made.stream_call("Well?", tools, OutputSpec())
            found.add(turn.run_to_end().calls[0].name)
        return found

    with ThreadPoolExecutor(8) as pool:
        assert set.union(*pool.map(work, range(8))) == {"say"}
