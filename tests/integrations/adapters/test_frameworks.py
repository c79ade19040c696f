"""The adapters in front of the real frameworks, with the embedded model; each is skipped where its package is missing.

``pip install -e '.[adapters]'`` in an environment of its own, then ``python -m pytest tests/integrations/adapters``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from importlib.metadata import entry_points
from typing import Any

import pytest
from pydantic import BaseModel

from callmemaybe.errors import InputError

ASK = "What's the weather in Paris?"
ASK_TWO = "What's the weather in Paris and what's the weather in Oslo?"


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


def get_weather(city: str) -> str:
    """Current weather of a city."""
    return f"22 degrees in {city}"


def broken_weather(city: str) -> str:
    """Current weather of a city."""
    raise ValueError(f"no weather station in {city}")


class TestLangChain:
    """ChatCallMeMaybe."""

    @pytest.fixture
    def model(self) -> Any:
        pytest.importorskip("langchain_core", reason="the extra langchain is not installed")
        from callmemaybe.integrations.langchain import ChatCallMeMaybe

        return ChatCallMeMaybe()

    def test_bound_tools_are_called(self, model: Any) -> None:
        """As a whole, in chunks and asynchronously the calls are the same."""
        bound = model.bind_tools([get_weather])
        chunks = list(bound.stream(ASK_TWO))
        total = chunks[0]
        for chunk in chunks[1:]:
            total += chunk
        whole, later = bound.invoke(ASK_TWO), asyncio.run(bound.ainvoke(ASK_TWO))
        calls = [
            [(one["name"], one["args"]) for one in each.tool_calls]
            for each in (whole, total, later)
        ]
        assert (
            calls == [[("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Oslo"})]] * 3
        )

    @pytest.mark.parametrize("method", ["json_schema", "function_calling"])
    def test_structured_output(self, model: Any, method: str) -> None:
        """An object of the class, of its JSON Schema as a dict, and with the message beside it."""
        ask = "I live in Paris."
        assert model.with_structured_output(Place, method=method).invoke(ask) == Place(city="Paris")
        schema = Place.model_json_schema()
        assert model.with_structured_output(schema, method=method).invoke(ask) == {"city": "Paris"}
        found = model.with_structured_output(Place, method=method, include_raw=True).invoke(ask)
        assert (found["parsed"], found["parsing_error"]) == (Place(city="Paris"), None)

    def test_another_method_is_an_error(self, model: Any) -> None:
        """It names those that there are."""
        with pytest.raises(InputError, match="json_schema or function_calling"):
            model.with_structured_output(Place, method="json_mode")

    @pytest.mark.parametrize(
        "choice",
        ["any", "get_weather", True, {"type": "function", "function": {"name": "get_weather"}}],
    )
    def test_a_choice_is_kept(self, model: Any, choice: Any) -> None:
        """In each spelling a call is required."""
        assert model.bind_tools([get_weather], tool_choice=choice).invoke("hm").tool_calls

    def test_agents(self, model: Any) -> None:
        """They run tools, tell failures, and answer with an object by both strategies."""
        agents = pytest.importorskip(
            "langchain.agents", reason="the extra adapters is not installed"
        )
        from langchain.agents.structured_output import ProviderStrategy, ToolStrategy

        asked = {"messages": [("user", ASK)]}
        answer = agents.create_agent(model, [get_weather], system_prompt="Be brief.").invoke(asked)
        assert "22 degrees in Paris" in answer["messages"][-1].text
        for form in (ToolStrategy(Place), ProviderStrategy(Place), Place):
            made = agents.create_agent(model, [get_weather], response_format=form).invoke(asked)
            assert made["structured_response"] == Place(city="Paris")


class TestPydanticAI:
    """CallMeMaybeModel."""

    @pytest.fixture
    def agent(self) -> Any:
        pydantic_ai = pytest.importorskip(
            "pydantic_ai", reason="the extra pydantic-ai is not installed"
        )
        from callmemaybe.integrations.pydantic_ai import CallMeMaybeModel

        return lambda **given: pydantic_ai.Agent(CallMeMaybeModel(), **given)

    def test_tools_run(self, agent: Any) -> None:
        """Two calls of one turn, their results, and an answer; the usage counts."""
        result = agent(tools=[get_weather], instructions="Be brief.").run_sync(ASK_TWO)
        assert "Paris" in result.output
        assert "Oslo" in result.output
        response = result.all_messages()[1]
        assert response.finish_reason == "tool_call"
        assert response.provider_details["unread"] == ["instructions"]
        assert response.usage.input_tokens

    def test_outputs(self, agent: Any) -> None:
        """By a function, by a JSON Schema, and after tools."""
        from pydantic_ai import NativeOutput, ToolOutput

        for form in (Place, ToolOutput(Place), NativeOutput(Place)):
            assert agent(output_type=form).run_sync("I live in Paris.").output == Place(
                city="Paris"
            )
        assert agent(output_type=Place, tools=[get_weather]).run_sync(ASK).output == Place(
            city="Paris"
        )

    def test_streams(self, agent: Any) -> None:
        """A streamed run ends with the same answer."""

        async def stream() -> str:
            async with agent(tools=[get_weather]).run_stream(ASK) as result:
                found: str = await result.get_output()
                return found

        assert asyncio.run(stream()) == "22 degrees in Paris"

    def test_a_retry_is_told(self, agent: Any) -> None:
        """A tool that asks to be tried again is not asked for ever."""
        from pydantic_ai import ModelRetry

        def closed(city: str) -> str:
            raise ModelRetry(f"no weather station in {city}")

        closed.__doc__, closed.__name__ = get_weather.__doc__, "get_weather"
        assert "no weather station" in agent(tools=[closed]).run_sync(ASK).output


class TestLlm:
    """The plug-in of llm."""

    @pytest.fixture
    def model(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
        llm = pytest.importorskip("llm", reason="the extra llm is not installed")
        monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
        return llm.get_model("callmemaybe/nano")

    def test_tools_run(self, model: Any) -> None:
        """In a chain, whole and streamed; a failure is told."""
        assert (
            model.chain(ASK, tools=[get_weather], system="Be brief.").text()
            == "22 degrees in Paris"
        )
        assert "".join(model.chain(ASK, tools=[get_weather])) == "22 degrees in Paris"
        assert "no weather station" in model.chain(ASK, tools=[broken_weather]).text()

    def test_schemas(self, model: Any) -> None:
        """The text is an object of the schema."""
        assert json.loads(model.prompt("I live in Paris.", schema=Place).text()) == {
            "city": "Paris"
        }

    def test_the_program(self, model: Any, tmp_path: Any) -> None:
        """``llm -m callmemaybe/nano``, with a function of a file, and what it says without a path."""
        from click.testing import CliRunner
        from llm.cli import cli

        assert model
        functions = 'def get_weather(city: str) -> str:\n    "Current weather of a city."\n    return f"22 in {city}"\n'
        (tmp_path / "f.py").write_text(functions)
        run = CliRunner().invoke
        done = run(cli, ["-m", "callmemaybe/nano", "--functions", str(tmp_path / "f.py"), ASK])
        assert (done.exit_code, "22 in Paris" in done.output) == (0, True), done.output
        failed = run(cli, ["-m", "callmemaybe", "--no-stream", ASK])
        assert "needs -o path" in failed.output
        assert "Traceback" not in failed.output

    def test_it_is_found_by_its_entry_point(self) -> None:
        """The entry point names the module."""
        pytest.importorskip("llm", reason="the extra llm is not installed")
        (found,) = (one for one in entry_points(group="llm") if one.name == "callmemaybe")
        assert found.value == "callmemaybe.integrations.llm"


class TestInstructor:
    """from_callmemaybe."""

    @pytest.fixture(autouse=True)
    def _package(self) -> None:
        pytest.importorskip("instructor", reason="the extra instructor is not installed")

    def test_every_mode(self) -> None:
        """An object of the class comes of each mode that is offered; others are errors that name these."""
        from instructor import Mode

        from callmemaybe.integrations.instructor import MODES, from_callmemaybe

        asked = [{"role": "user", "content": "I live in Paris."}]
        for mode in MODES:
            shape: Any = Iterable[Place] if mode is Mode.PARALLEL_TOOLS else Place
            found = from_callmemaybe(mode=mode).create(response_model=shape, messages=asked)
            objects = [found] if isinstance(found, BaseModel) else list(found)
            assert [one.model_dump() for one in objects] == [{"city": "Paris"}]
        with pytest.raises(InputError, match="TOOLS, PARALLEL_TOOLS"):
            from_callmemaybe(mode=Mode.MD_JSON)

    def test_streams(self) -> None:
        """The last partial object is the whole one."""
        from callmemaybe.integrations.instructor import from_callmemaybe

        asked = [{"role": "user", "content": "I live in Paris."}]
        *_, last = from_callmemaybe().create_partial(response_model=Place, messages=asked)
        assert last.city == "Paris"
