"""The weights of a model folder: read from its graph of integers, and written back into it.

The graph of the embedded model (`model.onnx`) holds what training knows as some eighty weights in another form: matrices are
put together, turned round and rounded to eight bits (`training.export`). `weights.json` beside it says what the graph calls
them. So weights can be changed without tracing the network again: they are rounded anew, and everything else of the graph
stays, also how far the activations of each column go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from callmemaybe.errors import InputError

Array = NDArray[Any]
Weights = dict[str, Array]
#: What the folder says of its graph.
PLACES = "weights.json"
CODES = ".codes"
#: The table of words is multiplied with, too, turned round; the scales of that product are a constant of their own.
TABLE = "table"


def nodes_of(graph: Any) -> Iterator[Any]:
    """Yield all nodes of a graph, those of branches too."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes_of(attribute.g)


@dataclass(frozen=True, slots=True)
class RoundedWeight:
    """How a graph holds one weight [inputs, outputs] as integers: value = codes * scales * factor * gains[:, None]."""

    codes: str
    scales: str
    factor: float = 1.0
    gains: Array | None = None

    def decode(self, held: Mapping[str, Array]) -> Array:
        """Return the weight as floats."""
        value = held[self.codes] * held[self.scales] * np.float32(self.factor)
        return value if self.gains is None else value * self.gains[:, None]

    def encode(self, value: Array) -> dict[str, Array]:
        """Return the constants that hold `value`, with one scale for each output."""
        value = value if self.gains is None else value / self.gains[:, None]
        scale = np.abs(value).max(0) / 127
        scale = np.where(scale == 0, 1, scale).astype(np.float32)
        codes = np.clip(np.rint(value / scale), -127, 127).astype(np.int8)
        return {self.codes: codes, self.scales: (scale / np.float32(self.factor))}


def rounded_weights(graph: Any, held: Mapping[str, Array]) -> dict[str, RoundedWeight]:
    """Return how a graph holds its rounded matrices, by the names they had before; tables of lookups are left out."""
    nodes = list(nodes_of(graph))
    readers: dict[str, Any] = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, node)
    makers = {output: node for node in nodes for output in node.output}
    found = {}
    for name in held:
        if not name.endswith(CODES) or readers[name].op_type != "MatMulIntegerToFloat":
            continue
        reader, bare = readers[name], name.removesuffix(CODES)
        if reader.input[2] == "q8.one":
            found[bare] = RoundedWeight(name, reader.input[3], 127.0)
        else:  # rounded by columns: the norm's gains took what the weight brought
            norm = makers[makers[reader.input[0]].input[0]]
            gains = next(held[each] for each in norm.input if each.endswith("q8.gains"))
            found[bare] = RoundedWeight(name, reader.input[3], 1.0, gains)
    return found


def floats(graph: Any) -> Weights:
    """Return the constants of a graph, those that are rounded as floats, by the names they had before."""
    held = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    rounded = rounded_weights(graph, held)
    found = {name: value for name, value in held.items() if not name.endswith(CODES)}
    found |= {name: how.decode(held) for name, how in rounded.items()}
    for name, value in held.items():
        bare = name.removesuffix(CODES)
        if name.endswith(CODES) and bare not in found:  # a table
            found[bare] = value * held[f"{bare}.scales"]
    return found


@dataclass(frozen=True, slots=True)
class GraphSizes:
    """Sizes of the network that say how its matrices are put together."""

    layers: int
    deep: int
    heads: int
    kv_heads: int
    head: int
    width: int
    pointers: int = 2


