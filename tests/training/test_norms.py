"""Norms and rotations with gradients by hand are what autograd makes of their definition."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")

from callmemaybe.tuning.network.norms import EPSILON, RMSNormFunction, RotaryNormFunction, rotations  # noqa: E402


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64).float().requires_grad_()


def agree(made: torch.Tensor, wanted: torch.Tensor, sources: list[torch.Tensor]) -> None:
    by = torch.randn_like(wanted)
    grads = [torch.autograd.grad(each, sources, by) for each in (made, wanted)]
    for one, other in zip([made, *grads[0]], [wanted, *grads[1]], strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True) + EPSILON).sqrt() * weight


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_a_norm_divides_by_the_root_of_the_mean_square(scale: float) -> None:
    """With a weight and without, and where the small constant below the root counts."""
    torch.manual_seed(0)
    x, weight = drawn(5, 3, 16), drawn(16)
    agree(RMSNormFunction.apply(x * scale, weight), normed(x * scale, weight), [x, weight])
    agree(RMSNormFunction.apply(x * scale, None), normed(x * scale, torch.ones(16)), [x])


def test_a_head_is_normed_and_turned_by_its_place() -> None:
    """The first dimensions are rotated in pairs by the angle of their place, the rest stays."""
    torch.manual_seed(1)
    x, weight, angles = drawn(7, 3, 16), drawn(16), torch.rand(7, 4) * 9
    turn = rotations(angles, 16, torch.float32)
    for scale, each in ((1.0, turn), (0.3, turn.times(0.3))):
        y = normed(x, weight)
        pairs = torch.complex(y[..., :4], y[..., 4:8])
        pairs = pairs * torch.polar(torch.ones(7, 4), angles)[:, None]
        wanted = torch.cat((pairs.real, pairs.imag, y[..., 8:]), -1) * scale
        agree(RotaryNormFunction.apply(x, weight, *each), wanted, [x, weight])
