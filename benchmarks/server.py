"""The server under load: many clients at once, each asking again as soon as it is answered.

    python benchmarks/server.py [--seconds 30] [--output results/server.json]

Two models: the embedded one, as the command ``serve`` serves it, and a scripted one whose every forward
pass takes 20 ms. The server and the clients are programs of their own, on the same cores. Half of the clients stream. A
client that is told 429 waits as long as Retry-After says, and the refusal is counted. Memory is the
resident set of all processes of a server, sampled once a second.

The last part asks one server thousands of times, with the same functions, and with functions nobody has asked with
(patterns, lists of values, long requests, several choices), and notes what it holds in between.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

ROOT = Path(__file__).parents[1]
PASS_SECONDS = 0.02
#: Of a case: the model, the clients, the workers, the turns that may wait.
CASES = {
    "nano": ("nano", 16, 1, 128),
    "nano, 2 workers": ("nano", 16, 2, 128),
    "nano, 64 clients": ("nano", 64, 1, 128),
    "nano, 2 workers, 64 clients": ("nano", 64, 2, 128),
    "scripted, 20 ms a pass": ("scripted", 64, 1, 128),
    "scripted, a queue of 16": ("scripted", 64, 1, 16),
}
#: After how many requests the memory is noted.
MARKS = (0, 250, 500, 1000, 2000, 3000, 4000, 5000, 6000, 7000)
WORDS = (
    "alpha", "beta", "gamma", "delta", "house", "light", "temp", "room", "city", "user", "order", "price",
    "note", "task", "mail", "plan", "code", "file", "page", "song", "book", "car", "road",
)  # fmt: skip
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


def serve_scripted(arguments: argparse.Namespace) -> None:
    """Serve the scripted model on a free port, and print the address."""
    from callmemaybe.server.config import ServerConfig
    from callmemaybe.server.serving import application, make_server
    from callmemaybe.server.sockets import bind, url_of

    limits = ServerConfig(port=0, slots=arguments.slots, queue=arguments.queue)
    opened = bind(limits)
    sys.path.insert(0, str(ROOT))
    model, options = _scripted()
    app = application(model, limits, format="hermes", **options)
    print(f"scripted is served at {url_of(opened)} (", file=sys.stderr, flush=True)
    make_server(app.asgi(), limits, app.begin_to_stop).run(sockets=[opened])


class Server:
    """A server as a process, with its workers."""

    def __init__(self, case: tuple[str, int, int, int], slots: int) -> None:
        model, _, workers, queue = case
        settings = ["--slots", str(slots), "--queue", str(queue)]
        if model == "nano":
            command = ["-m", "callmemaybe", "serve", "--port", "0", "--quiet", *settings]
            command += ["--workers", str(workers)]
        else:
            command = [__file__, "--serve", *settings]
        self.process = subprocess.Popen(
            [sys.executable, *command], stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        found = re.search(r"http://[^ ]+", self.process.stderr.readline())
        assert found is not None
        self.url = found[0]

    def end(self) -> int:
        """Stop the server and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        """Leave no process behind."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def processes(self) -> list[int]:
        """Return the supervisor and its workers, or the one process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [self.process.pid, *map(int, children.read_text(encoding="ascii").split())]

    def resident(self) -> float:
        """MiB of memory that the processes hold; pages that they share count for each."""
        return sum(map(resident, self.processes()))

    def cpu_seconds(self) -> float:
        """Seconds of CPU that the processes have used."""
        return sum(map(cpu_seconds, self.processes()))


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
    case: tuple[str, int, int, int], server: Server, seconds: float
) -> dict[str, Any]:
    """Return what one server did under load."""
    model, clients, workers, _ = case
    warm = Load(server.url, model, time.monotonic() + 2)
    await asyncio.gather(*(warm.client(number) for number in range(clients)))
    began, used, mine = time.monotonic(), server.cpu_seconds(), time.process_time()
    load = Load(server.url, model, began + seconds)
    memory: list[float] = []

    async def watch() -> None:
        while time.monotonic() < load.until:
            memory.append(server.resident())
            await asyncio.sleep(1)

    await asyncio.gather(watch(), *(load.client(number) for number in range(clients)))
    took, used = time.monotonic() - began, server.cpu_seconds() - used
    quarter = max(1, len(memory) // 4)
    each = [load.each[number] for number in range(clients)]
    cuts = statistics.quantiles(load.seconds, n=100)
    return {
        "clients": clients,
        "workers": workers,
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
        "server_cpu_ms_per_answer": round(1000 * used / len(load.seconds), 1),
        "clients_cpu_ms_per_answer": round(
            1000 * (time.process_time() - mine) / len(load.seconds), 1
        ),
        "memory_mib": {"second_quarter": round(statistics.median(memory[quarter : 2 * quarter]), 1),
                       "last_quarter": round(statistics.median(memory[-quarter:]), 1)},
    }  # fmt: skip


def run(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Start a server, load it, stop it."""
    server = Server(CASES[name], arguments.slots)
    try:
        found = asyncio.run(measure(CASES[name], server, arguments.seconds))
        found["exit_code"] = server.end()
        return found
    finally:
        server.kill()


# -- thousands of unlike requests -----------------------------------------------------------------


def unlike(number: int, rng: random.Random) -> dict[str, Any]:
    """Return a request that has little in common with any other."""
    kind = rng.randint(0, 9)
    length = rng.randint(4, 400 if kind == 0 else 30)
    tools = [_unlike_tool(rng) for _ in range(rng.randint(1, 40 if kind == 1 else 6))]
    for tool in tools if kind in (2, 3) else ():
        properties = tool["function"]["parameters"]["properties"]
        letters, digits = rng.randint(1, 20), rng.randint(1, 20)
        if kind == 2:
            pattern = f"^[a-z]{{{letters}}}-[0-9]{{{digits}}}$"
            properties["zip"] = {"type": "string", "pattern": pattern}
        else:
            values = [f"{rng.choice(WORDS)}{rng.randint(0, 10**5)}" for _ in range(50)]
            properties["kind"] = {"enum": sorted(set(values))}
    body = {
        "model": "nano", "tools": tools, "stream": number % 2 == 0,
        "messages": [{"role": "user", "content": f"{' '.join(rng.choices(WORDS, k=length))} {number}"}],
    }  # fmt: skip
    return {**body, "temperature": 1.0, "n": 3} if kind == 4 else body


def _unlike_tool(rng: random.Random) -> dict[str, Any]:
    properties = {
        f"{rng.choice(WORDS)}{at}": {
            "type": rng.choice(["string", "integer", "boolean", "number"]),
            "description": " ".join(rng.choices(WORDS, k=6)),
        }
        for at in range(rng.randint(1, 4))
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    name = f"{rng.choice(WORDS)}_{rng.choice(WORDS)}_{rng.randint(0, 10**6)}"
    described = " ".join(rng.choices(WORDS, k=8))
    inner = {"name": name, "description": described, "parameters": schema}
    return {"type": "function", "function": inner}


def alike(number: int, _rng: random.Random) -> dict[str, Any]:
    """Return a request with the functions of all others; no two ask for the same."""
    question = f"{number}: what is the weather in {CITIES[number % len(CITIES)]}?"
    return {"model": "nano", "tools": TOOLS, "tool_choice": "required", "stream": number % 2 == 0,
            "messages": [{"role": "user", "content": question}]}  # fmt: skip


#: What is asked for to see the memory, and how often.
KINDS: dict[str, tuple[Callable[[int, random.Random], dict[str, Any]], int]] = {
    "alike": (alike, 7000),
    "unlike": (unlike, 3000),
}


async def ask_many(server: Server, kind: str) -> dict[str, Any]:
    """Ask many times from 16 clients; return the memory after so many answers."""
    body, count = KINDS[kind]
    rng = random.Random(1)
    memory: dict[str, float] = {"0": round(server.resident())}
    statuses: Counter[str] = Counter()
    numbers = iter(range(count))
    most = server.resident()

    async def client() -> None:
        nonlocal most
        async with httpx2.AsyncClient(base_url=server.url, timeout=120, trust_env=False) as http:
            for number in numbers:
                answer = await http.post("/v1/chat/completions", json=body(number, rng))
                statuses[str(answer.status_code)] += 1
                most = max(most, server.resident())
                if statuses.total() in MARKS:
                    memory[str(statuses.total())] = round(server.resident())
                    print(kind, statuses.total(), round(server.resident()), flush=True)

    began = time.monotonic()
    await asyncio.gather(*(client() for _ in range(16)))
    return {"memory_mib": memory, "most_mib": round(most), "statuses": dict(statuses),
            "seconds": round(time.monotonic() - began, 1)}  # fmt: skip


def run_many(kind: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Start a server, ask it many times, stop it."""
    server = Server(("nano", 16, 1, 128), arguments.slots)
    try:
        found = asyncio.run(ask_many(server, kind))
        found["exit_code"] = server.end()
        return found
    finally:
        server.kill()


def page(results: dict[str, Any]) -> str:
    """Return the section of the docs that tells of the results."""
    machine, cases = results["machine"], results["cases"]
    rows = [
        (name.partition(",")[0] if name.startswith("nano") else name, case["clients"],
         case["workers"], case["answers_per_second"], case["latency_ms"]["p50"],
         case["latency_ms"]["p95"], case["latency_ms"]["p99"], case["first_piece_ms_p50"],
         case["refused_429"], sum(case["errors"].values()),
         "{fewest} / {median:g} / {most}".format(**case["answers_of_a_client"]),
         "{second_quarter:.0f} → {last_quarter:.0f}".format(**case["memory_mib"]),
         f"{case['server_cpu_ms_per_answer']:g} + {case['clients_cpu_ms_per_answer']:g}")
        for name, case in cases.items()
    ]  # fmt: skip
    head = ("model", "clients", "workers", "answers/s", "p50 ms", "p95 ms", "p99 ms",
            "first piece p50 ms", "429", "errors", "answers of a client: fewest / median / most",
            "memory MiB: second → last quarter", "CPU ms of an answer: server + client")  # fmt: skip
    one = next(iter(cases.values()))
    kinds = results["memory"]
    marks = [str(mark) for mark in MARKS]
    return (
        f"{one['seconds']:.0f} s a row; each client asks again as soon as it is answered, half of them "
        f"streaming; {results['slots']} slots a worker. A client that is told 429 comes again after "
        "Retry-After. Memory is that of all processes of the server.\n\n"
        f"{_table([head, *rows])}\n"
        "## Memory\n\n"
        "MiB that one process with nano holds after so many requests from 16 clients. *Alike*: all have the same two "
        "functions, and ask for something else. *Unlike*: they have little in common: functions nobody has asked with "
        "before, 1 to 40 of them, some with patterns or 50 values, requests of up to 400 words, some with three choices; "
        "so they fill what is kept of prompts (`--prompt-cache`, 256 MiB) and of grammars.\n\n"
        + _table(
            [
                ("requests", *marks, "the most in between"),
                *(
                    (
                        kind,
                        *(found["memory_mib"].get(mark, "") for mark in marks),
                        found["most_mib"],
                    )
                    for kind, found in kinds.items()
                ),
            ]
        )
        + "\n"
        f"{machine['cpu']}, {machine['cores']} cores for the server and all clients together, "
        f"Python {machine['python']}, commit {machine['commit']}; `python benchmarks/server.py`."
        f"{machine['note']}\n"
    )


def _table(rows: list[tuple[object, ...]]) -> str:
    """Write a table in Markdown, the first row as its head."""
    head, *rest = rows
    lines = [head, tuple("---" for _ in head), *rest]
    return "".join(f"| {' | '.join(map(str, cells))} |\n" for cells in lines)


def main() -> None:
    """Measure all cases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--only", choices=["load", *KINDS], help="keep the other part's results")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--note", default="", help="what the page is to tell of the machine")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--queue", type=int, default=128, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve_scripted(arguments)
        return
    results: dict[str, Any] = {}
    if arguments.only and arguments.output:
        results = json.loads(arguments.output.read_text(encoding="utf-8"))
    results |= {"machine": _machine(arguments.note), "slots": arguments.slots}
    if arguments.only in (None, "load"):
        results["cases"] = {}
        for name in CASES:
            results["cases"][name] = run(name, arguments)
            print(name, json.dumps(results["cases"][name], indent=1), flush=True)
    for kind in KINDS:
        if arguments.only in (None, kind):
            results.setdefault("memory", {})[kind] = run_many(kind, arguments)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _machine(note: str) -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.strip()  # fmt: skip
    return {"cpu": _cpu(), "cores": len(os.sched_getaffinity(0)),
            "python": platform.python_version(), "commit": commit, "note": note}  # fmt: skip


def _cpu() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found[1] if found else platform.machine()


if __name__ == "__main__":
    main()
