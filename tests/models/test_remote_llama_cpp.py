"""A real llama.cpp server with random weights: the grammar we export is one that it holds to."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from callmemaybe.caller import Caller
from callmemaybe.errors import ModelError
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.models.remote import RemoteModel
from tests.training.qwen3_reference import random_tensors, tiny_config
from tests.vocabulary.samples import train
from training.export.qwen3_gguf import export

pytest.importorskip("llama_cpp.server.app", reason="llama-cpp-python[server] is not installed")

TOOLS = [
    {"name": "flip", "parameters": {"coin": {"type": "boolean"}}},
    {
        "type": "function",
        "function": {
            "name": "paint",
            "parameters": {
                "type": "object",
                "properties": {
                    "colour": {"enum": ["red", "grün"]},
                    "coats": {"type": "integer", "minimum": 1, "maximum": 12},
                    "parts": {
                        "type": "array",
                        "items": {"enum": ["top", "bottom"]},
                        "minItems": 1,
                        "maxItems": 2,
                    },
                },
                "required": ["colour", "coats", "parts"],
            },
        },
    },
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    config = tiny_config(vocab_size=420, intermediate_size=128, max_position_embeddings=4096)
    path = tmp_path_factory.mktemp("server") / "tiny.gguf"
    template = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    export(
        config,
        random_tensors(config),
        path,
        kind="q8_0",
        tokenizer=train(400),
        ends={"eos_token_id": 0, "bos_token_id": 0},
        chat_template=template,
    )
    yield from running(path)


def running(path: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(path), "--n_ctx", "4096"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}/v1"
        for _ in range(120):
            time.sleep(0.25)
            try:
                RemoteModel(address, tries=1, timeout=2).model  # noqa: B018 - asks the server
                break
            except ModelError:
                assert process.poll() is None, "the server has ended"
        yield address
    finally:
        process.terminate()
        process.wait(10)


def test_random_weights_answer_in_the_language(address: str) -> None:
    """Random weights, sampled hotly, answer nothing but valid calls, byte for byte as we write them."""
    seen = set()
    for seed in range(25):
        caller = Caller(
            RemoteModel(address),
            TOOLS,
            max_tokens=200,
            decoding=DecodingConfig(temperature=1.5, seed=seed),
        )
        outcome = caller.call("Paint it red, twice.")
        assert outcome.call is not None
        assert outcome.remarks == ()
        seen.add((outcome.call.name, outcome.call.arguments))
    assert len(seen) > 5


def test_the_server_is_told_to_be_llama_cpp(address: str) -> None:
    """Its list of models tells what it is."""
    assert RemoteModel(address).dialect == "llama.cpp"


def test_our_server_in_front_of_it(address: str) -> None:
    """Law: whatever random weights say, what comes out in front is a call that fits, whole or streamed."""
    pytest.importorskip("starlette", reason="the extra server is not installed")
    from callmemaybe.server.config import ServerConfig
    from callmemaybe.server.serving import application
    from tests.server.conftest import Seen, running

    model, config, seen = RemoteModel(address), ServerConfig(port=0), Seen()
    served = running(application(model, config), config, model, seen)
    tools = [{"type": "function", "function": TOOLS[1]["function"]}]
    body = {"model": model.model, "tools": tools, "tool_choice": "required",
            "parallel_tool_calls": False}  # fmt: skip
    try:
        answer = served.chat(**body)
        assert answer.status_code == 200, answer.text
        (call,) = answer.json()["choices"][0]["message"]["tool_calls"]
        arguments = json.loads(call["function"]["arguments"])
        assert arguments["colour"] in ("red", "grün")
        assert 1 <= arguments["coats"] <= 12
        chunks = served.chunks(**body)
        assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
        text = served.chunks(model=model.model, max_tokens=5)
        assert text[-1]["choices"][0]["finish_reason"] in ("length", "stop")
        auto = served.chat(model=model.model, tools=tools, max_tokens=64).json()["choices"][0]
        assert auto["finish_reason"] in ("length", "stop", "tool_calls")
    finally:
        served.close()
