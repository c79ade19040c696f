"""Settings of the garbage collector for a process that only serves a model.

A full collection pauses a decoding step for a hundred milliseconds and more once vocabularies and
grammars are large, and finds nothing: none of the cached objects ever becomes garbage in a cycle. A
library must leave the collector to its host; a server may configure it.
"""

from __future__ import annotations

import gc

#: New objects between collections of the youngest generation, and collections between those of the
#: next ones. Python's defaults are 700, 10 and 10; a request makes a few thousand short-lived objects.
THRESHOLDS = 20_000, 20, 20


def tune_gc() -> None:
    """Exclude all present objects from collections, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
