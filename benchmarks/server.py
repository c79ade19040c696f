"""The server under load: many clients at once, each asking again as soon as it is answered.

    python benchmarks/server.py [--clients 64] [--seconds 60] [--output results/server.json]

Two models: the embedded one, and a scripted one whose every forward pass takes 20 ms. The server and
the clients are programs of their own; where ``--server-cpu`` names a CPU, the server has it alone.
Half of the clients stream. A client that is told 429 waits as long as Retry-After says, and the
refusal is counted. Memory is the server's resident set, sampled once a second; "flat" compares the
medians of the second and the last quarter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2

ROOT = Path(__file__).parents[1]
PASS_SECONDS = 0.02
CASES = {
    "nano": [],
    "scripted, 20 ms a pass": ["--scripted"],
    "scripted, a queue of 16": ["--scripted", "--queue", "16"],
}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city.",
     "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 40},
     "unit": {"enum": ["celsius", "fahrenheit"]}}, "required": ["city"],
     "additionalProperties": False}}},
    {"type": "function", "function": {"name": "add_numbers", "description": "Add two numbers.",
     "parameters": {"type": "object", "properties": {"a": {"type": "integer"},
     "b": {"type": "integer"}}, "required": ["a", "b"], "additionalProperties": False}}},
]  # fmt: skip
CITIES = ("Paris", "Bern", "Oslo", "Lima", "Kyoto", "Lagos", "Quito", "Perth")


# -- the server -----------------------------------------------------------------------------------


def serve(arguments: argparse.Namespace) -> None:
    """Serve one of the models on a free port, and print the address."""
    from callmemaybe.models import load
    from callmemaybe.server.config import ServerConfig
    from callmemaybe.server.serving import application, make_server
    from callmemaybe.server.sockets import bind, url_of

    limits = ServerConfig(port=0, slots=arguments.slots, queue=arguments.queue)
    opened = bind(limits)
    if arguments.scripted:
        sys.path.insert(0, str(ROOT))
        model, options = _scripted()
        app = application(model, limits, format="hermes", **options)
    else:
        app = application(load("nano"), limits)
    print(url_of(opened), flush=True)
    make_server(app.asgi(), limits, app.begin_to_stop).run(sockets=[opened])


def _scripted() -> tuple[Any, dict[str, Any]]:
    """Return a model that calls get_weather for the city it hears of; a batch takes one pass's time."""
    from callmemaybe.models.scripted import ScriptedModel, ScriptedSession
    from callmemaybe.tools import ToolCall
    from callmemaybe.wire import formats
    from tests.decoding.helpers import CHATML, vocabulary
    from tests.talking import speaks

    known = vocabulary(CHATML, ("<|im_end|>",))
    wishes = [formats.get("hermes").render([ToolCall("get_weather", json.dumps({"city": city}))])
              for city in CITIES]  # fmt: skip

    def turn(text: bytes) -> int:
        return max(range(len(CITIES)), key=lambda at: text.rfind(CITIES[at].encode()))

    talker = speaks(known, wishes, turn, b"<|im_start|>assistant\n<think>\n\n</think>\n\n")

    class Slow(ScriptedSession):
        def feed(self, ids: Any, keep: int = 1) -> Any:
            time.sleep(PASS_SECONDS)
            return super().feed(ids, keep)

        def feed_batch(self, feeds: Any) -> Any:
            time.sleep(PASS_SECONDS)
            return super().feed_batch(feeds)

        def fork(self) -> Slow:
            return Slow(self._model, self._ids)

    class SlowModel(ScriptedModel):
        def open(self) -> Slow:
            return Slow(self)

    return SlowModel(talker.size, talker.script, name="scripted"), {"vocabulary": known}


# -- the clients ----------------------------------------------------------------------------------


class Load:
    """Clients of one server, and what they saw."""

    def __init__(self, url: str, model: str, until: float) -> None:
        self.url, self.model, self.until = url, model, until
        self.seconds: list[float] = []
        self.firsts: list[float] = []
        self.counts: Counter[str] = Counter()
        self.each: Counter[int] = Counter()
        self.asked = 0

    async def client(self, number: int) -> None:
        """Ask until the time is up."""
        async with httpx2.AsyncClient(base_url=self.url, timeout=120, trust_env=False) as client:
            while time.monotonic() < self.until:
                city = CITIES[(number + self.each[number]) % len(CITIES)]
                # No two requests are alike, so that nothing is gained by remembering them.
                question = f"{number}.{self.asked}: what is the weather in {city}?"
                self.asked += 1
                body = {
                    "model": self.model, "tools": TOOLS, "tool_choice": "required",
                    "parallel_tool_calls": False, "max_tokens": 200, "stream": number % 2 == 0,
                    "messages": [{"role": "user", "content": question}],
                }  # fmt: skip
                await self.ask(client, body, number)

    async def ask(self, client: httpx2.AsyncClient, body: dict[str, Any], number: int) -> None:
        """Ask once, and note what came."""
        began, first, text = time.monotonic(), None, ""
        try:
            async with client.stream("POST", "/v1/chat/completions", json=body) as response:
                async for piece in response.aiter_text():
                    first = first or time.monotonic() - began
                    text += piece
        except httpx2.HTTPError as error:
            self.counts[type(error).__name__] += 1
            return
        if response.status_code == 429:
            self.counts["429"] += 1
            await asyncio.sleep(float(response.headers["retry-after"]))
            return
        ok = response.status_code == 200 and _is_call(text, body["stream"])
        self.counts["ok" if ok else f"status {response.status_code}"] += 1
        self.each[number] += 1
        self.seconds.append(time.monotonic() - began)
        if body["stream"] and first is not None:
            self.firsts.append(first)


