"""One engine in a process of its own: a crash or an endless call costs only this engine.

The parent sends a task, waits, and goes on to the next engine, so that never two of them run at once
and all see the same machine. Times are CPU times of the engine's process, in microseconds.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import statistics
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from rivals import ENGINES, WIDTH, Engine

from callmemaybe.server.gc_tuning import tune_gc

clock = time.process_time_ns
#: Masks seen before are asked for so many times in a row, because one is over before a clock can tell.
AGAIN = 5
REPEATS = [None] * AGAIN
TICKS = os.sysconf("SC_CLK_TCK")


class Lost(Exception):
    """The process died, or took longer than it may."""


class Worker:
    """The parent's side: starts the process, asks, and ends it if it takes too long."""

    def __init__(
        self, name: str, folder: Path, core: int | None, warm: dict[str, Any] | None = None
    ) -> None:
        """Start the process and set the engine up; raises Lost with what went wrong.

        ``warm`` is a first request (as for `replay`), which counts as part of the set-up.
        """
        self.name = name
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, name, folder, core, warm), daemon=True
        )
        self._process.start()
        theirs.close()
        self.setup: dict[str, Any] = self._answer(120)

    def ask(self, task: str, limit: float, **payload: Any) -> Any:
        """Return the result of a task, and the CPU seconds it took.

        Raises Lost if it takes more than ``limit`` of them.
        """
        self._pipe.send((task, payload))
        return self._answer(limit)

    def _answer(self, limit: float) -> Any:
        began = self.spent()
        while not self._pipe.poll(0.2):
            if not self._process.is_alive() and not self._pipe.poll():
                raise Lost(f"died with code {self._process.exitcode}")
            if self.spent() - began > limit:
                self.close()
                raise Lost(f"took more than {limit:g} s")
        try:
            kind, answer = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise Lost(f"died with code {self._process.exitcode}") from None
        if kind == "lost":
            raise Lost(answer)
        return answer

    def spent(self) -> float:
        """Return the CPU seconds of the process so far; 0 if there is none any more."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / TICKS

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def _serve(
    pipe: Connection, name: str, folder: Path, core: int | None, warm: dict[str, Any] | None
) -> None:
    if core is not None:
        os.sched_setaffinity(0, [core])
    kind = ENGINES[name]
    try:
        kind.load()
        before = _memory()
        began = clock()
        engine = kind(folder)
        if warm is not None and (error := replay(engine, **warm)["error"]):
            raise RuntimeError(error)
        seconds = (clock() - began) / 1e9
    except Exception as error:  # whatever it is, it is this engine's end
        pipe.send(("lost", f"{type(error).__name__}: {error}"))
        return
    tune_gc()
    pipe.send(("ok", {"setup_s": round(seconds, 3), "setup_mb": _memory() - before}))
    while True:
        task, payload = pipe.recv()
        began = clock()
        found = TASKS[task](engine, **payload)
        pipe.send(("ok", (found, (clock() - began) / 1e9)))


def _memory() -> int:
    """Return the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // (1 << 20)


def memory(engine: Engine) -> int:
    """Return the resident memory in MB."""
    del engine
    gc.collect()
    return _memory()


def replay(engine: Engine, *, language: dict[str, Any], ids: list[int]) -> dict[str, Any]:
    """Compile, and follow one output: a mask for every token that is not forced.

    Then once more with the same tools, as a second request would; and once more to see what a mask
    costs that was seen before. ``first``, ``whole``, ``again``, and lists ``cold`` and ``known``.
    """
    found: dict[str, Any] = {"cold": [], "known": [], "forced": 0, "error": None}
    try:
        began = clock()
        matcher = engine.start(_compiled(engine, language))
        engine.mask(matcher)
        found["first"] = _microseconds(clock() - began)
        whole = _follow(engine, matcher, ids, found)
        found["whole"] = found["first"] + whole
        began = clock()
        compiled = _compiled(engine, language)
        matcher = engine.start(compiled)
        found["again"] = _microseconds(clock() - began) + _follow(engine, matcher, ids, None)
        for times in ([], found["known"]):
            _look(engine, engine.start(compiled), ids, times)
    except Exception as error:  # a refusal, or a fault of the engine's
        found["error"] = f"{type(error).__name__}: {str(error)[:200]}"
    return found


def _compiled(engine: Engine, language: dict[str, Any]) -> Any:
    if "tools" in language:
        return engine.tools(language["tools"])
    return engine.schema(language["schema"])


