"""The step as an ONNX graph with integer weights.

Every matrix product with a weight becomes: activations rounded to 8 bits, an exact integer product, and scales
multiplied back. A row's result then depends on that row alone, so that tokens fed one by one, several at once
or beside other requests give the same numbers.

What a norm makes is rounded with one scale per column, as far as the column goes on requests to train with:
the norm's weights bring all columns to one, the product's take it back (SmoothQuant: Xiao et al., 2022), and
rounding is one operator. Everything else has too long tails for that, and gets a scale per row, found anew.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper

from callmemaybe.tuning.network.model import Nano
from training.export.cached_network import CachedNano, caches
from training.export.onnx_branches import conditional
from training.export.onnx_shapes import Feeds, simplify, tensor_reader

OPSET = 20
SMALLEST = 4096  # weights of fewer numbers stay as they are
WIDE = 2048  # outputs from which on the fused product is slower than its parts
CONTRIB = "com.microsoft"
MARGIN = 1.3  # how much farther than seen a column may go
ANSWER = 48  # tokens of an answer, about
NORMS = {"SimplifiedLayerNormalization": 1, "SkipSimplifiedLayerNormalization": 2}  # their weights
Array = NDArray[Any]


def names(model: Nano) -> tuple[list[str], list[str]]:
    """Names of the caches as inputs and outputs, in the order of `CachedNano`."""
    found = list(caches(model))
    return [f"past_state.{n}" for n in found], [f"present_state.{n}" for n in found]


def trace(step: CachedNano) -> onnx.ModelProto:
    """Export with every size dynamic that may change; caches come out as long as they went in."""
    past, present = names(step.model)
    states = caches(step.model)
    batch, length, columns = 2, 3, 11
    empty = [state.empty(batch, columns) for state in states.values()]
    arguments = (
        torch.from_numpy(sample(step, batch, length)),
        torch.arange(length)[None].expand(batch, -1),
        torch.tensor(1),
        *empty,
    )
    axes = {"input_ids": {0: "batch", 1: "sequence"}, "position_ids": {0: "batch", 1: "sequence"}}
    for name, state in zip((*past, *present), (*states.values(),) * 2, strict=True):
        axes[name] = {0: "batch", 1 + state.sizes.index(None): "cache_length"}
    axes["logits"] = {0: "batch", 1: "kept"}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.onnx"
        torch.onnx.export(
            step.eval(),
            arguments,
            str(target),
            input_names=["input_ids", "position_ids", "num_logits_to_keep", *past],
            output_names=["logits", *present],
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
            custom_opsets={"nano": 1, "com.microsoft": 1},
        )
        return onnx.load(str(target))


def sample(step: CachedNano, batch: int, length: int) -> NDArray[np.int64]:
    """Ids that have a graph do everything it can: a second reading, tools, and in the first row more calls the
    longer they are, so that no number of places is always the same."""
    ids = np.full((batch, length), step.controls["<|tool|>"], np.int64)
    ids[:, 0] = step.controls["<|again|>"]
    ids[:, -1] = ids[0, length // 2 :] = step.controls["<|call|>"]
    return ids


def feeds(step: CachedNano, batch: int, length: int, columns: int) -> Feeds:
    """Inputs of a given size."""
    past, _ = names(step.model)
    found: Feeds = {
        "input_ids": sample(step, batch, length),
        "position_ids": np.broadcast_to(np.arange(length), (batch, length)),
        "num_logits_to_keep": np.array(length - 1),
    }
    for name, state in zip(past, caches(step.model).values(), strict=True):
        found[name] = state.empty(batch, columns).numpy()
    return found


def whole(step: CachedNano, ids: Sequence[int]) -> Feeds:
    """Inputs of one pass over everything, an answer at its end."""
    past, _ = names(step.model)
    empty = [state.empty(1, len(ids)).numpy() for state in caches(step.model).values()]
    return {
        "input_ids": np.array([ids]),
        "position_ids": np.arange(len(ids))[None],
        "num_logits_to_keep": np.array(min(len(ids), ANSWER)),
        **dict(zip(past, empty, strict=True)),
    }


def columns(weight: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantise [inputs, outputs] with one scale per output, symmetric."""
    scale = np.abs(weight).max(0) / 127
    scale = np.where(scale == 0, 1, scale).astype(np.float32)
    return np.clip(np.rint(weight / scale), -127, 127).astype(np.int8), scale


