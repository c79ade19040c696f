"""What the writers of character tables share."""

# ruff: noqa: INP001 - scripts, not a package

from __future__ import annotations


def runs(codes: list[int]) -> str:
    """Write code points as ranges."""
    found: list[list[int]] = []
    for code in codes:
        if found and code == found[-1][1] + 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return " ".join(f"{low:x}" if low == high else f"{low:x}-{high:x}" for low, high in found)
