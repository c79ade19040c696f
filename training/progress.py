"""What a training loop keeps track of: counts, time, signals, and the lines of its log."""

from __future__ import annotations

import signal
import time

from callmemaybe.tuning.packing import TokenBatch
from training.checkpoint import TrainingState
from training.optim.data_parallel import ProcessGroup
from training.optim.schedule import Schedule


class Progress:
    """Counts of a run that all processes agree on, and whether it is finished."""

    def __init__(
        self, state: TrainingState, group: ProcessGroup, schedule: Schedule, stop: list[int]
    ) -> None:
        """`stop`: becomes non-empty when a signal asks this process to stop."""
        self.state, self.group, self.schedule, self.stop = state, group, schedule, stop
        self.tokens = self.pairs = 0  # since the processes averaged their weights
        self.finished = schedule.done(state.pairs, state.seconds) >= 1
        self.restart_clock()

    def restart_clock(self) -> None:
        """Leave out the time since the last step: evaluation is not training."""
        self.tick = time.monotonic()

    def add(self, batch: TokenBatch, *, sync: bool, steps: int) -> None:
        """Count a step; with `sync`, average the weights of all processes, `steps` steps after the last time."""
        state = self.state
        self.tokens += len(batch.ids)
        self.pairs += len(batch.pair_pad)
        if sync:
            is_main = self.group.is_main
            over = self.schedule.done(state.pairs, state.seconds) >= 1
            mine = [
                self.tokens,
                self.pairs,
                bool(self.stop),
                is_main * state.seconds,
                is_main * over,
            ]
            sums = self.group.average(state.model.parameters(), [float(each) for each in mine])
            state.tokens += int(sums[0])
            state.pairs += int(sums[1])
            state.seconds = sums[3]
            self.finished = bool(sums[2] or sums[4])
            self.tokens = self.pairs = 0
            if is_main:
                state.update_average(steps)
        now = time.monotonic()
        state.seconds += now - self.tick
        self.tick = now


class LossLog:
    """The running log: means over `steps` steps."""

    def __init__(self, state: TrainingState, steps: int) -> None:
        self.state, self.steps = state, steps
        self.sums: dict[str, float] = {}

    def add(self, shown: dict[str, float]) -> None:
        """Add the figures of a step."""
        for key, value in shown.items():
            self.sums[key] = self.sums.get(key, 0.0) + value

    def show(self) -> None:
        """Print the means where `steps` steps are full."""
        if self.state.step % self.steps:
            return
        means = " ".join(f"{key} {value / self.steps:.3f}" for key, value in self.sums.items())
        seen = f"{self.state.pairs / 1000:.1f}k requests, {self.state.tokens / 1e6:.2f}M tokens"
        log(self.state, f"{means} | {seen}")
        self.sums = {}


def save_if_possible(state: TrainingState) -> None:
    """Write the checkpoint, or say why not: a disk that is full now may have room at the next one."""
    try:
        state.save()
    except (OSError, RuntimeError) as problem:  # the latter by PyTorch's own writer
        why = str(problem).partition("\n")[0]
        log(state, f"could not write the checkpoint ({why}); training goes on without it")


def stop_on_signals(state: TrainingState, group: ProcessGroup, steps: int) -> list[int]:
    """Return a list to which SIGINT and SIGTERM are appended when they arrive."""
    found: list[int] = []

    def stop(number: int, _: object) -> None:
        found.append(number)
        if group.is_main:
            log(state, f"stops and saves within {steps} steps")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return found


def log(state: TrainingState, text: str) -> None:
    print(f"{state.seconds / 60:6.1f} min step {state.step:5d} {text}", flush=True)
