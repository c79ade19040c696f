"""Several processes work on a batch: in order, and whatever becomes of one of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from callmemaybe.cli.batch import BatchRow
from callmemaybe.cli.processes import WorkerProcesses
from callmemaybe.cli.prompts import PromptList, PromptPlace, PromptRow
from callmemaybe.cli.results import ResultRecord
from callmemaybe.errors import InputError, ModelError


@dataclass(frozen=True)
class Says:
    """Makes a runner, in another process, that answers with its number, dies, or sleeps, as it is told."""

    folder: str
    problem: str = ""

    def __call__(self, threads: int) -> Says:
        if self.problem == "model":
            raise ModelError("there is no such model")
        if self.problem == "input":
            raise InputError("is wrong", where="--it", hint="mend it")
        if self.problem == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        assert threads >= 1
        return self

    def rows(self, prompts: Iterable[PromptRow]) -> Iterator[BatchRow]:
        for row in prompts:
            word, _, rest = row.prompt.partition(" ")
            if word == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if word == "once":
                with contextlib.suppress(FileExistsError):
                    (Path(self.folder) / rest).touch(exist_ok=False)
                    os._exit(7)
            if word == "sleep":
                time.sleep(float(rest))
            yield BatchRow(row.index, ResultRecord(row.prompt, f"by {os.getpid()}"))


def rows(tmp_path: Path, prompts: list[str], count: int = 2, chunk: int = 3) -> list[BatchRow]:
    workers = WorkerProcesses(Says(str(tmp_path)), count, chunk)
    return list(workers.rows(PromptList(prompts).rows(PromptPlace())))


def test_results_come_in_order_from_all_processes(tmp_path: Path) -> None:
    """Law: the order is that of the prompts, whoever is done first, and everyone works."""
    prompts = ["sleep 0.5", *(f"prompt {index}" for index in range(40)), "sleep 0.1", "x" * 900_000]
    found = rows(tmp_path, prompts)
    assert [row.record.prompt for row in found] == prompts
    assert [row.index for row in found] == list(range(len(prompts)))
    assert len({row.record.name for row in found}) == 2


def test_a_process_that_dies_costs_no_result(tmp_path: Path) -> None:
    """Law: another does what was left; a prompt that each dies of is a failure that says so, alone."""
    prompts = [
        "a",
        "once one",
        "b",
        "die",
        "c",
        "once two",
        *(f"prompt {index}" for index in range(9)),
    ]
    found = rows(tmp_path, prompts)
    assert [row.record.prompt for row in found] == prompts
    failures = {row.record.prompt: row.record.failure for row in found if row.record.failure}
    assert failures == {
        "die": "3 worker processes ended while they worked on it "
        "(killed by signal 9, as by a system that is out of memory)"
    }


@pytest.mark.parametrize(
    ("problem", "error", "message"),
    [
        ("model", ModelError, "there is no such model"),
        ("input", InputError, "--it: is wrong; mend it"),
        ("die", ModelError, "6 worker processes in a row ended without a result .* use fewer"),
    ],
)
def test_processes_that_cannot_begin_are_one_sentence(
    tmp_path: Path, problem: str, error: type[Exception], message: str
) -> None:
    """Law: a model that cannot be loaded ends the run as it does without --workers."""
    workers = WorkerProcesses(Says(str(tmp_path), problem), 2, 4)
    with pytest.raises(error, match=message):
        list(workers.rows(PromptList(["a", "b"]).rows(PromptPlace())))


def test_no_prompts_need_no_process_to_be_ready(tmp_path: Path) -> None:
    """Law: nothing to do is nothing done."""
    assert rows(tmp_path, []) == []


def test_the_processes_end_with_the_run(tmp_path: Path) -> None:
    """Law: whoever stops in the middle leaves no process behind."""
    workers = WorkerProcesses(Says(str(tmp_path)), 2, 2)
    results = workers.rows(PromptList(["a"] * 50).rows(PromptPlace()))
    processes = {int(str(next(results).record.name)[3:]) for _ in range(10)}
    results.close()  # type: ignore[attr-defined]
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_a_process_whose_run_was_killed_ends_without_a_word() -> None:
    """Law: what works for a run that is dead when it is ready, or has a result, ends quietly; nobody reads a traceback."""
    code = (
        "from multiprocessing import Pipe; from callmemaybe.cli.processes import _work\n"
        "theirs, ours = Pipe(); theirs.close(); _work(ours, lambda threads: None, 1)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
