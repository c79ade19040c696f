"""What a server asks of the garbage collector."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc
from callmemaybe.server.gc_tuning import THRESHOLDS, tune_gc
kept = [[] for _ in range(1000)]
cycle = []
cycle.append(cycle)
del cycle
tune_gc()
print(gc.get_freeze_count() > 1000, gc.get_threshold() == THRESHOLDS)
cycles = [[] for _ in range(100)]
for cycle in cycles:
    cycle.append(cycle)
del cycle, cycles
print(gc.collect() >= 100)
"""


def test_settled_means_old_objects_are_looked_at_no_more() -> None:
    """What is there is out of sight, and garbage that comes later is still found."""
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["True"] * 3
