"""Continue the training of a network with larger sizes.

New units of a widened layer have random input weights and zero output weights, so the grown network computes what
the smaller one did (Net2Net: Chen, Goodfellow & Shlens, 2016;
there units are split, here they are new). A new layer has the attention of the last one and zero output weights. New numbers of word vectors are read as what they
predict of the old ones (`predicted_columns`), which gained about a point of right names before any training (LOG.md).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

MEANING = "meaning.weight"  # [width, numbers known of a word]
PREDICTED = (
    0.5  # how strongly what is newly known of words is read; measured before training (LOG.md)
)
WRITES = ("o.weight", "down.weight")  # of a layer: what it adds to the states
OF_FILES = ("lexicon", "wholes.")  # what words mean belongs to the run's files, and may grow there


def pad_to_size(saved: Tensor, fresh: Tensor) -> Tensor:
    """`saved` in the first corner of `fresh`, which is as large or larger.

    Raises ValueError if it has another number of axes or is smaller along one.
    """
    if saved.shape == fresh.shape:
        return saved
    if saved.dim() != fresh.dim() or any(
        a > b for a, b in zip(saved.shape, fresh.shape, strict=True)
    ):
        raise ValueError(
            f"a checkpoint of {list(saved.shape)} does not fit into {list(fresh.shape)}: "
            "a run can grow, not shrink; begin it anew or restore the recipe's sizes"
        )
    padded = fresh.clone()
    padded[tuple(slice(size) for size in saved.shape)] = saved
    return padded


def grow_weights(saved: Mapping[str, Tensor], fresh: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a checkpoint in the sizes of a fresh network; what the checkpoint lacks stays fresh.

    Raises ValueError where the network lacks something of the checkpoint, as `pad_to_size` does.
    """
    if lost := sorted(saved.keys() - fresh.keys()):
        raise ValueError(f"the recipe's network has no {lost[0]}: a run can grow, not shrink")
    kept = {
        name: pad_to_size(value, fresh[name])
        for name, value in saved.items()
        if not name.startswith(OF_FILES)
    }
    if MEANING in saved and saved[MEANING].shape != fresh[MEANING].shape:
        kept[MEANING] = predicted_columns(saved[MEANING], fresh["lexicon"])
    return dict(fresh) | new_layers(kept, fresh) | kept


def new_layers(kept: Mapping[str, Tensor], fresh: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of layers after the last: its attention, and zero output weights, so the network computes the same."""
    numbers = [int(name.split(".")[1]) for name in kept if name.startswith("layers.")]
    if not numbers:
        return {}
    last = f"layers.{max(numbers)}."
    found = {}
    for name, value in fresh.items():
        if name in kept or not name.startswith("layers."):
            continue
        part = name.split(".", 2)[2]
        found[name] = torch.zeros_like(value) if part in WRITES else kept[last + part].clone()
    return found


def predicted_columns(saved: Tensor, lexicon: Tensor) -> Tensor:
    """Columns for what is newly known of words: read as the old numbers that it predicts best (least squares).

    saved: [width, old]; lexicon: [bases, old and new]. Words that are alike by the new numbers come to look alike
    to a network that was trained on the old ones. The mean of both would be a mean of unlike things otherwise.
    """
    old = saved.shape[1]
    known, new = lexicon[:, :old], lexicon[:, old:]
    both = known.any(1) & new.any(1)
    found = torch.linalg.lstsq(new[both], known[both]).solution  # [new, old]
    return torch.cat((saved, PREDICTED * saved @ found.T), 1)


def grow_momenta(optimizer: torch.optim.Optimizer) -> None:
    """Grow an optimizer's momenta to the sizes of their weights, with zeros."""
    for weight, kept in optimizer.state.items():
        assert isinstance(weight, nn.Parameter)
        for name, value in kept.items():
            if isinstance(value, Tensor) and value.dim() == weight.dim() and value.dim():
                kept[name] = pad_to_size(value, torch.zeros_like(weight, dtype=value.dtype))
