"""The fuzzer and the mutants of benchmarks/ do what they say (both run for long by hand)."""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module", autouse=True)
def benchmarks() -> Any:
    """Let scripts of benchmarks/ be imported."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield
    sys.path.remove(str(ROOT / "benchmarks"))


def test_damaged_texts_end_in_a_value_or_a_documented_error() -> None:
    """A few inputs for each reader of foreign text: no other exception, no hang, no dead process."""
    import fuzz

    for number, reader in enumerate(fuzz.READERS):
        ended = fuzz.watched(reader._replace(count=8), 20, number)
        assert [one["wrong"] for one in ended] == [None] * 8, reader.name


def read(label: str, text: str, _: random.Random) -> None:
    match text:
        case "wrong":
            raise KeyError(label)
        case "hang":
            while True:
                pass
        case "die":
            import os

            os.kill(os.getpid(), 9)
        case "memory":
            bytearray(3 << 30)
        case "silent":
            raise ValueError
        case "documented":
            raise ValueError("what is wrong")


def test_the_fuzzer_finds_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another exception, a hang, too much memory, an error without a message and a dead process are findings."""
    import fuzz

    monkeypatch.setattr(fuzz, "MOST_SECONDS", 0.2)
    texts = ["documented", "wrong", "hang", "memory", "silent", "fine", "die", "never reached"]
    waiting = iter(["seeds", *texts])
    reader = fuzz.Reader("law", lambda _: ("", next(waiting)), read, (ValueError,), len(texts))
    wrong = [one["wrong"] for one in fuzz.watched(reader, 1, 0)]
    assert [None if one is None else one.partition(" at ")[0] for one in wrong] == [
        None, "KeyError", "more than 0.2 s of CPU time", "MemoryError", "ValueError without a message", None, "the process died (9)",
    ]  # fmt: skip


def test_an_input_is_the_same_again() -> None:
    """An input is named by seed, round and number, and can be had again."""
    import fuzz

    for reader in fuzz.READERS:
        assert reader.make(random.Random("1/2/3")) == reader.make(random.Random("1/2/3"))


def test_runs_are_put_together() -> None:
    """A run that goes on where one of the same commit ended adds to it; any other stands beside it."""
    import fuzz

    def run(start: int, end: int, commit: str) -> dict[str, Any]:
        figures = {
            "reader": "r",
            "inputs": end,
            "seconds": 1.0 / end,
            "memory": end,
            "findings": {str(end): {}},
        }
        return {
            "seed": 1,
            "rounds": [start, end],
            "minutes": 1.5,
            "readers": [figures],
            "commit": commit,
            "python": "3",
        }

    (whole,) = fuzz.joined([run(0, 4, "a")], run(4, 9, "a"))
    assert whole["rounds"] == [0, 9]
    assert whole["minutes"] == 3.0
    assert whole["readers"] == [
        {"reader": "r", "inputs": 13, "seconds": 0.25, "memory": 9, "findings": {"9": {}, "4": {}}}
    ]
    assert len(fuzz.joined([whole], run(9, 12, "b"))) == 2


def test_a_mutant_is_one_change_that_can_be_read() -> None:
    """Every mutant of a sample is Python, and differs from its file in what it says only."""
    import mutants

    found = mutants.places()
    assert {one.room for one in found} == set(mutants.ROOMS)
    assert len({one.kind for one in found}) == 7
    for mutant in random.Random(3).sample(found, 60):
        before = (ROOT / mutant.file).read_bytes()
        assert before[mutant.start : mutant.end].decode() == mutant.was
        assert ast.dump(ast.parse(mutant.source())) != ast.dump(ast.parse(before)), mutant
        assert mutants.tests_of(mutant)[0]


def test_shares_have_an_interval() -> None:
    """Wilson's interval, against its published values for 8 of 10 and for nothing."""
    import mutants

    assert mutants.interval(8, 10) == pytest.approx((0.490, 0.943), abs=0.001)
    assert mutants.interval(0, 0) == (0.0, 1.0)
