"""What a run holds between two steps, and the file that it is saved to."""

from __future__ import annotations

from typing import Any

import torch

from callmemaybe.tuning import token_forms
from callmemaybe.tuning.network.model import Nano, NanoConfig
from callmemaybe.tuning.packing import Encoder
from training.data import tokenizer as tokenizers
from training.files import atomic_write
from training.nn.growth import grow_momenta, grow_weights
from training.nn.word_vectors import load_word_vectors
from training.optim.muon import build_optimizers
from training.recipe import Recipe

FILE = "checkpoint.pt"
OF_WORDS = (
    "words",
    "associations",
    "foreign",
)  # sizes of the word vectors' sources, not of the network
OF_RECIPE = ("full", "weight_decay")  # settings of an optimizer that the recipe may have changed


def new_model(recipe: Recipe) -> tuple[Nano, Encoder]:
    """A new network over the recipe's tokenizer."""
    tokenizer = tokenizers.load(recipe.out / "tokenizer.json")
    bases, *tables = token_forms.forms(tokenizer)
    sizes = {name: size for name, size in recipe.table["model"].items() if name not in OF_WORDS}
    config = NanoConfig(len(bases), **sizes)
    vectors, whole = load_word_vectors(recipe, tokenizer, config.lexicon)
    torch.manual_seed(0)
    return Nano(config, vectors, *map(torch.from_numpy, tables), wholes=whole), Encoder(tokenizer)


def write(state: dict[str, Any], recipe: Recipe) -> None:
    """Write the checkpoint of a run, complete or not at all."""
    with atomic_write(recipe.out / FILE) as part:
        torch.save(state, part)


def load_trained(recipe: Recipe) -> tuple[Nano, Encoder, dict[str, Any]]:
    """The averaged weights of the checkpoint in float32, and the counts of the run."""
    state = torch.load(recipe.out / FILE, map_location="cpu", weights_only=True)
    model, encoder = new_model(recipe)
    model.load_state_dict(state["average"])
    step, tokens, pairs, elapsed = state["counters"]
    counted = {"steps": step, "tokens": tokens, "pairs": pairs, "minutes": round(elapsed / 60, 1)}
    counted["finished"] = elapsed >= 60 * recipe.table["training"]["minutes"]
    counted["mean_of"] = state.get("mean_of", [])
    return model.float().eval(), encoder, counted


class TrainingState:
    """Everything that a checkpoint holds: weights, their running average, momenta and counters."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        self.recipe, self.device = recipe, device
        self.model, self.encoder = new_model(recipe)
        self.model.to(device)
        self.average = {name: value.clone() for name, value in self.model.state_dict().items()}
        table = recipe.table["training"]
        decay = table.get("weight_decay", 0.01)
        self.optimizers = build_optimizers(self.model, table["lr_muon"], table["lr_adam"], decay)
        self.step, self.tokens, self.pairs, self.seconds = 0, 0, 0, 0.0

    def save(self) -> None:
        """Write the checkpoint."""
        state = {
            "model": self.model.state_dict(),
            "average": self.average,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "counters": (self.step, self.tokens, self.pairs, self.seconds),
        }
        write(state, self.recipe)

    def restore(self) -> None:
        """Read the checkpoint; a smaller network is grown to the recipe's sizes."""
        file = self.recipe.out / FILE
        state = torch.load(file, map_location=self.device, weights_only=True)
        self.model.load_state_dict(grow_weights(state["model"], self.average))
        self.average = grow_weights(state["average"], self.average)
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            if _size(saved["param_groups"]) != _size(optimizer.param_groups):
                continue  # a network with more weights: all momenta begin at zero
            mine = [{key: group[key] for key in OF_RECIPE} for group in optimizer.param_groups]
            optimizer.load_state_dict(saved)
            grow_momenta(optimizer)
            for group, settings in zip(optimizer.param_groups, mine, strict=True):
                group.update(settings)
        self.step, self.tokens, self.pairs, self.seconds = state["counters"]

    def update_average(self, steps: int) -> None:
        """Move the averaged weights towards the weights, as after `steps` steps."""
        keep = min(0.995, 1 - 1 / (1 + self.step / 4)) ** steps
        with torch.no_grad():
            for name, value in self.model.state_dict().items():
                if value.is_floating_point():
                    self.average[name].lerp_(value, 1 - keep)


def _size(groups: list[dict[str, Any]]) -> int:
    """How many weights an optimizer moves."""
    return sum(len(group["params"]) for group in groups)
