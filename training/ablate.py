"""What single parts of the network are worth: short runs without them.

    python -m training.ablate [--run training/runs/nano-2.toml] [--requests 7200]
        [--without nothing lexicon wholes twice] [--output training/ablations.json]

Every run begins from nothing, draws the same requests, and is scored on functions and domains that none
has seen; `nothing` leaves nothing out. Finished runs are kept in the output, so an interrupted command
goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from training import recipe as recipes
from training.curve import CASES, PARTS, SHOWN, known, smaller
from training.data.packing import Encoder
from training.data.rendering import CALL, USER, escape
from training.loop import Run
from training.recipe import ROOT, Recipe
from training.scoring import evaluate, fixed_set

PIECES = ("nothing", "lexicon", "wholes", "twice")


class Once(Encoder):
    """The request is read once: what votes are its only reading."""

    def request(self, prompt: str) -> tuple[list[int], int]:
        said = self.text(escape(prompt))
        return [self.control(USER), *said, self.control(CALL)], 1


def without(part: str, recipe: Recipe) -> Run:
    """A run that lacks a part."""
    run = Run(recipe, resume=False)
    if part in ("lexicon", "wholes"):
        assert run.model.wholes
        run.model.wholes.rows.zero_()
        if part == "lexicon":
            run.model.lexicon.zero_()
        run.average = {k: v.clone() for k, v in run.model.state_dict().items()}
    elif part == "twice":
        run.encoder = Once(run.encoder.tokenizer)
    elif part != "nothing":
        raise SystemExit(f"there is no part {part!r} to leave out; know: {', '.join(PIECES)}")
    return run


def score(part: str, recipe: Recipe) -> dict[str, Any] | None:
    """Train, and score the averaged weights; None where the run was stopped."""
    run = without(part, recipe)
    run.train(judged=False)
    if run.stopped:
        return None
    run.model.load_state_dict(run.average)
    scores = {
        name: evaluate(
            run.model, fixed_set(recipe.maker(name), run.encoder, f"curve:{name}", CASES)
        )
        for name in PARTS
    }
    return {"without": part, "requests": run.pairs, "scores": scores}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", type=Path, default=ROOT / "training/runs/nano-2.toml")
    parser.add_argument("--requests", type=int, default=7200)
    parser.add_argument("--without", nargs="+", default=list(PIECES))
    parser.add_argument("--output", type=Path, default=ROOT / "training/ablations.json")
    options = parser.parse_args()
    recipe = smaller(recipes.load(options.run), 1.0, options.requests, "without")
    done = known(options.output, recipe, options.requests)
    for part in options.without:
        if any(one["without"] == part for one in done):
            continue
        made = score(part, recipe)
        if made is None:
            break
        done.append(made)
        options.output.write_text(json.dumps(done, indent=1) + "\n", "utf-8")
        told = {name: {n: made["scores"][name][n]["share"] for n in SHOWN} for name in PARTS}
        print("without", part, json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
