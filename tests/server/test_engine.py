"""Turns that wait, run and end: fairly, and seen by those who watch."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from callmemaybe.errors import InputError
from callmemaybe.grammar import Grammar, regex
from callmemaybe.server import constraints
from callmemaybe.server.config import ServerConfig
from callmemaybe.server.observability import FailureFilter, JsonLog, RequestSummary
from callmemaybe.server.scheduler import TurnScheduler
from callmemaybe.server.sockets import bind
from callmemaybe.tools import ToolCall
from tests.server.conftest import PARIS, PATIENCE, PING, WEATHER, Start, calling

CHAT = "/v1/chat/completions"


def test_many_requests_of_one_client_do_not_delay_another(start: Start) -> None:
    """With one slot, a client's only request comes right behind what runs, not behind the queue."""
    server = start(("It rains.",), slow=0.01, slots=1, keys=("many", "one"))
    order: list[str] = []
    lock = threading.Lock()

    body = {"model": "talker", "messages": [{"role": "user", "content": "x"}]}

    def ask(key: str) -> None:
        answer = server.post(CHAT, body, headers={"authorization": f"Bearer {key}"})
        assert answer.status_code == 200
        with lock:
            order.append(key)

    with ThreadPoolExecutor(13) as pool:
        many = [pool.submit(ask, "many") for _ in range(12)]
        server.wait_until(lambda: server.scheduler().waiting >= 10)
        one = pool.submit(ask, "one")
        one.result()
        at = len(order)
        for each in many:
            each.result()
    assert at <= 5, order


def test_the_schemas_of_one_request_share_a_budget(start: Start) -> None:
    """Functions that are each cheap enough are refused where together they are not; the next request is answered."""
    server = start(calling(ToolCall("f0", '{"v": 1}')), turn_steps=30_000)
    value = {"oneOf": [{"type": "integer", "multipleOf": n + 1} for n in range(20)]}
    parameters = {"type": "object", "properties": {"v": value}, "required": ["v"]}
    tools = [
        {
            "type": "function",
            "function": {"name": f"f{n}", "parameters": parameters | {"title": f"{n}"}},
        }
        for n in range(60)
    ]
    body = {
        "model": "talker",
        "messages": [{"role": "user", "content": "x"}],
        "tool_choice": "required",
    }
    answer = server.post(CHAT, {**body, "tools": tools})
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert "what one request asks for takes more than 30,000 steps" in message
    assert "ServerConfig.turn_steps" in message
    assert server.post(CHAT, {**body, "tools": tools[:1]}).status_code == 200


class Slots:
    """Runs nothing: its tasks end when a test says so."""

    def __init__(self) -> None:
        self.tasks: list[Future[None]] = []

    def submit(self, _work: Callable[[], None]) -> Future[None]:
        self.tasks.append(Future())
        return self.tasks[-1]

    def close(self) -> None:
        pass


def test_what_is_being_answered_does_not_wait_too_long() -> None:
    """Choices without a slot may wait behind the others of their request; one without any may not."""
    now = [0.0]

    async def check() -> None:
        slots = Slots()
        limits = ServerConfig(slots=1, queue_seconds=5)
        generator: Any = None
        engine = TurnScheduler(generator, slots, limits, new_id=lambda: "", clock=lambda: now[0])
        ask: Any = None
        begun, other = engine.submit("a", [ask] * 3), engine.submit("b", [ask] * 2)
        now[0] = 6.0
        engine.expire()
        assert not begun.is_closed
        assert other.is_closed
        (_, told) = other.updates.get_nowait()
        assert (told.status, told.code) == (429, "queue_timeout")  # type: ignore[union-attr]
        assert (engine.running, engine.waiting) == (1, 2)
        slots.tasks[0].set_result(None)
        await asyncio.sleep(0)
        assert (engine.running, engine.waiting) == (1, 1)
        engine.expire()
        assert not begun.is_closed

    asyncio.run(check())


def test_choices_beyond_the_slots_are_answered(start: Start) -> None:
    """However long the last of them waits for the others; a stream tells them all, too."""
    server = start(slow=0.01, slots=1, queue_seconds=0.1)
    whole = server.chat(tools=[WEATHER], n=3)
    assert whole.status_code == 200, whole.text
    assert [one["finish_reason"] for one in whole.json()["choices"]] == ["tool_calls"] * 3
    chunks = server.chunks(tools=[WEATHER], n=3)
    assert sum(choice["finish_reason"] == "tool_calls" for chunk in chunks
               for choice in chunk["choices"]) == 3  # fmt: skip


def test_choices_that_begin_at_once_need_no_place_in_the_queue(start: Start) -> None:
    """An idle server takes as many as slots and places; more, which never fit, are a wrong request."""
    server = start(slots=2, queue=1)
    assert len(server.chat(tools=[WEATHER], n=3).json()["choices"]) == 3
    refused = server.chat(tools=[WEATHER], n=4)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "n"


