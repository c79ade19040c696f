"""The mean of checkpoints is the mean of their networks, whatever their sizes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")

from training.average import averaged  # noqa: E402


def test_checkpoints_are_averaged_in_the_sizes_of_the_last() -> None:
    """A smaller one is grown first, whole numbers and everything else are the last one's."""
    fresh = {"a": torch.tensor([9.0, 0.0]), "n": torch.tensor(0)}
    first = {"average": {"a": torch.tensor([1.0])}, "counters": (1, 2, 3, 546.1 * 60)}
    last = {
        "average": {"a": torch.tensor([3.0, 4.0]), "n": torch.tensor(7)},
        "model": {"a": torch.tensor([5.0, 6.0])},
        "counters": (4, 5, 6, 650.4 * 60),
    }
    made = averaged([first, last], fresh)
    assert made["average"]["a"].tolist() == [2.0, 2.0]
    assert made["average"]["n"] == 7
    assert made["mean_of"] == [546, 650]
    assert averaged([made, last], fresh)["mean_of"] == [[546, 650], 650]
    assert made["model"] is last["model"]
    assert made["counters"] == last["counters"]
