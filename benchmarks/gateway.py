"""The execution gateway beside DBOS, pydantic-ai and openai-agents, on one disk, in one run.

    python benchmarks/gateway.py [--folder DIR] [--calls 4000] [--output benchmarks/results/gateway.json]

Each figure is the median of several rounds; rounds of all contestants alternate, so that all see the
same machine. The tool does nothing: what is measured is what it costs to call it. What persists is said
with each figure: pydantic-ai and openai-agents write nothing down. PostgreSQL is started in the folder
if its programs are found; rivals that are not installed are left out. Below the figures stand the
floors: what the event loop and the database alone cost, measured in the same rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import glob
import hashlib
import json
import os
import platform
import pwd
import queue
import resource
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from gatewayrivals import dbos_steps, openai_agents_calls, pydantic_ai_calls

from callmemaybe.gateway import Gateway
from callmemaybe.gateway.audit.chain import verify_chains
from callmemaybe.gateway.ledger import open_ledger
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.gateway.recorded import TurnRow
from callmemaybe.gateway.store import CallRow, UpdateCall, open_backend
from callmemaybe.tools import ToolCall, tool

ROOT = Path(__file__).resolve().parents[1]
#: figure, what it is, target, how it is written
FIGURES = (
    ("sqlite_128_cpu_us", "CPU per call, SQLite, 128 callers", "60 us", "{:.0f} us"),
    ("sqlite_1_ms", "one lone caller, SQLite", "2 syncs + 0.1 ms", "{:.2f} ms"),
    ("postgresql_1_ms", "one lone caller, PostgreSQL", "", "{:.2f} ms"),
    ("sqlite_32_per_s", "32 callers, SQLite", "1,500 calls/s", "{:,.0f} calls/s"),
    ("postgresql_32_per_s", "32 callers, PostgreSQL", "1,500 calls/s", "{:,.0f} calls/s"),
    ("sqlite_128_per_s", "128 callers, SQLite", "3,500 calls/s", "{:,.0f} calls/s"),
    ("postgresql_128_per_s", "128 callers, PostgreSQL", "5,000 calls/s", "{:,.0f} calls/s"),
    ("replay_us", "replay of a finished key", "25 us", "{:.1f} us"),
    ("verify_rows_per_s", "chain verification", "200,000 rows/s", "{:,.0f} rows/s"),
    ("sync_ms", "one write and sync of this disk", "", "{:.2f} ms"),
)
FLOORS = (
    ("sqlite_128_loop_us", "the event loop's thread, SQLite, 128 callers"),
    ("floor_asyncio_us", "of that asyncio: two tasks, two waits for another thread, a timer"),
    ("sqlite_128_writer_us", "the writer's thread, SQLite, 128 callers"),
    ("floor_sqlite_us", "of that SQLite: the same rows in the same statements, nothing else"),
    ("postgresql_128_cpu_us", "this process, PostgreSQL, 128 callers"),
    ("postgresql_128_server_us", "PostgreSQL's own processes, 128 callers"),
    (
        "floor_postgresql_us",
        "the same rows in the same statements to PostgreSQL and nothing else, elapsed",
    ),
    ("loop_us", "for scale: a thousand additions in a Python loop"),
)
RIVALS = (
    ("sqlite_1_ms", "this gateway, SQLite", "intent, result, audit: 2 syncs"),
    ("dbos_sqlite_ms", "DBOS, one step, SQLite", "the step's result"),
    ("postgresql_1_ms", "this gateway, PostgreSQL", "intent, result, audit: 2 syncs"),
    ("dbos_postgresql_ms", "DBOS, one step, PostgreSQL", "the step's result"),
    ("memory_1_ms", "this gateway, in memory", "nothing beyond the process"),
    ("pydantic_ai_ms", "pydantic-ai, one tool call in a run", "nothing"),
    ("openai_agents_ms", "openai-agents, one tool call in a run", "nothing"),
)
PAGE = """# What the gateway costs

This page is written by `docs/generate.py` from `benchmarks/results/gateway.json`, which
`benchmarks/gateway.py` measures; do not edit it by hand.

The tool does nothing, so what is left is what it costs to call it: validation, policy, keys, locks, two
durable writes and the audit chain. Medians of {rounds} alternating rounds.

{figures}
## Where the time goes

CPU per call, in microseconds. The two floors are measured by themselves: no gateway on CPython's event
loop with this table of calls and audit records costs less than their sum.

{floors}
## Beside others

