"""The learning curve drawn on."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training import learning_curve
from training.learning_curve import Law, fit

ROWS = json.loads(learning_curve.CURVE.read_text("utf-8"))


@settings(deadline=None)
@given(st.floats(1.0, 200.0), st.floats(0.05, 1.0))
def test_a_law_is_found_again(factor: float, power: float) -> None:
    """Points that lie on a law give this law, and what it needs is where it reaches the goal."""
    law = Law(factor, power)
    requests = np.geomspace(3e5, 3e6, 7)
    found = fit(list(requests), [law.wrong(each) for each in requests])
    assert found.factor == pytest.approx(factor, rel=1e-6)
    assert found.power == pytest.approx(power, rel=1e-6)
    assert found.wrong(found.needed(0.92)) == pytest.approx(0.08, rel=1e-6)


def test_where_nothing_is_gained_no_number_of_requests_is_enough() -> None:
    """A curve that is flat, or gets worse, never reaches its goal."""
    assert math.isinf(Law(0.3, 0.0).needed(0.92))
    assert math.isinf(fit([1e5, 1e6], [0.2, 0.3]).needed(0.92))


@pytest.mark.parametrize("part", learning_curve.PARTS)
@pytest.mark.parametrize("score", learning_curve.GOALS)
def test_laws_go_through_the_middle_of_their_points(part: str, score: str) -> None:
    """As many logarithms above as below; and the oldest point comes first, whatever the order of the rows."""
    requests, wrong = learning_curve.curve(list(reversed(ROWS)), part, score)
    assert requests == sorted(requests)
    for last, law in learning_curve.laws(ROWS, part, score):
        beside = [
            math.log(law.wrong(x) / y) for x, y in zip(requests[-last:], wrong[-last:], strict=True)
        ]
        assert sum(beside) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("text", ["{", "[]", "[1]", '[{"requests": 3}]', "7"])
def test_what_is_no_curve_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """In one sentence that names the file and how to write one."""
    file = tmp_path / "curve.json"
    file.write_text(text, "utf-8")
    monkeypatch.setattr("sys.argv", ["learning_curve", "--curve", str(file)])
    with pytest.raises(
        SystemExit, match=r"curve\.json is no learning curve .*name checkpoints to write one"
    ):
        learning_curve.main()