def test_turns_share_forward_passes(start: Start) -> None:
    """Eight at once take about as many passes as one alone, not eight times as many."""
    server = start(("It rains all day long.",), slow=0.005, slots=8)
    server.chat(messages=[{"role": "user", "content": "x"}])
    alone = server.model.counter.feeds
    server.model.counter.feeds = 0
    server.chat(messages=[{"role": "user", "content": "x"}], n=8)
    assert server.model.counter.feeds < 3 * alone


def test_a_stuck_turn_makes_the_server_unwell(start: Start) -> None:
    """It is told by /healthz and to who asks; once the turn has ended, all is well again."""
    server = start(calling(PARIS), run_seconds=0.1, stuck_seconds=0.1)
    assert server.client.get("/healthz").status_code == 200
    script: Any = server.model.script
    go_on = threading.Event()

    def hang(ids: tuple[int, ...]) -> Any:
        go_on.wait(PATIENCE)
        return script(ids)

    object.__setattr__(server.model, "script", hang)
    assert server.chat(tools=[WEATHER]).status_code == 504
    server.wait_until(lambda: server.client.get("/healthz").status_code == 503)
    refused = server.chat(tools=[WEATHER])
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "stuck"
    go_on.set()
    server.wait_until(lambda: server.client.get("/healthz").status_code == 200)


def test_a_schema_that_takes_long_makes_nobody_deaf(start: Start) -> None:
    """While a language is made, health is told, and whoever waits too long is told so (504).

    All others are served as soon as it is made, or given up.
    """
    server = start(run_seconds=0.5, stuck_seconds=60)
    may_go_on, has_begun = threading.Event(), threading.Event()
    generator = server.scheduler().generator
    make = generator._constraint

    def slowly(tools: Any, *rest: Any) -> Any:
        if tools[0].name == "ping":
            has_begun.set()
            may_go_on.wait(60)
        return make(tools, *rest)

    generator._constraint = slowly
    with ThreadPoolExecutor(2) as pool:
        hostile = pool.submit(server.chat, tools=[PING])
        assert has_begun.wait(30)
        other = pool.submit(server.chat, tools=[WEATHER])
        server.wait_until(lambda: server.scheduler().running == 2)
        assert server.client.get("/healthz").status_code == 200
        assert hostile.result().status_code == other.result().status_code == 504
        assert other.result().json()["error"]["code"] == "timeout"
        assert server.client.get("/healthz").status_code == 200
        may_go_on.set()
        server.wait_until(lambda: server.scheduler().running == 0)
        assert server.chat(tools=[WEATHER]).status_code == 200


def test_a_hostile_schema_is_refused_by_its_pointer(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would take more work than a language may is told as a wrong request, and ends there."""
    from callmemaybe.grammar import automaton

    server = start(run_seconds=60)
    pattern = {"type": "string", "pattern": "^(?=.*a.{30}$)(?=.*b.{29}$).*$"}
    tool = {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"x": pattern}, "required": ["x"]}}}  # fmt: skip
    monkeypatch.setattr(automaton, "WORK_BUDGET", 20_000)
    refused = server.chat(tools=[tool], tool_choice="required")
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert "parameters/properties/x/pattern" in error["param"]
    assert "automaton of more than" in error["message"]
    assert server.chat(tools=[WEATHER]).status_code == 200


def test_what_runs_at_the_end_of_the_grace_is_told(start: Start) -> None:
    """A server that is stopped ends what takes too long with an error, and answers nothing new."""
    server = start(("It rains. " * 60,), slow=0.02, grace_seconds=0.5)
    with ThreadPoolExecutor(2) as pool:
        whole = pool.submit(server.chat)
        stream = pool.submit(lambda: server.chat(stream=True).text)
        server.wait_until(lambda: server.scheduler().running == 2)
        server.seen.over.clear()
        server.begin_to_stop()
        server.wait_until(lambda: server.scheduler().is_stopping)
        assert server.chat().status_code == 503
        assert whole.result().status_code == 503
        assert whole.result().json()["error"]["code"] == "stopping"
        assert '"code":"stopping"' in stream.result()
        assert "[DONE]" not in stream.result()


# -- those who watch ------------------------------------------------------------------------------


def test_the_log_is_one_json_object_a_line() -> None:
    """A bug is told with its traceback, in one line, too."""
    file = io.StringIO()
    log = JsonLog(file, now=lambda: 0.0)
    summary = RequestSummary("req_1", "POST", CHAT, "127.0.0.1", status=500, code="internal_error")
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        summary.error = error
    log.finished(summary)
    (line,) = file.getvalue().splitlines()
    told = json.loads(line)
    assert told["time"] == "1970-01-01T00:00:00.000+00:00"
    assert (told["level"], told["id"], told["status"]) == ("error", "req_1", 500)
    assert "ValueError: two\nlines" in told["error"]


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    """A closed file is not the requests' trouble."""
    file = io.StringIO()
    file.close()
    JsonLog(file).finished(RequestSummary("req_1", "GET", "/", "127.0.0.1"))


def test_a_span_tells_of_a_request(start: Start) -> None:
    """It is a child of the client's span, and has the names of the conventions."""
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from callmemaybe.integrations.opentelemetry import ServerTelemetry

    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    server = start(observers=[ServerTelemetry(tracer=provider.get_tracer("test"))])
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    body = {"model": "talker", "messages": [{"role": "user", "content": "secret"}],
            "tools": [WEATHER]}  # fmt: skip
    assert server.post(CHAT, body, headers={"traceparent": parent}).status_code == 200
    assert server.post(CHAT, {**body, "model": "x"}).status_code == 404
    server.wait_until(lambda: len(spans.get_finished_spans()) == 2)
    good, bad = spans.get_finished_spans()
    assert format(good.context.trace_id, "032x") == parent.split("-")[1]
    assert good.attributes["gen_ai.request.model"] == "talker"
    assert good.attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert good.attributes["gen_ai.usage.output_tokens"] > 0
    assert good.attributes["http.response.status_code"] == 200
    assert bad.attributes["error.type"] == "model_not_found"
    assert "secret" not in good.to_json()


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("example.org", False)],
)  # fmt: skip
def test_what_is_local(host: str, local: bool) -> None:
    """Only the loopback is; everything else takes a key."""
    assert ServerConfig(host=host, keys=("k",)).is_local is local