One call after the other, a caller on its own, in the same run.

{rivals}
{cpu}, {cores} of its cores for callers, writer and database server together, Python {python}, {system}, commit {commit}; load {load:.1f} at the start.
{versions}.
"""


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
        began, used, own = time.perf_counter(), cpu(), time.thread_time()
        await asyncio.gather(*(one(each, place) for place in range(count)))
        seconds, used = time.perf_counter() - began, cpu() - used
        own, calls = time.thread_time() - own, each * count
    ledger.close()
    return {
        "per_s": calls / seconds,
        "ms": seconds / calls * 1000,
        "cpu_us": used / calls * 1e6,
        "loop_us": own / calls * 1e6,
        "writer_us": (used - own) / calls * 1e6,
    }


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
    heads, breaks = verify_chains(ledger.backend.read_audit())
    seconds = time.perf_counter() - began
    ledger.close()
    assert not breaks
    return sum(head.length for head in heads.values()) / seconds


# --- floors -----------------------------------------------------------------------------------


async def asyncio_alone(callers: int = 64, each: int = 40) -> float:
    """Microseconds of CPU in the event loop's thread for the waits of a call, and nothing else."""
    loop, asked = asyncio.get_running_loop(), queue.SimpleQueue[Any]()

    def answer(waiting: list[asyncio.Future[None]]) -> None:
        for future in waiting:
            future.set_result(None)

    def serve() -> None:
        while True:
            waiting = [asked.get()]
            while not asked.empty():
                waiting.append(asked.get())
            if waiting[-1] is None:
                return
            loop.call_soon_threadsafe(answer, waiting)

    async def wait() -> None:
        future = loop.create_future()
        asked.put(future)
        await future

    async def tool() -> None: ...

    async def turn() -> None:
        await wait()
        done, task = loop.create_future(), loop.create_task(tool())
        timer = loop.call_later(30, done.cancel)
        task.add_done_callback(lambda _: done.set_result(None))
        await done
        timer.cancel()
        await wait()

    async def one() -> None:
        for _ in range(each):
            await loop.create_task(turn())

    thread = threading.Thread(target=serve)
    thread.start()
    began = time.thread_time()
    await asyncio.gather(*(one() for _ in range(callers)))
    used = time.thread_time() - began
    asked.put(None)
    thread.join()
    return used / (callers * each) * 1e6


