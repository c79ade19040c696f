"""The network of a model folder, to be trained further, and its weights as the folder's graph takes them."""

from __future__ import annotations

import numpy as np
import torch

from callmemaybe.tuning import token_forms
from callmemaybe.tuning.graph_weights import TABLE, GraphWeights, Weights
from callmemaybe.tuning.network.model import Nano, NanoConfig
from callmemaybe.tuning.network.whole_words import WholeWords
from callmemaybe.tuning.packing import Encoder

#: Weights that stay: the graph has them multiplied into others, or does not have them.
FIXED = ("before.weight", "after.weight", "final.weight")
#: What only training asks (`Nano.meant`, `Nano.find`): no graph holds it, so it begins at zero.
OF_TRAINING = ("meant.", "find.")


def restored(graph: GraphWeights, encoder: Encoder) -> Nano:
    """Return the network with the weights of a graph, in float32.

    What words mean (`Nano.lexicon`) is in the table of the graph already, so the network has it in its embedding.
    """
    config = NanoConfig(**graph.network)
    bases, *tables = token_forms.forms(encoder.tokenizer)
    held = graph.read()
    words = (held.pop(f"wholes.{name}") for name in ("shifts", "held", "rows"))
    wholes = WholeWords.from_tables(bases, *words)
    lexicon = torch.zeros(config.bases, config.lexicon)
    base, form, bare = map(torch.from_numpy, tables)
    model = Nano(config, lexicon, base, form, bare, dtype=torch.float32, wholes=wholes)
    state = {name: torch.from_numpy(value) for name, value in held.items() if name != TABLE}
    state["embedding"] = torch.from_numpy(held[TABLE])
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.startswith(OF_TRAINING):
                weight.zero_()
            else:
                weight.copy_(state[name].view(weight.shape))
            weight.requires_grad_(not name.endswith(FIXED))
    return model


def weights_of(model: Nano) -> Weights:
    """Return the weights of a network as `GraphWeights.write` takes them."""
    state = {name: value.detach().numpy() for name, value in model.named_parameters()}
    found = {n: np.asarray(v) for n, v in state.items() if not n.startswith(OF_TRAINING)}
    found[TABLE] = found.pop("embedding")
    return found
