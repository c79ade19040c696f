"""In which numbers the network computes."""

from __future__ import annotations

from functools import cache

import torch


@cache
def compute_dtype(device: str) -> torch.dtype:
    """bfloat16 where the device multiplies it, float32 elsewhere.

    A processor without instructions for bfloat16 multiplies it one number at a time: a step took 130 s
    in place of a few.
    """
    multiplies = device != "cpu" or torch.cpu._is_avx512_bf16_supported()  # noqa: SLF001 (no other name)
    return torch.bfloat16 if multiplies else torch.float32
