"""Continue from the shipped files: `python -m training.restore --run training/runs/nano-2.toml`.

Makes the run's folder from `src/callmemaybe/data/nano`: tokenizer, word vectors, and a checkpoint with the graph's
weights, so that a clone is enough to train on. Weights are exact to half a step of their eight bits. What the graph does
not hold starts from zero: momenta, and the two weights that only training uses.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import NodeProto, numpy_helper
from torch import Tensor

from training import checkpoint
from training import recipe as recipes
from training.checkpoint import new_model
from training.data import tokenizer as tokenizers
from training.data import wordnet_vectors
from training.data.packing import Encoder
from training.data.rendering import CONTROL_TOKENS
from training.export.cached_network import CachedNano
from training.export.onnx_graph import trace
from training.nn import word_vectors
from training.nn.model import Nano
from training.optim.muon import build_optimizers
from training.recipe import RELEASE, Recipe

Array = NDArray[Any]
CODES = ".codes"
UNNAMED = re.compile(r"onnx::(\w+)_(\d+)")  # how the exporter calls a weight without a name
OF_TRAINING = ("meant.", "find.")  # weights that only training asks
MADE_ANEW = ("lexicon", "base", "form", "bare", "wholes.")  # tables of the run's files


def nodes_of(graph: onnx.GraphProto) -> Iterator[NodeProto]:
    """All nodes, those of branches too."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes_of(attribute.g)


def floats(graph: onnx.GraphProto) -> dict[str, Array]:
    """The constants of a graph that `graph.Quantizer` wrote, by the names they had before."""
    held = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    nodes = list(nodes_of(graph))
    makers = {output: node for node in nodes for output in node.output}
    found = {}
    for name, value in held.items():
        if not name.endswith(CODES):
            found[name] = value
            continue
        bare = name.removesuffix(CODES)
        reader = next(node for node in nodes if name in node.input)
        if reader.op_type == "MatMulIntegerToFloat":
            scale = held[reader.input[3]]
            if reader.input[2] == "q8.one":
                found[bare] = value * scale * np.float32(127)
            else:  # rounded by columns: the norm's gains took what the weight brought
                norm = makers[makers[reader.input[0]].input[0]]
                gains = next(held[each] for each in norm.input if each.endswith("q8.gains"))
                found[bare] = value * scale * gains[:, None]
        else:
            found[bare] = value * held[f"{bare}.scales"]
    return found


def places(model: Nano, graph: onnx.GraphProto) -> dict[str, tuple[str, bool]]:
    """Where a graph of floats keeps each weight of `model`, and whether transposed.

    The exporter names weights by number; a weight is known by its value.
    """
    held = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    found = {}
    for name, weight in model.named_parameters():
        value = weight.detach().numpy()
        for other, kept in held.items():
            if kept.dtype != value.dtype or kept.size != value.size:
                continue
            if np.array_equal(kept.ravel(), value.ravel()):
                found[name] = other, False
            elif np.array_equal(kept.ravel(), value.T.ravel()):
                found[name] = other, True
    return found


def split_fused(model: Nano, held: Mapping[str, Array]) -> dict[str, Array]:
    """What `CachedNano` put together, apart again; weights of norms stay where they were multiplied in."""
    s = model.shape
    ones = np.ones(s.width, np.float32)
    found: dict[str, Array] = {"final.weight": ones}
    sizes = np.cumsum([s.heads * s.head, s.kv_heads * s.head])
    for number in range(s.layers + s.deep):
        parts = np.split(held[f"fused.{2 * number}"].T, sizes)
        parts += np.split(held[f"fused.{2 * number + 1}"].T, 2)
        gains = held[f"gains.{number}"][:, 0]
        own = dict(zip(("q", "k", "v", "gate", "up"), parts, strict=True))
        own |= {"before": ones, "after": ones, "k_gain": gains[s.heads]}
        own["q_gain"] = gains[0] * np.float32(s.head**0.5)
        found |= {f"layers.{number}.{name}.weight": value for name, value in own.items()}
    gate, form = np.split(held["gate"].T, [model.pointer.gate.out_features])
    gate_bias, form_bias = np.split(held["gate_bias"], [len(gate)])
    found |= {"pointer.gate.weight": gate, "pointer.gate.bias": gate_bias}
    found |= {"pointer.to_form.weight": form, "pointer.to_form.bias": form_bias}
    found |= {"pointer.to_base.weight": held["to_base"].T, "pointer.q.weight": held["ask"].T}
    found["pointer.scale"] = held["base_scale"] * np.float32(16)
    back = np.split(held["back"].T, len(model.back), 1)
    return found | {f"back.{number}.weight": each for number, each in enumerate(back)}


def numbered_alike(graph: onnx.GraphProto, held: Mapping[str, Array]) -> dict[str, str]:
    """What `held` calls the unnamed weights of a graph: those that the same operation reads, in their order.

    Their numbers change with every operation that is added before them. Raises ValueError if `held` is of another
    network.
    """
    table = held["table"].size
    here: dict[str, list[tuple[int, str]]] = defaultdict(list)
    there: dict[str, list[tuple[int, str]]] = defaultdict(list)
    sizes = {each.name: math.prod(each.dims) for each in graph.initializer}
    # The table of words, turned round, is kept once.
    named = [name for name, size in sizes.items() if size != table or not UNNAMED.fullmatch(name)]
    for names, by_operation in ((named, here), (held, there)):
        for name in names:
            if match := UNNAMED.fullmatch(name):
                by_operation[match[1]].append((int(match[2]), name))
    found = {}
    for operation, numbered in here.items():
        others = sorted(there[operation])
        if len(others) == len(numbered):
            pairs = zip(sorted(numbered), others, strict=True)
            found |= {name: other for (_, name), (_, other) in pairs}
    same = {name: found.get(name, name) for name in named}
    if len(here["MatMul"]) != len(there["MatMul"]) or any(
        held[other].size != sizes[name]
        for name, other in same.items()
        if other in held and (name in found or not UNNAMED.fullmatch(name)) and "wholes" not in name
    ):
        raise ValueError("the graph is of another network: check out the commit its manifest names")
    return found


def weights(model: Nano, encoder: Encoder, held: Mapping[str, Array]) -> dict[str, Tensor]:
    """The weights of `model` that a graph holds, as a checkpoint has them.

    Raises ValueError if it is of another network. `model` is overwritten with numbers at random.
    """
    torch.manual_seed(0)
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    controls = {text: encoder.control(text) for text in CONTROL_TOKENS}
    step = CachedNano(model.float(), controls, encoder.text("\n")[0])
    graph = trace(step).graph
    known_as = numbered_alike(graph, held)
    found = split_fused(model, held)
    for name, (other, turned) in places(model, graph).items():
        if name not in found:
            value = held[known_as.get(other, other)]
            found[name] = value.T if turned else value
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