def store_alone(store: str, clock: Callable[[], float], batches: int = 60, size: int = 64) -> float:
    """Microseconds for a call's rows in a store: one row, its turn, two audit records, one update, two commits."""
    backend: Any = open_backend(store)
    used, number, chain = 0.0, 0, f"{time.time_ns():x}"
    for batch in range(batches):
        rows = [_row(f"{chain} {batch}", place, backend.owner) for place in range(size)]
        turns = [
            TurnRow(
                "",
                row.run,
                row.turn,
                "d" * 18,
                "",
                f'[["act","{row.mac}","c",false]]',
                '["{}"]',
                1.0,
            )
            for row in rows
        ]
        records = [
            (chain, number + at + 1, rows[at // 2].key, "r" * 420, b"h" * 32)
            for at in range(2 * size)
        ]
        moves = [
            UpdateCall(
                row.key,
                CallState.RUNNING,
                1,
                CallState.SUCCEEDED,
                "",
                ended=1.0,
                code="ok",
                content="5",
            )
            for row in rows
        ]
        number += 2 * size
        began = clock()
        with backend.transaction():
            backend.insert_turns(turns)
            backend.insert_calls(rows)
            backend.append_audit(records[:size])
        with backend.transaction():
            backend.update_calls(moves)
            backend.append_audit(records[size:])
        used += clock() - began
    backend.close()
    return used / (batches * size) * 1e6


def _row(batch: str, place: int, owner: str) -> CallRow:
    key, mac = (hashlib.sha256(f"{what} {batch} {place}".encode()).hexdigest() for what in "km")
    arguments, locks = f'{{"n": {place}}}', f'[["n:{batch} {place}", true]]'
    return CallRow(
        key, "", f"run {batch} {place}", 0, 0, "c", "act", "once", mac, "p" * 64, "d" * 64, arguments,
        locks, "running", 1, owner, time.time(),
    )  # fmt: skip


# --- the run ----------------------------------------------------------------------------------


@contextlib.contextmanager
def postgresql(folder: Path) -> Iterator[tuple[str | None, int | None]]:
    """Start a cluster on the same disk, with its defaults: address and process, or None twice."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")) or [shutil.which("initdb")]
    if found[-1] is None:
        yield None, None
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
        server = int((home / "data" / "postmaster.pid").read_text().splitlines()[0])
        yield f"postgresql://bench@127.0.0.1:{port}", server
    finally:
        run("pg_ctl", "-D", "data", "-w", "-m", "fast", "stop")


def _callers(store: str, count: int, calls: int) -> dict[str, float]:
    return asyncio.run(callers(store, count, calls))


def with_server(
    measure: Callable[[], dict[str, float]], server: int | None, calls: int
) -> dict[str, float]:
    """Add the CPU that the database server's ended processes used meanwhile."""
    if server is None:
        return measure()
    before = children_cpu(server)
    found = measure()
    time.sleep(0.3)  # until its connections are gone, and reaped
    return {**found, "server_us": (children_cpu(server) - before) / calls * 1e6}


def children_cpu(process: int) -> float:
    """Return the seconds of CPU of a process's children that have ended."""
    stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    used = stat.rpartition(")")[2].split()[13:15]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def contestants(
    folder: Path, address: str | None, server: int | None, total: int
) -> dict[str, Callable[[], Any]]:
    """Every measurement by name."""
    sqlite = str(folder / "ledger.db")
    stores = {"sqlite": sqlite} | ({"postgresql": f"{address}/bench"} if address else {})
    found: dict[str, Callable[[], Any]] = {"sync_ms": lambda: sync_ms(folder), "loop_us": loop_us}
    for name, store in stores.items():
        for count in (1, 32, 128):
            calls = min(total, 200) if count == 1 else total
            measure = functools.partial(_callers, store, count, calls)
            watch = server if name == "postgresql" else None
            found[f"{name}_{count}"] = functools.partial(with_server, measure, watch, calls)
    found["memory_1"] = lambda: asyncio.run(callers(":memory:", 1, 500))
    found["floor_asyncio_us"] = lambda: asyncio.run(asyncio_alone())
    found["floor_sqlite_us"] = lambda: store_alone(
        str(folder / f"alone-{time.time_ns()}.db"), time.thread_time
    )
    if address:
        found["floor_postgresql_us"] = lambda: store_alone(f"{address}/bench", time.perf_counter)
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


def machine() -> dict[str, Any]:
    """Say where and on what this ran."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu_name = next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    ).stdout.strip()  # fmt: skip
    return {
        "cpu": cpu_name or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        "commit": commit,
        "load": os.getloadavg()[0],
    }


def versions() -> dict[str, str]:
    """Return the versions of what took part."""
    found = {}
    for name in ("dbos", "pydantic-ai-slim", "openai-agents", "apsw", "psycopg"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def page(results: dict[str, Any]) -> str:
    """Return the page of the documentation that tells these results."""
    figures = results["figures"]

    def rows(head: str, lines: Iterable[tuple[str, ...]]) -> str:
        columns = head.count("|") + 1
        ruled = f"| {head} |\n|{'---|' * columns}\n"
        return ruled + "".join(f"| {' | '.join(line)} |\n" for line in lines)

    told = [
        (what, target, how.format(figures[name]))
        for name, what, target, how in FIGURES
        if name in figures
    ]
    floors = [(what, f"{figures[name]:.0f}") for name, what in FLOORS if name in figures]
    rivals = [
        (what, f"{figures[name]:.2f} ms", kept) for name, what, kept in RIVALS if name in figures
    ]
    listed = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    return PAGE.format(
        figures=rows("what | target | measured", told),
        floors=rows("what | us", floors),
        rivals=rows("what | per call | written down", rivals),
        rounds=results["rounds"],
        versions=listed,
        **results["machine"],
    )


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
    where = machine()
    results: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        with postgresql(folder) as (address, server):
            measures = contestants(folder, address, server, options.calls)
            for number in range(options.rounds):
                for what, measure in measures.items():
                    for part, value in flattened(what, measure()).items():
                        results.setdefault(part, []).append(value)
                        print(f"round {number + 1}  {part:<28}{value:>12.2f}", flush=True)
    report = {
        "machine": where,
        "versions": versions(),
        "rounds": options.rounds,
        "figures": {name: round(statistics.median(all_), 4) for name, all_ in results.items()},
        "spread": {name: [round(min(a), 4), round(max(a), 4)] for name, a in results.items()},
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(page(report))


if __name__ == "__main__":
    main()
