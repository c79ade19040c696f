"""The libraries that people use, driving the server as they drive OpenAI's."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.server.conftest import (
    ANTHROPIC_WEATHER,
    BERN,
    FLAT_WEATHER,
    PARIS,
    USER,
    WEATHER,
    Running,
    Start,
    calling,
)

openai = pytest.importorskip("openai", reason="the extra clients is not installed")
pydantic = pytest.importorskip("pydantic")


def client_of(server: Running, key: str = "none") -> Any:
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)
    server.closing.append(client.close)
    return client


class TestOpenAI:
    """The official client of Python."""

    def test_chat(self, start: Start) -> None:
        """A conversation with a call, its result, and an answer."""
        server = start(calling(PARIS), ("It rains.",))
        client = client_of(server)
        messages: list[Any] = [*USER]
        answer = client.chat.completions.create(model="talker", messages=messages, tools=[WEATHER])
        (call,) = answer.choices[0].message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == (
            "get_weather", {"city": "Paris"},
        )  # fmt: skip
        messages += [
            answer.choices[0].message,
            {"role": "tool", "tool_call_id": call.id, "content": "rain"},
        ]
        answer = client.chat.completions.create(model="talker", messages=messages, tools=[WEATHER])
        assert answer.choices[0].message.content == "It rains."
        assert answer.usage.total_tokens > 0

    def test_the_stream_helper(self, start: Start) -> None:
        """It accumulates deltas into the same message, and notices each call that is done."""
        server = start(calling(PARIS, BERN))
        with client_of(server).chat.completions.stream(
            model="talker", messages=USER, tools=[WEATHER], stream_options={"include_usage": True}
        ) as stream:
            done = [
                json.loads(event.arguments)["city"]
                for event in stream
                if event.type == "tool_calls.function.arguments.done"
            ]
            final = stream.get_final_completion()
        assert done == ["Paris", "Bern"]
        assert final.choices[0].finish_reason == "tool_calls"
        assert final.usage.completion_tokens > 0

    def test_parsing_into_types(self, start: Start) -> None:
        """A class as the form of an answer comes back as one of its instances."""

        class Weather(pydantic.BaseModel):  # type: ignore[misc,name-defined]
            city: str
            days: int

        Weather.model_rebuild()
        server = start(('{"city": "Paris", "days": 3}',))
        answer = client_of(server).chat.completions.parse(
            model="talker", messages=USER, response_format=Weather
        )
        assert answer.choices[0].message.parsed == Weather(city="Paris", days=3)

    def test_responses(self, start: Start) -> None:
        """A response, streamed and whole, typed by the client."""
        server = start(calling(PARIS), ("It rains.",))
        client = client_of(server)
        first = client.responses.create(model="talker", input="Weather?", tools=[FLAT_WEATHER])
        (call,) = first.output
        assert call.type == "function_call"
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
        second = client.responses.create(
            model="talker", tools=[FLAT_WEATHER],
            input=[{"role": "user", "content": "Weather?"}, call, result],
        )  # fmt: skip
        assert second.output_text == "It rains."
        with client.responses.stream(
            model="talker", input="Weather?", tools=[FLAT_WEATHER]
        ) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        assert json.loads(final.output[0].arguments) == {"city": "Paris"}

    def test_errors_are_of_the_right_kind(self, start: Start) -> None:
        """The client raises what it raises for OpenAI, with the parameter and the request's id."""
        server = start(keys=("sesame",))
        with pytest.raises(openai.AuthenticationError):
            client_of(server).models.list()
        client = client_of(server, "sesame")
        assert [model.id for model in client.models.list()] == ["talker"]
        with pytest.raises(openai.NotFoundError) as missing:
            client.chat.completions.create(model="gpt", messages=USER)
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError) as wrong:
            client.chat.completions.create(model="talker", messages=USER, logit_bias={"1": 101})
        assert wrong.value.param == "logit_bias.1"
        assert wrong.value.request_id

    def test_it_tries_again_where_it_may(self, start: Start) -> None:
        """Where the queue was full, the client waits as told, and is answered."""
        server = start(("It rains. " * 4,), slow=0.02, slots=1, queue=1)
        client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=5)

        async def ask() -> Any:
            return await client.chat.completions.create(model="talker", messages=USER)

        async def all_of_them() -> list[Any]:
            async with client:
                return await asyncio.gather(*(ask() for _ in range(4)))

        answers = asyncio.run(all_of_them())
        assert all(answer.choices[0].message.content for answer in answers)
        assert any(summary.status == 429 for summary in server.seen.over)

    def test_a_closed_stream_frees_the_slot(self, start: Start) -> None:
        """Leaving the loop is enough."""
        server = start(("It rains. " * 60,), slow=0.02)
        with client_of(server).chat.completions.create(
            model="talker", messages=USER, stream=True
        ) as stream:
            for chunk in stream:
                if chunk.choices[0].delta.content:
                    break
        assert server.wait_until(lambda: server.scheduler().running == 0) < 1.0
        server.wait_until(lambda: len(server.seen.over) == 1)
        assert server.seen.over[0].is_dropped  # it did not run to its end