def _follow(engine: Engine, matcher: Any, ids: list[int], found: dict[str, Any] | None) -> float:
    """Follow an output and return what it took; with ``found``, note each mask and the verdict."""
    forced_of, mask_of, accept = engine.forced, engine.mask, engine.accept
    at, total = 0, 0.0
    different = False
    while at < len(ids):
        t0 = clock()
        forced = forced_of(matcher)
        t1 = clock()
        if not forced:
            mask_of(matcher)
        t2 = clock()
        taken = accept(matcher, forced or ids[at : at + 1])
        t3 = clock()
        total += t3 - t0
        if found is not None:
            found["forced"] += len(forced)
            if not forced:
                found["cold"].append(_microseconds(t2 - t1))
        if forced and forced != ids[at : at + len(forced)]:
            different = True
            break
        if not taken:
            break
        at += taken
    if found is not None:
        found["masks"] = len(found["cold"])
        found["different"] = different
        found["accepted"] = at == len(ids) and engine.is_done(matcher)
    return total / 1e3


def _look(engine: Engine, matcher: Any, ids: list[int], known: list[float]) -> None:
    mask_of = engine.mask
    for index in ids:
        began = clock()
        for _ in REPEATS:
            mask_of(matcher)
        known.append(_microseconds(clock() - began) / AGAIN)
        if not engine.accept(matcher, [index]):
            break


def _microseconds(nanoseconds: int) -> float:
    return max(nanoseconds - OVERHEAD, 0) / 1e3


def _overhead() -> float:
    """Return how long nothing takes by this clock, in nanoseconds."""
    return statistics.median(-clock() + clock() for _ in range(1001))


OVERHEAD = _overhead()


def judge(engine: Engine, *, schema: Any, tests: list[tuple[bool, list[int]]]) -> dict[str, Any]:
    """Compile a schema, and follow its instances, each token with its mask, as MaskBench does."""
    found: dict[str, Any] = {"masks": [], "wrong": [], "error": None}
    try:
        began = clock()
        compiled = engine.schema(schema)
        matcher = engine.start(compiled)
        engine.mask(matcher)
        found["first"] = _microseconds(clock() - began)
    except Exception as error:  # a refusal, or a fault of the engine's
        found["error"] = f"{type(error).__name__}: {str(error)[:200]}"
        return found
    for valid, ids in tests:
        try:
            matcher = engine.start(compiled)
            taken = 0
            for index in ids:
                began = clock()
                engine.mask(matcher)
                found["masks"].append(_microseconds(clock() - began))
                if not engine.accept(matcher, [index]):
                    break
                taken += 1
            accepted = taken == len(ids) and engine.is_done(matcher)
        except Exception:  # a fault of the engine's is no answer
            accepted = not valid
        found["wrong"].append("" if accepted == valid else "reject" if valid else "accept")
    return found


def select(engine: Engine, *, schema: Any, ids: list[int], times: int) -> dict[str, Any]:
    """Choose greedily from raw logits in one state: with an allowed token on top, and another one."""
    matcher = engine.start(engine.schema(schema))
    engine.accept(matcher, ids)
    mask = np.array(engine.mask(matcher)).view(np.uint32).ravel()
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[:WIDTH].astype(bool)
    noise = np.random.default_rng(7).standard_normal((2 * times, WIDTH), np.float32)
    found: dict[str, Any] = {"allowed": int(bits.sum())}
    best = int(np.flatnonzero(bits)[len(np.flatnonzero(bits)) // 2])
    noise[:times, best] = 20
    noise[times:, int(np.flatnonzero(~bits)[0])] = 20
    expected = [best] * times + [int(np.where(bits, row, -9).argmax()) for row in noise[times:]]
    taken = []
    for row, right in zip(noise, expected, strict=True):
        row.max()  # a model has just written them
        began = clock()
        chosen = engine.select(matcher, row)
        taken.append(_microseconds(clock() - began))
        if chosen != right:
            raise ValueError(f"{engine.name} chose {chosen} instead of {right}")
    found["allowed on top"], found["other on top"] = taken[:times], taken[times:]
    return found


def lockstep(
    engine: Engine, *, languages: list[dict[str, Any]], outputs: list[list[int]], count: int
) -> dict[str, Any]:
    """Advance many sequences together, twice; the second time is noted, by step.

    ``copied``: all masks into one array, and every sequence one token on; ``shared``: the masks by
    reference instead.
    """
    compiled = [_compiled(engine, language) for language in languages]
    rows = np.zeros((count, WIDTH // 32), np.int32)
    found: dict[str, Any] = {"copied": [], "shared": []}
    for way in ("warm", "copied", "shared"):
        matchers = [engine.start(compiled[n % len(compiled)]) for n in range(count)]
        if way == "shared" and not engine.by_reference(matchers):
            break
        for step in range(min(map(len, outputs))):
            tokens = [[outputs[n % len(outputs)][step]] for n in range(count)]
            began = clock()
            if way == "shared":
                engine.by_reference(matchers)
            else:
                engine.masks(matchers, rows)
            for matcher, ids in zip(matchers, tokens, strict=True):
                engine.accept(matcher, ids)
            spent = _microseconds(clock() - began)
            if way != "warm":
                found[way].append(spent)
    return found


TASKS: dict[str, Any] = {
    "memory": memory, "replay": replay, "judge": judge, "select": select, "lockstep": lockstep,
}  # fmt: skip
