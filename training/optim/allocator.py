"""Return freed memory to the system, where the allocator is jemalloc.

Every step frees tensors of sizes that hardly occur again. glibc's allocator gives them back to the system at once
and pays for every page anew; jemalloc, preloaded and configured to retain freed memory (README.md), makes
steps much quicker, and must be asked to return it from time to time.
"""

from __future__ import annotations

import ctypes
import os

ALL_ARENAS = b"arena.4096.purge"  # MALLCTL_ARENAS_ALL of jemalloc 5


def release_memory() -> bool:
    """Return freed memory to the system; False if the process's allocator is not jemalloc."""
    if os.name != "posix":
        return False
    mallctl = getattr(ctypes.CDLL(None), "mallctl", None)
    if mallctl is None:
        return False
    return int(mallctl(ALL_ARENAS, None, None, None, ctypes.c_size_t(0))) == 0
