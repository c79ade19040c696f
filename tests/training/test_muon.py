"""Muon's step is the polynomial it is said to be."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")

from training.optim.muon import build_optimizers, orthogonalize  # noqa: E402


@pytest.mark.parametrize(("rows", "columns"), [(24, 24), (40, 16), (16, 40)])
def test_updates_become_orthogonal(rows: int, columns: int) -> None:
    """Each singular value goes through the same quintic five times, and nothing else changes.

    Jordan et al. (2024): s -> a s + b s^3 + c s^5, from the values over their Frobenius norm.
    """
    torch.manual_seed(0)
    updates = torch.randn(3, rows, columns)
    u, s, v = torch.linalg.svd(updates, full_matrices=False)
    s = s / s.norm(dim=-1, keepdim=True)
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    wanted = u * s[:, None] @ v
    made = orthogonalize(updates)
    assert (made - wanted).norm() < 0.03 * wanted.norm()  # the products are in bfloat16


def test_matrices_alone_decay() -> None:
    """Without a gradient a step takes rate times decay off a matrix of a layer, and nothing off what AdamW moves."""
    model = torch.nn.ModuleDict(
        {"layers": torch.nn.Linear(4, 4, bias=False), "table": torch.nn.Linear(4, 4)}
    )
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    for optimizer in build_optimizers(model, 0.5, 0.5, weight_decay=0.2):
        optimizer.step()
    for name, weight in model.named_parameters():
        kept = 0.9 if name.startswith("layers") else 1.0
        torch.testing.assert_close(weight.detach(), kept * before[name])
