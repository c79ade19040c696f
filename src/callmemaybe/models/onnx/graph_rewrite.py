"""Adds the inputs that exporters leave out to an ONNX graph, in memory, as it is loaded.

*Tree attention* (Miao et al., SpecInfer, 2023): GroupQueryAttention can take positions and a bias on
its scores, but exporters wire neither. With both, one pass takes ids of several sequences with a
common prefix: each id has its own position for the rotation, and the bias hides the cells of the other
sequences.

*Logits to keep*: most exports compute logits for every position, a quarter of the arithmetic in a
small model. ``num_logits_to_keep`` in front of the last product computes those asked for.

The code edits the bytes of the file (the wire format of Protocol Buffers): only the graph changes, and
weights may be hundreds of megabytes. It does not know how the graph is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: Names of the added inputs: int64[batch, n], and [1, 1, n, total] in the type of the cache.
POSITIONS, BIAS, KEEP = "shared_kv_positions", "shared_kv_bias", "num_logits_to_keep"

_OPERATOR = b"GroupQueryAttention"
_PRODUCTS = frozenset({b"MatMul", b"MatMulNBits"})
_INT64 = 7
_FARTHEST = (1 << 63) - 1
# Field numbers of onnx.proto: of ModelProto, GraphProto, NodeProto, AttributeProto.
_GRAPH = 7
_NODE, _INPUT, _OUTPUT = 1, 11, 12
_FROM, _TO, _KIND, _ATTRIBUTE = 1, 2, 4, 5
_NAME, _INT, _INTS, _TYPE = 1, 3, 8, 20
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# Inputs 9 and 10 of GroupQueryAttention, before which come seven required and the two rotations.
_BEFORE = 9


class _Field(NamedTuple):
    """A field of the wire format: number, payload, and its bytes from the tag to the end."""

    number: int
    value: memoryview | int
    start: int
    end: int


@dataclass(frozen=True)
class _OnnxNode:
    """The parts of a NodeProto that are needed here."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kind: bytes
    attributes: dict[str, int]
    field: _Field


def rewrite(model: bytes | memoryview) -> list[bytes | memoryview] | None:
    """Return a ModelProto with the added inputs, in pieces; None if none can be added.

    Raises ValueError for bytes that are no ModelProto.
    """
    whole = memoryview(model)
    found = next((field for field in _fields(whole) if field.number == _GRAPH), None)
    if found is None or isinstance(found.value, int):
        raise ValueError("no graph in it")
    edited = _graph(found.value)
    if edited is None:
        return None
    size = sum(map(len, edited))
    return [
        whole[: found.start],
        _varint(_GRAPH << 3 | _BYTES) + _varint(size),
        *edited,
        whole[found.end :],
    ]


def _graph(graph: memoryview) -> list[bytes | memoryview] | None:
    fields = list(_fields(graph))
    nodes = [_node(field) for field in fields if field.number == _NODE]
    inputs = {_name(field): field for field in fields if field.number == _INPUT}
    outputs = [_name(field) for field in fields if field.number == _OUTPUT]
    replaced: dict[int, bytes] = {}
    added = b""
    attention = [node for node in nodes if node.kind == _OPERATOR]
    element = _element(inputs, attention)
    if element is not None and all(_can_rewrite(node, inputs) for node in attention):
        turns = any(node.attributes.get("do_rotary") for node in attention)
        for node in attention:
            here = POSITIONS if node.attributes.get("do_rotary") else ""
            more = [*[""] * (_BEFORE - len(node.inputs)), here, BIAS]
            replaced[node.field.start] = _payload(node) + b"".join(_text(_FROM, x) for x in more)
        added += _tensor(BIAS, element, (1, 1, "shared_kv_rows", "shared_kv_cells"))
        added += _tensor(POSITIONS, _INT64, ("shared_kv_batch", "shared_kv_rows")) if turns else b""
    head = _head(nodes) if KEEP not in inputs and "logits" in outputs else None
    in_front = {}
    if head is not None:
        cut = [f"{KEEP}_rows", *head.inputs[1:]]
        rest = _without(head.field, _FROM)
        replaced[head.field.start] = b"".join(_text(_FROM, name) for name in cut) + rest
        in_front[head.field.start] = _slice(head.inputs[0], cut[0])
        added += _tensor(KEEP, _INT64, ())
    if not added:
        return None
    pieces: list[bytes | memoryview] = []
    for field in fields:
        pieces.append(in_front.get(field.start, b""))
        if field.start in replaced:
            pieces.append(_message(_NODE, replaced[field.start]))
        else:
            pieces.append(graph[field.start : field.end])
    return [*pieces, added]


def _can_rewrite(node: _OnnxNode, inputs: dict[str, _Field]) -> bool:
    """Whether positions and a bias can be wired to a node, with the meaning needed here."""
    if len(node.inputs) > _BEFORE or node.attributes.get("local_window_size", -1) != -1:
        # A sliding window counts cells, but here a cell's index is not its position.
        return False
    return bool(node.attributes.get("do_rotary")) or "position_ids" in inputs