class Quantizer:
    """Replaces products with weights, and lookups in tables, by their integer forms.

    `reach`: how far each column of some norms goes; all else gets a scale per row.
    """

    def __init__(self, model: onnx.ModelProto, reach: Mapping[str, Array]) -> None:
        self.model, self.graph, self.reach = model, model.graph, reach
        self.weights = {t.name: t for t in self.graph.initializer}
        self.turned = {
            n.output[0]: n.input[0]
            for n in self.graph.node
            if n.op_type == "Transpose" and n.input[0] in self.weights
        }
        self.nodes: list[NodeProto] = []
        self.rows: dict[str, tuple[str, str]] = {}
        self.fixed: dict[str, str] = {}
        self.done: dict[str, str] = {}

    def add(self, name: str, value: Array) -> str:
        self.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], output, **attributes))
        return output

    def row(self, name: str) -> tuple[str, str]:
        """Round an activation by rows, once for all products that take it: (codes, scales)."""
        if name not in self.rows:
            p = f"{name}.q8"
            self.node("Abs", [name], f"{p}.abs")
            self.node("ReduceMax", [f"{p}.abs", "q8.last"], f"{p}.scale", keepdims=1)
            self.node("Div", [name, f"{p}.scale"], f"{p}.share")
            self.node("QuantizeLinear", [f"{p}.share", "q8.unit", "q8.middle"], f"{p}.codes")
            self.rows[name] = (f"{p}.codes", f"{p}.scale")
        return self.rows[name]

    def column(self, name: str) -> str:
        """Round a norm by columns, once for all products that take it."""
        if name not in self.fixed:
            maker = next(node for node in self.graph.node if node.output[0] == name)
            place = NORMS[maker.op_type]
            gains = self.value(maker.input[place]) / self.reach[name]
            maker.input[place] = self.add(f"{name}.q8.gains", gains.astype(np.float32))
            inputs = [name, "q8.unit", "q8.middle"]
            self.fixed[name] = self.node("QuantizeLinear", inputs, f"{name}.q8.codes")
        return self.fixed[name]

    def is_private(self, node: NodeProto) -> bool:
        """Whether this is a norm that only products with weights read."""
        readers = [each for each in self.graph.node if node.output[0] in each.input]
        return node.op_type in NORMS and bool(readers) and all(map(self.weight_of, readers))

    def value(self, name: str) -> Array:
        """Return a constant."""
        if name in self.weights:
            return numpy_helper.to_array(self.weights[name])
        maker = next(node for node in self.graph.node if name in node.output)
        return numpy_helper.to_array(maker.attribute[0].t)

    def product(self, x: str, weight: Array, name: str, output: str) -> None:
        """output = x @ weight."""
        if x in self.reach:
            codes, scale = columns(weight * self.reach[x][:, None])
            codes, scales = self.add(f"{name}.codes", codes), self.add(f"{name}.scales", scale)
            inputs = [self.column(x), codes, "q8.unit", scales, "q8.middle"]
            self.node("MatMulIntegerToFloat", inputs, output, domain=CONTRIB)
            return
        codes, scale = columns(weight)
        self.integer(x, self.add(f"{name}.codes", codes), scale, output)

    def integer(self, x: str, codes: str, scale: NDArray[np.float32], output: str) -> None:
        row, factor = self.row(x)
        if len(scale) <= WIDE:
            scales = self.add(f"{output}.q8.scales", scale / 127)
            inputs = [row, codes, "q8.one", scales, "q8.middle"]
            self.node("MatMulIntegerToFloat", inputs, f"{output}.q8.columns", domain=CONTRIB)
            self.node("Mul", [f"{output}.q8.columns", factor], output)
            return
        self.node("MatMulInteger", [row, codes, "q8.middle"], f"{output}.q8.sum")
        self.node("Cast", [f"{output}.q8.sum"], f"{output}.q8.float", to=onnx.TensorProto.FLOAT)
        scales = self.add(f"{output}.q8.scales", scale / 127)
        self.node("Mul", [f"{output}.q8.float", scales], f"{output}.q8.columns")
        self.node("Mul", [f"{output}.q8.columns", factor], output)

    def lookup(self, table: str, indices: str, output: str) -> None:
        """output = table[indices], rows of integers with a scale each."""
        if table not in self.done:
            codes, scale = columns(numpy_helper.to_array(self.weights[table]).T)
            self.add(f"{table}.codes", np.ascontiguousarray(codes.T))
            self.add(f"{table}.scales", scale[:, None])
            self.done[table] = f"{table}.codes"
        row, scale = f"{output}.taken", f"{output}.taken.scale"
        self.node("Gather", [f"{table}.codes", indices], row)
        self.node("Cast", [row], f"{row}.float", to=onnx.TensorProto.FLOAT)
        self.node("Gather", [f"{table}.scales", indices], scale)
        self.node("Mul", [f"{row}.float", scale], output)

    def run(self) -> onnx.ModelProto:
        """Rewrite the graph."""
        self.add("q8.middle", np.array(128, np.uint8))
        self.add("q8.unit", np.array(1 / 127, np.float32))
        self.add("q8.one", np.array(1, np.float32))
        self.add("q8.last", np.array([-1], np.int64))
        for node in self.graph.node:
            if source := self.weight_of(node):
                if table := self.flipped(self.turned.get(source, source)):
                    _, scale = columns(numpy_helper.to_array(self.weights[table]).T)
                    flipped = f"{table}.codes.turned"
                    self.node("Transpose", [f"{table}.codes"], flipped, perm=[1, 0])
                    self.integer(node.input[0], flipped, scale, node.output[0])
                    continue
                weight = numpy_helper.to_array(self.weights[self.turned.get(source, source)])
                weight = weight.T if source in self.turned else weight
                self.product(node.input[0], weight, source, node.output[0])
            elif (
                node.op_type == "Gather"
                and self.size(node.input[0]) >= SMALLEST
                and numpy_helper.to_array(self.weights[node.input[0]]).dtype == np.float32
            ):
                self.lookup(node.input[0], node.input[1], node.output[0])
            else:
                self.nodes.append(node)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        self.sweep()
        return self.model

    def weight_of(self, node: NodeProto) -> str:
        """The large weight that a node multiplies something with; "" if it does not."""
        if node.op_type != "MatMul" or self.size(node.input[0]) >= SMALLEST:
            return ""
        source = node.input[1]
        return source if self.size(self.turned.get(source, source)) >= SMALLEST else ""

    def flipped(self, name: str) -> str:
        """The table that was looked up in and is this weight turned round, if there is one."""
        weight = numpy_helper.to_array(self.weights[name])
        for table in self.done:
            value = numpy_helper.to_array(self.weights[table])
            if value.shape == weight.shape[::-1] and np.array_equal(value.T, weight):
                return table
        return ""

    def size(self, name: str) -> int:
        tensor = self.weights.get(name)
        return int(np.prod(tensor.dims)) if tensor is not None else 0

    def sweep(self) -> None:
        """Drop initializers and nodes that are no longer read."""
        wanted = {output.name for output in self.graph.output}
        kept = []
        for node in reversed(self.graph.node):
            if wanted.intersection(node.output):
                kept.append(node)
                wanted.update(node.input)
        del self.graph.node[:]
        self.graph.node.extend(reversed(kept))
        tensors = [t for t in self.graph.initializer if t.name in wanted]
        del self.graph.initializer[:]
        self.graph.initializer.extend(tensors)


