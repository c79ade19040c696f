"""A ledger that is damaged, foreign or out of reach: one sentence with the path and what to do."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.cli.main import main
from callmemaybe.gateway.ledger import open_ledger
from callmemaybe.gateway.store import AppendAudit, open_backend

FEW = Path(__file__).parents[2] / "examples" / "gateway_home.py"
COMMANDS = [
    ["audit", "list"],
    ["audit", "verify"],
    ["audit", "export"],
    ["audit", "show", "a" * 64],
    ["approvals", "list"],
    ["exec", "calls.json", "--tools", str(FEW)],
]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """Run a command in an empty folder; return (exit code, standard output)."""
    monkeypatch.chdir(tmp_path)
    Path("calls.json").write_text("[]")

    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out + captured.err

    return run


def foreign(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(sql)
    connection.close()


def whole(path: Path) -> None:
    """Make a ledger of some hundred pages."""
    ledger = open_ledger(str(path), reserve=0)
    for n in range(60):
        record = f'{{"event": "attempt", "t": {n}, "note": "{"x" * 9000}"}}'
        ledger.send_and_wait(AppendAudit("ab", record))
    ledger.close()


def changed(path: Path, sql: str) -> None:
    open_backend(str(path)).close()
    foreign(path, sql)


CASES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a text": (lambda path: path.write_text("1 / 0\n" * 200), "no ledger, and no SQLite database"),
    "other tables": (
        lambda path: foreign(path, "create table calls(number, at)"),
        "the database of another program (its table 'calls' is not a ledger's)",
    ),
    "another meta": (
        lambda path: foreign(path, "create table meta(name, value); create table runs(x)"),
        "the database of another program",
    ),
    "newer": (
        lambda path: changed(path, "update meta set value = 99 where name = 'version'"),
        "a ledger of version 99, and this callmemaybe reads version",
    ),
    "older": (
        lambda path: changed(path, "update meta set value = 1 where name = 'version'"),
        "a ledger of version 1, and",
    ),
    "a table less": (
        lambda path: changed(path, "drop table audit"),
        "the ledger is damaged (its table 'audit' is missing); restore it from a copy",
    ),
    "a column less": (
        lambda path: changed(path, "alter table turns drop column request"),
        "the ledger is damaged (its table 'turns' is changed)",
    ),
    "a folder": (lambda path: path.mkdir(), ""),
    "nothing in it": (lambda path: path.touch(), ""),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_ledger_is_one_sentence(cli: Any, case: str, command: list[str]) -> None:
    """Each is told apart, with the path and what to do; the file is left as it is."""
    path = Path("x.db")
    make, words = CASES[case]
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    code, out = cli(*command, "--db", "x.db")
    if case == "nothing in it" and command[0] == "exec":
        assert code == 0
        return
    assert (code, len(out.splitlines())) == (2, 1), out
    assert words in out
    assert "x.db: " in out
    if path.is_file():
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    "why", [PermissionError(13, "Permission denied"), OSError(30, "Read-only")]
)
def test_a_ledger_that_may_not_be_written_says_so(
    cli: Any, monkeypatch: pytest.MonkeyPatch, why: OSError
) -> None:
    """Who may not open the file learns which one and why."""
    whole(Path("x.db"))
    real = os.open

    def refuse(path: Any, *rest: Any, **more: Any) -> int:
        if os.fspath(path) == "x.db":
            raise why
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    code, out = cli("exec", "calls.json", "--tools", str(FEW), "--db", "x.db")
    assert (code, len(out.splitlines())) == (2, 1), out
    assert f"x.db: the ledger cannot be opened ({why.strerror})" in out


@pytest.mark.parametrize("share", [0.0005, 0.002, 0.1, 0.5, 0.99, 0.999999])
def test_a_truncated_ledger_shows_no_traceback(cli: Any, share: float) -> None:
    """Whatever is left of the file, each command works or says which file is damaged."""
    whole(Path("whole.db"))
    data = Path("whole.db").read_bytes()
    for command in COMMANDS:
        Path("x.db").write_bytes(data[: int(len(data) * share)])
        for name in ("x.db-wal", "x.db-shm"):
            Path(name).unlink(missing_ok=True)
        code, out = cli(*command, "--db", "x.db")
        assert code in {0, 1, 2, 5}, out[-2000:]
        assert "Traceback" not in out
        if code in {2, 5} and command[1] != "show":
            assert "x.db: " in out.splitlines()[-1]


def test_a_ledger_with_wrong_bytes_shows_no_traceback(cli: Any) -> None:
    """Random bytes anywhere: a command works, finds problems, or says which file is damaged."""
    whole(Path("whole.db"))
    data = Path("whole.db").read_bytes()
    rng = random.Random(5)
    for n in range(60):
        broken = bytearray(data)
        for _ in range(rng.choice([1, 8, 64])):
            end = rng.choice([200, 40_000, len(data)])
            broken[rng.randrange(end)] = rng.randrange(256)
        Path("x.db").write_bytes(broken)
        for name in ("x.db-wal", "x.db-shm"):
            Path(name).unlink(missing_ok=True)
        code, out = cli(*COMMANDS[n % len(COMMANDS)], "--db", "x.db")
        assert code in {0, 1, 2, 5}, out[-2000:]
        assert "Traceback" not in out