class TestAnthropic:
    """The official client of Anthropic's interface."""

    @staticmethod
    def client_of(server: Running, key: str = "none", retries: int = 0) -> Any:
        anthropic = pytest.importorskip("anthropic", reason="the extra clients is not installed")
        client = anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=retries)
        server.closing.append(client.close)
        return client

    @pytest.mark.parametrize("streamed", [False, True])
    def test_a_loop(self, start: Start, streamed: bool) -> None:
        """Calls side by side, their results (one an error), and an answer; whole and streamed."""
        server = start(calling(PARIS, BERN), ("It rains.",))
        client = self.client_of(server)
        asked = {"model": "talker", "max_tokens": 200, "tools": [ANTHROPIC_WEATHER]}

        def ask(messages: list[Any]) -> Any:
            if not streamed:
                return client.messages.create(messages=messages, **asked)
            with client.messages.stream(messages=messages, **asked) as stream:
                for _ in stream:
                    pass
                return stream.get_final_message()

        first = ask([*USER])
        assert first.stop_reason == "tool_use"
        assert [block.input["city"] for block in first.content] == ["Paris", "Bern"]
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "rain", "is_error": place == 1}
            for place, block in enumerate(first.content)
        ]  # fmt: skip
        last = ask([*USER, first.to_param(), {"role": "user", "content": results}])
        assert last.content[0].text == "It rains."
        assert last.usage.output_tokens > 0
        assert last.stop_reason == "end_turn"

    def test_the_tool_runner(self, start: Start) -> None:
        """It keeps its conversations on the server if that can; told that it cannot, it sends them whole."""
        server = start(calling(PARIS), ("It rains.",))
        client = self.client_of(server)
        asked: list[str] = []

        def get_weather(city: str) -> str:
            """Weather of a city.

            Args:
                city: The city.
            """
            asked.append(city)
            return "rain"

        from anthropic import beta_tool

        runner = client.beta.messages.tool_runner(
            model="talker", max_tokens=200, messages=USER, tools=[beta_tool(get_weather)]
        )
        assert runner.until_done().content[0].text == "It rains."
        assert asked == ["Paris"]

    def test_parsing_and_counting(self, start: Start) -> None:
        """A class as the form of an answer, and the tokens of a prompt."""

        class Weather(pydantic.BaseModel):  # type: ignore[misc,name-defined]
            city: str
            days: int

        Weather.model_rebuild()
        server = start(('{"city": "Paris", "days": 3}',))
        client = self.client_of(server)
        answer = client.messages.parse(
            model="talker", max_tokens=200, messages=USER, output_format=Weather
        )
        assert answer.parsed_output == Weather(city="Paris", days=3)
        usage = client.messages.create(model="talker", max_tokens=9, messages=USER).usage
        counted = client.messages.count_tokens(model="talker", messages=USER).input_tokens
        assert counted == usage.input_tokens + usage.cache_read_input_tokens

    def test_no_budget_makes_a_wrong_call(self, start: Start) -> None:
        """With 1 to 60 tokens, neither the stream's helper nor its last snapshot ever has a call that is not whole."""
        server = start(calling(PARIS))
        client = self.client_of(server)
        whole = 0
        for budget in range(1, 61):
            with client.messages.stream(
                model="talker", max_tokens=budget, messages=USER, tools=[ANTHROPIC_WEATHER]
            ) as stream:
                ended = [
                    event.content_block for event in stream if event.type == "content_block_stop"
                ]
                final = stream.get_final_message()
            calls = [block for block in [*ended, *final.content] if block.type == "tool_use"]
            assert all(block.input == {"city": "Paris"} for block in calls)
            assert bool(calls) == (final.stop_reason == "tool_use")
            whole += bool(calls)
        assert 0 < whole < 60

    def test_errors_are_of_the_right_kind(self, start: Start) -> None:
        """The client raises what it raises for Anthropic's service, with the request's id."""
        anthropic = pytest.importorskip("anthropic", reason="the extra clients is not installed")
        server = start(keys=("sesame",), body_bytes=2000)
        asked = {"model": "talker", "max_tokens": 60, "messages": USER}
        with pytest.raises(anthropic.AuthenticationError):
            self.client_of(server).messages.create(**asked)
        client = self.client_of(server, "sesame")
        with pytest.raises(anthropic.NotFoundError):
            client.messages.create(**{**asked, "model": "claude"})
        with pytest.raises(anthropic.RequestTooLargeError):
            client.messages.create(**asked, system="x" * 3000)
        with pytest.raises(anthropic.BadRequestError) as wrong:
            client.messages.create(**asked, thinking={"type": "adaptive"})
        assert wrong.value.body["error"]["type"] == "invalid_request_error"
        assert wrong.value.request_id == wrong.value.body["request_id"]

    def test_it_tries_again_where_it_may(self, start: Start) -> None:
        """Where the queue was full, the client waits as told, and is answered."""
        anthropic = pytest.importorskip("anthropic", reason="the extra clients is not installed")
        server = start(("It rains. " * 4,), slow=0.02, slots=1, queue=1)
        client = anthropic.AsyncAnthropic(base_url=server.url, api_key="none", max_retries=9)

        async def ask() -> Any:
            return await client.messages.create(model="talker", max_tokens=60, messages=USER)

        async def all_of_them() -> list[Any]:
            async with client:
                return await asyncio.gather(*(ask() for _ in range(4)))

        assert all(answer.content[0].text for answer in asyncio.run(all_of_them()))
        assert any(summary.status == 429 for summary in server.seen.over)

    def test_a_failure_in_the_stream(self, start: Start) -> None:
        """The client raises for an error event, behind the text that had come."""
        anthropic = pytest.importorskip("anthropic", reason="the extra clients is not installed")
        server = start(("It rains. " * 60,), slow=0.02, run_seconds=0.5)
        came = []
        with (
            pytest.raises(anthropic.APIStatusError) as failed,
            self.client_of(server).messages.stream(
                model="talker", max_tokens=900, messages=USER
            ) as stream,
        ):
            came.extend(stream.text_stream)
        assert came
        assert failed.value.body["error"]["type"] == "timeout_error"