def _element(inputs: dict[str, _Field], attention: Sequence[_OnnxNode]) -> int | None:
    """Return the element type of the caches, if all attention reads its cache from the inputs."""
    found = set()
    for node in attention:
        past = inputs.get(node.inputs[3]) if len(node.inputs) > 3 else None
        found.add(None if past is None else _element_of(past))
    return found.pop() if len(found) == 1 else None


def _head(nodes: Sequence[_OnnxNode]) -> _OnnxNode | None:
    """Return the product that makes the logits, if nothing but a change of type follows it."""
    makers = {name: node for node in nodes for name in node.outputs}
    node = makers.get("logits")
    while node is not None and node.kind == b"Cast":
        node = makers.get(node.inputs[0])
    return node if node is not None and node.kind in _PRODUCTS else None


def _slice(source: str, target: str) -> bytes:
    """Return the nodes of ``target = source[:, -KEEP:]``."""
    constants = {"first": 0, "axis": 1, "end": _FARTHEST}
    nodes = [
        _text(_TO, f"{KEEP}_{name}")
        + _text(_KIND, "Constant")
        + _message(
            _ATTRIBUTE,
            _text(_NAME, "value_ints") + _number(_INTS, value) + _number(_TYPE, 7),
        )
        for name, value in constants.items()
    ]
    for kind, sources, output in (
        ("Neg", [KEEP], f"{KEEP}_back"),
        ("Unsqueeze", [f"{KEEP}_back", f"{KEEP}_first"], f"{KEEP}_start"),
        ("Slice", [source, f"{KEEP}_start", f"{KEEP}_end", f"{KEEP}_axis"], target),
    ):
        wires = b"".join(_text(_FROM, name) for name in sources)
        nodes.append(wires + _text(_TO, output) + _text(_KIND, kind))
    return b"".join(_message(_NODE, node) for node in nodes)


# -- reading the wire format --------------------------------------------------------------------


def _fields(data: memoryview) -> Iterator[_Field]:
    at = 0
    while at < len(data):
        start = at
        tag, at = _read(data, at)
        number, kind = tag >> 3, tag & 7
        value: memoryview | int
        if kind == _VARINT:
            value, at = _read(data, at)
        elif kind in {_FIXED64, _FIXED32}:
            value, at = 0, at + (8 if kind == _FIXED64 else 4)
        elif kind == _BYTES:
            size, at = _read(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"a field of kind {kind}")
        if at > len(data):
            raise ValueError("it is cut off")
        yield _Field(number, value, start, at)


def _read(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("it is cut off")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _texts(fields: Sequence[_Field], number: int) -> tuple[str, ...]:
    return tuple(str(_bytes(field), "utf-8") for field in fields if field.number == number)


def _bytes(field: _Field) -> memoryview:
    if isinstance(field.value, int):
        raise ValueError(f"field {field.number} is a number")
    return field.value


def _node(field: _Field) -> _OnnxNode:
    parts = list(_fields(_bytes(field)))
    attributes = {}
    for part in parts:
        if part.number == _ATTRIBUTE:
            inside = list(_fields(_bytes(part)))
            value = next((one.value for one in inside if one.number == _INT), None)
            if isinstance(value, int):
                # Negative numbers stand as 64 bits in two's complement.
                signed = value - (1 << 64) if value >> 63 else value
                attributes[_texts(inside, _NAME)[0]] = signed
    kind = next((bytes(_bytes(part)) for part in parts if part.number == _KIND), b"")
    return _OnnxNode(_texts(parts, _FROM), _texts(parts, _TO), kind, attributes, field)


def _payload(node: _OnnxNode) -> bytes:
    return bytes(_bytes(node.field))


def _without(field: _Field, number: int) -> bytes:
    data = _bytes(field)
    return b"".join(data[part.start : part.end] for part in _fields(data) if part.number != number)


def _name(field: _Field) -> str:
    return (_texts(list(_fields(_bytes(field))), _NAME) or ("",))[0]


def _element_of(info: _Field) -> int | None:
    """Return ``ValueInfoProto.type.tensor_type.elem_type``."""
    data = _bytes(info)
    for number in (2, 1):
        inner = next((part for part in _fields(data) if part.number == number), None)
        if inner is None:
            return None
        data = _bytes(inner)
    value = next((part.value for part in _fields(data) if part.number == 1), None)
    return value if isinstance(value, int) else None


# -- writing it -----------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _message(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _tensor(name: str, element: int, shape: Sequence[int | str]) -> bytes:
    """Return an input of a graph."""
    dims = b"".join(
        _message(1, _text(2, size) if isinstance(size, str) else _number(1, size)) for size in shape
    )
    kind = _message(1, _number(1, element) + _message(2, dims))
    return _message(_INPUT, _text(1, name) + _message(2, kind))
