"""Train the embedded model: `python -m training.train --run training/runs/nano-1.toml [--resume]`.

The schedule follows the clock, so the rates reach zero at the deadline whatever the speed; a resumed
run goes on with the time it had used. Ctrl-C saves and leaves.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from training.pieces import recipe
from training.pieces.loop import Run


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", type=Path, required=True, help="recipe (TOML)")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    arguments = parser.parse_args()
    Run(recipe.load(arguments.run), resume=arguments.resume).go()


if __name__ == "__main__":
    main()
