"""Turns a graph whose cache grows into one that writes its cache by position, with one state more."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def place(model: onnx.ModelProto) -> None:
    """Write keys and values with ScatterND; mask by position; add the id before to each id.

    The cache becomes ``[batch, cache_length, heads * width]``, and ``past_shift.0`` of the same kind
    (rank 3, half as wide) holds a state per position that is no key and no value.
    """
    graph = model.graph
    taken: list[onnx.NodeProto] = []
    shapes = {
        node.name: node.type.tensor_type.shape.dim
        for node in graph.input
        if node.name.startswith("past")
    }
    heads, width = (next(iter(shapes.values()))[axis].dim_value for axis in (1, 3))

    def constant(name: str, *values: int) -> str:
        graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def add(operator: str, inputs: list[str], output: str, **attributes: object) -> str:
        taken.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    one = constant("placed_one", 1)
    last = constant("placed_last", 2)
    merged, split = (
        constant("placed_merged", 0, 0, -1),
        constant("placed_split", 0, 0, heads, width),
    )
    zero = constant("placed_zero", 0)
    # Where each id belongs: [batch, sequence, 2], the row and the position.
    rows = add("Shape", ["position_ids"], "placed_shape")
    batch = add("Gather", [rows, zero], "placed_batch", axis=0)
    scalars = [add("Squeeze", [name], f"{name}_0") for name in (zero, one)]
    flat = add("Squeeze", [batch], "placed_batch_0")
    row = add("Range", [scalars[0], flat, scalars[1]], "placed_range")
    row = add("Unsqueeze", [row, one], "placed_row")
    row = add("Expand", [row, "placed_shape"], "placed_rows")
    deep = [add("Unsqueeze", [name, last], f"{name}_deep") for name in (row, "position_ids")]
    index = add("Concat", deep, "placed_index", axis=-1)
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type == "Concat" and node.output[0].startswith("present"):
            past, new = node.input
            flatter = add_to(nodes, "Transpose", [new], f"{past}_t", perm=[0, 2, 1, 3])
            flatter = add_to(nodes, "Reshape", [flatter, merged], f"{past}_m")
            present = add_to(nodes, "ScatterND", [past, index, flatter], node.output[0])
            parts = add_to(nodes, "Reshape", [present, split], f"{past}_s")
            seen = add_to(nodes, "Transpose", [parts], f"{past}_seen", perm=[0, 2, 1, 3])
            rename(graph, node.output[0], seen)
            continue
        nodes.append(node)
        if node.name == "/model/embed_tokens/Gather":
            nodes.extend(shift(graph, node.output[0], index))
    by_name = {node.name: node for node in nodes}
    path = "/model/causal_mask"
    by_name[f"{path}/past"].input[1] = "scalar_1"  # the length is the second axis now
    by_name[f"{path}/Range"].input[1] = f"{path}/past/output_0"
    by_name[f"{path}/LessOrEqual"].input[1] = "position_ids_deep"
    at = nodes.index(by_name[f"{path}/LessOrEqual"]) + 1
    headed = helper.make_node("Unsqueeze", [f"{path}/LessOrEqual/output_0", one], ["placed_mask"])
    nodes.insert(at, headed)
    rename(graph, f"{path}/And/output_0", "placed_mask", nodes)
    dead = {f"{path}/{name}" for name in ("And", "Unsqueeze", "Range_1", "Cast", "Unsqueeze_1")}
    del graph.node[:]
    graph.node.extend(taken + [node for node in nodes if node.name not in dead])
    declare(graph, heads * width)


def add_to(
    nodes: list[onnx.NodeProto], operator: str, inputs: list[str], output: str, **attributes: object
) -> str:
    """Append a node; return its output."""
    nodes.append(helper.make_node(operator, inputs, [output], **attributes))
    return output


def shift(graph: onnx.GraphProto, x: str, index: str) -> list[onnx.NodeProto]:
    """Add to the first half of each id's embedding that of the id before it, kept as a state."""
    table = next(one for one in graph.initializer if one.name == "model.embed_tokens.weight")
    half = table.dims[1] // 2
    for name, value in {
        "shift_halves": np.array([half, half], np.int64),
        "shift_back": np.array([0, -1], np.int64),
        "shift_least": np.array([0, 0], np.int64),
        "shift_first": np.array(0, np.int64),
    }.items():
        graph.initializer.append(numpy_helper.from_array(value, name))
    nodes = [helper.make_node("Split", [x, "shift_halves"], ["shift_left", "shift_right"], axis=-1)]
    add_to(nodes, "ScatterND", ["past_shift.0", index, "shift_left"], "present_shift.0")
    add_to(nodes, "Add", [index, "shift_back"], "shift_before")
    add_to(nodes, "Max", ["shift_before", "shift_least"], "shift_index")
    add_to(nodes, "GatherND", ["present_shift.0", "shift_index"], "shift_found")
    add_to(nodes, "Greater", ["position_ids_deep", "shift_first"], "shift_is_behind")
    add_to(nodes, "Cast", ["shift_is_behind"], "shift_factor", to=TensorProto.FLOAT)
    add_to(nodes, "Mul", ["shift_found", "shift_factor"], "shift_told")
    add_to(nodes, "Add", ["shift_left", "shift_told"], "shift_sum")
    add_to(nodes, "Concat", ["shift_sum", "shift_right"], "shift_x", axis=-1)
    rename(graph, x, "shift_x")
    return nodes


def rename(
    graph: onnx.GraphProto, old: str, new: str, nodes: list[onnx.NodeProto] | None = None
) -> None:
    """Let the nodes of the graph read another tensor."""
    for node in graph.node if nodes is None else nodes:
        for at, name in enumerate(node.input):
            if name == old and node.op_type != "Split":
                node.input[at] = new


def declare(graph: onnx.GraphProto, width: int) -> None:
    """Declare the inputs and outputs that the graph has now."""
    table = next(one for one in graph.initializer if one.name == "model.embed_tokens.weight")
    for side, word in ((graph.input, "past"), (graph.output, "present")):
        names = [node.name for node in side]
        kept = [node for node in side if not node.name.startswith((word, "attention_mask"))]
        for name in names:
            if name.startswith(word):
                dims = ["batch_size", "cache_length", width]
                kept.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
        dims = ["batch_size", "cache_length", table.dims[1] // 2]
        kept.append(helper.make_tensor_value_info(f"{word}_shift.0", TensorProto.FLOAT, dims))
        del side[:]
        side.extend(kept)