def test_a_bug_is_told_to_the_log_and_not_to_the_client(start: Start) -> None:
    """The client gets an error without a word of what is inside; the next request is answered."""
    server = start()
    script = server.model.script
    failing = ["once"]

    def fail(ids: tuple[int, ...]) -> object:
        if failing:
            failing.pop()
            raise ValueError("/secret/path")
        return script(ids)  # type: ignore[operator]

    object.__setattr__(server.model, "script", fail)
    answer = server.chat(tools=[WEATHER])
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert "secret" not in answer.text
    assert "secret" in repr(server.seen.over[-1].error) + repr(server.seen.over[-1].error.__cause__)
    assert server.chat(tools=[WEATHER]).status_code == 200


def test_who_reads_a_grammar_keeps_nobody_waiting(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pattern, which may take seconds to read, is read where the event loop goes on meanwhile."""
    server = start(("aaa",))
    begun, go_on = threading.Event(), threading.Event()
    went_on: list[bool] = []

    def slowly(pattern: str) -> Grammar:
        begun.set()
        went_on.append(go_on.wait(10))
        return regex(pattern)

    monkeypatch.setattr(constraints, "regex", slowly)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.chat, response_format={"type": "regex", "regex": "a+"}, n=2)
        assert begun.wait(PATIENCE)
        assert server.client.get("/healthz").status_code == 200
        go_on.set()
        choices = asked.result().json()["choices"]
    assert [choice["message"]["content"] for choice in choices] == ["aaa", "aaa"]
    assert went_on == [True]


@pytest.mark.parametrize("path", ["chat", "respond"])
def test_a_stream_that_fails_is_a_failure_in_the_log(start: Start, path: str) -> None:
    """Its status was told before; that it failed, and how, is told to who logs failures only."""
    quiet, usual = io.StringIO(), io.StringIO()
    server = start(("It rains. " * 40,), observers=[FailureFilter(JsonLog(quiet)), JsonLog(usual)])
    script: Any = server.model.script
    passes: list[int] = []

    def fail(ids: tuple[int, ...]) -> Any:
        passes.append(1)
        if len(passes) > 40:
            raise ValueError("the engine is broken")
        return script(ids)

    object.__setattr__(server.model, "script", fail)
    answer = getattr(server, path)(stream=True)
    assert answer.status_code == 200
    assert "its log says which" in answer.text
    server.wait_until(lambda: usual.getvalue().endswith("\n"))
    for log in (quiet, usual):
        line = json.loads(log.getvalue())
        assert (line["level"], line["code"]) == ("error", "internal_error")
        assert "the engine is broken" in line["error"]


@pytest.mark.parametrize(
    ("setting", "where"),
    [
        ({"host": "127.0.0..1", "keys": ("k",)}, "--host"),
        ({"host": "x" * 80, "keys": ("k",)}, "--host"),
        ({"keys": ("sesame ",)}, "--api-key"),
    ],
)
def test_settings_that_cannot_be_used_are_named(setting: dict[str, Any], where: str) -> None:
    """A name that no host can have, and a key that no client can send."""
    with pytest.raises(InputError) as caught:
        bind(ServerConfig(port=0, **setting))
    assert caught.value.where == where
