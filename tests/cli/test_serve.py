"""The commands serve and show: what they refuse, how they start and how they end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import httpx2
import pytest

from callmemaybe.cli.main import main

pytest.importorskip("starlette", reason="the extra server is not installed")

ROOT = Path(__file__).parents[2]
TOOL = {"type": "function", "function": {"name": "say", "parameters": {
    "type": "object", "properties": {"text": {"type": "string", "maxLength": 40}}, "required": ["text"],
    "additionalProperties": False}}}  # fmt: skip
BODY = {"model": "nano", "tools": [TOOL], "messages": [{"role": "user", "content": "Say hello"}]}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--host", "0.0.0.0"], "no key is required"),
        (["--host", "::"], "no key is required"),
        (["--host", "192.0.2.7"], "no key is required"),
        (["--port", "70000"], "65535"),
        (["--api-key", ""], "printable"),
        (["--api-key", "schlüssel"], "printable"),
        (["--cors-origin", "*"], "is not an origin"),
        (["--host", "no.such.host.invalid", "--api-key", "k"], "not an address"),
        (["--slots", "0"], "slots"),
    ],
)
def test_what_cannot_be_served_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], what: str
) -> None:
    """In one line, with the exit code of bad input, before a model is loaded."""
    code, told = run(capsys, "serve", "--model", "no-such-model", *arguments)
    assert code == 2
    assert what in told
    assert told.count("\n") == 1
    assert told.startswith("callmemaybe: ")


def test_a_port_in_use_is_told_before_the_model_is_loaded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One clear sentence."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        code, told = run(capsys, "serve", "--model", "no-such-model", "--port", port)
    assert code == 2
    assert (
        told
        == f"callmemaybe: --port: 127.0.0.1:{port} is in use by another program; choose another\n"
    )


def test_a_model_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """With its own exit code; the port is free again."""
    code, told = run(capsys, "serve", "--model", "no-such-model", "--port", "0")
    assert code == 3
    assert "no-such-model" in told


def test_what_is_not_installed_is_told_in_words_to_copy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the one line that errors have: a line end in it would be shown as an escape."""
    monkeypatch.setattr("callmemaybe.cli.serve._NEEDED", ("no_such_package",))
    code, told = run(capsys, "serve")
    assert code == 3
    assert told.endswith("install it with `pip install 'callmemaybe[server]'`\n")
    assert "\\n" not in told


class Program:
    """``callmemaybe serve`` as a process."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "callmemaybe", "serve", "--port", "0", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "CALLMEMAYBE_API_KEY": ""},
        )  # fmt: skip
        self.lines: list[str] = []
        errors: IO[str] | None = self.process.stderr
        assert errors is not None
        line = errors.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        self.url = found[0]
        self._reading = threading.Thread(target=lambda: self.lines.extend(errors), daemon=True)
        self._reading.start()

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(30)
        self._reading.join(5)
        return code


@pytest.fixture
def program() -> Iterator[Any]:
    """Start programs, and leave none behind."""
    running: list[Program] = []

    def begin(*arguments: str) -> Program:
        running.append(Program(*arguments))
        return running[-1]

    yield begin
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        for stream in (one.process.stdout, one.process.stderr):
            if stream:
                stream.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_runs_is_finished_when_the_server_is_stopped(
    program: Any, number: signal.Signals
) -> None:
    """The answers under way arrive whole; the program ends well, with a line in the log for each."""
    server = program()
    body = {**BODY, "n": 4, "temperature": 2, "seed": 1, "stream": True}
    streams: list[str] = []
    # A request is under way when its stream has begun; then most of it is to come.
    is_begun = threading.Barrier(3)

    def ask() -> None:
        url = f"{server.url}/v1/chat/completions"
        with httpx2.stream("POST", url, json=body, timeout=60, trust_env=False) as answer:
            pieces = answer.iter_text()
            text = next(pieces)
            is_begun.wait(60)
            streams.append(text + "".join(pieces))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    is_begun.wait(60)
    assert server.end(number) == 0
    for thread in threads:
        thread.join()
    assert len(streams) == 2
    for stream in streams:
        *told, last, end = stream.split("\n\n")
        assert (last, end) == ("data: [DONE]", "")
        arguments, finished = [""] * 4, set()
        for line in told:
            (choice,) = json.loads(line.removeprefix("data: "))["choices"]
            for call in choice["delta"].get("tool_calls", ()):
                arguments[choice["index"]] += call["function"]["arguments"]
            if choice["finish_reason"]:
                finished.add((choice["index"], choice["finish_reason"]))
        assert finished == {(index, "tool_calls") for index in range(4)}
        assert all(isinstance(json.loads(one), dict) for one in arguments)
    logged = [json.loads(line) for line in server.lines]
    assert sum(line["route"] == "/v1/chat/completions" for line in logged) == 2
    assert "Traceback" not in "".join(server.lines)


@pytest.mark.parametrize("quiet", [False, True])
def test_what_libraries_log_is_of_the_same_form(program: Any, quiet: bool) -> None:
    """A head that is no HTTP is a line of JSON, too; it is no failure, so --quiet does not tell it."""
    server = program(*(["--quiet"] if quiet else []))
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"GARBAGE\r\n\r\n")
        assert b"400" in connection.recv(4096)
    assert server.end(signal.SIGTERM) == 0
    logged = [json.loads(line) for line in server.lines]
    told = [(line["level"], line["event"], line["logger"]) for line in logged]
    assert told == ([] if quiet else [("warning", "log", "uvicorn.error")])


def test_the_log_tells_no_secrets(program: Any) -> None:
    """Neither a key nor what was asked or answered stands in it."""
    server = program("--api-key", "sesame-open", "--name", "small")
    headers = {"authorization": "Bearer sesame-open"}
    body = {**BODY, "model": "small"}
    answer = httpx2.post(f"{server.url}/v1/chat/completions", json=body, headers=headers,
                         timeout=30, trust_env=False)  # fmt: skip
    assert answer.status_code == 200
    assert answer.json()["model"] == "small"
    assert server.end(signal.SIGTERM) == 0
    text = "".join(server.lines)
    (line,) = map(json.loads, server.lines)
    assert line["finish"] == ["tool_calls"]
    assert line["id"] == answer.headers["x-request-id"]
    assert "sesame" not in text
    assert "hello" not in text.lower()


# -- show -----------------------------------------------------------------------------------------


def test_a_trace_becomes_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What run --trace wrote stands in one file, every prompt with its steps and its call."""
    trace, page = tmp_path / "t.jsonl", tmp_path / "t.html"
    prompts = tmp_path / "p.json"
    prompts.write_text('["What is the sum of 2 and 3?", "Greet </script>"]', encoding="utf-8")
    code, told = run(
        capsys, "run", "-f", str(ROOT / "data/input/functions_definition.json"), "-i", str(prompts),
        "-o", str(tmp_path / "o.json"), "--trace", str(trace), "--quiet",
    )  # fmt: skip
    assert (code, told) == (0, "")
    assert run(capsys, "show", str(trace))[0] == 0
    text = page.read_text(encoding="utf-8")
    found = re.search(r'id="data">(.*?)</script>', text)
    assert found is not None
    runs = json.loads(found[1])["runs"]
    assert [one["request"] for one in runs] == ["What is the sum of 2 and 3?", "Greet </script>"]
    results = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    for one, result in zip(runs, results, strict=True):
        assert one["call"]["name"] == result["name"]
        assert json.loads(one["call"]["arguments"]) == result["parameters"]
        assert "".join(part for step in one["steps"] for part in step["parts"])
        assert one["end"]["distribution"]


