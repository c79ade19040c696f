"""Weights in blocks of whole numbers with one scale each, as onnxruntime's MatMulNBits has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BLOCK = 32


def quantize(
    weight: Array, bits: int, block: int = BLOCK
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Quantise ``weight[n, k]`` as ``MatMulNBits`` wants it.

    Returns ``uint8[n, blocks, block * bits / 8]`` and ``float32[n, blocks]``; a value is
    ``(code - 2 ** (bits - 1)) * scale``. For 4 bits the lower half of a byte comes first.
    """
    n, k = weight.shape
    blocks = -(-k // block)
    padded = np.zeros((n, blocks * block), np.float32)
    padded[:, :k] = weight
    padded = padded.reshape(n, blocks, block)
    middle = 1 << (bits - 1)
    if bits == 8:
        scales = np.abs(padded).max(axis=-1) / (middle - 1)
    else:
        # The element of largest magnitude is put on the code -8, which has no twin: 15 levels
        # would waste one of sixteen.
        extreme = np.take_along_axis(padded, np.abs(padded).argmax(-1)[..., None], -1)[..., 0]
        scales = extreme / -middle
    divisor = np.where(scales == 0, 1, scales)[..., None]
    codes = np.clip(np.rint(padded / divisor) + middle, 0, 2 * middle - 1).astype(np.uint8)
    if bits == 4:
        codes = codes[..., 0::2] | (codes[..., 1::2] << 4)
    return codes, scales.astype(np.float32)


def dequantize(codes: NDArray[np.uint8], scales: NDArray[np.float32], bits: int, k: int) -> Array:
    """Undo ``quantize``: the ``float32[n, k]`` that the kernels compute with."""
    n, blocks = scales.shape
    if bits == 4:
        codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(n, blocks, -1)
    values = (codes.astype(np.float32) - (1 << (bits - 1))) * scales[..., None]
    return values.reshape(n, -1)[:, :k]


def rounded(tensors: Mapping[str, Array], bits: int) -> dict[str, Array]:
    """Return the tensors as a graph quantised to ``bits`` computes with them (matrices only)."""
    return {
        name: dequantize(*quantize(value, bits), bits, value.shape[1]) if value.ndim == 2 else value
        for name, value in tensors.items()
    }
