"""The execution gateway beside DBOS, pydantic-ai and openai-agents, on one disk, in one run.

    python benchmarks/gateway.py [--folder DIR] [--calls 4000] [--output results/gateway.json]

Each figure is the median of several rounds; rounds of all contestants alternate, so that all see the
same machine. The tool does nothing: what is measured is what it costs to call it. What persists is said
with each figure: pydantic-ai and openai-agents write nothing down. PostgreSQL is started in the folder
if its programs are found; rivals that are not installed are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import glob
import json
import os
import platform
import pwd
import resource
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from callmemaybe.calls import ToolCall, tool
from callmemaybe.gateway import Gateway
from callmemaybe.gateway.audit import open_ledger
from callmemaybe.gateway.chain import verify

TARGETS = {
    "cpu_us_per_call": "<= 60",
    "lone_sqlite_ms": "<= 2 syncs + 0.1 ms",
    "sqlite_32_per_s": ">= 1500",
    "postgresql_32_per_s": ">= 1500",
    "sqlite_128_per_s": ">= 3500",
    "postgresql_128_per_s": ">= 5000",
    "replay_us": "<= 25",
    "verify_rows_per_s": ">= 200000",
}


@tool(effect="once", writes="n:{n}", trusted=True)
async def act(n: int) -> int:
    """Do nothing."""
    return n


def cpu() -> float:
    """Return the seconds of CPU this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def sync_ms(folder: Path) -> float:
    """Milliseconds of one write and sync on this disk."""
    handle = os.open(folder / "sync", os.O_RDWR | os.O_CREAT)
    times = []
    for place in range(60):
        began = time.perf_counter()
        os.pwrite(handle, b"x" * 4096, place * 4096)
        os.fdatasync(handle)
        times.append(time.perf_counter() - began)
    os.close(handle)
    return statistics.median(times) * 1000


def loop_us() -> float:
    """Return microseconds of a fixed piece of Python: it tells how busy the machine is."""
    began = time.perf_counter()
    for _ in range(200):
        for number in range(1000):
            number + number
    return (time.perf_counter() - began) / 200 * 1e6


async def callers(store: str, count: int, total: int) -> dict[str, float]:
    """So many concurrent callers, each with a run of its own, one call a turn."""
    ledger = open_ledger(store)
    async with Gateway([act], store=ledger) as gateway:

        async def one(calls: int, place: int) -> None:
            run = gateway.begin()
            for n in range(calls):  # a resource of its own for each: nobody waits for a lock
                call = ToolCall("act", f'{{"n": {place * 1_000_000 + n}}}', "c")
                answer = (await gateway.run([call], run=run))[0]
                assert answer.ok, answer

        await asyncio.gather(*(one(2, place) for place in range(count)))
        each = max(1, total // count)
        began, used = time.perf_counter(), cpu()
        await asyncio.gather(*(one(each, place) for place in range(count)))
        seconds, used = time.perf_counter() - began, cpu() - used
        calls = each * count
    ledger.close()
    return {"per_s": calls / seconds, "ms": seconds / calls * 1000, "cpu_us": used / calls * 1e6}


async def replays(store: str) -> float:
    """Microseconds to answer a finished key again."""
    ledger = open_ledger(store)
    async with Gateway([act], store=ledger) as gateway:
        run, call = gateway.begin(), [ToolCall("act", '{"n": 1}', "c")]
        await gateway.run(call, run=run, turn=0)
        began = time.perf_counter()
        for _ in range(3000):
            await gateway.run(call, run=run, turn=0)
        micros = (time.perf_counter() - began) / 3000 * 1e6
    ledger.close()
    return micros


def verification(store: str) -> float:
    """Audit rows per second that are recomputed."""
    ledger = open_ledger(store)
    began = time.perf_counter()
    heads, breaks = verify(ledger.backend.audit())
    seconds = time.perf_counter() - began
    ledger.close()
    assert not breaks
    return sum(head.length for head in heads.values()) / seconds


# --- rivals -----------------------------------------------------------------------------------


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


# --- the run ----------------------------------------------------------------------------------


@contextlib.contextmanager
def postgresql(folder: Path) -> Iterator[str | None]:
    """Start a cluster on the same disk, with its defaults; None where it cannot be had."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")) or [shutil.which("initdb")]
    if found[-1] is None:
        yield None
        return
    binaries, home, user = Path(found[-1]).parent, folder / "pg", None
    home.mkdir()
    if os.geteuid() == 0:
        account = pwd.getpwnam("postgres")
        user = "postgres"
        folder.chmod(0o755)
        os.chown(home, account.pw_uid, account.pw_gid)

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [binaries / program, *arguments], cwd=home, user=user, check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run("initdb", "-D", "data", "-A", "trust", "-U", "bench")
    options = f"-c listen_addresses=127.0.0.1 -k {home} -p {port}"
    run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")
    try:
        run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "bench", "bench")
        run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "bench", "rival")
        yield f"postgresql://bench@127.0.0.1:{port}"
    finally:
        run("pg_ctl", "-D", "data", "-w", "-m", "fast", "stop")


def contestants(folder: Path, address: str | None, total: int) -> dict[str, Callable[[], Any]]:
    """Every measurement by name."""
    sqlite = str(folder / "ledger.db")
    stores = {"sqlite": sqlite} | ({"postgresql": f"{address}/bench"} if address else {})
    found: dict[str, Callable[[], Any]] = {"sync_ms": lambda: sync_ms(folder), "loop_us": loop_us}
    for name, store in stores.items():
        for count in (1, 32, 128):
            calls = min(total, 200) if count == 1 else total
            found[f"{name}_{count}"] = lambda s=store, c=count, n=calls: asyncio.run(
                callers(s, c, n)
            )
    found["replay_us"] = lambda: asyncio.run(replays(sqlite))
    found["verify_rows_per_s"] = lambda: verification(sqlite)
    rivals: dict[str, Callable[[], Callable[[], float]]] = {
        "dbos_sqlite_ms": lambda: dbos_steps(f"sqlite:///{folder / 'dbos.db'}"),
        "pydantic_ai_ms": pydantic_ai_calls,
        "openai_agents_ms": openai_agents_calls,
    }
    if address:
        rivals["dbos_postgresql_ms"] = lambda: dbos_steps(f"{address}/rival")
    for name, make in rivals.items():
        try:
            found[name] = make()
        except ImportError as error:
            print(f"{name}: left out ({error})")
    return found


def flattened(name: str, value: Any) -> dict[str, float]:
    """Return the parts of a measurement by name."""
    if isinstance(value, dict):
        return {f"{name}_{part}": number for part, number in value.items()}
    return {name: value}


def main() -> None:
    """Measure, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).parent / "results/gateway.json"
    )
    options = parser.parse_args()
    results: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        with postgresql(folder) as address:
            measures = contestants(folder, address, options.calls)
            for number in range(options.rounds):
                for what, measure in measures.items():
                    for part, value in flattened(what, measure()).items():
                        results.setdefault(part, []).append(value)
                        print(f"round {number + 1}  {part:<28}{value:>12.2f}", flush=True)
    figures = {name: statistics.median(values) for name, values in results.items()}
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    report = {
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                    "python": platform.python_version(), "load": os.getloadavg()},
        "commit": commit,
        "figures": figures,
        "targets": TARGETS,
    }  # fmt: skip
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print()
    for part, value in figures.items():
        print(f"{part:<30}{value:>12.2f}")


if __name__ == "__main__":
    main()