def split_fused(sizes: GraphSizes, held: Mapping[str, Array]) -> Weights:
    """Return what the graph holds put together as the weights of the network.

    Weights of norms stay where they were multiplied in, and are one.
    """
    ones = np.ones(sizes.width, np.float32)
    found: Weights = {"final.weight": ones}
    cuts = np.cumsum([sizes.heads * sizes.head, sizes.kv_heads * sizes.head])
    for number in range(sizes.layers + sizes.deep):
        parts = np.split(held[f"fused.{2 * number}"].T, cuts)
        parts += np.split(held[f"fused.{2 * number + 1}"].T, 2)
        gains = held[f"gains.{number}"][:, 0]
        own = dict(zip(("q", "k", "v", "gate", "up"), parts, strict=True))
        own |= {"before": ones, "after": ones, "k_gain": gains[sizes.heads]}
        own["q_gain"] = gains[0] * np.float32(sizes.head**0.5)
        found |= {f"layers.{number}.{name}.weight": value for name, value in own.items()}
    gates = 1 + 2 * sizes.pointers
    gate, form = np.split(held["gate"].T, [gates])
    gate_bias, form_bias = np.split(held["gate_bias"], [gates])
    found |= {"pointer.gate.weight": gate, "pointer.gate.bias": gate_bias}
    found |= {"pointer.to_form.weight": form, "pointer.to_form.bias": form_bias}
    found |= {"pointer.to_base.weight": held["to_base"].T, "pointer.q.weight": held["ask"].T}
    found["pointer.scale"] = held["base_scale"] * np.float32(16)
    back = np.split(held["back"].T, 2, 1)
    return found | {f"back.{number}.weight": each for number, each in enumerate(back)}


def join_fused(sizes: GraphSizes, weights: Mapping[str, Array]) -> Weights:
    """Return the constants of the graph that `split_fused` takes apart; `weights` of norms must be one."""
    found: Weights = {}

    def gained(number: int, names: Sequence[tuple[str, int]]) -> Array:
        rows = [
            np.broadcast_to(weights[f"layers.{number}.{name}.weight"], (count, sizes.head))
            for name, count in names
        ]
        return np.concatenate(rows)[:, None]

    for number in range(sizes.layers + sizes.deep):
        own = {
            name: weights[f"layers.{number}.{name}.weight"]
            for name in ("q", "k", "v", "gate", "up")
        }
        found[f"fused.{2 * number}"] = np.concatenate((own["q"], own["k"], own["v"])).T
        found[f"fused.{2 * number + 1}"] = np.concatenate((own["gate"], own["up"])).T
        gains = gained(number, (("q_gain", sizes.heads), ("k_gain", sizes.kv_heads)))
        gains[: sizes.heads] *= np.float32(sizes.head**-0.5)
        found[f"gains.{number}"] = gains
    deep = range(sizes.layers, sizes.layers + sizes.deep)
    keys_values = [weights[f"layers.{n}.{kind}.weight"] for kind in ("k", "v") for n in deep]
    found["beheld"] = np.concatenate(keys_values).T
    found["beheld_gains"] = np.concatenate([gained(n, (("k_gain", sizes.kv_heads),)) for n in deep])
    gate = weights["pointer.gate.weight"], weights["pointer.to_form.weight"]
    found["gate"] = np.concatenate(gate).T
    found["gate_bias"] = np.concatenate(
        (weights["pointer.gate.bias"], weights["pointer.to_form.bias"])
    )
    found["to_base"], found["ask"] = (
        weights["pointer.to_base.weight"].T,
        weights["pointer.q.weight"].T,
    )
    found["base_scale"] = np.abs(weights["pointer.scale"]) / np.float32(16)
    found["back"] = np.concatenate([weights[f"back.{n}.weight"] for n in range(2)], 1).T
    return found


