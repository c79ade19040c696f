"""A run and those it works with: a gateway, a catalogue, the embedded model, whoever cancels it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from typing import Any, TypedDict

import jsonschema
import pytest

import callmemaybe
from callmemaybe import Conversation, GatewayExecutor, PythonExecutor, ToolIndex
from callmemaybe.caller import Caller, load_model
from callmemaybe.conversation import ConversationState, ModelTurn, UserMessage
from callmemaybe.conversation.loop import LoopConfig, ModelReply, conversation_loop
from callmemaybe.errors import ConversationError, InputError, StoreTransient
from callmemaybe.gateway import Gateway
from callmemaybe.gateway.run import Run
from callmemaybe.tools import CallEnded, ToolCall, ToolResult, ToolSpec, tool
from callmemaybe.wire import PromptPart, formats
from tests.decoding.helpers import CHATML, vocabulary
from tests.settings import configured
from tests.talking import speaks

VOCABULARY = vocabulary(CHATML, ("<|im_end|>",))
HERMES = formats.get("hermes")
ASK = b"<|im_start|>assistant\n<think>\n\n</think>\n\n"


class Weather(TypedDict):
    """What it is like."""

    temperature: float
    sky: str


def weather_tools(log: list[str]) -> list[Any]:
    @tool(effect="read", trusted=True)
    async def get_weather(city: str) -> Weather:
        """Tell the weather of a city."""
        log.append(f"weather {city}")
        return {"temperature": 21.5, "sky": "blue"}

    @tool(effect="once", trusted=True)
    async def heat(degrees: float) -> str:
        """Set the heating."""
        log.append(f"heat {degrees}")
        return "done"

    return [get_weather, heat]


def caller(tools: Any, *wishes: tuple[PromptPart, ...], **options: Any) -> Caller:
    def turn(text: bytes) -> int:
        return text.count(b"<|im_start|>assistant\n")

    model = speaks(VOCABULARY, wishes, turn, ASK)
    return Caller(model, tools, format="hermes", vocabulary=VOCABULARY, **configured(options))


PARIS = ToolCall("get_weather", '{"city": "Paris"}')
HEAT = ToolCall("heat", '{"degrees": {"$ref": "call_1.temperature"}}')


def test_a_gateway_runs_a_plan(tmp_path: Any) -> None:
    """It gets the calls at once, with references, and fills them in; each runs once, ever."""
    log: list[str] = []
    tools = weather_tools(log)
    made = caller([one.spec for one in tools], HERMES.render([PARIS, HEAT]), ("Warm now.",))

    async def scene() -> list[Any]:
        async with Gateway(tools, store=tmp_path / "ledger.db") as gateway:
            ran = await made.arun(
                "As warm as in Paris", GatewayExecutor(gateway, "home"), plan=True
            )
            # The same conversation, saved before its calls were answered, goes on elsewhere.
            saved = json.loads(ran.conversation.to_json())
            saved["entries"] = saved["entries"][:2]
            again = Conversation.from_json(json.dumps(saved))
            assert [call.id for call in again.pending] == ["call_1", "call_2"]
            other = await made.arun(again, GatewayExecutor(gateway, "home"), plan=True)
            return [ran, other]

    for ran in asyncio.run(scene()):
        assert (ran.reason, ran.text) == ("answered", "Warm now.")
        results = [one for one in ran.conversation.entries if isinstance(one, ToolResult)]
        assert [result.is_error for result in results] == [False, False]
    assert log == ["weather Paris", "heat 21.5"]


def test_a_run_without_a_name_is_of_one_conversation(tmp_path: Any) -> None:
    """Another one would be answered with the first one's results, and nothing of it would run."""
    log: list[str] = []
    tools = weather_tools(log)
    made = caller([one.spec for one in tools], HERMES.render([PARIS]), ("Warm.",))

    async def scene() -> Conversation:
        async with Gateway(tools, store=tmp_path / "ledger.db") as gateway:
            execute = GatewayExecutor(gateway)
            ran = await made.arun("Weather?", execute)
            ran.conversation.take(UserMessage("user", "And now?"))
            await made.arun(ran.conversation, execute)
            other = Conversation()
            other.take(UserMessage("user", "Weather?"))
            with pytest.raises(InputError, match="GatewayExecutor for each conversation"):
                await made.arun(other, execute)
            assert [call.name for call in other.pending] == ["get_weather"]
            await made.arun(other, GatewayExecutor(gateway))
            return other

    assert asyncio.run(scene()).pending == ()
    assert log == ["weather Paris"] * 2


