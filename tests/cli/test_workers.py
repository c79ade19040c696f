"""The command serve with several processes: how they start, share a port and the counts, die and end."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import httpx2
import pytest

from callmemaybe import models
from callmemaybe.cli.main import main
from callmemaybe.errors import ModelError
from callmemaybe.server.config import ServeOptions, ServerConfig

pytest.importorskip("starlette", reason="the extra server is not installed")
if sys.platform == "win32":
    pytest.skip("processes cannot share a port here", allow_module_level=True)
from callmemaybe.server import workers
from callmemaybe.server.worker_seat import WorkerSeat, WorkerTable

TOOL = {"type": "function", "function": {"name": "say", "parameters": {
    "type": "object", "properties": {"text": {"type": "string", "maxLength": 40}}, "required": ["text"],
    "additionalProperties": False}}}  # fmt: skip
BODY = {"model": "nano", "tools": [TOOL], "messages": [{"role": "user", "content": "Say hello"}]}
PATIENCE = 60.0


class WorkersProgram:
    """``callmemaybe serve --workers 2`` as a process."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "callmemaybe", "serve", "--port", "0", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "CALLMEMAYBE_API_KEY": ""},
        )  # fmt: skip
        errors: IO[str] | None = self.process.stderr
        assert errors is not None
        self.lines: list[str] = []
        line = ""
        while "http://" not in line:
            line = errors.readline()
            assert line, self.lines
            self.lines.append(line)
        self.said = self.lines.pop()
        self.url = re.findall(r"http://\S+", self.said)[0]
        self._reading = threading.Thread(target=lambda: self.lines.extend(errors), daemon=True)
        self._reading.start()

    @property
    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reading.join(PATIENCE)
        return code

    def metrics(self) -> dict[str, float]:
        text = httpx2.get(f"{self.url}/metrics", timeout=PATIENCE, trust_env=False).text
        samples = [line.rpartition(" ") for line in text.splitlines() if line[0] != "#"]
        return {name: float(value) for name, _, value in samples}

    def workers(self) -> dict[str, int]:
        """The processes of the workers, as the metrics tell of them, by number."""
        start = 'process_resident_memory_bytes{worker="'
        numbers = {name.removeprefix(start)[0] for name in self.metrics() if name.startswith(start)}
        found = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
                command = path.with_name("cmdline").read_text(encoding="utf-8")
            except OSError:
                continue
            if int(fields[1]) == self.process.pid and "spawn_main" in command and fields[0] != "Z":
                found[str(len(found) + 1)] = int(path.parent.name)
        assert len(found) <= len(numbers)
        return found


@pytest.fixture
def program() -> Iterator[Callable[..., WorkersProgram]]:
    """Start programs, and leave none behind."""
    running: list[WorkersProgram] = []

    def begin(*arguments: str) -> WorkersProgram:
        running.append(WorkersProgram("--workers", "2", *arguments))
        return running[-1]

    yield begin
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        for stream in (one.process.stdout, one.process.stderr):
            if stream:
                stream.close()


def until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def ask(url: str) -> httpx2.Response:
    """Ask once, on a connection of its own."""
    return httpx2.post(f"{url}/v1/chat/completions", json=BODY, timeout=PATIENCE, trust_env=False)


