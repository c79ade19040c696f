"""Kill, stop, disconnect, fill and turn the clock of processes that share a ledger, and count what went wrong.

    python -m benchmarks.chaos --minutes 10 [--store sqlite|postgresql|both] [--seed N] [--folder DIR]

Several processes deliver overlapping keys of every effect class through gateways on one store, while a fault
strikes every tenth of a second: kill -9, SIGSTOP past the lease and SIGCONT, backends terminated and the server
restarted (PostgreSQL), a limit of file sizes that fills the disk (``RLIMIT_FSIZE``; SQLite), a wall clock that is
an hour wrong. Every effect writes its begin and its end into a log of its own, with fsync. At the end each
call is delivered once more, and the log is compared with the ledger: exit code 1 if a promise was broken.

``--inject-bug`` breaks one on purpose, to see that this program notices: ``keys`` (each process has keys of its own),
``rerun`` (a lost `once` call runs again), ``locks`` (nobody locks anything).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import glob
import json
import os
import pwd
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callmemaybe.errors import StoreError
from callmemaybe.gateway import Gateway, GatewayLimits
from callmemaybe.gateway import gateway as front_door
from callmemaybe.gateway.audit.chain import verify_chains
from callmemaybe.gateway.keys import call_key
from callmemaybe.gateway.ledger import open_ledger
from callmemaybe.gateway.lifecycle import TERMINAL
from callmemaybe.gateway.registry import RegisteredTool
from callmemaybe.gateway.store import open_backend
from callmemaybe.tools import Context, Effect, Tool, ToolCall, Transaction, make_tool

CLASSES = list(Effect)
LIMITS = GatewayLimits(lease=2.0, heartbeat=0.5, queue=3.0, turn=10.0)
WORKERS, LANES, WINDOW = 4, 6, 24
#: Seconds between two faults, and how long a stopped process stays so.
TICK, STOPPED = 0.1, LIMITS.lease * 1.6
#: Classes whose calls hold their lane exclusively while they act.
EXCLUSIVE = {Effect.ONCE.value, Effect.IDEMPOTENT.value, Effect.KEYED.value}


class ActionLog:
    """An append-only file of JSON lines outside the store; each line is one write, and on the disk after it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, what: str, **facts: Any) -> None:
        """Append one line, with the time of this boot and the process."""
        line = json.dumps({"what": what, "at": time.monotonic(), "pid": os.getpid(), **facts})
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, line.encode() + b"\n")
            os.fdatasync(handle)
        finally:
            os.close(handle)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield what was written, in order; not the line that kill -9 cut off, and behind which another began."""
        with self.path.open(encoding="utf-8") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    yield json.loads(line[line.rindex('{"what": ') :])


# -- the workers --------------------------------------------------------------------------------------


def chaos_tool(log: ActionLog, effect: Effect, bug: str) -> Tool:
    """Return a tool named after its class, whose effect is written to the log (or, transactional, to the store)."""
    known: dict[str, Any] = {"name": effect.value, "effect": effect, "trusted": True}
    if bug == "rerun" and effect is Effect.ONCE:
        known["effect"] = Effect.IDEMPOTENT
    if effect.writes:
        known["writes"] = "lane:{lane}"
    if effect is Effect.TRANSACTIONAL:

        def within(n: int, lane: int, context: Context, transaction: Transaction) -> int:
            transaction.execute(f"insert into chaos values ('{context.key}')")
            return n + lane * 0

        return make_tool(within, **known)

    async def outside(n: int, lane: int, context: Context) -> int:
        facts = {
            "n": n,
            "lane": lane,
            "key": context.key,
            "fence": context.fence,
            "tool": effect.value,
        }
        log.write("begin", **facts)
        await asyncio.sleep(0.002 * (n % 8))
        log.write("end", **facts)
        return n

    return make_tool(outside, **known)


def the_call(n: int) -> ToolCall:
    """Return call number ``n``; every worker delivers the same."""
    return ToolCall(
        CLASSES[n % len(CLASSES)].value, json.dumps({"n": n, "lane": n % LANES}), str(n)
    )


def key_of(n: int) -> str:
    """Return the key of call number ``n``."""
    return call_key("", f"r{n}", 0, 0, CLASSES[n % len(CLASSES)].value)


async def deliver(gateway: Gateway, log: ActionLog, n: int) -> bool:
    """Deliver a call once; True if it has its final answer."""
    log.write("deliver", n=n)
    try:
        answer = (await gateway.run([the_call(n)], run=f"r{n}", turn=0))[0]
    except StoreError:
        await asyncio.sleep(0.02)
        return False
    if answer.state in TERMINAL and answer.key and answer.code != "key_conflict":
        log.write("answer", n=n, content=answer.content)
        return True
    return False


async def work(store: str, log: ActionLog, begun: float, rng: random.Random, bug: str) -> None:
    """Deliver calls of a window that moves on, and recover what others left, for ever."""
    ledger = open_ledger(store, LIMITS, **({} if "://" in store else {"reserve": 0}))
    async with Gateway(
        [chaos_tool(log, one, bug) for one in CLASSES], store=ledger, limits=LIMITS
    ) as gateway:

        async def caller() -> None:
            while True:
                first = int((time.monotonic() - begun) * 20)
                await deliver(gateway, log, first + rng.randrange(WINDOW))

        async def recoverer() -> None:
            while True:
                with contextlib.suppress(StoreError):
                    await gateway.recover()
                await asyncio.sleep(0.3)

        await asyncio.gather(recoverer(), *(caller() for _ in range(4)))


def in_child(store: str, log: ActionLog, begun: float, seed: int, bug: str) -> tuple[int, str]:
    """Start a worker, perhaps with a wrong clock or a full disk; return its process and that."""
    rng = random.Random(seed)
    handicap = rng.choices(["", "clock", "disk"], [8, 1, 1])[0]
    if handicap == "disk" and "://" in store:
        handicap = "clock"
    child = os.fork()
    if child:
        return child, handicap
    try:  # pragma: no cover - the child
        _die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if handicap == "clock":
            real, wrong = time.time, rng.choice([-3600.0, 3600.0])
            time.time = lambda: real() + wrong
        if handicap == "disk":
            # The log grows as well: the limit is for the files of the store, which are larger than it soon.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            size = sum(
                Path(name).stat().st_size for name in glob.glob(f"{store}-wal")
            ) + rng.randrange(65_536)
            size = max(size, log.path.stat().st_size + (8 << 20))
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        if bug == "keys":
            front_door.call_key = lambda *parts: call_key(str(os.getpid()), *parts[1:])
        if bug == "locks":
            RegisteredTool.locks = lambda *_: ()
        asyncio.run(work(store, log, begun, rng, bug))
    except BaseException as error:
        with contextlib.suppress(OSError):
            log.write("ended", error=f"{type(error).__name__}: {error}"[:300])
    finally:
        os._exit(3)


def _die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies (Linux)."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


# -- the faults ---------------------------------------------------------------------------------------


@dataclass
class Worker:
    """A living worker process."""

    pid: int
    since: float
    resumes: float | None = None


@dataclass
class Attack:
    """The faults of one store: starts workers, strikes them, and counts."""

    store: str
    server: Server | None
    log: ActionLog
    rng: random.Random
    bug: str
    counts: Counter[str] = field(default_factory=Counter)
    workers: list[Worker] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        """Attack for so long, then end every worker."""
        begun = shown = time.monotonic()
        while time.monotonic() < begun + seconds:
            self._fill(begun)
            time.sleep(TICK)
            self._resume()
            self._strike()
            if time.monotonic() > shown + 5:
                shown = time.monotonic()
                print(f"  {shown - begun:5.0f} s  {table(self.counts)}", flush=True)
        for worker in list(self.workers):
            self._kill(worker)

    def _fill(self, begun: float) -> None:
        for worker in list(self.workers):
            if os.waitpid(worker.pid, os.WNOHANG)[0]:
                self.workers.remove(worker)
                self.log.write("gone", who=worker.pid)
                self.counts["ended by an error"] += 1
        while len(self.workers) < WORKERS:
            pid, handicap = in_child(
                self.store, self.log, begun, self.rng.randrange(1 << 48), self.bug
            )
            self.workers.append(Worker(pid, time.monotonic()))
            if handicap:
                self.counts[{"clock": "clocks turned", "disk": "disks filled"}[handicap]] += 1

    def _resume(self) -> None:
        for worker in self.workers:
            if worker.resumes is not None and time.monotonic() > worker.resumes:
                worker.resumes = None
                self.log.write("resume", who=worker.pid)
                os.kill(worker.pid, signal.SIGCONT)

    def _strike(self) -> None:
        ready = [w for w in self.workers if w.resumes is None and time.monotonic() > w.since + 0.25]
        draw = self.rng.random()
        if self.server is not None and draw < 0.03:
            self.server.disconnect(self.store)
            self.counts["disconnects"] += 1
        elif self.server is not None and draw < 0.035:
            self.server.stop()
            time.sleep(self.rng.random() * 0.5)
            self.server.start()
            self.counts["restarts of the server"] += 1
        elif draw < 0.08 and ready and all(w.resumes is None for w in self.workers):
            worker = self.rng.choice(ready)
            os.kill(worker.pid, signal.SIGSTOP)
            self.log.write("stop", who=worker.pid)
            worker.resumes = time.monotonic() + STOPPED
            self.counts["stops"] += 1
        elif ready:
            self._kill(self.rng.choice(ready))
            self.counts["kills"] += 1

    def _kill(self, worker: Worker) -> None:
        os.kill(worker.pid, signal.SIGKILL)
        killed = time.monotonic()
        os.waitpid(worker.pid, 0)
        self.workers.remove(worker)
        self.log.write("gone", who=worker.pid, killed=killed)


class Server:
    """A PostgreSQL of our own in a folder, reached by a socket there."""

    def __init__(self, folder: Path) -> None:
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
        initdb = found[-1] if found else shutil.which("initdb")
        if initdb is None:
            raise SystemExit("PostgreSQL is not installed (Debian: apt install postgresql)")
        self._programs, self._folder = Path(initdb).parent, folder
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._do("initdb", "-D", "data", "-A", "trust", "-U", "tester", "--no-sync", "-E", "UTF8")
        self.start()
        self._guard = self._start_guard()
        self.address = f"postgresql://tester@/postgres?host={folder}"

    def _do(self, program: str, *arguments: str) -> None:
        subprocess.run([self._programs / program, *arguments], cwd=self._folder, user=self._user, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)  # fmt: skip

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-c listen_addresses= -k {self._folder} -c max_connections=200"
        self._do("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")

    def stop(self) -> None:
        """End it at once, as a crash does."""
        self._do("pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")

    def _start_guard(self) -> int:
        """Fork a process that stops the server if this one dies without doing so; return its id."""
        parent, child = os.getpid(), os.fork()
        if child:
            return child
        try:  # pragma: no cover - the child
            os.setsid()
            while os.getppid() == parent:
                time.sleep(0.5)
            self.stop()
        finally:
            os._exit(0)

    def close(self) -> None:
        """Stop it for good."""
        os.kill(self._guard, signal.SIGKILL)
        os.waitpid(self._guard, 0)
        self.stop()

    def disconnect(self, store: str) -> None:
        """Terminate every backend of the workers."""
        import psycopg

        with psycopg.connect(store, autocommit=True) as connection:
            connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> "
                               "pg_backend_pid() and backend_type = 'client backend'")  # fmt: skip


# -- the check ----------------------------------------------------------------------------------------


async def settle(store: str, log: ActionLog, numbers: list[int], bug: str) -> None:
    """Recover, and deliver every call until it has its final answer."""
    await asyncio.sleep(LIMITS.lease + 0.5)
    ledger = open_ledger(store, LIMITS, **({} if "://" in store else {"reserve": 0}))
    async with Gateway(
        [chaos_tool(log, one, bug) for one in CLASSES], store=ledger, limits=LIMITS
    ) as gateway:
        await gateway.recover()
        left, until = numbers, time.monotonic() + 30
        while left and time.monotonic() < until:
            ended = []
            for at in range(0, len(left), 16):
                ended += await asyncio.gather(
                    *(deliver(gateway, log, n) for n in left[at : at + 16])
                )
            left = [n for n, is_final in zip(left, ended, strict=True) if not is_final]
            await gateway.recover()
    ledger.close()


def violations(store: str, log: ActionLog) -> list[str]:
    """Compare the log with the ledger; return a sentence for each broken promise."""
    lines = list(log.lines())
    backend: Any = open_backend(store)
    with backend.transaction(), backend.savepoint() as connection:
        rows = Counter(key for (key,) in connection.execute("select key from chaos").fetchall())
    effects: Counter[int] = Counter(one["n"] for one in lines if one["what"] == "begin")
    answers: dict[int, set[str]] = defaultdict(set)
    for one in lines:
        if one["what"] == "answer":
            answers[one["n"]].add(one["content"])
    found = []
    for n in sorted({one["n"] for one in lines if one["what"] == "deliver"}):
        effect, key = CLASSES[n % len(CLASSES)], key_of(n)
        count = rows[key] if effect is Effect.TRANSACTIONAL else effects[n]
        row = backend.read_call(key)
        if row is None:
            found.append(f"call {n} ({effect.value}): delivered, and not in the ledger")
            continue
        if row.state not in TERMINAL:
            found.append(f"call {n} ({effect.value}): left in state {row.state}")
        if not answers[n] <= {row.content}:
            found.append(
                f"call {n} ({effect.value}): answered {sorted(answers[n])}, the ledger has {row.content!r}"
            )
        if effect in {Effect.ONCE, Effect.TRANSACTIONAL} and count > 1:
            found.append(f"call {n} ({effect.value}): {count} effects")
        if row.state == "succeeded" and count == 0:
            found.append(f"call {n} ({effect.value}): succeeded without an effect")
    known = {one["key"] for one in lines if one["what"] == "begin"} | set(rows)
    found += [
        f"key {key}: an effect without a record" for key in known if backend.read_call(key) is None
    ]
    found += overlaps(lines)
    _, breaks = verify_chains(backend.read_audit())
    found += [f"audit: {one}" for one in breaks]
    backend.close()
    return found


def overlaps(lines: list[dict[str, Any]]) -> list[str]:
    """Return the pairs of effects that held one lane exclusively at once.

    The documented exception: a process that was stopped past its lease, while the later holder has a higher fence.
    """
    ends = {(one["pid"], one["key"]): one["at"] for one in lines if one["what"] == "end"}
    # A killed process acts no more, also before its parent has waited for it: unless it wrote another line.
    said = {one["pid"]: one["at"] for one in lines}
    gone = {
        one["who"]: max(one.get("killed", one["at"]), said.get(one["who"], 0.0))
        for one in lines
        if one["what"] == "gone"
    }
    gone |= {one["pid"]: one["at"] for one in lines if one["what"] == "ended"}
    stops: dict[int, list[list[float]]] = defaultdict(list)
    for one in lines:
        if one["what"] == "stop":
            stops[one["who"]].append([one["at"], float("inf")])
        elif one["what"] == "resume":
            stops[one["who"]][-1][1] = one["at"]
    found = []
    last: dict[int, tuple[float, dict[str, Any]]] = {}
    for one in lines:
        if one["what"] != "begin" or one["tool"] not in EXCLUSIVE:
            continue
        until, before = last.get(one["lane"], (0.0, one))
        if one["at"] < until:
            # It may have been stopped just before it began, too: its lease was checked, its fence is the old one.
            was_stopped = any(
                at < until and woke > before["at"] - 1 for at, woke in stops[before["pid"]]
            )
            if not (was_stopped and one["fence"] > before["fence"]):
                found.append(f"lane {one['lane']}: call {one['n']} (process {one['pid']}, fence {one['fence']}) began "
                             f"at {one['at']:.4f}, before call {before['n']} (process {before['pid']}, fence "
                             f"{before['fence']}) ended at {until:.4f}")  # fmt: skip
        end = ends.get((one["pid"], one["key"]), gone.get(one["pid"], one["at"]))
        if end > until:
            last[one["lane"]] = end, one
    return found


def table(counts: Counter[str]) -> str:
    """Return counts in one line."""
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))


def attack(
    kind: str, seconds: float, seed: int, folder: Path, bug: str
) -> tuple[Counter[str], list[str]]:
    """Attack one kind of store; return the counts of faults and what was violated."""
    server = Server(folder) if kind == "postgresql" else None
    store = server.address if server is not None else str(folder / "ledger.db")
    log = ActionLog(folder.with_name(folder.name + ".log"))
    log.path.touch()
    try:
        backend: Any = open_backend(store)
        with backend.transaction(), backend.savepoint() as connection:
            connection.execute("create table chaos(key text)")
        backend.close()
        one = Attack(store, server, log, random.Random(seed), bug)
        one.run(seconds)
        numbers = sorted({line["n"] for line in log.lines() if line["what"] == "deliver"})
        one.counts["calls"] = len(numbers)
        one.counts["effects"] = sum(line["what"] == "begin" for line in log.lines())
        asyncio.run(settle(store, log, numbers, bug))
        errors = Counter(line["error"] for line in log.lines() if line["what"] == "ended")
        for error, count in errors.most_common(5):
            print(f"  {count} workers ended by {error}")
        return one.counts, violations(store, log)
    finally:
        if server is not None:
            server.close()


def main() -> int:
    """Run the attack; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--store", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the faults; drawn and printed by default"
    )
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the stores are; kept if something is wrong"
    )
    parser.add_argument(
        "--inject-bug", choices=["keys", "rerun", "locks"], default="", help=argparse.SUPPRESS
    )
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(4), "big")
    kinds = ["sqlite", "postgresql"] if given.store == "both" else [given.store]
    top = Path(tempfile.mkdtemp(prefix="cmm-chaos-", dir=given.folder))
    top.chmod(0o755)
    print(f"seed {seed}, {WORKERS} processes, lease {LIMITS.lease:g} s, in {top}", flush=True)
    total, wrong = 0, []
    for kind in kinds:
        print(kind, flush=True)
        (top / kind).mkdir()
        begun = time.monotonic()
        counts, found = attack(
            kind, given.minutes * 60 / len(kinds), seed, top / kind, given.inject_bug
        )
        total += counts["kills"]
        wrong += [f"{kind}: {one}" for one in found]
        for name, number in sorted(counts.items()):
            print(f"  {name:24}{number:8}")
        print(f"  {'violations':24}{len(found):8}   ({time.monotonic() - begun:.0f} s)", flush=True)
    for one in wrong[:20]:
        print(one)
    print(f"{total} kills, {len(wrong)} violations (seed {seed})")
    if wrong:
        print(f"everything that happened is in {top}/*.log")
    else:
        shutil.rmtree(top, ignore_errors=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
