# requires: llm pydantic
"""Simon Willison's ``llm``: its Python interface, and its command line (which streams)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from flows import (
    ADA,
    API_KEY,
    ASK,
    ASK_AGAIN,
    ASK_PLAIN,
    ASK_STEPS,
    ASK_STRUCTURED,
    ASK_TWO,
    BASE_URL,
    BRIEF,
    MODEL,
    OSLO,
    PARIS,
    failing,
    find_person,
    flow,
    get_weather,
    main,
    never_wrong,
    ran,
    same,
    says,
    schema,
    set_light,
)  # fmt: skip

FOLDER = Path(tempfile.mkdtemp())
os.environ["LLM_USER_PATH"] = str(FOLDER)
(FOLDER / "extra-openai-models.yaml").write_text(json.dumps([{
    "model_id": "served", "model_name": MODEL, "api_base": BASE_URL, "api_key_name": "served",
    "supports_tools": True, "supports_schema": True,
}]))  # JSON is YAML  # fmt: skip
(FOLDER / "keys.json").write_text(json.dumps({"served": API_KEY}))

import llm  # noqa: E402 - it reads its folder when it is imported

model = llm.get_model("served")
TOOLS = [llm.Tool.function(one) for one in (get_weather, set_light, find_person)]


def chain(text: str, **options: Any) -> str:
    return model.chain(text, tools=TOOLS, stream=False, **options).text()


def command(*given: str) -> str:
    """Run the program; return what it prints."""
    program = str(Path(sys.executable).with_name("llm"))
    done = subprocess.run(
        [program, "-m", "served", *given], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-300:])
    return done.stdout


@flow("one call")
def one_call() -> None:
    (call,) = model.prompt(ASK, tools=TOOLS, stream=False).tool_calls()
    same((call.name, call.arguments), ("get_weather", {"city": "Paris"}))


@flow("two calls in one turn")
def two_calls() -> None:
    same(len(model.prompt(ASK_TWO, tools=TOOLS, stream=False).tool_calls()), 2)
    says(chain(ASK_TWO), "Paris", "Oslo", "22")
    same(sorted(ran), sorted([PARIS, OSLO]))


@flow("tool loop")
def tool_loop() -> None:
    says(chain(ASK), "22", "Paris")
    same(ran, [PARIS])


@flow("two-step loop")
def two_steps() -> None:
    says(chain(ASK_STEPS), "22")
    same(ran, [ADA, OSLO])


@flow("streamed call")
def streamed_call() -> None:
    response = model.prompt(ASK, tools=TOOLS, stream=True)
    list(response)
    (call,) = response.tool_calls()
    same((call.name, call.arguments), ("get_weather", {"city": "Paris"}))


@flow("streamed loop")
def streamed_loop() -> None:
    says("".join(model.chain(ASK, tools=TOOLS, stream=True)), "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    said = model.prompt(ASK_STRUCTURED, schema=schema("get_weather"), stream=False).text()
    same(json.loads(said), {"city": "Paris"})
    same(json.loads(command("--schema", "city str", ASK_STRUCTURED)), {"city": "Paris"})


@flow("no tools")
def no_tools() -> None:
    says(model.prompt(ASK_PLAIN, stream=False).text())
    says(command(ASK_PLAIN))


@flow("tool error fed back")
def error() -> None:
    failing.add("Paris")
    says(chain(ASK), "no weather station")
    same(ran, [PARIS])


@flow("follow-up question")
def follow_up() -> None:
    conversation = model.conversation(tools=TOOLS)
    conversation.chain(ASK, stream=False).text()
    says(conversation.chain(ASK_AGAIN, stream=False).text(), "Oslo")
    same(ran, [PARIS, OSLO])


@flow("system message")
def system() -> None:
    says(chain(ASK, system=BRIEF), "22", "Paris")
    same(ran, [PARIS])


@flow("command line")
def command_line() -> None:
    """A function from a file, and the conversation gone on with."""
    (FOLDER / "f.py").write_text(
        'def get_weather(city: str) -> str:\n    "Current weather of a city."\n    return f"22 degrees in {city}"\n'
    )
    tools = ("--functions", str(FOLDER / "f.py"))
    says(command(*tools, "-s", BRIEF, ASK), "22", "Paris")
    says(command(*tools, "-c", ASK_AGAIN), "22", "Oslo")


@flow("budget")
def budget() -> str:
    def ask(most: int) -> None:
        model.chain(ASK, tools=TOOLS, stream=True, options={"max_tokens": most}).text()

    return never_wrong(ask)


main()
