"""The network computes in numbers that its device multiplies."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="training needs PyTorch")

import torch

from callmemaybe.tuning.network.batch_tensors import added
from callmemaybe.tuning.network.precision import compute_dtype


def test_numbers_of_half_the_width_are_for_devices_that_multiply_them() -> None:
    """A device beside the processor takes bfloat16; a processor only with instructions for it."""
    has_instructions = torch.cpu._is_avx512_bf16_supported()
    assert compute_dtype("cuda") is torch.bfloat16
    assert compute_dtype("cpu") is (torch.bfloat16 if has_instructions else torch.float32)


def test_masks_are_of_the_states_type() -> None:
    """What is added to scores has the type that it is given, and closes what is not seen."""
    for dtype in (torch.bfloat16, torch.float32):
        mask = added(torch.tensor([[True, False]]), dtype)
        assert mask.dtype is dtype
        assert mask.tolist() == [[0.0, -torch.inf]]
