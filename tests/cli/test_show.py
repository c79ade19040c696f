"""What people see is complete, short and cannot command their terminal."""

from __future__ import annotations

import io
import sys

import pytest

from callmemaybe.caller import CallResult, Step
from callmemaybe.cli.batch import BatchRow
from callmemaybe.cli.display import RunDisplay, printable
from callmemaybe.cli.results import ResultRecord
from callmemaybe.tools import ToolCall


def row(index: int, *, omitted: int = 0, failure: str | None = None) -> BatchRow:
    record = ResultRecord(
        f"prompt {index}\x1b[31m\r", None if failure else "f", '{"a": 1.0}', failure
    )
    if failure:
        return BatchRow(index, record, details="Traceback\n  boom")
    call = ToolCall("f", '{"a":1}')
    seconds = {"total": 0.0123}
    counts = {"forced": 3, "chosen": 1, "passes": 2}
    told = CallResult(call, 0.5, 0.1, {"f": 0.5}, omitted=omitted, seconds=seconds, **counts)
    return BatchRow(index, record, told)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Zürich 🙂", "plain Zürich 🙂"),
        ("\x1b[31mred\r\n\t\x07", "\\x1b[31mred\\r\\n\\t\\x07"),
        ("\u202etxt\u2028\ud800", "\\u202etxt\\u2028\\ud800"),
    ],
)
def test_nothing_can_command_the_terminal(text: str, shown: str) -> None:
    """Whatever is not printable is shown as an escape."""
    assert printable(text) == shown


def test_long_texts_are_cut() -> None:
    """A cut is visible."""
    assert printable("abcdef", 4) == "abc…"
    assert printable("abcd", 4) == "abcd"


def test_a_long_table_loses_its_middle(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of rows do not flood the terminal, and the sums count them all."""
    monkeypatch.delenv("COLUMNS", raising=False)  # a worker of xdist has one
    show = RunDisplay(1000, verbose=False, quiet=False)
    rows = [row(index) for index in range(1000)]
    show.table(rows)
    show.summary(rows, 12.0, "out.json")
    out = capsys.readouterr().out
    assert len(out.splitlines()) < 130
    assert "880 more in the file" in out
    assert "1000 prompts, 1000 calls, 12.0 s, 12 ms per prompt, 75% of 4000 tokens forced" in out
    assert "\x1b" not in out


def test_what_was_left_out_and_what_failed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A prompt longer than the context and a failure are named with their prompt."""
    show = RunDisplay(2, verbose=True, quiet=False)
    rows = [row(0, omitted=1234), row(1, failure="it broke")]
    for one in rows:
        show.row(one)
    show.summary(rows, 1.0, "out.json")
    err = capsys.readouterr().err
    assert "prompt 1: longer than the model's context, 1,234 tokens in its middle" in err
    assert "prompt 2: it broke" in err
    assert "  boom" in err


def test_equal_failures_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A reason that hits many prompts is one line, with their numbers."""
    show = RunDisplay(30, verbose=False, quiet=False)
    show.summary(
        [row(index, failure=f"reason {index % 2}") for index in range(50)], 1.0, "out.json"
    )
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 3
    assert "prompts 1, 3, 5, 7, 9, " in err
    assert " and 5 more: reason 0" in err
    assert "a bug in callmemaybe" in err


def test_quiet_still_tells_failures(capsys: pytest.CaptureFixture[str]) -> None:
    """Silence is for what went well."""
    show = RunDisplay(2, verbose=False, quiet=True)
    rows = [row(0, omitted=5), row(1, failure="it broke")]
    for one in rows:
        show.row(one)
    show.message("hello")
    show.table(rows)
    show.summary(rows, 1.0, "out.json")
    out, err = capsys.readouterr()
    assert (out, err) == ("", "prompt 2: it broke\n")


def test_a_step_shows_bytes_that_are_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    """A token that ends inside a character is shown as what it is."""
    show = RunDisplay(1, verbose=True, quiet=False)
    likeliest = ((b"\xe2\x82", 0.5), (b"a", 0.25))
    show.step(0, Step((7,), b"\xe2\x82", b'"\xe2\x82', "chosen", 12, -0.1, likeliest, ()), "euro")
    err = capsys.readouterr().err
    assert "chosen  \\xe2\\x82  12 allowed" in err
    assert "50.0%" in err


class Screen(io.StringIO):
    """A text that says it is a terminal, or not."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize(
    ("is_terminal", "environment", "is_there"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
        (False, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_a_bar_moves_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, environment: dict[str, str], is_there: bool
) -> None:
    """Not in a file, whatever colours it, and not where no colour is wanted; calls are no markup."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", "COLUMNS": "200", **environment}.items():
        monkeypatch.setenv(name, value)
    screen = Screen(is_terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    show = RunDisplay(1, verbose=not is_there, quiet=False)  # a line for each result, where asked
    call = BatchRow(0, ResultRecord("p", "find", '{"path": "[/etc] [red]"}'))
    with show.running():
        show.row(call)
    assert ("\x1b[" in screen.getvalue() and "0/1" in screen.getvalue()) is is_there
    assert 'find {"path": "[/etc] [red]"}' in screen.getvalue()
