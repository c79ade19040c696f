"""A real server in this process, over a model that says what a test wants it to say."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.tools import ToolCall
from callmemaybe.wire import PromptPart, formats
from tests.decoding.helpers import CHATML, vocabulary
from tests.talking import speaks

pytest.importorskip("starlette", reason="the extra server is not installed")
pytest.importorskip("uvicorn", reason="the extra server is not installed")
pytest.importorskip("prometheus_client", reason="the extra server is not installed")

from callmemaybe.server.app import ServerApp
from callmemaybe.server.config import ServerConfig
from callmemaybe.server.observability import RequestSummary
from callmemaybe.server.serving import application, make_server
from callmemaybe.server.sockets import bind, url_of

VOCABULARY = vocabulary(CHATML, ("<|im_end|>",))
HERMES = formats.get("hermes")
ASK = b"<|im_start|>assistant\n<think>\n\n</think>\n\n"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
PING = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}  # fmt: skip
FLAT_WEATHER = {"type": "function", **WEATHER["function"]}  # type: ignore[dict-item]
ANTHROPIC_WEATHER = {"name": "get_weather", "description": "Weather of a city",
                     "input_schema": WEATHER["function"]["parameters"]}  # type: ignore[index]  # fmt: skip
PARIS = ToolCall("get_weather", '{"city": "Paris"}')
BERN = ToolCall("get_weather", '{"city": "Bern"}')
#: Seconds to wait for what has to come: against a test that hangs, however slow the machine is.
PATIENCE = 600
NAP = 0.01
USER = [{"role": "user", "content": "Weather in Paris?"}]


def calling(*calls: ToolCall) -> tuple[PromptPart, ...]:
    return HERMES.render(calls)


def results_so_far(text: bytes) -> int:
    return text.count(b"<|im_start|>user\n<tool_response>")


class Seen:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.over: list[RequestSummary] = []

    def started(self, summary: RequestSummary) -> None:
        pass

    def finished(self, summary: RequestSummary) -> None:
        self.over.append(summary)


@dataclass
class Running:
    """A server that runs: where it is, what it has seen, and a client for it."""

    url: str
    model: ScriptedModel
    seen: Seen
    scheduler: Callable[[], Any]
    stop: Callable[[], None]
    begin_to_stop: Callable[[], None]
    client: httpx2.Client = field(init=False)
    #: What else is to be closed before the server is stopped.
    closing: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = httpx2.Client(base_url=self.url, timeout=PATIENCE, trust_env=False)

    def close(self) -> None:
        for each in (self.client.close, *self.closing, self.stop):
            each()

    def post(self, path: str, body: Any, **options: Any) -> httpx2.Response:
        return self.client.post(path, json=body, **options)

    def chat(self, **body: Any) -> httpx2.Response:
        return self.post("/v1/chat/completions", {"model": "talker", "messages": USER, **body})

    def respond(self, **body: Any) -> httpx2.Response:
        return self.post("/v1/responses", {"model": "talker", "input": "Weather in Paris?", **body})

    def message(self, **body: Any) -> httpx2.Response:
        asked = {"model": "talker", "messages": USER, "max_tokens": 60, **body}
        return self.post("/v1/messages", asked)

    def message_events(self, **body: Any) -> list[dict[str, Any]]:
        """Return the events of a streamed message, whose names are their types."""
        return self._events_of(self.message(stream=True, **body))

    def chunks(self, **body: Any) -> list[dict[str, Any]]:
        """Return the chunks of a streamed chat."""
        lines = self.chat(stream=True, **body).text.split("\n\n")
        assert lines[-2:] == ["data: [DONE]", ""], lines[-2:]
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]

    def events(self, **body: Any) -> list[dict[str, Any]]:
        """Return the events of a streamed response, whose names are their types."""
        return self._events_of(self.respond(stream=True, **body))

    def _events_of(self, answer: httpx2.Response) -> list[dict[str, Any]]:
        found = []
        for block in answer.text.split("\n\n")[:-1]:
            name, data = block.split("\n")
            found.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {found[-1]['type']}"
        return found

    def wait_until(self, is_so: Callable[[], bool], seconds: float = PATIENCE) -> float:
        """Return for how many seconds was slept until something is so; fail if it takes longer.

        What a busy machine takes besides sleeping does not count.
        """
        began, naps = time.monotonic(), 0
        while not is_so():
            assert time.monotonic() - began < seconds, "it never came to be"
            time.sleep(NAP)
            naps += 1
        return naps * NAP


Start = Callable[..., Running]


def _slow(model: ScriptedModel, seconds: float) -> ScriptedModel:
    script = model.script
    assert callable(script)

    def slow(ids: tuple[int, ...]) -> Any:
        time.sleep(seconds)
        return script(ids)

    return ScriptedModel(model.size, slow, context=model.context, name=model.name)


def begin(
    *wishes: Sequence[PromptPart],
    turn: Callable[[bytes], int] = results_so_far,
    slow: float = 0.0,
    ask: bytes = ASK,
    form: str = "hermes",
    context: int | None = None,
    observers: Sequence[Any] = (),
    **options: Any,
) -> Running:
    """Start a server over a model that wants to say one thing a turn; ``slow`` is seconds a token.

    It says it behind ``ask``, which is how a prompt without room for a thought ends.
    """
    said = [tuple(wish) for wish in wishes] or [calling(PARIS)]
    talker = speaks(VOCABULARY, said, turn, ask)
    model = ScriptedModel(talker.size, talker.script, context=context, name="talker")
    if slow:
        model = _slow(model, slow)
    config = ServerConfig(port=0, **options)
    seen = Seen()
    app = application(
        model, config, format=form, vocabulary=VOCABULARY, observers=[seen, *observers]
    )
    return running(app, config, model, seen)


def running(app: ServerApp, config: ServerConfig, model: Any, seen: Seen) -> Running:
    """Run an application on a port of its own."""
    opened = bind(config)
    url = url_of(opened)
    server = make_server(app.asgi(), config, app.begin_to_stop)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    thread.start()

    def stop() -> None:
        server.should_exit = True
        thread.join(PATIENCE)
        opened.close()
        assert not thread.is_alive()

    while not server.started:
        time.sleep(0.005)
    loop = app.scheduler.loop

    def begin_to_stop() -> None:
        loop.call_soon_threadsafe(app.begin_to_stop)

    return Running(url, model, seen, lambda: app.scheduler, stop, begin_to_stop)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start servers that are stopped at the end of the test; see :func:`begin`."""
    running: list[Running] = []

    def started(*wishes: Sequence[PromptPart], **options: Any) -> Running:
        running.append(begin(*wishes, **options))
        return running[-1]

    yield started
    for one in running:
        one.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    """Return a server for all tests of a file that leave it as it was."""
    running = begin()
    yield running
    running.close()
