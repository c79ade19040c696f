"""A check that a store loses no call and lets none happen twice, for authors of stores.

:class:`EffectLog` is a file outside the store that records each effect and each answer. Run tools of
:func:`logging_tool` through a gateway on your store, kill the process at any of ``WRITE_POINTS`` with
:func:`kill_at`, deliver the same calls again, and then call :func:`check_invariant`.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from callmemaybe.gateway.answers import CallAnswer
from callmemaybe.gateway.audit.chain import verify_chains
from callmemaybe.gateway.lifecycle import TERMINAL
from callmemaybe.gateway.store import StoreBackend
from callmemaybe.tools import Effect, Tool, Transaction
from callmemaybe.tools.declare import Context, make_tool

#: Every place where a process can die around the writes of one call, in order.
WRITE_POINTS = (
    "T1 half written",
    "T1 written",
    "T1 durable",
    "effect next",
    "effect done",
    "T3 half written",
    "T3 written",
    "T3 durable",
    "answered",
)


class EffectLog:
    """An append-only file with a line per effect and per final answer; it survives kill -9."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, kind: str, key: str, what: str = "") -> None:
        """Append one line with a single write."""
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, f"{kind}\t{key}\t{what}\n".encode())
        finally:
            os.close(handle)

    def record_answer(self, answer: CallAnswer) -> None:
        """Append a final answer that was given; other answers are ignored."""
        if answer.state in TERMINAL and answer.key and answer.code != "key_conflict":
            self.write("answered", answer.key, answer.content)

    def effects(self) -> Counter[str]:
        """Return how often each key had its effect."""
        return Counter(key for kind, key, _ in self._lines() if kind == "effect")

    def answers(self) -> dict[str, set[str]]:
        """Return the final answers that were given, by key."""
        found: dict[str, set[str]] = {}
        for kind, key, what in self._lines():
            if kind == "answered":
                found.setdefault(key, set()).add(what)
        return found

    def _lines(self) -> Iterable[tuple[str, str, str]]:
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
            kind, key, what = line.split("\t", 2)
            yield kind, key, what


def logging_tool(log: EffectLog, effect: Effect, **declared: Any) -> Tool:
    """Return a tool named after its effect class whose effect is a line in ``log``.

    A transactional tool writes a row into the table ``effects`` of the store instead, since a line
    in the log would stay when the store rolls back.
    """
    declared = {"name": effect.value, "effect": effect, "trusted": True, **declared}
    if effect is Effect.TRANSACTIONAL:

        def within(n: int, context: Context, transaction: Transaction) -> int:
            key = context.key
            assert key.isalnum()
            transaction.execute(f"insert into effects values ('{key}')")  # noqa: S608 - hex digits
            return n

        return make_tool(within, **declared)

    async def outside(n: int, context: Context) -> int:
        log.write("effect", context.key)
        return n

    return make_tool(outside, **declared)


def kill_at(point: str, occurrence: int = 1) -> Callable[[str], None]:
    """Return a probe for ``open_ledger`` that kills this process with SIGKILL at a write point."""
    left = occurrence

    def probe(where: str) -> None:
        nonlocal left
        if where == point:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return probe


def check_invariant(
    log: EffectLog,
    backend: StoreBackend,
    delivered: Iterable[str],
    effects: Counter[str] | None = None,
) -> None:
    """Raise AssertionError if a call was lost, happened twice, or got two different answers.

    ``delivered`` are the keys of all calls; ``effects`` are effects counted outside the log (the rows
    of transactional tools).
    """
    happened = log.effects() + (effects or Counter())
    answers = log.answers()
    for key in delivered:
        row = backend.read_call(key)
        assert row is not None, f"{key}: delivered and not in the ledger"
        state = row.state
        assert state in TERMINAL, f"{key}: left in state {state}"
        assert answers.get(key, set()) <= {row.content}, f"{key}: answered with something else"
        if row.effect in {Effect.ONCE, Effect.TRANSACTIONAL}:
            assert happened[key] <= 1, f"{key}: happened {happened[key]} times"
            assert state != "succeeded" or happened[key] == 1, f"{key}: succeeded without effect"
        else:
            assert state != "succeeded" or happened[key] >= 1, f"{key}: succeeded without effect"
    for key in happened:
        assert backend.read_call(key) is not None, f"{key}: happened without a record"
    _, breaks = verify_chains(backend.read_audit())
    assert not breaks, breaks[0]
