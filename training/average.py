"""Average checkpoints: `python -m training.average CHECKPOINT CHECKPOINT ... [--run RECIPE]`.

Weights of one run whose rates have fallen to zero more than once lie on different sides of a valley, and their mean
may be better than each (stochastic weight averaging: Izmailov et al., 2018; model soups: Wortsman et al., 2022). The mean
becomes the averaged weights of the run's `checkpoint.pt`, which is a copy of the last one named: training goes on
from where that was. Smaller ones are grown first.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training import checkpoint
from training import recipe as recipes
from training.checkpoint import new_model
from training.nn.growth import grow_weights


def mean(weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of networks of one shape; what is no float is the last one's."""
    last = weights[-1]
    return {
        name: torch.stack([one[name] for one in weights]).mean(0)
        if value.is_floating_point()
        else value
        for name, value in last.items()
    }


def averaged(states: Sequence[Mapping[str, Any]], fresh: Mapping[str, Tensor]) -> dict[str, Any]:
    """The last checkpoint with the mean of all averages, and the minutes they are of; a mean among them by its own."""
    minutes = [state.get("mean_of") or round(state["counters"][3] / 60) for state in states]
    average = mean([grow_weights(state["average"], fresh) for state in states])
    return {**states[-1], "average": average, "mean_of": minutes}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkpoints", type=Path, nargs="+")
    parser.add_argument("--run", type=Path, default=recipes.DEFAULT)
    options = parser.parse_args()
    recipe = recipes.load(options.run)
    states = [
        torch.load(file, map_location="cpu", weights_only=True) for file in options.checkpoints
    ]
    made = averaged(states, new_model(recipe)[0].state_dict())
    checkpoint.write(made, recipe)
    print(f"{recipe.out / checkpoint.FILE}: the mean of minutes {made['mean_of']}")


if __name__ == "__main__":
    main()
