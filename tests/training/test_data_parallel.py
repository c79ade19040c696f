"""Data-parallel processes end at the mean of where each would have ended."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")

from torch import Tensor, nn  # noqa: E402

from training.optim.data_parallel import ProcessGroup, run_in_parallel  # noqa: E402

STEPS = 3


def learn(rank: int) -> nn.Module:
    """Learn alone from the examples of one process."""
    torch.manual_seed(0)
    net = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    examples = torch.randn(STEPS, 4, 6, generator=torch.Generator().manual_seed(rank))
    for each in examples:
        net(each).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return net


def average(group: ProcessGroup, target: Path) -> None:
    net = learn(group.rank)
    numbers = group.average(net.parameters(), [4.0, 2.0**40 + 1])
    torch.save({"state": net.state_dict(), "sums": numbers}, target / f"{group.rank}.pt")


@pytest.mark.parametrize("size", [1, 2])
def test_processes_average_their_weights(size: int, tmp_path: Path) -> None:
    """Each continues with the mean of all weights, and gets the sums of all numbers."""
    run_in_parallel(size, average, tmp_path)
    alone: list[dict[str, Tensor]] = [learn(rank).state_dict() for rank in range(size)]
    for rank in range(size):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert found["sums"] == [4.0 * size, size * (2.0**40 + 1)]
        for name, weight in found["state"].items():
            torch.testing.assert_close(weight, torch.stack([each[name] for each in alone]).mean(0))
