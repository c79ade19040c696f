"""Random histories against a model: deliveries, crashes, take-overs, in any order."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from callmemaybe.gateway import Gateway
from callmemaybe.gateway.audit.chain import verify_chains
from callmemaybe.gateway.keys import call_key
from callmemaybe.gateway.ledger import open_ledger
from callmemaybe.gateway.lifecycle import TERMINAL
from callmemaybe.tools import Effect, ToolCall, tool
from tests.gateway.conftest import MEMORY

FINAL = {state.value for state in TERMINAL}


class Vanished(BaseException):
    """The process is gone at this point."""


class Deliveries(RuleBasedStateMachine):
    """Each rule delivers a call through a process that may vanish at a write point.

    A process vanishes by never coming back: its ledger is dropped without a word, as kill -9
    leaves it (the file lock goes with it).
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="cmm-", dir=MEMORY)
        self.store = str(Path(self.folder.name) / "s.db")
        self.effects: Counter[str] = Counter()
        self.answers: dict[str, set[str]] = {}
        self.classes: dict[str, Effect] = {}
        self.reader = open_ledger(self.store, reserve=0)

    def teardown(self) -> None:
        self.reader.close()
        self.folder.cleanup()

    @rule(
        effect=st.sampled_from([Effect.ONCE, Effect.IDEMPOTENT, Effect.READ]),
        turn=st.integers(0, 3),
        dies=st.sampled_from([None, "T1 durable", "effect next", "effect done", "T3 durable"]),
        fails=st.booleans(),
    )
    def deliver(self, effect: Effect, turn: int, dies: str | None, fails: bool) -> None:
        """Deliver one of twelve keys, dying or not, with a tool that works or not."""
        key = call_key("", "r", turn, 0, effect.value)
        self.classes[key] = effect
        log = self.effects

        async def body(n: int) -> int:
            log[key] += 1
            if fails:
                raise ValueError("no")
            return n

        made = tool(effect=effect, name=effect.value, writes="x", trusted=True, attempts=1)(body)
        where: list[str] = []

        async def go() -> None:
            gone = asyncio.Event()
            loop = asyncio.get_running_loop()

            def probe(point: str) -> None:
                if point == dies and not where:
                    where.append(point)
                    loop.call_soon_threadsafe(gone.set)
                if where:
                    raise Vanished

            ledger = open_ledger(self.store, reserve=0, probe=probe)
            gateway = Gateway([made], store=ledger)
            call = ToolCall(effect.value, json.dumps({"n": turn}), "c")
            task = asyncio.ensure_future(gateway.run([call], run="r", turn=turn))
            lost = asyncio.ensure_future(gone.wait())
            await asyncio.wait({task, lost}, return_when=asyncio.FIRST_COMPLETED)
            if where:
                task.cancel()
                ledger.backend._alive.close()  # the kernel drops the lock of a dead process
                await asyncio.gather(task, return_exceptions=True)
            else:
                lost.cancel()
                # What is refused before T1 is in no ledger: it may be refused otherwise the next time.
                admitted = self.reader.backend.read_call(key) is not None
                for answer in task.result():
                    if answer.state in TERMINAL and admitted:
                        self.answers.setdefault(key, set()).add(answer.content)
            ledger.close()

        asyncio.run(go())

    @invariant()
    def nothing_twice_nothing_lost(self) -> None:
        """`once` at most once; every effect recorded; one answer per key; the chain holds."""
        for key, effect in self.classes.items():
            row = self.reader.backend.read_call(key)
            if self.effects[key]:
                assert row is not None
            if effect is Effect.ONCE:
                assert self.effects[key] <= 1
            if row is not None and row.state == "succeeded":
                assert self.effects[key] >= 1
            answers = self.answers.get(key, set())
            assert len(answers) <= 1
            if answers and row is not None and row.state in FINAL:
                assert answers == {row.content}
        assert not verify_chains(self.reader.backend.read_audit())[1]


Deliveries.TestCase.settings = settings(
    max_examples=8,
    stateful_step_count=8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
class TestDeliveries(Deliveries.TestCase):
    """The state machine as a test."""


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["write", "read", "append"]),
            st.sampled_from("ab"),
            st.integers(0, 9),
            st.sampled_from([0.0, 0.001, 0.004]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_the_parallel_schedule_ends_as_the_sequential_one(steps: list[Any]) -> None:
    """Whatever runs side by side, values read and the final state are those of running in order."""

    def world() -> tuple[dict[str, list[int]], list[Any]]:
        state: dict[str, list[int]] = {"a": [], "b": []}

        @tool(effect="once", writes="cell:{cell}")
        async def write(cell: str, n: int, wait: float) -> None:
            await asyncio.sleep(wait)
            state[cell] = [n]

        @tool(effect="once", writes="cell:{cell}")
        async def append(cell: str, n: int, wait: float) -> None:
            before = list(state[cell])
            await asyncio.sleep(wait)
            state[cell] = [*before, n]

        @tool(effect="read", reads="cell:{cell}")
        async def read(cell: str, n: int, wait: float) -> list[int]:
            await asyncio.sleep(wait)
            return [*state[cell], n]

        return state, [write, append, read]

    calls = [
        ToolCall(name, json.dumps({"cell": cell, "n": n, "wait": wait}), str(place))
        for place, (name, cell, n, wait) in enumerate(steps)
    ]

    async def parallel() -> tuple[Any, Any]:
        state, tools = world()
        async with Gateway(tools, guard_repeats=False) as gateway:
            answers = await gateway.run(calls)
        return state, [answer.value for answer in answers]

    async def sequential() -> tuple[Any, Any]:
        state, tools = world()
        answers = []
        async with Gateway(tools, guard_repeats=False) as gateway:
            for call in calls:
                answers += await gateway.run([call])
        return state, [answer.value for answer in answers]

    assert asyncio.run(parallel()) == asyncio.run(sequential())
