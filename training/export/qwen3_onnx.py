"""Writes a Qwen3-architecture model as ONNX, from numpy arrays alone (no torch, no tracing).

Two layouts, because two families of exporters write almost every decoder one meets:

* ``genai``: what the onnxruntime-genai model builder writes: ``model.onnx`` beside
  ``genai_config.json``, attention as one ``GroupQueryAttention`` node (rotary inside, cache
  ``[batch, kv_heads, past, head_dim]``), weights as ``MatMulNBits`` blocks.
* ``optimum``: what optimum and the onnx-community exports for transformers.js look like:
  ``onnx/model*.onnx``, standard operators only (the cache grows by Concat), ``position_ids`` as
  an input, one file per precision.

Weight quantisation is symmetric, in blocks of 32 along the input axis, each block with one
float scale (the scheme of ``MatMulNBits``); ``optimum`` + ``int8`` instead quantises activations
as the model runs (``DynamicQuantizeLinear`` + ``MatMulInteger``), as optimum's own quantiser does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from training.export.quantization import BLOCK, quantize
from training.export.qwen3_config import Qwen3Config, genai_config

Layout = Literal["genai", "optimum"]
Precision = Literal["fp32", "fp16", "int8", "int4", "q4f16"]
Array = NDArray[Any]

OPSET = 18
CONTRIB = "com.microsoft"
OPTIMUM_FILES: Mapping[str, str] = {
    "fp32": "model.onnx",
    "fp16": "model_fp16.onnx",
    "int8": "model_int8.onnx",
    "int4": "model_q4.onnx",
    "q4f16": "model_q4f16.onnx",
}
BITS: Mapping[str, int] = {"int8": 8, "int4": 4, "q4f16": 4}


def export(
    config: Mapping[str, Any],
    tensors: Mapping[str, Array],
    folder: Path,
    *,
    layout: Layout = "genai",
    precision: Precision = "fp32",
    num_logits_to_keep: bool = False,
) -> Path:
    """Write the model and the configuration files that belong to the layout.

    ``config`` holds the keys of a Hugging Face ``config.json`` of ``Qwen3ForCausalLM``;
    ``tensors`` its float weights under their Hugging Face names, each ``[out, in]``.
    ``num_logits_to_keep`` adds the scalar input of that name (only so many last positions get
    logits), which some exports carry. Returns the path of the ``.onnx`` file.
    Raises ``ValueError`` for a configuration or tensors that are not such a model.
    """
    if layout not in get_args(Layout) or precision not in get_args(Precision):
        raise ValueError(f"no layout {layout!r} with precision {precision!r}")
    shape = Qwen3Config(config)
    shape.check(tensors)
    model = _Build(shape, tensors, layout, precision, num_logits_to_keep).model()
    folder = Path(folder)
    target = folder / ("model.onnx" if layout == "genai" else f"onnx/{OPTIMUM_FILES[precision]}")
    target.parent.mkdir(parents=True, exist_ok=True)
    if layout == "optimum" and precision in ("fp32", "fp16"):
        # The others hold operators that only onnxruntime knows.
        onnx.checker.check_model(model)
    target.write_bytes(model.SerializeToString(deterministic=True))
    _write_json(folder / "config.json", dict(config))
    if layout == "genai":
        _write_json(folder / "genai_config.json", genai_config(shape, config))
    return target


class _Build:
    """One graph under construction: nodes and initializers in order, names as exporters give them."""

    def __init__(
        self,
        shape: Qwen3Config,
        tensors: Mapping[str, Array],
        layout: Layout,
        precision: Precision,
        keep_input: bool,
    ) -> None:
        self.shape, self.tensors, self.layout = shape, tensors, layout
        self.precision, self.keep_input = precision, keep_input
        self.bits = BITS.get(precision)
        self.dynamic = layout == "optimum" and precision == "int8"
        self.dtype = np.dtype(np.float16 if precision in ("fp16", "q4f16") else np.float32)
        self.elem = TensorProto.FLOAT16 if self.dtype == np.float16 else TensorProto.FLOAT
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}

    # -- parts of a graph

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        name: str,
        *,
        outputs: Sequence[str] | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        outs = list(outputs) if outputs is not None else [f"{name}/output_0"]
        self.nodes.append(
            helper.make_node(operator, list(inputs), outs, name=name, domain=domain, **attributes)
        )
        return outs[0]

    def constant(self, name: str, value: Array) -> str:
        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def floats(self, name: str, value: Array) -> str:
        return self.constant(name, np.asarray(value).astype(self.dtype))

    def ints(self, *values: int) -> str:
        return self.constant("const_" + "_".join(map(str, values)), np.array(values, np.int64))

    def scalar(self, value: int) -> str:
        return self.constant(f"scalar_{value}", np.array(value, np.int64))

    def matmul(self, x: str, name: str, weight: Array) -> str:
        """``x @ weight.T`` at the precision of this build; ``weight`` is ``[out, in]``."""
        path = "/" + name.replace(".", "/")
        if self.dynamic:
            return self.dynamic_matmul(x, name, weight, path)
        if self.bits is None:
            right = self.floats(f"{name}.MatMul.weight", np.asarray(weight).T)
            return self.node("MatMul", [x, right], f"{path}/MatMul")
        codes, scales = self.codes(name, weight)
        return self.node(
            "MatMulNBits",
            [x, codes, scales],
            f"{path}/MatMul_Q{self.bits}",
            domain=CONTRIB,
            N=weight.shape[0],
            K=weight.shape[1],
            bits=self.bits,
            block_size=BLOCK,
            accuracy_level=4,
        )

    def codes(self, name: str, weight: Array) -> tuple[str, str]:
        """Return the two initializers of a block-quantised weight."""
        assert self.bits is not None
        suffix = f"{name}.MatMul.weight_Q{self.bits}"
        if suffix not in self.initializers:
            packed, scales = quantize(np.asarray(weight, np.float32), self.bits)
            self.constant(suffix, packed)
            self.floats(f"{suffix}_scales", scales)
        return suffix, f"{suffix}_scales"

    def dynamic_matmul(self, x: str, name: str, weight: Array, path: str) -> str:
        """Quantise as optimum does while running: per-tensor activations, per-column int8 weights."""
        columns = np.asarray(weight, np.float32).T
        scale = np.maximum(np.abs(columns).max(axis=0) / 127, 1e-12).astype(np.float32)
        right = self.constant(
            f"{name}.weight_quantized", np.clip(np.rint(columns / scale), -127, 127).astype(np.int8)
        )
        outs = [f"{path}/DynamicQuantizeLinear/output_{i}" for i in range(3)]
        self.node("DynamicQuantizeLinear", [x], f"{path}/DynamicQuantizeLinear", outputs=outs)
        zero = self.constant(f"{name}.weight_zero_point", np.zeros(scale.shape, np.int8))
        product = self.node(
            "MatMulInteger", [outs[0], right, outs[2], zero], f"{path}/MatMulInteger"
        )
        cast = self.node("Cast", [product], f"{path}/Cast", to=TensorProto.FLOAT)
        factor = self.node(
            "Mul", [outs[1], self.constant(f"{name}.weight_scale", scale)], f"{path}/scales_mul"
        )
        return self.node("Mul", [cast, factor], f"{path}/output_scale_mul")

    def norm(self, x: str, name: str, path: str) -> str:
        weight = self.floats(name, self.tensors[name])
        if self.layout == "genai":
            return self.node(
                "SimplifiedLayerNormalization",
                [x, weight],
                f"{path}/LayerNorm",
                epsilon=self.shape.epsilon,
                axis=-1,
                stash_type=1,
            )
        return self.plain_norm(x, weight, path)

    def plain_norm(self, x: str, weight: str, path: str) -> str:
        """Root-mean-square normalisation from standard operators, in float32 as Qwen3 has it."""
        half = self.dtype == np.float16
        wide = self.node("Cast", [x], f"{path}/Cast", to=TensorProto.FLOAT) if half else x
        two = self.constant("const_two", np.array(2.0, np.float32))
        epsilon = self.constant("const_epsilon", np.array(self.shape.epsilon, np.float32))
        square = self.node("Pow", [wide, two], f"{path}/Pow")
        mean = self.node("ReduceMean", [square, self.ints(-1)], f"{path}/ReduceMean", keepdims=1)
        root = self.node("Sqrt", [self.node("Add", [mean, epsilon], f"{path}/Add")], f"{path}/Sqrt")
        unit = self.node("Div", [wide, root], f"{path}/Div")
        if half:
            unit = self.node("Cast", [unit], f"{path}/Cast_1", to=TensorProto.FLOAT16)
        return self.node("Mul", [unit, weight], f"{path}/Mul")

    # -- the model

    def model(self) -> onnx.ModelProto:
        self.prepare()
        x = self.embed()
        for layer in range(self.shape.layers):
            x = self.layer(layer, x)
        x = self.norm(x, "model.norm.weight", f"/model/layers.{self.shape.layers}/final_norm")
        if self.keep_input:
            x = self.last_positions(x)
        logits = self.matmul(x, "lm_head", self.head_weight())
        if self.dtype == np.float16 and self.layout == "optimum":
            # onnx-community's half-precision files keep float32 logits beside a half cache.
            self.node("Cast", [logits], "/lm_head/Cast", outputs=["logits"], to=TensorProto.FLOAT)
        else:
            self.nodes[-1].output[0] = "logits"
        graph = helper.make_graph(
            self.nodes,
            "main_graph",
            self.inputs(),
            self.outputs(),
            list(self.initializers.values()),
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(
            graph, producer_name="callmemaybe", opset_imports=opsets, ir_version=9
        )

    def inputs(self) -> list[onnx.ValueInfoProto]:
        ids = ["batch_size", "sequence_length"]
        total = "total_sequence_length" if self.layout == "genai" else "past_sequence_length + 1"
        make = helper.make_tensor_value_info
        found = [
            make("input_ids", TensorProto.INT64, ids),
            make("attention_mask", TensorProto.INT64, ["batch_size", total]),
        ]
        if self.layout == "optimum":
            found.append(make("position_ids", TensorProto.INT64, ids))
        if self.keep_input:
            found.append(make("num_logits_to_keep", TensorProto.INT64, []))
        return found + self.cache("past_key_values.{}.{}", "past_sequence_length")

    def outputs(self) -> list[onnx.ValueInfoProto]:
        float_logits = self.layout == "optimum"
        logits = helper.make_tensor_value_info(
            "logits",
            TensorProto.FLOAT if float_logits else self.elem,
            ["batch_size", "kept" if self.keep_input else "sequence_length", self.shape.vocab],
        )
        return [logits, *self.cache("present.{}.{}", "total_sequence_length")]

    def cache(self, pattern: str, length: str) -> list[onnx.ValueInfoProto]:
        dims = ["batch_size", self.shape.kv_heads, length, self.shape.head]
        return [
            helper.make_tensor_value_info(pattern.format(layer, kind), self.elem, dims)
            for layer in range(self.shape.layers)
            for kind in ("key", "value")
        ]

    def head_weight(self) -> Array:
        name = "model.embed_tokens.weight" if self.shape.tied else "lm_head.weight"
        return self.tensors[name]

    def embed(self) -> str:
        weight = self.tensors["model.embed_tokens.weight"]
        path = "/model/embed_tokens"
        if self.bits is None or self.layout == "optimum":
            # optimum's quantisers leave the embedding alone; q4 exports carry it in full.
            table = self.floats("model.embed_tokens.weight", weight)
            return self.node("Gather", [table, "input_ids"], f"{path}/Gather")
        if self.shape.hidden % BLOCK:
            raise ValueError(f"hidden_size must be a multiple of {BLOCK} for a quantised embedding")
        # Tied: one copy of the codes, seen as [vocab, hidden] here and in blocks by the head.
        name = "lm_head" if self.shape.tied else "model.embed_tokens"
        codes, scales = self.codes(name, weight)
        flat = self.node("Reshape", [codes, self.ints(self.shape.vocab, -1)], f"{path}/Reshape")
        return self.node(
            "GatherBlockQuantized",
            [flat, "input_ids", scales],
            f"{path}/GatherBlockQuantized",
            domain=CONTRIB,
            bits=self.bits,
            block_size=BLOCK,
            gather_axis=0,
            quantize_axis=1,
        )

    def last_positions(self, x: str) -> str:
        """``x[:, -num_logits_to_keep:]``."""
        count = self.node("Neg", ["num_logits_to_keep"], "/keep/Neg")
        start = self.node("Unsqueeze", [count, self.ints(0)], "/keep/Unsqueeze")
        end = self.ints(np.iinfo(np.int64).max)
        return self.node("Slice", [x, start, end, self.ints(1)], "/keep/Slice")

    def prepare(self) -> None:
        """Add what all layers share: lengths for GroupQueryAttention, or rotary tables and the mask."""
        cos, sin = self.shape.rotary()
        if self.layout == "genai":
            self.floats("cos_cache", cos)
            self.floats("sin_cache", sin)
            self.prepare_lengths()
        else:
            self.prepare_rotary(cos, sin)
            self.prepare_mask()

    def prepare_lengths(self) -> None:
        path, to = "/model/attn_mask_reformat", TensorProto.INT32
        total = self.node("ReduceSum", ["attention_mask", self.ints(1)], f"{path}/Sum", keepdims=0)
        last = self.node("Sub", [total, self.ints(1)], f"{path}/Sub")
        self.node("Cast", [last], f"{path}/Sub/Cast", outputs=["seqlens_k"], to=to)
        shape = self.node("Shape", ["attention_mask"], f"{path}/Shape")
        width = self.node("Gather", [shape, self.scalar(1)], f"{path}/Gather", axis=0)
        self.node("Cast", [width], f"{path}/Gather/Cast", outputs=["total_seq_len"], to=to)

    def prepare_rotary(self, cos: Array, sin: Array) -> None:
        for name, half in (("cos", cos), ("sin", sin)):
            table = self.floats(f"{name}_table", np.concatenate([half, half], axis=-1))
            rows = self.node("Gather", [table, "position_ids"], f"/model/rotary_emb/{name}")
            self.node(
                "Unsqueeze", [rows, self.ints(1)], f"/model/rotary_emb/{name}_u", outputs=[name]
            )

    def prepare_mask(self) -> None:
        """Additive ``[batch, 1, sequence, total]``: causal, and closed where attention_mask is 0."""
        path = "/model/causal_mask"
        shape = self.node("Shape", ["input_ids"], f"{path}/Shape")
        length = self.node("Gather", [shape, self.scalar(1)], f"{path}/length", axis=0)
        past_shape = self.node("Shape", ["past_key_values.0.key"], f"{path}/Shape_1")
        past = self.node("Gather", [past_shape, self.scalar(2)], f"{path}/past", axis=0)
        total = self.node("Add", [past, length], f"{path}/Add")
        zero, one = self.scalar(0), self.scalar(1)
        columns = self.node("Range", [zero, total, one], f"{path}/Range")
        rows = self.node("Range", [past, total, one], f"{path}/Range_1")
        tall = self.node("Unsqueeze", [rows, self.ints(1)], f"{path}/Unsqueeze")
        seen = self.node("LessOrEqual", [columns, tall], f"{path}/LessOrEqual")
        present = self.node("Cast", ["attention_mask"], f"{path}/Cast", to=TensorProto.BOOL)
        wide = self.node("Unsqueeze", [present, self.ints(1, 2)], f"{path}/Unsqueeze_1")
        both = self.node("And", [seen, wide], f"{path}/And")
        nothing = self.floats("mask_open", np.array(0.0))
        closed = self.floats("mask_closed", np.array(np.finfo(self.dtype).min))
        self.node("Where", [both, nothing, closed], f"{path}/Where", outputs=["mask_4d"])
        self.node("Unsqueeze", ["mask_4d", self.ints(1)], f"{path}/5d", outputs=["causal_mask"])

    def layer(self, layer: int, x: str) -> str:
        at, path = f"model.layers.{layer}", f"/model/layers.{layer}"
        h = self.norm(x, f"{at}.input_layernorm.weight", f"{path}/input_layernorm")
        h = self.attention(layer, h)
        x = self.node("Add", [x, h], f"{path}/Add")
        h = self.norm(
            x, f"{at}.post_attention_layernorm.weight", f"{path}/post_attention_layernorm"
        )
        return self.node("Add", [x, self.mlp(layer, h)], f"{path}/Add_1")

    def weight(self, x: str, name: str) -> str:
        return self.matmul(x, name, self.tensors[f"{name}.weight"])

    def mlp(self, layer: int, x: str) -> str:
        at, path = f"model.layers.{layer}.mlp", f"/model/layers.{layer}/mlp"
        gate, up = self.weight(x, f"{at}.gate_proj"), self.weight(x, f"{at}.up_proj")
        opened = self.node("Sigmoid", [gate], f"{path}/act_fn/Sigmoid")
        gate = self.node("Mul", [gate, opened], f"{path}/act_fn/Mul")
        return self.weight(self.node("Mul", [gate, up], f"{path}/Mul"), f"{at}.down_proj")

    def attention(self, layer: int, x: str) -> str:
        at, path = f"model.layers.{layer}.self_attn", f"/model/layers.{layer}/attn"
        q, k, v = (self.weight(x, f"{at}.{name}_proj") for name in "qkv")
        join = self.fused if self.layout == "genai" else self.plain
        return self.weight(join(layer, path, q, k, v), f"{at}.o_proj")

    def head_norm(self, x: str, layer: int, kind: str, path: str) -> str:
        """Normalise each head of ``[batch, sequence, heads * head]``."""
        size, heads = self.shape.head, self.shape.heads if kind == "q" else self.shape.kv_heads
        split = self.node("Reshape", [x, self.ints(0, -1, size)], f"{path}/{kind}_norm/Reshape_1")
        name = f"model.layers.{layer}.self_attn.{kind}_norm.weight"
        unit = self.norm(split, name, f"{path}/{kind}_norm")
        shape = self.ints(0, -1, heads * size)
        return self.node("Reshape", [unit, shape], f"{path}/{kind}_norm/Reshape_2")

    def fused(self, layer: int, path: str, q: str, k: str, v: str) -> str:
        q = self.head_norm(q, layer, "q", path)
        k = self.head_norm(k, layer, "k", path)
        past = [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
        present = [f"present.{layer}.{kind}" for kind in ("key", "value")]
        lengths = ["seqlens_k", "total_seq_len", "cos_cache", "sin_cache"]
        return self.node(
            "GroupQueryAttention",
            [q, k, v, *past, *lengths],
            f"{path}/GroupQueryAttention",
            outputs=[f"{path}/GroupQueryAttention/output_0", *present],
            domain=CONTRIB,
            num_heads=self.shape.heads,
            kv_num_heads=self.shape.kv_heads,
            scale=1 / math.sqrt(self.shape.head),
            local_window_size=-1,
            softcap=0.0,
            do_rotary=1,
            rotary_interleaved=0,
        )

    def plain(self, layer: int, path: str, q: str, k: str, v: str) -> str:
        size, heads, kv_heads = self.shape.head, self.shape.heads, self.shape.kv_heads

        def split(x: str, kind: str, count: int) -> str:
            shape = self.ints(0, -1, count, size)
            x = self.node("Reshape", [x, shape], f"{path}/{kind}/Reshape")
            if kind != "v":
                name = f"model.layers.{layer}.self_attn.{kind}_norm.weight"
                x = self.norm(x, name, f"{path}/{kind}_norm")
            x = self.node("Transpose", [x], f"{path}/{kind}/Transpose", perm=[0, 2, 1, 3])
            return x if kind == "v" else self.rotate(x, f"{path}/{kind}/rotary")

        q, k, v = split(q, "q", heads), split(k, "k", kv_heads), split(v, "v", kv_heads)
        keys = self.grow(layer, path, "key", k)
        values = self.grow(layer, path, "value", v)
        keys = self.node("Transpose", [keys], f"{path}/Transpose", perm=[0, 1, 3, 2])
        # [batch, kv_heads, group, sequence, ...]: keys and values broadcast over their group.
        keys = self.node("Unsqueeze", [keys, self.ints(2)], f"{path}/Unsqueeze")
        values = self.node("Unsqueeze", [values, self.ints(2)], f"{path}/Unsqueeze_1")
        grouped = self.ints(0, kv_heads, heads // kv_heads, -1, size)
        q = self.node("Reshape", [q, grouped], f"{path}/Reshape")
        factor = self.floats("attention_scale", np.array(1 / math.sqrt(size)))
        q = self.node("Mul", [q, factor], f"{path}/Mul")
        scores = self.node("MatMul", [q, keys], f"{path}/MatMul")
        scores = self.node("Add", [scores, "causal_mask"], f"{path}/Add")
        weights = self.node("Softmax", [scores], f"{path}/Softmax", axis=-1)
        mixed = self.node("MatMul", [weights, values], f"{path}/MatMul_1")
        by_head = self.ints(0, heads, -1, size)
        mixed = self.node("Reshape", [mixed, by_head], f"{path}/Reshape_1")
        mixed = self.node("Transpose", [mixed], f"{path}/Transpose_1", perm=[0, 2, 1, 3])
        return self.node("Reshape", [mixed, self.ints(0, -1, heads * size)], f"{path}/Reshape_2")

    def grow(self, layer: int, path: str, kind: str, new: str) -> str:
        """Append to the cache; the result is also an output of the graph."""
        past, present = f"past_key_values.{layer}.{kind}", f"present.{layer}.{kind}"
        return self.node("Concat", [past, new], f"{path}/{kind}", outputs=[present], axis=2)

    def rotate(self, x: str, path: str) -> str:
        """``x * cos + rotate_half(x) * sin``."""
        half, end = self.ints(self.shape.head // 2), self.ints(np.iinfo(np.int64).max)
        axis = self.ints(3)
        left = self.node("Slice", [x, self.ints(0), half, axis], f"{path}/Slice")
        right = self.node("Slice", [x, half, end, axis], f"{path}/Slice_1")
        negative = self.node("Neg", [right], f"{path}/Neg")
        turned = self.node("Concat", [negative, left], f"{path}/Concat", axis=-1)
        straight = self.node("Mul", [x, "cos"], f"{path}/Mul")
        return self.node(
            "Add", [straight, self.node("Mul", [turned, "sin"], f"{path}/Mul_1")], f"{path}/Add"
        )


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
