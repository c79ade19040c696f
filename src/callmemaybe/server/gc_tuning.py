"""Settings of the garbage collector for a process that only serves a model.

A full collection pauses a decoding step for a hundred milliseconds and more once vocabularies and
grammars are large, and finds nothing: none of the cached objects ever becomes garbage in a cycle. What
does is the half-compiled grammar of a schema that is refused, a hundred megabytes of it: the scheduler collects that
by itself. A library must leave the collector to its host; a server may configure it.
"""

from __future__ import annotations

import gc

#: New objects between collections of the youngest generation, and collections between those of the
#: next ones. Python's defaults are 700, 10 and 10; a request makes a few thousand short-lived objects.
THRESHOLDS = 20_000, 20, 20
#: Seconds after which a turn that fails has left so much garbage that a collection pays.
COSTLY_FAILURE = 0.25


def tune_gc() -> None:
    """Exclude all present objects from collections, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
