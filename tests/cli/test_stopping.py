"""Ctrl-C and SIGTERM stop what runs, wherever they come."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
import weakref

import pytest

from callmemaybe.cli.process import ExitCode, StopRequested, stopped_by_signals

SIGNALS = [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]


START = """
import importlib.abc, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["callmemaybe", "--version"]
from callmemaybe.__main__ import main
main()
"""


class Thing:
    """Something that a weak reference can refer to."""


def twice(number: signal.Signals) -> None:
    """Raise a signal, and once more while the first one is on its way out."""
    with stopped_by_signals():
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(number)


def in_a_callback(number: signal.Signals) -> None:
    """Raise a signal where nothing can be raised, and go on for ten seconds."""
    things = [Thing()]
    reference = weakref.ref(things[0], lambda _: signal.raise_signal(number))
    with stopped_by_signals():
        things.clear()
        gc.collect()
        assert reference() is None
        for _ in range(1000):
            time.sleep(0.01)


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_the_first_signal_stops(number: signal.Signals, code: ExitCode) -> None:
    """It is raised once, with what to exit with; the next one disturbs nobody."""
    before = signal.getsignal(number), sys.unraisablehook
    with pytest.raises(StopRequested) as stopped:
        twice(number)
    assert stopped.value.code is code
    assert (signal.getsignal(number), sys.unraisablehook) == before


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_that_python_swallows_comes_again(number: signal.Signals, code: ExitCode) -> None:
    """In the callback of a weak reference nothing can be raised; the work stops all the same."""
    with pytest.raises(StopRequested) as stopped:
        in_a_callback(number)
    assert stopped.value.code is code


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_may_come_again_while_it_is_told(
    number: signal.Signals, code: ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the next one is there before the thread that raises it is known to run."""

    class Slow(threading.Thread):
        def start(self) -> None:
            super().start()
            for _ in range(10):
                time.sleep(0.01)

    monkeypatch.setattr("callmemaybe.cli.process.Thread", Slow)
    with pytest.raises(StopRequested) as stopped:
        in_a_callback(number)
    assert stopped.value.code is code


def test_other_things_that_cannot_be_raised_are_told_as_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only what stops the program is taken from whoever listens."""
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: told.append(lost.exc_value))
    thing = Thing()
    reference = weakref.ref(thing, lambda _: 1 / 0)
    with stopped_by_signals():
        del thing
        gc.collect()
    assert reference() is None
    assert [type(each) for each in told] == [ZeroDivisionError]


def start(listens: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own, where Ctrl-C comes while it is read in.

    ``listens`` is what SIGINT leads to: a test that runs in the background inherits that it is ignored.
    """
    begin = f"import signal; signal.signal(signal.SIGINT, signal.{listens})\n"
    return subprocess.run(
        [sys.executable, "-c", begin + START],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_ctrl_c_while_the_program_is_read_in_is_one_line() -> None:
    """The exit code of every other interruption, and no traceback."""
    done = start("default_int_handler")
    assert (done.returncode, done.stderr) == (ExitCode.INTERRUPTED, "callmemaybe: stopped\n")


def test_ctrl_c_that_is_ignored_stays_ignored() -> None:
    """As under nohup, or in the background of a script."""
    done = start("SIG_IGN")
    assert (done.returncode, done.stderr) == (ExitCode.DONE, "")
    assert done.stdout.startswith("callmemaybe ")
