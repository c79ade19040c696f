"""The frameworks that benchmarks/gateway.py puts the gateway beside; each returns milliseconds per call.

Their models are scripted, and the tool does nothing. Not installed: ImportError.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any


def dbos_steps(address: str) -> Callable[[], float]:
    """Milliseconds of one step of a DBOS workflow."""
    from dbos import DBOS

    def measure() -> float:
        DBOS.destroy()
        DBOS(config={"name": "bench", "system_database_url": address, "log_level": "ERROR"})

        @DBOS.step()
        def step(n: int) -> int:
            return n

        @DBOS.workflow()
        def flow(steps: int) -> float:
            began = time.perf_counter()
            for n in range(steps):
                step(n)
            return (time.perf_counter() - began) / steps * 1000

        DBOS.launch()
        flow(5)
        found = flow(60)
        DBOS.destroy()
        return found

    return measure


def pydantic_ai_calls() -> Callable[[], float]:
    """Milliseconds of one tool call in a run of pydantic-ai, its model scripted."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import UsageLimits

    turns = 100

    def model(messages: list[Any], _info: Any) -> ModelResponse:
        n = len(messages) // 2
        if n >= turns:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("do", {"n": n}, f"c{n}")])

    agent = Agent(FunctionModel(model))

    @agent.tool_plain
    def do(n: int) -> int:
        return n

    def measure() -> float:
        began = time.perf_counter()
        asyncio.run(agent.run("go", usage_limits=UsageLimits(request_limit=None)))
        return (time.perf_counter() - began) / turns * 1000

    return measure


def openai_agents_calls() -> Callable[[], float]:
    """Milliseconds of one tool call in a run of openai-agents, its model scripted."""
    from agents import (
        Agent,
        Model,
        ModelResponse,
        Runner,
        Usage,
        function_tool,
        set_tracing_disabled,
    )
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    set_tracing_disabled(True)
    turns = 100

    class Scripted(Model):
        def __init__(self) -> None:
            self.n = 0

        async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
            self.n += 1
            if self.n > turns:
                text = ResponseOutputText(text="done", type="output_text", annotations=[])
                output: Any = ResponseOutputMessage(
                    id="m", content=[text], role="assistant", status="completed", type="message"
                )
            else:
                output = ResponseFunctionToolCall(
                    arguments=f'{{"n": {self.n}}}',
                    call_id=f"c{self.n}",
                    name="do",
                    type="function_call",
                )
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    @function_tool
    def do(n: int) -> int:
        return n

    def measure() -> float:
        agent = Agent(name="a", model=Scripted(), tools=[do])
        began = time.perf_counter()
        asyncio.run(Runner.run(agent, "go", max_turns=turns + 5))
        return (time.perf_counter() - began) / turns * 1000

    return measure