@dataclass(slots=True)
class GraphWeights:
    """The weights of a model folder."""

    folder: Path
    model: Any = field(repr=False)
    network: Mapping[str, Any]  # sizes, as `network.model.NanoConfig` has them
    places: Mapping[
        str, tuple[str, bool]
    ]  # of other weights: the constant's name, and whether turned round

    @classmethod
    def load(cls, folder: Path) -> GraphWeights:
        """Read the graph and what is said of it; raise InputError if the folder holds no such model."""
        about = folder / PLACES
        if not about.is_file():
            raise InputError(
                f"this model has no {PLACES}, so it cannot be tuned", where=str(folder),
                hint="the embedded model can, and what was tuned from it",
            )  # fmt: skip
        try:
            table = json.loads(about.read_text("utf-8"))
            places = {name: (place, turned) for name, (place, turned) in table["places"].items()}
            return cls(folder, onnx.load(str(folder / "model.onnx")), table["network"], places)
        except Exception as error:  # a damaged file: onnx has exceptions of its own
            raise InputError(
                f"the files of this model cannot be read ({type(error).__name__})", where=str(folder),
                hint="fetch or tune it again",
            ) from error  # fmt: skip

    @property
    def sizes(self) -> GraphSizes:
        """Return the sizes that matter here."""
        s = self.network
        return GraphSizes(s["layers"], s["deep"], s["heads"], s["kv_heads"], s["head"], s["width"])

    @property
    def none_bias(self) -> float:
        """Return what the graph adds to the log-odds of calling nothing (`training.calibrate`)."""
        held = (each for each in self.model.graph.initializer if each.name == "none_bias")
        return float(numpy_helper.to_array(next(held)).sum())

    def read(self) -> Weights:
        """Return the weights of the network by name, in float32; `table` [bases, width] is what words mean and are.

        Besides them the vectors of whole words: `wholes.shifts` and `wholes.held` int64, `wholes.rows` [places + 1, lexicon].
        """
        held = floats(self.model.graph)
        found = split_fused(self.sizes, held)
        for name, (place, turned) in self.places.items():
            found[name] = held[place].T if turned else held[place]
        found[TABLE] = held[TABLE]
        for name in ("shifts", "held", "rows"):
            found[f"wholes.{name}"] = held[f"model.wholes.{name}"]
        return {
            name: np.array(value, np.int64 if value.dtype == np.int64 else np.float32)
            for name, value in found.items()
        }

    def write(self, weights: Mapping[str, Array], target: Path) -> None:
        """Write the graph with other weights, named as :meth:`read` names them.

        Those that did not change stay as they are to the bit.
        """
        before = self.read()
        constants = self._constants(weights)
        same = self._constants(before)
        changed = {
            name: value
            for name, value in constants.items()
            if not np.array_equal(value, same[name])
        }
        made = self._encoded(changed)
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for tensor in model.graph.initializer:
            if tensor.name in made:
                kept = numpy_helper.to_array(tensor)
                value = made[tensor.name].astype(kept.dtype).reshape(kept.shape)
                tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
        target.write_bytes(model.SerializeToString(deterministic=True))

    def _constants(self, weights: Mapping[str, Array]) -> Weights:
        found = join_fused(self.sizes, weights)
        for name, (place, turned) in self.places.items():
            found[place] = weights[name].T if turned else weights[name]
        return found | {TABLE: weights[TABLE]}

    def _encoded(self, changed: Mapping[str, Array]) -> Weights:
        """Return the constants of the graph that hold these values."""
        graph = self.model.graph
        held = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        rounded = rounded_weights(graph, held)
        made: Weights = {}
        for name, value in changed.items():
            if name in rounded:
                made |= rounded[name].encode(value)
            elif name == TABLE:
                made |= self._encoded_table(value)
            else:
                made[name] = value
        return made

    def _encoded_table(self, value: Array) -> Weights:
        how = RoundedWeight(f"{TABLE}{CODES}", f"{TABLE}.scales")
        codes, scales = how.encode(value.T).values()
        made = {how.codes: codes.T, how.scales: scales[:, None]}
        for node in nodes_of(self.model.graph):
            if node.op_type == "MatMulInteger" and f"{TABLE}{CODES}.turned" in node.input:
                product = node.output[0].removesuffix(".q8.sum")
                made[f"{product}.q8.scales"] = scales / np.float32(127)
        return made
