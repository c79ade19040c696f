"""An explicit-state model checker of leases under "read committed", PostgreSQL's isolation.

The owner of a running call renews its lease and asks whether the call is still its own; another process
judges it lost, fences the call off and takes its place. The *statements* of their transactions interleave: a
statement sees what was committed before it, and waits only for rows that another transaction locks. Each rule
can be turned off, and a test shows that the checker then finds a violation. Breadth-first search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.gateway.protocol_model import Violation, search


@dataclass(frozen=True)
class IsolationRules:
    """What the store and the ledger guarantee; False injects the bug."""

    judge_locks_the_owner: bool = True  # who judges an owner locks its row until the commit
    locked_is_not_lost: bool = True  # a row that its owner is renewing is not judged
    renewal_comes_first: bool = True  # the owner renews before it reads its call
    lapse_is_seen: bool = True  # a renewal that finds the lease lapsed makes the owner ask
    fence_is_compared: bool = True  # the fence is set only where the call still runs


@dataclass(frozen=True)
class Isolated:
    """The committed rows, both transactions and what their processes know."""

    lapsed: bool = False
    fenced: bool = False
    ended: bool = False
    owner: str = "free"  # free, or the last statement of its open transaction
    saw_running: bool = False
    doubts: bool = False  # the owner knows that its lease may have lapsed
    inside: bool = False  # the owner's tool runs
    judge: str = "waits"
    saw_lapsed: bool = False
    fences: bool = False  # the judge's transaction wrote the fence
    broken: str = ""
    lapses: int = 0
    renewals: int = 0


def explore_isolation(rules: IsolationRules = IsolationRules()) -> Violation | int:
    """Visit every reachable state; return the first broken law, or the number of states."""
    violation, seen = search(
        Isolated(), lambda state: _steps(state, rules), lambda state: state.broken or None
    )
    return violation or len(seen)


def _steps(now: Isolated, rules: IsolationRules) -> Iterator[tuple[str, Isolated]]:
    yield from _owner(now, rules)
    yield from _judge(now, rules)
    if not now.lapsed and now.lapses < 2 and "renewed" not in now.owner:
        yield "the lease lapses", replace(now, lapsed=True, doubts=True, lapses=now.lapses + 1)


def _owner(now: Isolated, rules: IsolationRules) -> Iterator[tuple[str, Isolated]]:
    judged = rules.judge_locks_the_owner and now.judge in {"judged", "fenced"} and now.saw_lapsed
    more = replace(now, renewals=now.renewals + 1)
    if now.owner == "free" and now.renewals < 3 and not now.ended:
        if not judged:
            yield "the heart renews", replace(more, owner="heart renewed")
            if rules.renewal_comes_first:
                yield "the owner renews", replace(more, owner="renewed")
        if not rules.renewal_comes_first:
            yield (
                "the owner reads its call",
                replace(more, owner="read", saw_running=not now.fenced),
            )
    elif now.owner == "heart renewed":
        doubts = now.doubts and rules.lapse_is_seen
        yield "the heart commits", replace(now, owner="free", lapsed=False, doubts=doubts)
    elif now.owner == "renewed":
        yield (
            "the owner reads its call",
            replace(now, owner="renewed and read", saw_running=not now.fenced),
        )
    elif now.owner == "read" and not judged:
        yield "the owner renews", replace(now, owner="renewed and read")
    elif now.owner == "renewed and read":
        after = replace(now, owner="free", lapsed=False)
        if not now.saw_running:
            yield "the owner finds itself fenced off", replace(after, ended=True)
        else:
            yield "the owner confirms its call", replace(after, doubts=False)
    if now.owner == "free" and not (now.doubts or now.inside or now.ended):
        law = "a tool began after its call had been fenced off" if now.fenced else ""
        if now.judge == "inside" and not law:
            law = "two holders at once"
        yield "the owner begins its tool", replace(now, inside=True, broken=law)
    if now.inside and not now.ended and not now.fences and now.owner == "free":
        yield "the owner records (T3)", replace(now, ended=True, inside=False)


def _judge(now: Isolated, rules: IsolationRules) -> Iterator[tuple[str, Isolated]]:
    if now.judge == "waits":
        renewing = "renewed" in now.owner
        alive = renewing and rules.locked_is_not_lost and rules.judge_locks_the_owner
        if alive or not now.lapsed:
            return
        yield "the judge finds the lease lapsed", replace(now, judge="judged", saw_lapsed=True)
    elif now.judge == "judged":
        runs = not (now.ended and not now.fenced)
        if runs or not rules.fence_is_compared:
            yield "the judge fences the call off", replace(now, judge="fenced", fences=True)
        else:
            yield "the judge comes too late", replace(now, judge="waits", saw_lapsed=False)
    elif now.judge == "fenced":
        law = ""
        if not now.lapsed:
            law = "a call was fenced off whose owner has a lease"
        elif now.ended:
            law = "a call was fenced off that had ended"
        yield (
            "the judge commits and begins",
            replace(now, judge="inside", fenced=True, fences=False, broken=law),
        )
        yield (
            "the judge's connection is lost",
            replace(now, judge="waits", saw_lapsed=False, fences=False),
        )
