"""Turn "needed under a condition" into branches, so that a pass computes what its rows need.

Tracing leaves `Only(condition, value, otherwise)` in the graph. All of one condition become one If, and what
nothing else reads moves into its branch; what stays outside is seen from inside.
"""

from __future__ import annotations

from collections import defaultdict

import onnx
from onnx import NodeProto, TensorProto, helper


def conditional(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace all `Only` nodes by branches, group by group, and sort the nodes."""
    graph = model.graph
    groups: dict[int, list[NodeProto]] = defaultdict(list)
    for node in graph.node:
        if node.op_type == "Only":
            groups[node.attribute[0].i].append(node)
    for group in groups.values():
        fold(graph, group[0].input[0], group)
    ordered = in_order(list(graph.node), graph)
    del graph.node[:]
    graph.node.extend(ordered)
    return model


def inner_names(node: NodeProto) -> set[str]:
    """Everything a node reads, its branches included."""
    found = set(node.input)
    for attribute in node.attribute:
        for each in attribute.g.node:
            found |= inner_names(each)
        if attribute.type == onnx.AttributeProto.GRAPH:
            made = {name for each in attribute.g.node for name in each.output}
            found -= made
    return found


def own_nodes(graph: onnx.GraphProto, values: set[str], keep: set[str]) -> list[NodeProto]:
    """Nodes that only `values` need, in order."""
    readers: dict[str, set[int]] = defaultdict(set)
    for number, node in enumerate(graph.node):
        for name in inner_names(node):
            readers[name].add(number)
    chosen: set[int] = set()
    for number in reversed(range(len(graph.node))):
        node = graph.node[number]
        if node.op_type == "Only" or any(name in keep for name in node.output):
            continue
        wanted = [name for name in node.output if name in values or readers[name]]
        if wanted and all((readers[n] <= chosen and (n in values or readers[n])) for n in wanted):
            chosen.add(number)
    return [graph.node[number] for number in sorted(chosen)]


def fold(graph: onnx.GraphProto, condition: str, group: list[NodeProto]) -> None:
    """Make one If of a group."""
    keep = {output.name for output in graph.output} | {node.input[2] for node in group}
    values = {node.input[1] for node in group}
    readers: dict[str, int] = defaultdict(int)
    for node in graph.node:
        for name in inner_names(node):
            readers[name] += 1
    outputs = {node.output[0] for node in group}
    rest = [node for node in graph.node if node.output[0] not in outputs]
    del graph.node[:]
    graph.node.extend(rest)
    inside = own_nodes(graph, {v for v in values if readers[v] == 1}, keep | {condition})
    names = {name for node in inside for name in node.output}
    then_nodes, then_outputs, else_nodes, else_outputs = [*inside], [], [], []
    for node in group:
        value, otherwise, output = node.input[1], node.input[2], node.output[0]
        if value not in names:
            then_nodes.append(helper.make_node("Identity", [value], [f"{output}.yes"]))
            value = f"{output}.yes"
        then_outputs.append(helper.make_tensor_value_info(value, TensorProto.FLOAT, None))
        else_nodes.append(helper.make_node("Identity", [otherwise], [f"{output}.no"]))
        else_outputs.append(helper.make_tensor_value_info(f"{output}.no", TensorProto.FLOAT, None))
    made = helper.make_node(
        "If",
        [condition],
        [node.output[0] for node in group],
        then_branch=helper.make_graph(then_nodes, f"{condition}.then", [], then_outputs),
        else_branch=helper.make_graph(else_nodes, f"{condition}.else", [], else_outputs),
    )
    left = [node for node in graph.node if not set(node.output) <= names or not node.output]
    del graph.node[:]
    graph.node.extend([*left, made])


def in_order(nodes: list[NodeProto], graph: onnx.GraphProto) -> list[NodeProto]:
    """Sort so that everything is made before it is read."""
    begun: set[int] = set()
    known = {tensor.name for tensor in graph.initializer} | {i.name for i in graph.input} | {""}
    makers = {output: node for node in nodes for output in node.output}
    result: list[NodeProto] = []
    done: set[int] = set()
    for root in nodes:
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if id(node) in done:
                continue
            if ready:
                done.add(id(node))
                result.append(node)
                continue
            if id(node) in begun:
                raise ValueError(f"the graph runs in a circle at {node.name or node.op_type}")
            begun.add(id(node))
            stack.append((node, True))
            stack += [
                (makers[name], False)
                for name in sorted(inner_names(node))
                if name in makers and name not in known and id(makers[name]) not in done
            ]
    return result
