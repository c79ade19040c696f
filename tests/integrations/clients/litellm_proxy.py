# requires: litellm[proxy] openai anthropic
"""LiteLLM as a proxy in front of the server: OpenAI's client, and Anthropic's, which the proxy translates for."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import anthropic
import openai
from flows import (
    ADA,
    API_KEY,
    ASK,
    ASK_AGAIN,
    ASK_LIGHT,
    ASK_PLAIN,
    ASK_STEPS,
    ASK_STRUCTURED,
    ASK_TWO,
    BASE_URL,
    BRIEF,
    LIGHT,
    MODEL,
    OSLO,
    PARIS,
    about,
    failing,
    flow,
    main,
    never_wrong,
    ran,
    run,
    same,
    says,
    schema,
    tools,
)  # fmt: skip
from pydantic import BaseModel

EVERY = tools("get_weather", "set_light", "find_person")
#: Seconds until the proxy has to listen: it is slow to import.
PATIENCE = 180


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


PORT, KEY = free_port(), f"sk-{secrets.token_urlsafe(32)}"


def start(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Start the proxy and wait until it listens."""
    model = {"model_name": MODEL, "litellm_params": {
        "model": f"hosted_vllm/{MODEL}", "api_base": BASE_URL, "api_key": API_KEY}}  # fmt: skip
    settings = {
        "model_list": [model],
        "litellm_settings": {"num_retries": 0, "telemetry": False},
        "general_settings": {"master_key": KEY},
    }
    (folder / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
    surroundings = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    surroundings.pop("PYTHONPATH", None)
    command = [str(Path(sys.executable).with_name("litellm")), "--config", str(folder / "config.yaml"),
               "--host", "127.0.0.1", "--port", str(port)]  # fmt: skip
    proxy = subprocess.Popen(command, env=surroundings, cwd=folder, stdout=sys.stderr)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and proxy.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5)
        except OSError:
            time.sleep(0.5)
        else:
            return proxy
    proxy.kill()
    raise SystemExit("the proxy did not start")


client = openai.OpenAI(base_url=f"http://127.0.0.1:{PORT}/v1", api_key=KEY, max_retries=0)
claude = anthropic.Anthropic(base_url=f"http://127.0.0.1:{PORT}", api_key=KEY, max_retries=0)
chats = client.chat.completions


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def message(messages: list[Any], *, streamed: bool = False, **options: Any) -> Any:
    if streamed:
        with chats.stream(model=MODEL, messages=messages, **options) as stream:
            return stream.get_final_completion().choices[0].message
    return chats.create(model=MODEL, messages=messages, **options).choices[0].message


def loop(messages: list[Any], **options: Any) -> str:
    """Ask and run calls until there is an answer, which is added to the messages."""
    for _ in range(6):
        made = message(messages, tools=EVERY, **options)
        messages.append(made)
        if not made.tool_calls:
            return made.content or ""
        messages += [
            {"role": "tool", "tool_call_id": one.id,
             "content": run(one.function.name, one.function.arguments)}
            for one in made.tool_calls
        ]  # fmt: skip
    raise AssertionError("six turns and no answer")


def called(made: Any) -> tuple[str, Any]:
    (call,) = made.tool_calls
    return call.function.name, json.loads(call.function.arguments)


@flow("one call")
def one_call() -> None:
    same(called(message([user(ASK)], tools=EVERY)), ("get_weather", {"city": "Paris"}))


@flow("two calls in one turn")
def two_calls() -> None:
    says(loop(messages := [user(ASK_TWO)]), "Paris", "Oslo", "22")
    same(len(messages[1].tool_calls), 2)
    same(sorted(ran), sorted([PARIS, OSLO]))


@flow("tool loop")
def tool_loop() -> None:
    says(loop([user(ASK)]), "22", "Paris")
    same(ran, [PARIS])


@flow("two-step loop")
def two_steps() -> None:
    says(loop([user(ASK_STEPS)]), "22")
    same(ran, [ADA, OSLO])


@flow("streamed call")
def streamed_call() -> None:
    same(
        called(message([user(ASK)], tools=EVERY, streamed=True)), ("get_weather", {"city": "Paris"})
    )


@flow("streamed loop")
def streamed_loop() -> None:
    says(loop([user(ASK)], streamed=True), "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    answer = chats.parse(model=MODEL, messages=[user(ASK_STRUCTURED)], response_format=Place)
    same(answer.choices[0].message.parsed, Place(city="Paris"))


@flow("forced tool")
def forced() -> None:
    choice = {"type": "function", "function": {"name": "set_light"}}
    (call,) = message([user(ASK_LIGHT)], tools=EVERY, tool_choice=choice).tool_calls
    run(call.function.name, call.function.arguments)
    same(ran, [LIGHT])


@flow("no tools")
def no_tools() -> None:
    says(message([user(ASK_PLAIN)]).content)


@flow("tool error fed back")
def error() -> None:
    failing.add("Paris")
    says(loop([user(ASK)]), "no weather station")
    same(ran, [PARIS])


@flow("follow-up question")
def follow_up() -> None:
    loop(messages := [user(ASK)])
    says(loop([*messages, user(ASK_AGAIN)]), "Oslo")
    same(ran, [PARIS, OSLO])


@flow("system message")
def system() -> None:
    says(loop([{"role": "system", "content": BRIEF}, user(ASK)]), "22", "Paris")
    same(ran, [PARIS])


@flow("responses loop")
def responses() -> None:
    offered = [{"type": "function", **one["function"]} for one in EVERY]
    said: list[Any] = [user(ASK)]
    for _ in range(6):
        answer = client.responses.create(model=MODEL, input=said, tools=offered, store=False)
        calls = [one for one in answer.output if one.type == "function_call"]
        if not calls:
            break
        said += [one.model_dump(exclude_none=True) for one in answer.output]
        said += [
            {"type": "function_call_output", "call_id": one.call_id, "output": run(one.name, one.arguments)}
            for one in calls
        ]  # fmt: skip
    says(answer.output_text, "22", "Paris")
    same(ran, [PARIS])


@flow("messages loop")
def messages_loop() -> None:
    """Anthropic's client; the proxy makes chat requests of its messages."""
    offered = [
        {"name": one, "description": about(one), "input_schema": schema(one)}
        for one in ("get_weather", "set_light")
    ]
    said: list[Any] = [user(ASK)]
    for _ in range(6):
        answer = claude.messages.create(
            model=MODEL, max_tokens=200, system=BRIEF, messages=said, tools=offered
        )
        calls = [one for one in answer.content if one.type == "tool_use"]
        if not calls:
            break
        said += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": one.id, "content": run(one.name, json.dumps(one.input))}
            for one in calls]}]  # fmt: skip
    says(answer.content[0].text, "22", "Paris")
    same(ran, [PARIS])


@flow("budget")
def budget() -> str:
    def ask(most: int) -> None:
        with chats.stream(
            model=MODEL, messages=[user(ASK)], tools=EVERY, max_tokens=most
        ) as stream:
            for event in stream:
                if event.type == "tool_calls.function.arguments.done":
                    run(event.name, event.arguments)

    return never_wrong(ask)


with tempfile.TemporaryDirectory() as folder:
    proxy = start(Path(folder), PORT)
    try:
        main()
    finally:
        proxy.terminate()
        proxy.wait(60)