def test_a_run_begins_once_its_store_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first turn of a run waits for a store that is away for a moment."""
    log: list[str] = []
    tools = weather_tools(log)
    made = caller(tools, HERMES.render([PARIS]), ("Blue.",))
    away = iter([StoreTransient("the store is away")])

    async def run() -> str:
        async with Gateway(tools) as gateway:
            begin = gateway.begin

            def late(*args: Any, **options: Any) -> Run:
                for error in away:
                    raise error
                return begin(*args, **configured(options))

            monkeypatch.setattr(gateway, "begin", late)
            return (await made.arun("Paris?", GatewayExecutor(gateway, "home"))).reason

    assert asyncio.run(run()) == "answered"
    assert log == ["weather Paris"]


def test_a_gateway_is_awaited() -> None:
    """The plain face says so before anything is asked."""
    tools = weather_tools([])
    made = caller([one.spec for one in tools], HERMES.render([PARIS]))
    with pytest.raises(InputError, match="use arun"):
        made.run("Weather?", GatewayExecutor(None))  # type: ignore[arg-type]


def many(count: int) -> list[ToolSpec]:
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    others = [ToolSpec(f"tool_{n}", f"Does thing {n}.") for n in range(count)]
    return [*others, ToolSpec("get_weather", "Tell the weather of a city.", city)]


def test_a_catalogue_shows_what_fits() -> None:
    """Of a thousand tools the model reads eight: in a run, in a call, and in many at a time."""
    catalogue = ToolIndex(many(1000))
    made = caller(catalogue, HERMES.render([PARIS]), ("Fine.",))
    ran = made.run("The weather in Paris?", PythonExecutor(get_weather=lambda city: f"{city}: sun"))
    assert ran.reason == "answered"
    assert ran.turns[0].prompt_tokens < 3_000
    assert len(ran.turns[0].distribution) <= 9
    one = made.call("The weather in Paris?")
    assert one.call == PARIS
    outcomes = list(made.call_many(["The weather in Paris?"] * 3, at_once=2))
    assert [outcome.call for outcome in outcomes] == [PARIS] * 3
    assert made.call("zzz").call is not None


def test_a_catalogue_keeps_to_the_choice() -> None:
    """A function that is named is offered though no word of the request is its; so is some, if one must be."""
    catalogue = ToolIndex(many(100))
    named = {"type": "function", "function": {"name": "tool_77"}}
    call = ToolCall("tool_77", "{}")
    known = PythonExecutor(**{f"tool_{n}": lambda: "done" for n in range(100)})
    made = caller(catalogue, HERMES.render([call]), ("Done.",))
    ran = made.run("The weather in Paris?", known, tool_choice=named)
    assert [one.name for one in ran.turns[0].calls] == ["tool_77"]
    first = caller(catalogue, HERMES.render([ToolCall("tool_3", "{}")]), ("Done.",))
    ran = first.run("zzz", known, tool_choice="required")
    assert [one.name for one in ran.turns[0].calls] == ["tool_3"]


def test_a_result_that_does_not_come_is_missed() -> None:
    """The error names the call; the conversation waits for it, and goes on once it is there."""
    made = caller(many(1), HERMES.render([PARIS]), ("Fine.",))
    conversation = Conversation()
    conversation.take(UserMessage("user", "The weather in Paris?"))
    with pytest.raises(ConversationError, match="'call_1' was run but has no result"):
        made.run(conversation, lambda _calls: [])
    assert conversation.state is ConversationState.AWAITING_RESULTS
    ran = made.run(conversation, PythonExecutor(get_weather=lambda city: city))
    assert (ran.reason, ran.text) == ("answered", "Fine.")
    with pytest.raises(ConversationError, match="nothing to answer"):
        made.run(conversation, PythonExecutor())


def test_a_run_is_cancelled_within_a_step() -> None:
    """The turn that was under way counts for nothing; the question is still open."""
    made = caller(many(1), ("a very long story " * 50,), max_tokens=2_000)
    conversation = Conversation()
    conversation.take(UserMessage("user", "Tell me"))
    begun = threading.Event()

    async def scene() -> None:
        task = asyncio.create_task(
            made.arun(conversation, GatewayExecutor(None), on_event=lambda _: begun.set())  # type: ignore[arg-type]
        )
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())
    assert conversation.state is ConversationState.AWAITING_MODEL
    assert not any(isinstance(entry, ModelTurn) for entry in conversation.entries)


def test_a_run_is_told_as_it_goes() -> None:
    """Whoever watches sees each call end, in a plan too, and once."""
    seen: list[Any] = []
    tools = [one.spec for one in weather_tools([])]
    made = caller(tools, HERMES.render([PARIS, HEAT]), ("Done.",))
    answers = {"get_weather": {"temperature": 3, "sky": "grey"}, "heat": "done"}
    known = {name: lambda value=value, **_: value for name, value in answers.items()}
    ran = made.run("Heat", PythonExecutor(**known), plan=True, on_event=seen.append)
    assert ran.reason == "answered"
    assert [event.index for event in seen if isinstance(event, CallEnded)] == [0, 1]


@pytest.mark.parametrize(
    ("wrong", "where"),
    [({"steps": 0}, "steps"), ({"repeats": 0}, "repeats"), ({"clarify": "maybe"}, "clarify"),
     ({"plan": True, "text": 5}, "plan"), ({"tool_choice": "always"}, "tool_choice"),
     ({"parallel": True, "most_calls": 0}, "max_tool_calls")],
)  # fmt: skip
def test_a_setting_that_is_wrong_is_named(wrong: dict[str, Any], where: str) -> None:
    """Before the model is asked."""
    with pytest.raises(InputError, match=where):
        caller(many(1), ("x",)).run("Hi", PythonExecutor(), **wrong)


def test_a_plan_that_waits_for_itself_ends() -> None:
    """Calls of another make may refer in a circle; each then fails by itself, and can be corrected."""
    conversation = Conversation()
    conversation.take(UserMessage("user", "x"))
    calls = [
        ToolCall("f", '{"x": {"$ref": "b.y"}}', "a"),
        ToolCall("f", '{"x": {"$ref": "a.y"}}', "b"),
        ToolCall("f", '{"x": {"$ref": "c.y"}}', "c"),
        ToolCall("f", '{"x": {"$ref": "d.y.z"}}', "e"),
        ToolCall("f", '{"x": 1}', "d"),
    ]
    loop = conversation_loop(conversation, LoopConfig(), model_ids=True)
    next(loop)
    need: Any = loop.send(ModelReply("", tuple(calls)))
    assert [call.id for call in need.calls] == ["d"]
    need = loop.send([ToolResult("d", '{"y": 5}')])
    assert not hasattr(need, "calls")
    results = {e.call_id: e for e in conversation.entries if isinstance(e, ToolResult)}
    assert [name for name, result in results.items() if result.is_error] == ["e", "a", "b", "c"]
    assert results["e"].content == "invalid value at /arguments/x: the result of 'd' has no 'y.z'"
    assert "there is no result of 'a'" in results["b"].content


@pytest.mark.parametrize("name", ["mistral", "mistral_v11"])
def test_the_ids_are_the_models_own(name: str) -> None:
    """Where a family writes ids, results carry those; one that was used before becomes another."""
    form = formats.get(name)
    vocab = vocabulary(tuple(sorted(form.controls)), ("</s>",))
    cities = ("Paris", "Rome")
    wish = form.render(
        [ToolCall("get_weather", f'{{"city": "{city}"}}', "aB3dE6gH9") for city in cities]
    )
    model = speaks(vocab, [wish], lambda _: 0, b"[/INST]")
    assert form.id_length == 9
    made = Caller(model, many(1), format=form, vocabulary=vocab)
    execute = PythonExecutor(get_weather=lambda city: city)
    ran = made.run("The weather in both?", execute, steps=1, parallel=form.is_parallel)
    ids = [one.call_id for one in ran.conversation.entries if isinstance(one, ToolResult)]
    assert ids[0] == "aB3dE6gH9"
    assert len(set(ids)) == len(ids) == 1 + form.is_parallel
    assert all(len(one) == 9 and one.isalnum() for one in ids)


TOOLS = [
    ToolSpec("add", "Add two numbers.",
             {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
              "required": ["a", "b"], "additionalProperties": False}),
    ToolSpec("greet", "Greet somebody by name.",
             {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}},
              "required": ["name"], "additionalProperties": False}),
]  # fmt: skip


@pytest.mark.parametrize("settings", [{}, {"parallel": True, "most_calls": 3}, {"plan": True},
                                      {"tool_choice": "required", "clarify": "ask"}])  # fmt: skip
def test_the_embedded_model_runs_to_an_end(settings: dict[str, Any]) -> None:
    """Whatever it chooses: calls are valid, each has a result, none runs twice, and it ends."""
    ran_calls: list[ToolCall] = []

    def execute(calls: Sequence[ToolCall]) -> Sequence[ToolResult]:
        ran_calls.extend(calls)
        return PythonExecutor(add=lambda a, b: a + b, greet=lambda name: f"Hello, {name}")(calls)

    made = Caller(load_model("nano"), TOOLS)
    ran = made.run("What is the sum of 2 and 3?", execute, steps=4, **settings)
    assert ran.reason in ("answered", "asked", "steps", "repeated", "length")
    schemas = {one.name: one.parameters for one in TOOLS}
    for call in ran_calls:
        jsonschema.validate(json.loads(call.arguments), schemas[call.name])
    keys = [(call.name, call.arguments) for call in ran_calls]
    assert len(keys) == len(set(keys))
    assert not ran.conversation.pending
    again = Conversation.from_json(ran.conversation.to_json())
    assert again.entries == ran.conversation.entries
    assert Conversation.from_messages(ran.conversation.messages()).ids == ran.conversation.ids


def test_the_public_names_are_those_of_the_loop() -> None:
    """What a conversation needs can be imported from the package itself."""
    names = {"ToolIndex", "Conversation", "DecodingConfig", "RunResult", "PythonExecutor"} | {
        "AgentRunner",
        "RunConfig",
        "GatewayExecutor",
    }
    assert names <= set(callmemaybe.__all__)


@pytest.mark.parametrize("drift", ["Rome", "Paris"])
def test_a_lost_conversation_gets_its_recorded_turns_again(tmp_path: Any, drift: str) -> None:
    """A model that would call something else after a crash is not asked for what the ledger has."""
    log: list[str] = []
    tools = weather_tools(log)
    specs = [one.spec for one in tools]
    store = tmp_path / "ledger.db"
    other = ToolCall("get_weather", '{"city": "%s"}' % drift)  # noqa: UP031 - braces

    async def ask(text: str, call: ToolCall) -> Any:
        made = caller(specs, HERMES.render([call]), ("Warm.",))
        async with Gateway(tools, store=store) as gateway:
            return await made.arun(text, GatewayExecutor(gateway, "order-17"))

    async def scene() -> None:
        await ask("Weather?", PARIS)
        await ask("Weather?", other)  # all of the first conversation was lost
        assert log == ["weather Paris"]
        ran = await ask("And elsewhere?", other)  # another one under the same name
        assert log == ["weather Paris", f"weather {drift}"]
        results = [one for one in ran.conversation.entries if isinstance(one, ToolResult)]
        assert not results[0].is_error

    asyncio.run(scene())
