"""Resident memory of this engine in a process of its own, while tool sets come and go.

    python benchmarks/maskmemory.py [--sets 500]

With Qwen's vocabulary; each set of tools of the Berkeley Function Calling Leaderboard once, with one
whole call. The first process finds nothing kept of the vocabulary, the second one what the first kept.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from bfcl import items
from maskworker import Worker
from rivals import FRAME, WIDTH

from callmemaybe.vocabulary import Vocabulary
from callmemaybe.vocabulary.disk_cache import ENVIRONMENT_VARIABLE

HERE = Path(__file__).resolve().parent
LIMIT = 60


def measure(data: Path, count: int, core: int | None = None) -> dict[str, Any]:
    """Return what the set-up with a first request took, and resident MB after all sets: twice."""
    folder = data / "tokenizers" / "qwen3"
    vocabulary = Vocabulary.from_file(folder, size=WIDTH)
    begin, end = (vocabulary.controls[name] for name in FRAME)
    requests: dict[str, dict[str, Any]] = {}
    for item in items(data / "bfcl"):
        call = json.dumps({"name": item.function, "arguments": item.arguments}, ensure_ascii=False)
        ids = [begin, *vocabulary.encode(f"\n{call}\n".encode()), end]
        requests.setdefault(json.dumps(item.tools), {"language": {"tools": item.tools}, "ids": ids})
    found: dict[str, Any] = {"sets": count}
    with tempfile.TemporaryDirectory() as kept:
        before, os.environ[ENVIRONMENT_VARIABLE] = os.environ.get(ENVIRONMENT_VARIABLE), kept
        try:
            for name in ("new", "kept"):
                chosen = list(requests.values())[:count]
                worker = Worker("callmemaybe", folder, core, chosen[0])
                for request in chosen:
                    worker.ask("replay", LIMIT, **request)
                found[name] = {**worker.setup, "final_mb": worker.ask("memory", LIMIT)[0]}
                worker.close()
        finally:
            os.environ.pop(ENVIRONMENT_VARIABLE)
            if before is not None:
                os.environ[ENVIRONMENT_VARIABLE] = before
    return found


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=500, help="how many sets of tools")
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data")
    options = parser.parse_args()
    print(json.dumps(measure(options.data, options.sets), indent=1))


if __name__ == "__main__":
    main()
