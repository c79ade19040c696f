"""The garbage collector of a process that is all ours: what the server does, and nobody else.

A collector that looks through everything pauses a decoding step for as long as that takes: a hundred
milliseconds and more once vocabularies and grammars are large. None of what is kept is ever garbage
in a cycle, so looking finds nothing. In a library that is its host's business; a server may say so.
"""

from __future__ import annotations

import gc

#: New objects before a look at the new ones, and such looks before a look at older ones: Python's
#: own are 700, 10 and 10. A request makes a few thousand, which go when it ends.
THRESHOLDS = 20_000, 20, 20


def settle() -> None:
    """Take all that is there out of the collector's sight, and let it look less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
