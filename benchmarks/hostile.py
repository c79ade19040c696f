"""Hostile schemas over HTTP: what each costs a server, and whether the server lives on.

    python benchmarks/hostile.py [--only TEXT] [--output results/hostile.json]

One server with the embedded model, in a process of its own, gets every case of ``hostile_cases.py`` as the functions of a chat,
and those that are one schema as the form of its answer, too; some come by the other interfaces. Noted are the
status, the CPU time of the server's process, and by how much its resident memory rises at most. Meanwhile ``/healthz`` is asked
every 50 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import httpx2
from hostile_cases import SCHEMAS, TOOL_LISTS, bodies

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "hostile.json"
#: What a request may cost: seconds of CPU time and MiB.
MOST_SECONDS, MOST_MEMORY = 2.0, 300.0
#: A request is answered, refused, too large, or well-formed with nothing that could be written for it.
STATUSES = frozenset({200, 400, 413})


@dataclass(frozen=True)
class Cost:
    """What one request cost: seconds of CPU time of the server and of the clock, MiB that its memory rose."""

    case: str
    interface: str
    status: int
    seconds: float
    wall: float
    memory: float
    health: float
    """The longest that ``/healthz`` took meanwhile, in seconds."""
    held: float = 0.0
    """MiB that its memory is larger afterwards."""
    message: str = ""

    @property
    def is_fine(self) -> bool:
        """Whether the request was answered or refused, and cost no more than it may."""
        return (
            self.status in STATUSES and self.seconds <= MOST_SECONDS and self.memory <= MOST_MEMORY
        )


class Server:
    """A server in a process of its own."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "callmemaybe", "serve", "--port", "0", "--quiet", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        found = re.search(r"http://[\w.:]+", self.process.stderr.readline())
        if found is None:
            raise RuntimeError("the server did not start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.client = httpx2.Client(base_url=found[0], timeout=120, trust_env=False)
        self.ask('{"model": "nano", "messages": [{"role": "user", "content": "hello"}]}')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(20)

    def ask(self, body: str, path: str = "/v1/chat/completions") -> httpx2.Response:
        """Send a body; a request that the server drops raises what httpx2 does."""
        content = body.encode("utf-8", "surrogatepass")
        return self.client.post(path, content=content, headers={"content-type": "application/json"})

    def cost(self, case: str, interface: str, body: str) -> Cost:
        """Send a request, and return what it cost."""
        process = self.process.pid
        Path(f"/proc/{process}/clear_refs").write_text("5")  # the peak begins anew
        before, cpu, begun = resident_memory(process), _cpu_seconds(process), time.perf_counter()
        is_over = threading.Event()
        took: list[float] = []
        watch = threading.Thread(target=lambda: took.extend(self._health(is_over)))
        watch.start()
        try:
            response = self.ask(body, interface)
            status, text = response.status_code, response.text
        except httpx2.HTTPError as error:
            status, text = 0, repr(error)
        finally:
            is_over.set()
            watch.join()
        wall = time.perf_counter() - begun
        if status != 200:
            found = re.search(r'"message":\s*"((?:[^"\\]|\\.)*)"', text)
            text = (found[1] if found else text)[:160]
        return Cost(
            case, interface, status, round(_cpu_seconds(process) - cpu, 2), round(wall, 2),
            round(max(0.0, _memory(process, "VmHWM") - before), 1), round(max(took, default=0.0), 3),
            round(resident_memory(process) - before, 1), "" if status == 200 else text,
        )  # fmt: skip

    def _health(self, is_over: threading.Event) -> Iterator[float]:
        with httpx2.Client(base_url=self.client.base_url, timeout=60, trust_env=False) as client:
            while not is_over.wait(0.05):
                begun = time.perf_counter()
                if client.get("/healthz").status_code != 200:
                    raise RuntimeError("/healthz answers no more")
                yield time.perf_counter() - begun


def _memory(process: int, what: str) -> float:
    found = re.search(rf"{what}:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def resident_memory(process: int) -> float:
    """Return the memory that a process holds, in MiB."""
    return _memory(process, "VmRSS")


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(only: str = "") -> dict[str, Any]:
    """Send all cases to one server; returns what each cost, and what the server holds in the end."""
    costs: list[Cost] = []
    with Server() as server:
        first = resident_memory(server.process.pid)
        for case in [*SCHEMAS, *TOOL_LISTS]:
            for interface, body in bodies(case, "nano") if only in case else ():
                cost = server.cost(case, interface, body)
                costs.append(cost)
                print(
                    f"{'ok' if cost.is_fine else 'NO':3}{cost.status} {cost.seconds:6.2f} s {cost.memory:7.1f} MiB, holds {cost.held:6.1f} "
                    f"/healthz {cost.health:.2f} s  {cost.case} {cost.interface} {cost.message[:90]}",
                    flush=True,
                )  # fmt: skip
        last = resident_memory(server.process.pid)
    return {"costs": [asdict(cost) for cost in costs], "first": round(first), "last": round(last)}


def page(results: dict[str, Any]) -> str:
    """Return what a page says of the results."""
    costs = [Cost(**one) for one in results["costs"]]
    refused = sum(cost.status != 200 for cost in costs)
    worst = sorted(costs, key=lambda cost: -cost.seconds)[:6]
    heavy = sorted(costs, key=lambda cost: -cost.memory)[:6]
    # One case comes in several forms, each with its own cost.
    listed = dict.fromkeys([*worst, *heavy])
    rows = "\n".join(
        f"| {cost.case} | `{cost.interface}` | {cost.status} | {cost.seconds:.2f} s | {cost.memory:.0f} MiB |"
        for cost in sorted(listed, key=lambda cost: -cost.seconds)
    )
    machine = results["machine"]
    return (
        f"{len(costs)} requests with {len({cost.case for cost in costs})} hostile schemas, one after the other, to one server with nano: {len(costs) - refused} "
        f"were answered, {refused} refused with one sentence, none failed. CPU time: median "
        f"{statistics.median(cost.seconds for cost in costs):.2f} s, most {max(cost.seconds for cost in costs):.2f} s; `/healthz` answered "
        f"meanwhile within {max(cost.health for cost in costs):.2f} s. The server began with {results['first']} MiB and held {results['last']} MiB in the end. "
        f"The costliest:\n\n| schema | by | status | CPU time | memory more |\n|---|---|---|---|---|\n{rows}\n\n"
        f"{machine['cpu']}, {machine['cores']} cores; commit {machine['commit']}; `python benchmarks/hostile.py`.\n"
    )


def main() -> int:
    """Measure, print, and write the results; 1 if a request cost more than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", default="", help="a part of the names of cases")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    results = measure(arguments.only)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    cpu = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    results["machine"] = {
        "cpu": cpu[1] if cpu else platform.processor(), "cores": os.cpu_count(),
        "commit": commit.stdout.strip(), "python": platform.python_version(),
    }  # fmt: skip
    bad = [cost for cost in results["costs"] if not Cost(**cost).is_fine]
    print(
        f"{len(results['costs'])} requests, {len(bad)} that cost too much or failed; memory {results['first']} -> {results['last']} MiB"
    )
    if arguments.output:
        costs = ",\n".join(json.dumps(cost) for cost in results.pop("costs"))
        rest = json.dumps(results)[1:]
        arguments.output.write_text(f'{{"costs": [\n{costs}\n], {rest}\n', encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
