"""Which files are the model: names as real repositories have them."""

from __future__ import annotations

import pytest

from callmemaybe.errors import ModelError
from callmemaybe.models._model_files import choose, variants

SIDE = ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"]
COMMUNITY = [
    *SIDE,
    "README.md",
    "onnx/model.onnx",
    "onnx/model.onnx_data",
    "onnx/model_bnb4.onnx",
    "onnx/model_fp16.onnx",
    "onnx/model_fp16.onnx_data",
    "onnx/model_int8.onnx",
    "onnx/model_q4.onnx",
    "onnx/model_q4f16.onnx",
    "onnx/model_quantized.onnx",
    "onnx/model_uint8.onnx",
]
GENAI = [*SIDE, "genai_config.json", "chat_template.jinja", "model.onnx", "model.onnx.data"]
NESTED = [
    "README.md",
    "config.json",
    *(f"cpu/int4-block-32/{name}" for name in GENAI),
    *(f"cuda/fp16/{name}" for name in GENAI),
]


@pytest.mark.parametrize(
    ("variant", "weights"),
    [
        (None, "onnx/model_q4.onnx"),
        ("fp32", "onnx/model.onnx"),
        ("fp16", "onnx/model_fp16.onnx"),
        ("q4", "onnx/model_q4.onnx"),
        ("int4", "onnx/model_q4.onnx"),
        ("q4f16", "onnx/model_q4f16.onnx"),
        ("int8", "onnx/model_int8.onnx"),
        ("quantized", "onnx/model_quantized.onnx"),
        ("uint8", "onnx/model_uint8.onnx"),
        ("bnb4", "onnx/model_bnb4.onnx"),
        ("model_fp16.onnx", "onnx/model_fp16.onnx"),
        ("onnx/model_fp16.onnx", "onnx/model_fp16.onnx"),
    ],
)
def test_variants_of_a_community_export(variant: str | None, weights: str) -> None:
    """Each variant is found by the ending of its file name; 4 bits are preferred."""
    choice = choose(COMMUNITY, variant, "org/name")
    assert choice.weights == weights
    assert choice.folder == ""
    assert set(SIDE) <= set(choice.files)


def test_only_what_is_needed_is_fetched() -> None:
    """A choice lists the weights, their external data and the configuration, nothing else."""
    choice = choose(COMMUNITY, "fp16", "org/name")
    assert set(choice.files) == {*SIDE, "onnx/model_fp16.onnx", "onnx/model_fp16.onnx_data"}
    assert "onnx/model.onnx_data" in choose(COMMUNITY, "fp32", "org/name").files
    assert set(choose(GENAI, None, "x").files) == set(GENAI)


def test_folders_inside_are_variants() -> None:
    """Repositories of several onnxruntime-genai models are chosen from by folder."""
    choice = choose(NESTED, "cuda/fp16", "org/name")
    assert (choice.weights, choice.folder) == ("cuda/fp16/model.onnx", "cuda/fp16")
    assert choose(NESTED, "cpu", "org/name").weights == "cpu/int4-block-32/model.onnx"
    assert variants(NESTED) == ("cpu/int4-block-32", "cuda/fp16")
    with pytest.raises(ModelError, match="behind a colon: cpu/int4-block-32, cuda/fp16"):
        choose(NESTED, None, "org/name")


def test_a_lone_file_is_the_model() -> None:
    """Where there is one graph its name does not matter."""
    files = ["genai_config.json", "phi3-mini-cpu.onnx", "phi3-mini-cpu.onnx.data"]
    assert choose(files, None, "x").files == (
        "phi3-mini-cpu.onnx",
        "phi3-mini-cpu.onnx.data",
        files[0],
    )


@pytest.mark.parametrize(
    ("files", "variant", "said"),
    [
        (COMMUNITY, "q2", "it has q4, fp32, fp16"),
        (["pytorch_model.bin", "config.json"], None, "pickled"),
        (["model.safetensors", "config.json"], "q4", "as PyTorch weights it has fp32"),
        (["a-Q4_0.gguf", "a-Q8_0.gguf"], "q2_k", "it has q4_0, q8_0"),
        (["a-IQ2_XS.gguf", "a-Q2_K.gguf"], None, "behind a colon: iq2_xs, q2_k"),
        (["README.md"], None, "holds no model"),
        (["onnx/decoder_model_merged.onnx", *SIDE], None, "merged"),
        (["decoder_model.onnx", "decoder_with_past_model.onnx"], None, "no cache"),
        (["onnx/decoder_model_merged_quantized.onnx"], "quantized", "merged"),
    ],
)
def test_refusals_say_what_is_there(files: list[str], variant: str | None, said: str) -> None:
    """What cannot be loaded is refused by name, before anything is downloaded."""
    with pytest.raises(ModelError, match=said):
        choose(files, variant, "org/name")


TORCH = [*SIDE, "model.safetensors"]
SHARDED = [
    *SIDE,
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
]
GGUF = ["README.md", "Qwen3-0.6B-Q4_K_M.gguf", "Qwen3-0.6B-Q8_0.gguf", "mmproj-F16.gguf"]


@pytest.mark.parametrize(
    ("files", "variant", "weights"),
    [
        (TORCH, None, "model.safetensors"),
        (TORCH, "bf16", "model.safetensors"),
        (SHARDED, "fp32", "model-00001-of-00002.safetensors"),
        (GGUF, None, "Qwen3-0.6B-Q4_K_M.gguf"),
        (GGUF, "Q8_0", "Qwen3-0.6B-Q8_0.gguf"),
        (GGUF, "Qwen3-0.6B-Q8_0.gguf", "Qwen3-0.6B-Q8_0.gguf"),
        (["q/m-q8_0-00001-of-00002.gguf", "q/m-q8_0-00002-of-00002.gguf"], "q8_0",
         "q/m-q8_0-00001-of-00002.gguf"),
        ([*COMMUNITY, "model.safetensors"], None, "onnx/model_q4.onnx"),
        ([*COMMUNITY, "model.safetensors"], "fp16", "onnx/model_fp16.onnx"),
        ([*COMMUNITY, "model.safetensors"], "bf16", "model.safetensors"),
        ([*COMMUNITY, "model.safetensors"], "safetensors", "model.safetensors"),
        ([*TORCH, *GGUF], "gguf", "Qwen3-0.6B-Q4_K_M.gguf"),
        ([*TORCH, *GGUF], "fp32", "model.safetensors"),
    ],
)  # fmt: skip
def test_other_kinds_of_weights(files: list[str], variant: str | None, weights: str) -> None:
    """GGUF and safetensors are found by their endings, after ONNX, or by the name of their kind."""
    assert choose(files, variant, "org/name").weights == weights


def test_shards_come_with_each_other() -> None:
    """Of weights in several files the first is loaded and all of them are fetched."""
    assert set(choose(SHARDED, None, "x").files) == set(SHARDED)
    pair = ["m-q8_0-00001-of-00002.gguf", "m-q8_0-00002-of-00002.gguf"]
    assert choose(pair, None, "x").files == tuple(pair)
    assert variants([*TORCH, *GGUF[:3]]) == ("q4_k_m", "q8_0", "safetensors")
