"""Freed memory is given back where the allocator keeps it."""

from __future__ import annotations

import os
import subprocess
import sys
from ctypes.util import find_library

import pytest

from training.optim.allocator import release_memory
from training.recipe import ROOT


def test_other_allocators_are_left_alone() -> None:
    """Without jemalloc there is nothing to tell."""
    if "jemalloc" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("jemalloc is preloaded")
    assert not release_memory()


def test_jemalloc_gives_back_what_was_freed() -> None:
    """What a process holds falls by most of what it freed."""
    library = find_library("jemalloc")
    if not library or not sys.platform.startswith("linux"):
        pytest.skip("jemalloc is not installed")
    program = (
        "from pathlib import Path\n"
        "from training.optim.allocator import release_memory\n"
        "held = lambda: int(Path('/proc/self/statm').read_text().split()[1]) >> 8\n"
        "some = [b'x' * 5_000_000 for _ in range(40)]\n"
        "del some\n"
        "before = held()\n"
        "assert release_memory()\n"
        "print(before - held())\n"
    )
    environment = os.environ | {
        "LD_PRELOAD": library,
        "MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) > 100  # megabytes
