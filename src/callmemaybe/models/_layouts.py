"""Which of the files of a model folder are the model: pure reasoning over file names."""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from dataclasses import dataclass

from callmemaybe.errors import ModelError

# What exporters append to "model": the variant is the part behind the underscore. In order of
# preference where nobody chose: 4-bit blocks keep their activations in float32 and are quick on a
# CPU; half precision is not; per-tensor 8-bit files ("quantized") cost the most accuracy.
_VARIANTS = ("q4", "", "int4", "fp32", "fp16", "q4f16", "int8", "q8", "quantized", "uint8", "bnb4")
_ALIASES = {"fp32": ("", "fp32"), "q4": ("q4", "int4"), "int4": ("int4", "q4")}
_STEMS = ("model", "decoder_model", "decoder_with_past_model", "decoder_model_merged")
_REFUSED = {
    "decoder_model_merged": "is a merged or multimodal decoder, which this version cannot drive",
    "decoder_model": "has no cache as an input, so it can only start sequences",
    "decoder_with_past_model": "can only continue sequences, not start them",
}
_ELSEWHERE = {
    ".gguf": "GGUF weights, which this version cannot run",
    ".safetensors": "PyTorch weights (safetensors), which this version cannot run",
    ".bin": "PyTorch weights, which this version cannot run",
}
_SIDE_FILES = (
    "config.json",
    "generation_config.json",
    "genai_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)


@dataclass(frozen=True)
class Choice:
    """The chosen weights: a path relative to the folder, posix style, with its companions."""

    weights: str
    folder: str  # where configuration and tokenizer lie, "" for the folder itself
    companions: tuple[str, ...]  # external data of the weights, configuration, tokenizer

    @property
    def files(self) -> tuple[str, ...]:
        """Everything that has to be there."""
        return (self.weights, *self.companions)


def choose(files: Collection[str], variant: str | None, where: str) -> Choice:
    """Pick the weights among ``files`` (posix paths relative to the model's folder).

    ``variant`` is what follows the colon of a name: ``q4``, ``fp16``, ..., the name of a weight
    file, or a folder inside (as repositories of onnxruntime-genai models have them). ``where``
    names the model in messages. Raises ModelError if nothing fits, saying what there is.
    """
    found = sorted(name for name in files if name.endswith(".onnx"))
    if not found:
        raise ModelError(_nothing(files, where))
    if variant is None:
        weights = _preferred(found, where)
    else:
        weights = _asked(found, variant.strip("/"), where)
    stem = posixpath.basename(weights).removesuffix(".onnx")
    for refused, reason in _REFUSED.items():
        if stem == refused or stem.startswith(f"{refused}_"):
            raise ModelError(
                f"{where}: {weights} {reason}; export with a current optimum "
                "(text-generation-with-past) or the onnxruntime-genai model builder"
            )
    folder = posixpath.dirname(weights)
    if posixpath.basename(folder) == "onnx":
        folder = posixpath.dirname(folder)
    data = [name for name in files if name != weights and _is_data(name, weights)]
    side = [path for name in _SIDE_FILES if (path := posixpath.join(folder, name)) in files]
    return Choice(weights, folder, (*sorted(data), *side))


def variants(files: Collection[str]) -> tuple[str, ...]:
    """Return what may follow the colon for these files, the preferred one first."""
    found = [name for name in files if name.endswith(".onnx")]
    return tuple(sorted({_label(name) for name in found}, key=_rank_label))


def _asked(found: list[str], variant: str, where: str) -> str:
    names = _ALIASES.get(variant, (variant,))
    for path in sorted(found, key=lambda name: (name.count("/"), name)):
        stem = posixpath.basename(path).removesuffix(".onnx")
        if path in {variant, f"onnx/{variant}"} or any(
            stem == f"{base}_{name}" or (stem == base and not name)
            for base in _STEMS
            for name in names
        ):
            return path
    inside = [path.removeprefix(f"{variant}/") for path in found if path.startswith(f"{variant}/")]
    if inside:
        return f"{variant}/{_preferred(inside, f'{where}:{variant}')}"
    offered = ", ".join(label or "fp32" for label in variants(found))
    raise ModelError(f"{where} has no variant {variant!r}; it has {offered}")


def _preferred(found: list[str], where: str) -> str:
    known = [name for name in found if _rank(name) is not None]
    if known:
        return min(known, key=lambda name: (_rank(name), name))
    if len(found) == 1:
        return found[0]
    offered = ", ".join(variants(found))
    raise ModelError(f"{where} holds several models; name one behind a colon: {offered}")


def _rank(path: str) -> tuple[int, int] | None:
    """Order of preference among standard places: the folder itself, then ``onnx/``."""
    folder, file = posixpath.split(path)
    stem = file.removesuffix(".onnx")
    if folder not in {"", "onnx"}:
        return None
    for rank, base in enumerate(_STEMS):
        if stem == base or stem.startswith(f"{base}_"):
            label = stem.removeprefix(base).removeprefix("_")
            if label in _VARIANTS:
                # A lone model.onnx beside genai_config.json is already what its maker chose.
                return (rank, -1 if not folder and not label else _VARIANTS.index(label))
    return None


def _label(path: str) -> str:
    folder, file = posixpath.split(path)
    stem = file.removesuffix(".onnx")
    if folder not in {"", "onnx"}:
        return folder if stem == "model" else path
    return stem.removeprefix("model").removeprefix("_")


def _rank_label(label: str) -> tuple[int, str]:
    return (_VARIANTS.index(label) if label in _VARIANTS else len(_VARIANTS), label)


def _is_data(name: str, weights: str) -> bool:
    # model.onnx_data, model.onnx_data_1 (transformers' and optimum's), model.onnx.data (genai's)
    return name.startswith((f"{weights}_data", f"{weights}.data"))


def _nothing(files: Collection[str], where: str) -> str:
    for suffix, what in _ELSEWHERE.items():
        if any(name.endswith(suffix) for name in files):
            return (
                f"{where} holds {what}; use an ONNX export of the model "
                "(for example onnx-community/Qwen3-0.6B-ONNX:q4)"
            )
    return f"{where} holds no model: no .onnx file in it or in its folder onnx/"