def _is_call(text: str, streamed: bool) -> bool:
    """Whether this is a whole, well-formed answer that ends in a call."""
    if not streamed:
        (choice,) = json.loads(text)["choices"]
        arguments = choice["message"]["tool_calls"][0]["function"]["arguments"]
    else:
        lines = text.strip().split("\n\n")
        if lines[-1] != "data: [DONE]":
            return False
        chunks = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines[:-1]]
        choice = chunks[-1]
        arguments = "".join(
            call["function"]["arguments"]
            for chunk in chunks
            for call in chunk["delta"].get("tool_calls", ())
        )
    return choice["finish_reason"] == "tool_calls" and isinstance(json.loads(arguments), dict)


def resident(process: int) -> float:
    """MiB of memory that a process holds."""
    text = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+)", text)
    assert found is not None
    return int(found[1]) / 1024


def cpu_seconds(process: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(
    name: str, url: str, process: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Return what one server did under load."""
    model = "nano" if name == "nano" else "scripted"
    warm = Load(url, model, time.monotonic() + 2)
    await warm.client(0)
    began, used = time.monotonic(), cpu_seconds(process)
    load = Load(url, model, began + arguments.seconds)
    memory: list[float] = []

    async def watch() -> None:
        while time.monotonic() < load.until:
            memory.append(resident(process))
            await asyncio.sleep(1)

    await asyncio.gather(watch(), *(load.client(number) for number in range(arguments.clients)))
    took, used = time.monotonic() - began, cpu_seconds(process) - used
    quarter = max(1, len(memory) // 4)
    each = [load.each[number] for number in range(arguments.clients)]
    cuts = statistics.quantiles(load.seconds, n=100)
    return {
        "clients": arguments.clients,
        "seconds": round(took, 1),
        "answers": load.counts.pop("ok", 0),
        "refused_429": load.counts.pop("429", 0),
        "errors": dict(load.counts),
        "answers_per_second": round(len(load.seconds) / took, 1),
        "latency_ms": {name: round(cuts[at - 1] * 1000) for name, at in
                       (("p50", 50), ("p95", 95), ("p99", 99))},
        "first_piece_ms_p50": round(statistics.median(load.firsts) * 1000) if load.firsts else None,
        "answers_of_a_client": {"fewest": min(each), "median": statistics.median(each),
                                "most": max(each)},
        "server_cpu_seconds": round(used, 1),
        "memory_mib": {"second_quarter": round(statistics.median(memory[quarter : 2 * quarter]), 1),
                       "last_quarter": round(statistics.median(memory[-quarter:]), 1)},
    }  # fmt: skip


def run(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Start a server, load it, stop it."""
    command = [sys.executable, __file__, "--serve", "--slots", str(arguments.slots), *CASES[name]]
    if arguments.server_cpu is not None:
        command = ["taskset", "-c", str(arguments.server_cpu), *command]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        for _ in range(200):
            try:
                httpx2.get(f"{url}/healthz", trust_env=False)
                break
            except httpx2.HTTPError:
                time.sleep(0.05)
        found = asyncio.run(measure(name, url, server.pid, arguments))
        server.send_signal(signal.SIGINT)
        found["exit_code"] = server.wait(30)
        return found
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
        server.stdout.close()


def page(results: dict[str, Any]) -> str:
    """Return the section of the docs that tells of the results."""
    machine, cases = results["machine"], results["cases"]
    rows = [
        (name, case["answers_per_second"], case["latency_ms"]["p50"], case["latency_ms"]["p95"],
         case["latency_ms"]["p99"], case["first_piece_ms_p50"], case["refused_429"],
         sum(case["errors"].values()),
         "{fewest} / {median:g} / {most}".format(**case["answers_of_a_client"]),
         "{second_quarter:g} → {last_quarter:g}".format(**case["memory_mib"]),
         case["server_cpu_seconds"])
        for name, case in cases.items()
    ]  # fmt: skip
    head = ("model", "answers/s", "p50 ms", "p95 ms", "p99 ms", "first piece p50 ms", "429",
            "errors", "answers of a client: fewest / median / most",
            "memory MiB: second → last quarter", "server's CPU s")  # fmt: skip
    lines = [head, tuple("---" for _ in head), *rows]
    table = "".join(f"| {' | '.join(map(str, cells))} |\n" for cells in lines)
    one = next(iter(cases.values()))
    where = "one core for the server and one for all clients"
    if machine.get("one_core"):
        where = "one core for the server and all clients together"
    return (
        f"{one['clients']} clients for {one['seconds']:.0f} s a row, each asking again as soon as it "
        f"is answered, half of them streaming; {results['slots']} slots. A client that is told 429 "
        "comes again after Retry-After.\n\n"
        f"{table}\n"
        f"{machine['cpu']}, {where}, Python {machine['python']}, commit {machine['commit']}; `python benchmarks/server.py`.\n"
    )


def main() -> None:
    """Measure all cases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--server-cpu", type=int)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--scripted", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--queue", type=int, default=128, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments)
        return
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.strip()  # fmt: skip
    results: dict[str, Any] = {
        "machine": {
            "cpu": _cpu(),
            "python": platform.python_version(),
            "commit": commit,
            "one_core": os.sched_getaffinity(0) == {arguments.server_cpu},
        },
        "slots": arguments.slots,
        "cases": {},
    }
    for name in CASES:
        results["cases"][name] = run(name, arguments)
        print(name, json.dumps(results["cases"][name], indent=1), flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _cpu() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found[1] if found else platform.machine()


if __name__ == "__main__":
    main()
