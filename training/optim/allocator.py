"""Memory of steps that are never alike.

Every step frees tensors of sizes that come no second time. glibc's allocator gives them back to the system at once
and pays for every page anew; jemalloc, preloaded and told to keep what is freed (README.md), makes steps much
quicker, and has to be told to let go now and then.
"""

from __future__ import annotations

import ctypes
import os

ALL_ARENAS = b"arena.4096.purge"  # MALLCTL_ARENAS_ALL of jemalloc 5


def release_memory() -> bool:
    """Give freed memory back to the system; False if the process's allocator is not jemalloc."""
    if os.name != "posix":
        return False
    mallctl = getattr(ctypes.CDLL(None), "mallctl", None)
    if mallctl is None:
        return False
    return int(mallctl(ALL_ARENAS, None, None, None, ctypes.c_size_t(0))) == 0
