"""Processes that learn together take the step that one process would take."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")

from torch import nn  # noqa: E402

from training.pieces.crew import Crew, together  # noqa: E402
from training.pieces.optimizer import build  # noqa: E402

STEPS = 3


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.ModuleDict({"layers": nn.Linear(6, 6), "other": nn.Linear(6, 2)})


def learn(crew: Crew, target: Path) -> None:
    """Learn from four examples a step, each process from its share."""
    net = network()
    optimizers = build(net, 0.01, 0.01, crew)
    examples = torch.randn(STEPS, 4, 6, generator=torch.Generator().manual_seed(1))
    told = [0.0]
    for step in range(STEPS):
        mine = torch.stack(crew.mine(list(examples[step])))
        loss = net["other"](net["layers"](mine).tanh()).square().mean()
        loss.backward()
        told = crew.average(net.parameters(), [float(len(mine)), 2.0**40 + 1])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    if crew.leads:
        torch.save({"state": net.state_dict(), "told": told}, target)


@pytest.mark.parametrize("size", [1, 2])
def test_a_crew_learns_as_one(size: int, tmp_path: Path) -> None:
    """Two processes that share the examples end with the weights of one that sees them all."""
    together(1, learn, tmp_path / "one.pt")
    together(size, learn, tmp_path / "crew.pt")
    one, crew = (torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in ("one", "crew"))
    assert crew["told"] == [4.0, size * (2.0**40 + 1)]
    for name, weight in one["state"].items():
        torch.testing.assert_close(crew["state"][name], weight, atol=2e-3, rtol=0)
        assert not torch.equal(weight, network().state_dict()[name])