def activation_ranges(
    graph: onnx.ModelProto, step: CachedNano, samples: Iterable[Sequence[int]]
) -> dict[str, Array]:
    """How far the columns go of norms that only products with weights read.

    graph: of floats; samples: ids of tools with a request and its answer.
    """
    reader = Quantizer(graph, {})
    names = [node.output[0] for node in graph.graph.node if reader.is_private(node)]
    see = tensor_reader(graph, names)
    far: dict[str, Array] = {}
    for ids in samples:
        for name, found in zip(names, see(whole(step, ids)), strict=True):
            rows = np.abs(found.reshape(-1, found.shape[-1]))
            far[name] = np.maximum(far.get(name, 1e-3), rows.max(0, initial=0))
    return {name: MARGIN * reach for name, reach in far.items()}


def write(
    model: Nano,
    controls: Mapping[str, int],
    newline: int,
    target: Path,
    *,
    bits: int = 8,
    samples: Iterable[Sequence[int]] = (),
) -> None:
    """Write the graph; `bits` 32 keeps float weights; see `activation_ranges` for `samples`."""
    step = CachedNano(model, controls, newline)
    graph = simplify(trace(step), lambda *sizes: feeds(step, *sizes))
    if bits == 8:
        graph = Quantizer(graph, activation_ranges(graph, step, samples)).run()
    graph = conditional(graph)
    target.write_bytes(graph.SerializeToString(deterministic=True))
