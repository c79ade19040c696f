"""Writes a Qwen3-architecture model as the ONNX graph that costs a CPU least, and never depends on neighbours.

    python -m training.export.qwen3_rows FOLDER OUTPUT

turns a folder of safetensors (``Qwen/Qwen3-0.6B`` as it is published) into one that ``--model`` takes.
It differs from what exporters write in three ways, each measured (docs/ideas/onnx.md):

* **Weights** are int8 with a scale per column, **activations** uint8 with a scale per *row*: integer
  products are exact, so a row's result does not depend on which rows it goes through with, and rows
  cost a third of what 4-bit blocks take once there are eight of them.
* The **cache** is written by position (ScatterND) into the buffer it is read from: nothing is copied,
  and sequences of any lengths go through together, each with several ids.
* Query heads that share keys are rows of one product. There are always two of them at least: for a
  single row onnxruntime takes another kernel, which rounds otherwise.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from training.export.qwen3_config import Qwen3Config
from training.export.qwen3_onnx import CONTRIB, OPSET, _Build

Array = NDArray[Any]

_HALF = 127.0  # codes reach from -127 to 127


def export(config: Mapping[str, Any], tensors: Mapping[str, Array], folder: Path) -> Path:
    """Write ``model.onnx`` and ``config.json``; see :func:`training.export.qwen3_onnx.export`."""
    shape = Qwen3Config(config)
    shape.check(tensors)
    model = _Rows(shape, tensors).model()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "model.onnx"
    target.write_bytes(model.SerializeToString(deterministic=True))
    (folder / "config.json").write_text(json.dumps(dict(config), indent=2) + "\n", encoding="utf-8")
    return target


class _Rows(_Build):
    """The graph under construction."""

    def __init__(self, shape: Qwen3Config, tensors: Mapping[str, Array]) -> None:
        super().__init__(shape, tensors, "genai", "fp32", keep_input=False)
        if shape.heads < 2 * shape.kv_heads:
            raise ValueError("every key head must serve two query heads at least")

    def constant(self, name: str, value: Array) -> str:
        if value.ndim == 0 and name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.asarray(value), name)
            return name
        return super().constant(name, value)

    # -- products

    def quantized(self, x: str, path: str) -> tuple[str, str]:
        """Return the codes of ``x`` (uint8, 128 is zero) and the largest magnitude of each row."""
        size = self.node("Abs", [x], f"{path}/Abs")
        most = self.node("ReduceMax", [size, self.ints(-1)], f"{path}/ReduceMax", keepdims=1)
        least = self.constant("least_magnitude", np.array(1e-9, np.float32))
        most = self.node("Max", [most, least], f"{path}/Max")
        unit = self.node("Div", [x, most], f"{path}/Div")
        scale = self.constant("code_scale", np.array(1 / _HALF, np.float32))
        zero = self.constant("code_zero", np.array(128, np.uint8))
        return self.node("QuantizeLinear", [unit, scale, zero], f"{path}/QuantizeLinear"), most

    def product(self, codes: str, most: str, name: str, weight: Array) -> str:
        """``x @ weight.T`` of the codes of ``x``; ``weight`` is ``[out, in]``."""
        path = "/" + name.replace(".", "/")
        right, scale = self.columns(name, weight)
        zero = self.constant("code_zero", np.array(128, np.uint8))
        whole = self.node("MatMulInteger", [codes, right, zero], f"{path}/MatMulInteger")
        whole = self.node("Cast", [whole], f"{path}/Cast", to=TensorProto.FLOAT)
        whole = self.node("Mul", [whole, scale], f"{path}/columns")
        return self.node("Mul", [whole, most], f"{path}/rows")

    def columns(self, name: str, weight: Array) -> tuple[str, str]:
        """Return the initializers of an int8 weight ``[in, out]`` and of its scales, over 127."""
        right, scales = f"{name}.weight_codes", f"{name}.weight_scales"
        if right not in self.initializers:
            wide = np.asarray(weight, np.float32)
            scale = np.maximum(np.abs(wide).max(axis=1) / _HALF, 1e-12).astype(np.float32)
            codes = np.clip(np.rint(wide / scale[:, None]), -_HALF, _HALF).astype(np.int8)
            self.constant(right, codes.T)
            self.constant(scales, scale / np.float32(_HALF))
        return right, scales

    def matmul(self, x: str, name: str, weight: Array) -> str:
        codes, most = self.quantized(x, "/" + name.replace(".", "/"))
        return self.product(codes, most, name, weight)

    def joined(self, x: str, at: str, names: tuple[str, ...]) -> list[str]:
        """Several products of one input as one; return them apart."""
        weights = [self.tensors[f"{at}.{name}.weight"] for name in names]
        whole = self.matmul(x, f"{at}.{'_'.join(names)}", np.concatenate(weights))
        path = "/" + at.replace(".", "/")
        outs = [f"{path}/{name}/output_0" for name in names]
        widths = self.ints(*(len(weight) for weight in weights))
        self.node("Split", [whole, widths], f"{path}/Split", outputs=outs, axis=-1)
        return outs

    # -- the model

    def model(self) -> onnx.ModelProto:
        self.prepare()
        x = self.embed()
        for layer in range(self.shape.layers):
            x = self.layer(layer, x)
        x = self.norm(x, "model.norm.weight", f"/model/layers.{self.shape.layers}/final_norm")
        self.matmul(x, "lm_head", self.head_weight())
        self.nodes[-1].output[0] = "logits"
        make, ids = helper.make_tensor_value_info, ["batch_size", "sequence_length"]
        inputs = [make(name, TensorProto.INT64, ids) for name in ("input_ids", "position_ids")]
        logits = make("logits", TensorProto.FLOAT, [*ids, self.shape.vocab])
        length = "cache_length"  # as long after as before, which says: written in place
        graph = helper.make_graph(
            self.nodes,
            "main_graph",
            inputs + self.cache("past_key_values.{}.{}", length),
            [logits, *self.cache("present.{}.{}", length)],
            list(self.initializers.values()),
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(
            graph, producer_name="callmemaybe", opset_imports=opsets, ir_version=9
        )

    def embed(self) -> str:
        if not self.shape.tied:
            table = self.constant(
                "model.embed_tokens.weight", self.tensors["model.embed_tokens.weight"]
            )
            return self.node("Gather", [table, "input_ids"], "/model/embed_tokens/Gather")
        # The codes of the head, read across: one copy serves both.
        right, scales = self.columns("lm_head", self.head_weight())
        path = "/model/embed_tokens"
        codes = self.node("Gather", [right, "input_ids"], f"{path}/Gather", axis=1)
        codes = self.node("Transpose", [codes], f"{path}/Transpose", perm=[1, 2, 0])
        codes = self.node("Cast", [codes], f"{path}/Cast", to=TensorProto.FLOAT)
        scale = self.node("Gather", [scales, "input_ids"], f"{path}/scales")
        scale = self.node("Unsqueeze", [scale, self.ints(-1)], f"{path}/Unsqueeze")
        scale = self.node(
            "Mul", [scale, self.constant("half", np.array(_HALF, np.float32))], f"{path}/unit"
        )
        return self.node("Mul", [codes, scale], f"{path}/Mul")

    def prepare(self) -> None:
        """Add what all layers share: rotary tables, where ids are written, what each may see."""
        cos, sin = self.shape.rotary()
        self.floats("cos_cache", cos)
        self.floats("sin_cache", sin)
        path, heads = "/model/places", self.shape.kv_heads
        shape = self.node("Shape", ["position_ids"], f"{path}/Shape")
        batch = self.node("Gather", [shape, self.scalar(0)], f"{path}/batch", axis=0)
        rows = self.node("Range", [self.scalar(0), batch, self.scalar(1)], f"{path}/Range")
        rows = self.node("Unsqueeze", [rows, self.ints(1, 2)], f"{path}/rows")
        columns = self.constant("heads", np.arange(heads, dtype=np.int64)[None, :, None])
        at = self.node("Unsqueeze", ["position_ids", self.ints(1)], f"{path}/Unsqueeze")
        sizes = [
            self.node("Unsqueeze", [batch, self.ints(0)], f"{path}/batch_1"),
            self.ints(heads),
            self.node("Gather", [shape, self.ints(1)], f"{path}/count", axis=0),
        ]
        whole = self.node("Concat", sizes, f"{path}/sizes", axis=0)
        wide = [
            self.node("Expand", [part, whole], f"{path}/Expand_{index}")
            for index, part in enumerate((rows, columns, at))
        ]
        deep = [
            self.node("Unsqueeze", [part, self.ints(3)], f"{path}/Unsqueeze_{index}")
            for index, part in enumerate(wide)
        ]
        self.node("Concat", deep, f"{path}/Concat", outputs=["places"], axis=-1)
        past = self.node("Shape", ["past_key_values.0.key"], f"{path}/past")
        length = self.node("Gather", [past, self.scalar(2)], f"{path}/length", axis=0)
        seen = self.node("Range", [self.scalar(0), length, self.scalar(1)], f"{path}/columns")
        tall = self.node("Unsqueeze", ["position_ids", self.ints(1, 2, 4)], f"{path}/tall")
        seen = self.node("LessOrEqual", [seen, tall], f"{path}/LessOrEqual")
        nothing = self.floats("mask_open", np.array(0.0))
        closed = self.floats("mask_closed", np.array(np.finfo(np.float32).min))
        self.node("Where", [seen, nothing, closed], f"{path}/Where", outputs=["seen"])

    def mlp(self, layer: int, x: str) -> str:
        at, path = f"model.layers.{layer}.mlp", f"/model/layers.{layer}/mlp"
        gate, up = self.joined(x, at, ("gate_proj", "up_proj"))
        opened = self.node("Sigmoid", [gate], f"{path}/act_fn/Sigmoid")
        gate = self.node("Mul", [gate, opened], f"{path}/act_fn/Mul")
        return self.weight(self.node("Mul", [gate, up], f"{path}/Mul"), f"{at}.down_proj")

    def attention(self, layer: int, x: str) -> str:
        at, path = f"model.layers.{layer}.self_attn", f"/model/layers.{layer}/attn"
        size, heads, kv_heads = self.shape.head, self.shape.heads, self.shape.kv_heads
        group = heads // kv_heads
        q, k, v = self.joined(x, at, ("q_proj", "k_proj", "v_proj"))
        q, k, v = (
            self.by_head(one, layer, kind, count)
            for one, kind, count in ((q, "q", heads), (k, "k", kv_heads), (v, "v", kv_heads))
        )
        keys = self.write(layer, path, "key", k)
        values = self.write(layer, path, "value", v)
        # [batch, kv_heads, group * sequence, width]: one product for all heads that share keys.
        q = self.node("Reshape", [q, self.ints(0, kv_heads, -1, size)], f"{path}/Reshape")
        factor = self.floats("attention_scale", np.array(1 / math.sqrt(size)))
        q = self.node("Mul", [q, factor], f"{path}/Mul")
        keys = self.node("Transpose", [keys], f"{path}/Transpose", perm=[0, 1, 3, 2])
        scores = self.node("MatMul", [q, keys], f"{path}/MatMul")
        shape = self.node("Shape", [scores], f"{path}/Shape")
        count = self.node("Shape", ["input_ids"], f"{path}/Shape_1")
        count = self.node("Gather", [count, self.ints(1)], f"{path}/count", axis=0)
        last = self.node("Gather", [shape, self.ints(3)], f"{path}/last", axis=0)
        apart = self.node(
            "Concat", [self.ints(0, kv_heads, group), count, last], f"{path}/apart", axis=0
        )
        scores = self.node("Reshape", [scores, apart], f"{path}/Reshape_1")
        scores = self.node("Add", [scores, "seen"], f"{path}/Add")
        weights = self.node("Softmax", [scores], f"{path}/Softmax", axis=-1)
        weights = self.node("Reshape", [weights, shape], f"{path}/Reshape_2")
        mixed = self.node("MatMul", [weights, values], f"{path}/MatMul_1")
        mixed = self.node("Reshape", [mixed, self.ints(0, heads, -1, size)], f"{path}/Reshape_3")
        mixed = self.node("Transpose", [mixed], f"{path}/Transpose_1", perm=[0, 2, 1, 3])
        mixed = self.node("Reshape", [mixed, self.ints(0, -1, heads * size)], f"{path}/Reshape_4")
        return self.weight(mixed, f"{at}.o_proj")

    def by_head(self, x: str, layer: int, kind: str, count: int) -> str:
        """``[batch, heads, sequence, width]``; queries and keys normalised and turned."""
        path = f"/model/layers.{layer}/attn/{kind}"
        x = self.node("Reshape", [x, self.ints(0, -1, count, self.shape.head)], f"{path}/Reshape")
        if kind != "v":
            name = f"model.layers.{layer}.self_attn.{kind}_norm.weight"
            x = self.norm(x, name, f"{path}_norm")
        x = self.node("Transpose", [x], f"{path}/Transpose", perm=[0, 2, 1, 3])
        if kind == "v":
            return x
        inputs = [x, "position_ids", "cos_cache", "sin_cache"]
        return self.node("RotaryEmbedding", inputs, f"{path}/RotaryEmbedding", domain=CONTRIB)

    def write(self, layer: int, path: str, kind: str, new: str) -> str:
        """Put what is new where it belongs in the cache."""
        past, present = f"past_key_values.{layer}.{kind}", f"present.{layer}.{kind}"
        return self.node("ScatterND", [past, "places", new], f"{path}/{kind}", outputs=[present])


def read_safetensors(folder: Path) -> dict[str, Array]:
    """Return all tensors of a folder as float32; bfloat16, float16 and float32 are known."""
    found: dict[str, Array] = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = np.memmap(path, np.uint8, mode="r")
        start = 8 + int(data[:8].view("<u8")[0])
        for name, about in json.loads(bytes(data[8:start])).items():
            if name == "__metadata__":
                continue
            first, last = about["data_offsets"]
            raw = np.frombuffer(data[start + first : start + last].tobytes(), np.uint8)
            kind = about["dtype"]
            if kind == "BF16":
                value = (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
            elif kind in {"F16", "F32"}:
                value = raw.view(f"<f{int(kind[1:]) // 8}").astype(np.float32)
            else:
                raise ValueError(f"{path}: {name} is of type {kind}, which is not known here")
            found[name] = value.reshape(about["shape"])
    if not found:
        raise ValueError(f"{folder} holds no .safetensors file")
    return found


def main() -> None:
    """Convert a folder."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="config.json, tokenizer and *.safetensors")
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    config = json.loads((options.folder / "config.json").read_text(encoding="utf-8"))
    target = export(config, read_safetensors(options.folder), options.output)
    for path in options.folder.iterdir():
        if path.suffix in {".json", ".jinja"} and path.name != "config.json":
            shutil.copy(path, options.output / path.name)
    print(f"{target}: {target.stat().st_size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