def test_both_answer_and_count_together(program: Callable[..., WorkersProgram]) -> None:
    """Every worker takes requests, tells its number in the log, and any tells the counts of all."""
    server = program()
    assert server.said.startswith("callmemaybe: nano is served at http://127.0.0.1:")
    assert "by 2 workers" in server.said
    count = 0

    def is_shared() -> bool:
        nonlocal count
        threads = [threading.Thread(target=ask, args=(server.url,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        count += len(threads)
        until(lambda: sum(line["event"] == "request" for line in server.logged) == count)
        return {line["worker"] for line in server.logged} == {1, 2}

    until(is_shared)
    name = 'callmemaybe_requests_total{route="/v1/chat/completions",status="200"}'
    found = [server.metrics() for _ in range(8)]
    assert {one[name] for one in found} == {count}
    assert {one["callmemaybe_workers"] for one in found} == {2}
    histogram = 'callmemaybe_request_seconds_count{route="/v1/chat/completions"}'
    assert found[-1][histogram] == count
    models = {
        httpx2.get(f"{server.url}/v1/models", trust_env=False).text for _ in range(8)
    }  # also when the model was made is the same for all
    assert len(models) == 1
    assert server.end() == 0


def test_a_worker_that_is_killed_is_replaced(program: Callable[..., WorkersProgram]) -> None:
    """The other one answers meanwhile, nothing that was counted is forgotten, and no process is left."""
    server = program()
    assert [ask(server.url).status_code for _ in range(4)] == [200] * 4
    name = 'callmemaybe_requests_total{route="/v1/chat/completions",status="200"}'
    until(lambda: server.metrics()[name] == 4)
    before = set(server.workers().values())
    assert len(before) == 2
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    assert ask(server.url).status_code == 200
    until(lambda: len(set(server.workers().values()) - {victim}) == 2)
    until(lambda: server.metrics()["callmemaybe_workers"] == 2)
    assert server.metrics()[name] == 5
    (told,) = [line for line in server.logged if line["event"] == "worker"]
    assert re.fullmatch(
        r"worker [12] was ended by SIGKILL; another takes its place in 0 s", told["message"]
    )
    left = set(server.workers().values())
    assert server.end() == 0
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_runs_in_all_workers_is_finished(
    program: Callable[..., WorkersProgram], number: signal.Signals
) -> None:
    """Streams under way in several processes arrive whole, and the program ends well."""
    server = program()
    body = {**BODY, "n": 4, "temperature": 2, "seed": 1, "stream": True}
    streams: list[str] = []
    is_begun = threading.Barrier(5)

    def stream() -> None:
        url = f"{server.url}/v1/chat/completions"
        with httpx2.stream("POST", url, json=body, timeout=PATIENCE, trust_env=False) as answer:
            pieces = answer.iter_text()
            text = next(pieces)
            is_begun.wait(PATIENCE)
            streams.append(text + "".join(pieces))

    threads = [threading.Thread(target=stream) for _ in range(4)]
    for thread in threads:
        thread.start()
    is_begun.wait(PATIENCE)
    assert server.end(number) == 0
    for thread in threads:
        thread.join()
    assert [one.endswith("data: [DONE]\n\n") for one in streams] == [True] * 4
    assert "Traceback" not in "".join(server.lines)
    assert sum(line["event"] == "request" for line in server.logged) == 4


def test_a_server_that_is_killed_leaves_no_worker(program: Callable[..., WorkersProgram]) -> None:
    """Workers end by themselves when nobody watches them any more, and the port is free."""
    server = program()
    workers = server.workers()
    assert len(workers) == 2
    server.process.kill()
    server.wait()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers.values()))
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", int(server.url.rpartition(":")[2])))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["serve", *arguments])
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize("count", ["0", "-1", "65", "two"])
def test_a_number_of_workers_that_makes_no_sense_is_refused(
    capsys: pytest.CaptureFixture[str], count: str
) -> None:
    """In one line, before anything is bound."""
    code, told = run(capsys, "--workers", count)
    assert (code, told.count("\n")) == (2, 1)
    assert "--workers" in told


def test_a_port_in_use_is_told_as_by_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    """Before any worker is started."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        code, told = run(capsys, "--workers", "2", "--port", port, "--model", "no-such-model")
    assert code == 2
    assert told.endswith("is in use by another program; choose another\n")


def test_a_model_that_is_not_there_ends_all(capsys: pytest.CaptureFixture[str]) -> None:
    """With the sentence and the exit code that one process has; no traceback, no second attempt."""
    code, told = run(capsys, "--workers", "2", "--port", "0", "--model", "no-such-model")
    assert code == 3
    assert told.startswith("callmemaybe: no model 'no-such-model'")
    assert told.count("\n") == 1


def test_several_workers_are_refused_on_windows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where processes cannot share a port, this is said, with what to do instead."""
    monkeypatch.setattr("callmemaybe.cli.serve.sys.platform", "win32")
    code, told = run(capsys, "--workers", "2", "--port", "0")
    assert code == 2
    assert "Windows" in told


# -- workers that die ------------------------------------------------------------------------------


def die(_seat: WorkerSeat) -> None:
    """Be a worker that ends before it is ready."""
    os._exit(9)


def die_later(seat: WorkerSeat) -> None:
    """Be a worker that is ready the first time, until both are, and never again."""
    mark = seat.folder / f"was-ready-{seat.number}"
    if mark.exists():
        os._exit(9)
    seat.control.send(("ready", "nano"))
    mark.touch()
    while len(list(seat.folder.glob("was-ready-*"))) < 2:
        time.sleep(0.05)
    os._exit(9)


def die_first(seat: WorkerSeat) -> None:
    """Be one of two workers, of which the first is ready and dies before the second is ready."""
    if seat.number == 2:
        while not (seat.folder / "was-replaced").exists():
            time.sleep(0.05)
        seat.control.send(("ready", "nano"))
        os.kill(os.getppid(), signal.SIGTERM)
        return
    mark = seat.folder / "was-ready"
    seat.control.send(("ready", "nano"))
    if mark.exists():
        (seat.folder / "was-replaced").touch()
        time.sleep(PATIENCE)
    mark.touch()
    os._exit(9)


def stand_still(seat: WorkerSeat) -> None:
    """Be a worker that is ready, and stands still the first time."""
    mark = seat.folder / "was-ready"
    is_second = mark.exists()
    mark.touch()
    seat.control.send(("ready", "nano"))
    if is_second:
        os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(PATIENCE)


OPTIONS = ServeOptions("nano", ServerConfig(port=0))


def test_workers_that_die_at_the_start_end_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and with one sentence: what does not start now will not start in a minute either."""
    monkeypatch.setattr(workers, "_work", die)
    with pytest.raises(ModelError, match=r"worker \d of 2 ended with code 9 before it was ready"):
        workers.serve_with_workers(OPTIONS, 2)


def test_a_worker_that_dies_once_it_was_ready_is_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also while another is still loading: that the model can be served has been shown."""
    monkeypatch.setattr(workers, "_work", die_first)
    workers.serve_with_workers(OPTIONS, 2, say=lambda _: None)
    assert "worker 1 ended with code 9; another takes its place in 0 s" in capsys.readouterr().err


def test_workers_that_cannot_be_replaced_end_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that nobody serves ends after five attempts, so that whoever watches it can act."""
    monkeypatch.setattr(workers, "_work", die_later)
    monkeypatch.setattr(workers, "_LONGEST_PAUSE", 0.01)
    said: list[str] = []
    with pytest.raises(ModelError, match=r"no worker is left, and 5 in a row died soon"):
        workers.serve_with_workers(OPTIONS, 2, say=said.append)
    assert len(said) == 1


def test_a_worker_that_stands_still_is_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one that holds the interpreter, so that it can neither answer nor tell."""
    monkeypatch.setattr(workers, "_work", stand_still)
    monkeypatch.setattr(workers, "_SILENCE", 2)
    workers.serve_with_workers(OPTIONS, 1, say=lambda _: None)
    assert "worker 1 was ended by SIGKILL" in capsys.readouterr().err


def test_threads_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass of one of two workers has half of the cores, and never more threads than suit the model."""
    asked: list[int | None] = []

    class Engine:
        suffix = ".onnx"

        def load(self, *_: object, threads: int | None, **__: object) -> None:
            asked.append(threads)

    monkeypatch.setattr(models, "_backend", lambda _: Engine())
    models.load("nano", most_threads=4)
    monkeypatch.setattr(models._model_files, "SMALL_WEIGHTS", 0)
    models.load("nano", most_threads=4)
    models.load("nano", most_threads=4, threads=3)
    models.load("nano")
    assert asked == [1, 4, 3, None]


def test_surplus_of_connections() -> None:
    """A worker is compared with those that take connections, not with one that is not there yet."""
    table = WorkerTable(multiprocessing.get_context("spawn"), 3)
    table.pids[:] = [11, 12, 0]
    table.connections[:] = [5, 2, 0]
    assert [table.surplus(number) for number in (1, 2)] == [3, 0]
    table.clear(2)
    assert table.surplus(1) == 0