class TestAgents:
    """Frameworks whose agents call tools until they can answer."""

    @pytest.mark.parametrize("interface", ["chat", "responses"])
    @pytest.mark.parametrize("streamed", [False, True])
    def test_openai_agents(self, start: Start, interface: str, streamed: bool) -> None:
        """OpenAI's own framework, over either interface."""
        agents = pytest.importorskip("agents", reason="the extra clients is not installed")
        agents.set_tracing_disabled(True)
        server = start(calling(PARIS, BERN), ("Rain in both.",))
        asked: list[str] = []

        @agents.function_tool
        def get_weather(city: str) -> str:
            """Weather of a city.

            Args:
                city: The city.
            """
            asked.append(city)
            return "rain"

        client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none")
        kind = (
            agents.OpenAIChatCompletionsModel
            if interface == "chat"
            else agents.OpenAIResponsesModel
        )
        agent = agents.Agent(
            name="Weather", instructions="Answer shortly.", tools=[get_weather],
            model=kind(model="talker", openai_client=client),
        )  # fmt: skip

        async def go() -> str:
            async with client:
                return await asked_of()

        async def asked_of() -> str:
            if not streamed:
                return str((await agents.Runner.run(agent, "Weather in Paris?")).final_output)
            run = agents.Runner.run_streamed(agent, "Weather in Paris?")
            async for _ in run.stream_events():
                pass
            return str(run.final_output)

        assert asyncio.run(go()) == "Rain in both."
        assert sorted(asked) == ["Bern", "Paris"]

    @pytest.mark.parametrize("interface", ["chat", "responses"])
    @pytest.mark.parametrize("streamed", [False, True])
    def test_pydantic_ai(self, start: Start, interface: str, streamed: bool) -> None:
        """Pydantic's framework, over either interface."""
        ai = pytest.importorskip("pydantic_ai", reason="the extra clients is not installed")
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
        from pydantic_ai.providers.openai import OpenAIProvider

        server = start(calling(PARIS, BERN), ("Rain in both.",))
        asked: list[str] = []
        client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none")
        provider = OpenAIProvider(openai_client=client)
        kind = OpenAIChatModel if interface == "chat" else OpenAIResponsesModel
        agent = ai.Agent(kind("talker", provider=provider), instructions="Answer shortly.")

        @agent.tool_plain
        def get_weather(city: str) -> str:
            """Weather of a city."""
            asked.append(city)
            return "rain"

        async def go() -> str:
            async with client:
                return await asked_of()

        async def asked_of() -> str:
            if not streamed:
                return str((await agent.run("Weather in Paris?")).output)
            async with agent.run_stream("Weather in Paris?") as run:
                return str(await run.get_output())

        assert asyncio.run(go()) == "Rain in both."
        assert sorted(asked) == ["Bern", "Paris"]


def test_a_stream_may_be_cut_anywhere(start: Start) -> None:
    """Split at every byte, the client's decoder still reads the same events."""
    from openai._streaming import SSEDecoder

    server = start(calling(PARIS), ("Grüße 🌍",), turn=lambda text: text.count(b"Hi"))
    for body in (
        server.chat(tools=[WEATHER], stream=True),
        server.respond(input="Hi", stream=True),
    ):
        data = body.content

        def read(pieces: list[bytes]) -> list[tuple[Any, str]]:
            return [(event.event, event.data) for event in SSEDecoder().iter_bytes(iter(pieces))]

        whole = read([data])
        assert len(whole) > 3
        for at in range(1, len(data)):
            assert read([data[:at], data[at:]]) == whole
        assert read([data[at : at + 1] for at in range(len(data))]) == whole
