"""The check for stores finds each kind of loss; a check that finds nothing would be worth nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.testing.effects import EffectLog, check_invariant


def answer(key: str, content: str, state: CallState = CallState.SUCCEEDED) -> Any:
    return SimpleNamespace(state=state, key=key, code="", content=content)


def backend(**rows: Any) -> Any:
    return SimpleNamespace(read_call=rows.get, read_audit=lambda: iter(()))


def row(effect: str, content: str = "1") -> Any:
    return SimpleNamespace(state="succeeded", effect=effect, content=content)


def test_answers_are_read_back(tmp_path: Path) -> None:
    """Final answers are in the log; those that may still change are not."""
    log = EffectLog(tmp_path / "log")
    log.record_answer(answer("a", "1"))
    log.record_answer(answer("a", "2"))
    log.record_answer(answer("b", "3", CallState.RUNNING))
    log.write("effect", "a")
    assert log.answers() == {"a": {"1", "2"}}
    assert log.effects() == Counter("a")


@pytest.mark.parametrize(
    ("effects", "answers", "rows", "message"),
    [
        ("a", "1", {"a": row("once")}, None),
        ("aa", "1", {"a": row("idempotent")}, None),
        ("aa", "1", {"a": row("once")}, "happened 2 times"),
        ("", "1", {"a": row("once")}, "without effect"),
        ("", "", {"a": row("read")}, "without effect"),
        ("a", "2", {"a": row("once")}, "answered with something else"),
        ("a", "12", {"a": row("once")}, "answered with something else"),
        ("a", "1", {}, "not in the ledger"),
        ("ab", "1", {"a": row("once")}, "b: happened without a record"),
    ],
)
def test_every_loss_is_found(
    tmp_path: Path, effects: str, answers: str, rows: dict[str, Any], message: str | None
) -> None:
    """A call that was lost, happened twice, or got another answer than the recorded one is an error."""
    log = EffectLog(tmp_path / "log")
    for key in effects:
        log.write("effect", key)
    for content in answers:
        log.record_answer(answer("a", content))
    if message is None:
        check_invariant(log, backend(**rows), ["a"])
        return
    with pytest.raises(AssertionError, match=message):
        check_invariant(log, backend(**rows), ["a"])
