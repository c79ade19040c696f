"""Which files are the model: names as real repositories have them."""

from __future__ import annotations

import pytest

from callmemaybe.errors import ModelError
from callmemaybe.models._layouts import choose, variants

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
        (["model.safetensors", "config.json"], None, "safetensors"),
        (["qwen3-0.6b-q8_0.gguf"], None, "GGUF"),
        (["README.md"], None, "no .onnx file"),
        (["onnx/decoder_model_merged.onnx", *SIDE], None, "merged"),
        (["decoder_model.onnx", "decoder_with_past_model.onnx"], None, "no cache"),
        (["onnx/decoder_model_merged_quantized.onnx"], "quantized", "merged"),
    ],
)
def test_refusals_say_what_is_there(files: list[str], variant: str | None, said: str) -> None:
    """What cannot be loaded is refused by name, before anything is downloaded."""
    with pytest.raises(ModelError, match=said):
        choose(files, variant, "org/name")
