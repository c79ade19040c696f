"""Processes that learn together end where each would have gone, on average."""

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


def average(crew: ProcessGroup, target: Path) -> None:
    net = learn(crew.rank)
    numbers = crew.average(net.parameters(), [4.0, 2.0**40 + 1])
    torch.save({"state": net.state_dict(), "told": numbers}, target / f"{crew.rank}.pt")


@pytest.mark.parametrize("size", [1, 2])
def test_a_crew_meets_in_the_middle(size: int, tmp_path: Path) -> None:
    """Each goes on with the mean of all weights, and knows the sums of what all told."""
    run_in_parallel(size, average, tmp_path)
    alone: list[dict[str, Tensor]] = [learn(rank).state_dict() for rank in range(size)]
    for rank in range(size):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert found["told"] == [4.0 * size, size * (2.0**40 + 1)]
        for name, weight in found["state"].items():
            torch.testing.assert_close(weight, torch.stack([each[name] for each in alone]).mean(0))
