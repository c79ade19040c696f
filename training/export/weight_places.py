"""What a graph calls the weights of the network: the file `weights.json` of a model folder.

The exporter names weights by number, so they are found by their values in a graph that is traced anew; `callmemaybe.tuning`
reads the file, and changes weights without tracing.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from callmemaybe.tuning.graph_weights import PLACES, GraphSizes, floats, split_fused
from callmemaybe.tuning.network.model import POINTERS, Nano, NanoConfig
from callmemaybe.tuning.packing import Encoder
from callmemaybe.tuning.rendering import CONTROL_TOKENS
from training.export.cached_network import CachedNano
from training.export.onnx_graph import trace

Array = NDArray[Any]
UNNAMED = re.compile(r"onnx::(\w+)_(\d+)")  # how the exporter calls a weight without a name


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


def graph_sizes(shape: NanoConfig) -> GraphSizes:
    """The sizes that say how the graph's matrices are put together."""
    s = shape
    return GraphSizes(s.layers, s.deep, s.heads, s.kv_heads, s.head, s.width, POINTERS)


def named_places(
    model: Nano, encoder: Encoder, held: Mapping[str, Array]
) -> dict[str, tuple[str, bool]]:
    """What `held` calls the weights of `model` that it does not hold put together, and whether turned round.

    `model` is overwritten with numbers at random. Raises ValueError if it is of another network.
    """
    torch.manual_seed(0)
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    controls = {text: encoder.control(text) for text in CONTROL_TOKENS}
    step = CachedNano(model.float(), controls, encoder.text("\n")[0])
    graph = trace(step).graph
    known_as = numbered_alike(graph, held)
    fused = split_fused(graph_sizes(model.shape), held)
    return {
        name: (known_as.get(other, other), turned)
        for name, (other, turned) in places(model, graph).items()
        if name not in fused
    }


def write(model: Nano, encoder: Encoder, folder: Path) -> None:
    """Write the file beside the graph of `folder`; `model` is overwritten."""
    held = floats(onnx.load(str(folder / "model.onnx")).graph)
    table = {"network": asdict(model.shape), "places": named_places(model, encoder, held)}
    (folder / PLACES).write_text(json.dumps(table, indent=1) + "\n", "utf-8")
