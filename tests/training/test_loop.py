"""The loop of training."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")

import torch
from torch.nn import functional

from training.pieces import loop
from training.pieces.packing import Limits


@pytest.mark.timeout(20)
def test_what_goes_wrong_in_drawing_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error beside the loop is raised in it, with the batch that it came from, instead of waiting for ever."""

    def draw(*_: object) -> None:
        raise KeyError("body")

    monkeypatch.setattr(loop, "draw_batch", draw)
    source = loop.Prefetch(None, None, "seed", Limits(1, 1, 1, 1), 7)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="body") as caught:
        source.get()
    assert caught.value.__notes__ == ["drawing the batch 'seed:7'"]


def test_the_network_learns_the_odds_of_use() -> None:
    """Where nothing fits in 6 of 10 that are drawn and in 2 of 10 that are met, 2 of 10 is what is learnt."""
    drawn = torch.tensor([0] * 4 + [1] * 6)
    excess = math.log(0.6 / 0.4) - math.log(0.2 / 0.8)
    odds = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([odds], lr=1.0)
    for _ in range(200):
        optimizer.zero_grad()
        shown = loop.drawn_odds(odds.expand(10, 2), excess)
        functional.cross_entropy(shown, drawn).backward()
        optimizer.step()
    assert odds.softmax(0)[1].item() == pytest.approx(0.2, abs=1e-3)
    assert loop.drawn_odds(odds, 0.0) is odds