def test_a_trace_of_a_batch_tells_each_prompt_its_own_steps(tmp_path: Path) -> None:
    """Law: whichever way the steps of several prompts take turns, each stands with its prompt."""
    from callmemaybe.cli.trace import read_trace

    def step(prompt: int, number: int) -> dict[str, object]:
        text = f"{prompt}.{number}\u2028"
        return {"event": "step", "prompt": prompt, "step": number, "kind": "chosen", "text": text}

    def end(prompt: int) -> dict[str, object]:
        return {
            "event": "result",
            "prompt": prompt,
            "request": f"p{prompt}\u2028\x85",
            "name": None,
        }

    lines = [
        step(0, 0),
        step(1, 0),
        step(1, 1),
        step(0, 1),
        end(0),
        step(2, 0),
        end(1),
        end(2),
        end(3),
    ]
    trace = tmp_path / "t.jsonl"
    trace.write_text(
        "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8"
    )
    told = [(one["request"], [step["text"] for step in one["steps"]]) for one in read_trace(trace)]
    assert told == [
        ("p0\u2028\x85", ["0.0\u2028", "0.1\u2028"]),
        ("p1\u2028\x85", ["1.0\u2028", "1.1\u2028"]),
        ("p2\u2028\x85", ["2.0\u2028"]),
        ("p3\u2028\x85", []),
    ]


def test_no_digit_of_a_trace_is_rounded(tmp_path: Path) -> None:
    """Arguments are told as they were written."""
    from callmemaybe.cli.trace import read_trace

    trace = tmp_path / "t.jsonl"
    trace.write_text(
        '{"event": "result", "request": "x", "name": "f", '
        '"parameters": {"a": 12345678901234567890, "b": 0.10, "c": 1e400}}\n',
        encoding="utf-8",
    )
    (run_,) = read_trace(trace)
    assert run_["call"]["arguments"] == '{"a": 12345678901234567890, "b": 0.10, "c": 1E+400}'


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty"),
        ("{}\n", ":1: not an event"),
        ('{"event": ["step"]}\n', ":1: not an event"),
        ('{"event": "step", "step": 0, "kind": "forced", "text": "x"}\n', "no finished prompt"),
        ('{"event": "result", "request": "x"}\nnonsense\n', ":2: not valid JSON"),
        ('{"event": "result", "request": NaN}\n', ":1: not valid JSON"),
        ("[" * 5000 + "]" * 5000, ":1: "),
    ],
)
def test_what_is_no_trace_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, what: str
) -> None:
    """By the line that is wrong; no page is written."""
    trace = tmp_path / "t.jsonl"
    trace.write_text(text, encoding="utf-8")
    code, told = run(capsys, "show", str(trace))
    assert code == 2
    assert what in told
    assert not (tmp_path / "t.html").exists()


def test_the_trace_is_not_replaced_by_its_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The page may not be the trace itself."""
    trace = tmp_path / "t.jsonl"
    trace.write_text('{"event": "result", "request": "x"}\n', encoding="utf-8")
    code, told = run(capsys, "show", str(trace), "--output", str(trace))
    assert code == 2
    assert "the trace file itself" in told


def test_a_page_on_standard_output_is_a_page_and_no_more(
    tmp_path: Path,
) -> None:
    """What is said of it goes to standard error."""
    trace = tmp_path / "t.jsonl"
    trace.write_text('{"event": "result", "request": "x"}\n', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "callmemaybe", "show", str(trace), "--output", "-"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("<!doctype html>")
    assert done.stdout.endswith("</html>\n")
    assert done.stderr == "-: 1 prompt\n"
    assert list(tmp_path.iterdir()) == [trace]
