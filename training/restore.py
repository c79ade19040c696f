"""Continue from the shipped files: `python -m training.restore --run training/runs/nano-2.toml`.

Makes the run's folder from `src/callmemaybe/data/nano`: tokenizer, word vectors, and a checkpoint with the graph's
weights, so that a clone is enough to train on. Weights are exact to half a step of their eight bits. What the graph does
not hold starts from zero: momenta, and the two weights that only training uses.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor

from callmemaybe.tuning.graph_weights import floats, split_fused
from callmemaybe.tuning.network.model import Nano
from callmemaybe.tuning.packing import Encoder
from training import checkpoint
from training import recipe as recipes
from training.checkpoint import new_model
from training.data import tokenizer as tokenizers
from training.data import wordnet_vectors
from training.export.weight_places import graph_sizes, named_places
from training.nn import word_vectors
from training.optim.muon import build_optimizers
from training.recipe import RELEASE, Recipe

Array = NDArray[Any]
OF_TRAINING = ("meant.", "find.")  # weights that only training asks
MADE_ANEW = ("lexicon", "base", "form", "bare", "wholes.")  # tables of the run's files


def weights(model: Nano, encoder: Encoder, held: Mapping[str, Array]) -> dict[str, Tensor]:
    """The weights of `model` that a graph holds, as a checkpoint has them.

    Raises ValueError if it is of another network. `model` is overwritten with numbers at random.
    """
    named = named_places(model, encoder, held)
    found = split_fused(graph_sizes(model.shape), held)
    for name, (place, turned) in named.items():
        found[name] = held[place].T if turned else held[place]
    known = model.lexicon.numpy() @ found["meaning.weight"].T
    found["embedding"] = held["table"] - known
    state = model.state_dict()
    lacking = state.keys() - found.keys()
    if lost := sorted(name for name in lacking if not name.startswith(MADE_ANEW + OF_TRAINING)):
        raise ValueError(f"the graph holds no {lost[0]}")
    return {
        name: torch.from_numpy(np.array(value, np.float32)).view(state[name].shape)
        for name, value in found.items()
    }


def known_words(recipe: Recipe, held: Mapping[str, Array]) -> None:
    """Write the word vectors: of split words from the graph, of others computed and rotated towards those."""
    keys, rows = held["model.wholes.held"], held["model.wholes.rows"]
    used = np.flatnonzero(keys)
    tokenizer = tokenizers.load(recipe.out / "tokenizer.json")
    of_bases, of_words = word_vectors.compute_word_vectors(recipe, tokenizer, rows.shape[1])
    here = np.array([of_words.get(int(key), np.zeros(rows.shape[1])) for key in keys[used]])
    width_of_wordnet = rows.shape[1] - recipe.table["model"].get("associations", 0)
    parts = (
        [slice(width_of_wordnet), slice(width_of_wordnet, None)]
        if width_of_wordnet < rows.shape[1]
        else [slice(None)]
    )
    turned = [
        wordnet_vectors.rotated(of_bases[:, part], here[:, part], rows[used][:, part])
        for part in parts
    ]
    np.save(recipe.out / "lexicon.npy", np.hstack(turned))
    np.savez(recipe.out / "wholes.npz", keys=keys[used], more=rows[used])


def restore(recipe: Recipe, source: Path) -> None:
    """Make the run's folder from the files of `source`; raises ValueError if there is a run already."""
    file = recipe.out / checkpoint.FILE
    if file.exists():
        raise ValueError(f"{file} exists: move the run away first")
    recipe.out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "tokenizer.json", recipe.out / "tokenizer.json")
    held = floats(onnx.load(source / "model.onnx").graph)
    known_words(recipe, held)
    model, encoder = new_model(recipe)
    fresh = {name: value.clone() for name, value in model.state_dict().items()}
    state = fresh | weights(model, encoder, held)
    about = json.loads((source / "manifest.json").read_text("utf-8"))
    plan = recipe.table["training"]
    optimizers = build_optimizers(model, plan["lr_muon"], plan["lr_adam"])
    counted = (about["steps"], about["tokens"], about["requests"], 60.0 * about["minutes"])
    checkpoint.write(
        {
            "model": state,
            "average": state,
            "optimizers": [each.state_dict() for each in optimizers],
            "counters": counted,
            "mean_of": about.get("mean_of_minutes", []),
        },
        recipe,
    )
    print(f"{file}: {about['requests']} requests, minute {about['minutes']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", type=Path, default=recipes.DEFAULT)
    parser.add_argument("--source", type=Path, default=RELEASE, help="folder of the shipped files")
    options = parser.parse_args()
    try:
        restore(recipes.load(options.run), options.source)
    except (OSError, ValueError) as problem:
        parser.exit(1, f"restore: {problem}\n")


if __name__ == "__main__":
    main()
