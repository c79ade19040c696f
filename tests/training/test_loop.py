"""The loop of training."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")

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
