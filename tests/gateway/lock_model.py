"""An explicit-state model checker of the locks: two calls of two processes that need the same resource.

Processes die, are suspended for longer than their lease, and continue, at any step. Each rule of the arbiter
can be turned off, and a test shows that the checker then finds a violation. Breadth-first search for safety,
then a backward search from every start for liveness.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.gateway.protocol_model import Violation, path_to, search


@dataclass(frozen=True)
class LockRules:
    """What the arbiter guarantees; False injects the bug."""

    one_step: bool = True  # looking at the others and starting are one serialised transaction
    looks_at_leases: bool = True  # only a lost holder is passed over
    frees_the_dead: bool = True  # a lost holder is passed over
    fences_off: bool = True  # passing over a holder updates its row first
    holds_until_recorded: bool = True  # the resource is held until T3, not until the tool began
    checks_ownership: bool = (
        True  # a process whose lease lapsed reads its row before it starts the tool
    )
    finish_checks_fence: bool = True  # T3 compares key + fence + running


@dataclass(frozen=True)
class Call:
    """A call as the ledger has it (committed, running, succeeded, unknown), and where its tool is.

    ``tool``: not begun, looked (may start), inside, or ended.
    """

    row: str = "committed"
    tool: str = "not begun"
    begun_fenced: bool = False
    was_fenced: bool = False


@dataclass(frozen=True)
class Process:
    """Alive, stopped beyond its lease, or dead; and whether its lease ever lapsed."""

    at: str = "alive"
    lapsed: bool = False


@dataclass(frozen=True)
class Scene:
    """Both calls, both processes, and how many accidents happened so far."""

    calls: tuple[Call, Call] = (Call(), Call())
    processes: tuple[Process, Process] = (Process(), Process())
    accidents: int = 0


def explore_locks(rules: LockRules = LockRules(), *, accidents: int = 3) -> Violation | int:
    """Visit every reachable scene; return the first broken law, or the number of scenes."""
    before: dict[Scene, list[Scene]] = {}

    def steps(scene: Scene) -> Iterator[tuple[str, Scene]]:
        for step, after in _steps(scene, rules, accidents):
            before.setdefault(after, []).append(scene)
            yield step, after

    violation, seen = search(Scene(), steps, _broken)
    if violation is not None:
        return violation
    for who in (0, 1):
        stuck = _never_starts(seen, before, who)
        if stuck is not None:
            return Violation(f"call {who} waits for ever", path_to(stuck, seen))
    return len(seen)


def _broken(scene: Scene) -> str | None:
    if all(call.tool == "inside" and call.row == "running" for call in scene.calls):
        return "two conflicting calls run at once, and neither was fenced off"
    for call, process in zip(scene.calls, scene.processes, strict=True):
        if call.row == "succeeded" and call.was_fenced:
            return "a result was recorded after its call was fenced off"
        if call.was_fenced and not process.lapsed:
            return "a call whose process never lost its lease was fenced off"
        if call.begun_fenced:
            return "a tool began after its call had been fenced off"
    return None


def _steps(scene: Scene, rules: LockRules, accidents: int) -> Iterator[tuple[str, Scene]]:
    for who, process in enumerate(scene.processes):
        name = f"process {who}"
        if process.at != "dead":
            if process.at == "alive":
                yield from _waits(name, scene, who, rules)
            yield from _works(name, scene, who, rules)
        if scene.accidents < accidents and process.at == "alive":
            more = replace(scene, accidents=scene.accidents + 1)
            gone = _call(more, who, replace(scene.calls[who], tool="dead"))
            yield f"{name} is killed", _process(gone, who, Process("dead", lapsed=True))
            yield f"{name} stops", _process(more, who, Process("stopped", lapsed=True))
        if process.at == "stopped":
            yield f"{name} goes on", _process(scene, who, replace(process, at="alive"))


def _waits(name: str, scene: Scene, who: int, rules: LockRules) -> Iterator[tuple[str, Scene]]:
    """Look whether the other call is in the way; start if it is not."""
    mine, other = scene.calls[who], scene.calls[1 - who]
    if mine.row != "committed":
        return
    if mine.tool == "looked":
        yield f"{name} starts (T2)", _call(scene, who, Call("running"))
        return
    held = other.row == "running"
    if not rules.holds_until_recorded:
        held = held and other.tool == "not begun"
    lost = scene.processes[1 - who].at != "alive" or not rules.looks_at_leases
    if held and not (lost and rules.frees_the_dead):
        return
    after = scene
    if held and rules.fences_off:
        after = _call(scene, 1 - who, replace(other, row="unknown", was_fenced=True))
    if rules.one_step:
        yield f"{name} finds it free and starts (T2)", _call(after, who, Call("running"))
    else:
        yield f"{name} finds it free", _call(after, who, replace(mine, tool="looked"))


def _works(name: str, scene: Scene, who: int, rules: LockRules) -> Iterator[tuple[str, Scene]]:
    """Begin the tool, come back from it, record the result (T3)."""
    mine, process = scene.calls[who], scene.processes[who]
    if mine.tool == "not begun" and mine.row in {"running", "unknown"}:
        fenced = mine.row == "unknown"
        if fenced and (rules.checks_ownership and process.lapsed):
            yield f"{name} finds itself fenced off", _call(scene, who, replace(mine, tool="dead"))
        else:
            begun = replace(mine, tool="inside", begun_fenced=fenced)
            yield f"{name} begins the tool", _call(scene, who, begun)
    elif mine.tool == "inside":
        yield f"{name}'s tool returns", _call(scene, who, replace(mine, tool="ended"))
    elif mine.tool == "ended":
        wins = mine.row == "running" or not rules.finish_checks_fence
        row = "succeeded" if wins else mine.row
        yield f"{name} records (T3)", _call(scene, who, replace(mine, row=row, tool="over"))


def _never_starts(
    seen: dict[Scene, tuple[Scene, str] | None], before: dict[Scene, list[Scene]], who: int
) -> Scene | None:
    """Return a scene in which a living process waits and no way leads to its start."""
    good = [scene for scene in seen if scene.calls[who].row != "committed"]
    able = set(good)
    while good:
        for earlier in before.get(good.pop(), ()):
            if earlier not in able:
                able.add(earlier)
                good.append(earlier)
    for scene in seen:
        if scene not in able and scene.processes[who].at == "alive":
            return scene
    return None


def _call(scene: Scene, who: int, call: Call) -> Scene:
    calls = (call, scene.calls[1]) if who == 0 else (scene.calls[0], call)
    return replace(scene, calls=calls)


def _process(scene: Scene, who: int, process: Process) -> Scene:
    both = (process, scene.processes[1]) if who == 0 else (scene.processes[0], process)
    return replace(scene, processes=both)
