"""The exporter against a slow Qwen3 in numpy, in each layout and precision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe import models
from tests.training.qwen3_reference import Array, forward, random_tensors, tiny_config
from training.export.quantization import dequantize, quantize, rounded
from training.export.qwen3_onnx import BITS, Layout, Precision, export

# What the arithmetic of each precision may cost, relative to the largest logit: int8 activations
# (accuracy_level 4) round every input of a product to 1 part in 127.
ERROR = {"fp32": 1e-5, "fp16": 5e-3, "int8": 0.05, "int4": 0.05, "q4f16": 0.05}


def computed(folder: Path, ids: list[int]) -> Array:
    """Logits of the exported model for every position."""
    return models.load(folder).open().feed(ids, keep=len(ids))


def quantised(tensors: dict[str, Array], layout: str, precision: str) -> dict[str, Array]:
    """Return the tensors as the exported graph has them."""
    if precision not in BITS or (layout, precision) == ("optimum", "int8"):
        return tensors
    found = rounded(tensors, BITS[precision])
    if layout == "optimum":
        # There the embedding stays in full precision, so a tied head needs a tensor of its own.
        found["lm_head.weight"] = found.get("lm_head.weight", found["model.embed_tokens.weight"])
        found["model.embed_tokens.weight"] = tensors["model.embed_tokens.weight"]
    return found


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("precision", get_args(Precision))
@pytest.mark.parametrize("layout", get_args(Layout))
def test_graph_computes_qwen3(
    layout: Layout, precision: Precision, tied: bool, tmp_path: Path
) -> None:
    """An exported graph gives the logits of the definition on the weights it was left with."""
    config = tiny_config(tie_word_embeddings=tied)
    tensors = random_tensors(config)
    ids = [int(token) for token in np.random.default_rng(1).integers(0, config["vocab_size"], 24)]
    export(config, tensors, tmp_path, layout=layout, precision=precision)
    weights = quantised(tensors, layout, precision)
    oracle = config | {"tie_word_embeddings": "lm_head.weight" not in weights}
    expected = forward(oracle, weights, ids)
    worst = np.abs(computed(tmp_path, ids) - expected).max()
    assert worst <= ERROR[precision] * np.abs(expected).max()


@settings(max_examples=12, deadline=None)
@given(
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    half=st.sampled_from([8, 16]),
    inner=st.sampled_from([32, 50, 96]),
    layers=st.integers(1, 3),
    layout=st.sampled_from(get_args(Layout)),
    data=st.data(),
)
def test_any_shape_is_exported(
    tmp_path_factory: pytest.TempPathFactory,
    kv_heads: int,
    group: int,
    half: int,
    inner: int,
    layers: int,
    layout: Layout,
    data: st.DataObject,
) -> None:
    """Heads, groups, widths and depths of any size agree with the definition."""
    config = tiny_config(
        num_key_value_heads=kv_heads,
        num_attention_heads=kv_heads * group,
        head_dim=2 * half,
        intermediate_size=inner,
        num_hidden_layers=layers,
        rope_theta=data.draw(st.sampled_from([1e4, 1e6])),
    )
    tensors = random_tensors(config, seed=data.draw(st.integers(0, 9)))
    ids = data.draw(st.lists(st.integers(0, config["vocab_size"] - 1), min_size=2, max_size=12))
    folder = tmp_path_factory.mktemp("shape")
    export(config, tensors, folder, layout=layout)
    expected = forward(config, tensors, ids)
    assert np.abs(computed(folder, ids) - expected).max() <= 1e-5 * np.abs(expected).max()


@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 70),
    bits=st.sampled_from([4, 8]),
    seed=st.integers(0, 99),
)
def test_quantising_loses_half_a_step(rows: int, columns: int, bits: int, seed: int) -> None:
    """Each weight comes back within half a step of its block (a whole one at int4's far end)."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((rows, columns)).astype(np.float32)
    weight[:, : columns // 3] *= rng.choice([0.0, 1e-3, 10.0])
    codes, scales = quantize(weight, bits)
    blocks = -(-columns // 32)
    assert codes.shape == (rows, blocks, 32 * bits // 8)
    assert scales.shape == (rows, blocks)
    back = dequantize(codes, scales, bits, columns)
    steps = np.repeat(np.abs(scales), 32, axis=1)[:, :columns]
    limit = 1.0 if bits == 4 else 0.5
    assert np.all(np.abs(back - weight) <= limit * steps + 1e-6)


def test_int8_is_small(tmp_path: Path) -> None:
    """An int8 file takes 9/8 byte a parameter, the tied embedding once, and a little graph."""
    config = tiny_config(vocab_size=512, hidden_size=128, intermediate_size=256)
    tensors = random_tensors(config)
    path = export(config, tensors, tmp_path, precision="int8")
    parameters = sum(tensor.size for tensor in tensors.values())
    assert path.stat().st_size < parameters * 9 / 8 + 60_000


def test_export_is_deterministic(tmp_path: Path) -> None:
    """The same weights give the same bytes."""
    config = tiny_config()
    tensors = random_tensors(config)
    one, two = (
        export(config, tensors, tmp_path / name, precision="int8").read_bytes() for name in "ab"
    )
    assert one == two


def test_names_are_those_of_the_exporters(tmp_path: Path) -> None:
    """Inputs, outputs and files carry the names that other runtimes look for."""
    config = tiny_config(num_hidden_layers=1)
    tensors = random_tensors(config)
    genai = onnx.load(str(export(config, tensors, tmp_path / "genai")))
    optimum = export(config, tensors, tmp_path / "optimum", layout="optimum", precision="int4")
    cache = ["past_key_values.0.key", "past_key_values.0.value"]
    assert [node.name for node in genai.graph.input] == ["input_ids", "attention_mask", *cache]
    outputs = ["logits", "present.0.key", "present.0.value"]
    assert [node.name for node in genai.graph.output] == outputs
    assert optimum == tmp_path / "optimum" / "onnx" / "model_q4.onnx"
    names = [node.name for node in onnx.load(str(optimum)).graph.input]
    assert names == ["input_ids", "attention_mask", "position_ids", *cache]
    read = json.loads((tmp_path / "genai" / "genai_config.json").read_text())
    assert read["model"]["decoder"]["filename"] == "model.onnx"
    assert read["model"]["context_length"] == config["max_position_embeddings"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "llama"}, "llama"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rotary"),
        ({"attention_bias": True}, "biases"),
        ({"vocab_size": 98}, "embed_tokens.weight has shape"),
        ({"num_hidden_layers": 3}, "missing"),
        ({"num_hidden_layers": 1}, "of no use"),
        ({"tie_word_embeddings": False}, "lm_head.weight"),
    ],
)
def test_what_is_not_qwen3_is_refused(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    """A configuration that the graph would not honour is an error, not a wrong model."""
    tensors = random_tensors(tiny_config())
    with pytest.raises(ValueError, match=said):
        export(tiny_config() | change, tensors, tmp_path)
