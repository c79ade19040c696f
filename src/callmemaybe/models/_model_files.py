"""Chooses the weight files of a model folder by name alone, and finds what belongs to one; reads no file."""

from __future__ import annotations

import glob
import posixpath
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

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
#: Kinds of weights in order of preference where nobody chose; each may be asked for by its name.
_KINDS = {"onnx": ".onnx", "gguf": ".gguf", "safetensors": ".safetensors"}
#: Bytes of weights below which a second thread costs more than it gains.
SMALL_WEIGHTS = 64 << 20
#: PyTorch chooses the precision as it loads.
_PRECISIONS = ("fp32", "fp16", "bf16")
#: What is preferred among GGUF files where nobody chose: small, then good.
_GGUF = ("q4_0", "q4_k_m", "q8_0", "q5_k_m", "q6_k", "f16", "bf16", "f32")
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})(?=\.)")
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
class WeightFiles:
    """The chosen weights: a path relative to the folder, posix style, with its companions."""

    weights: str
    folder: str  # where configuration and tokenizer lie, "" for the folder itself
    companions: tuple[str, ...]  # external data of the weights, configuration, tokenizer

    @property
    def files(self) -> tuple[str, ...]:
        """Everything that has to be there."""
        return (self.weights, *self.companions)


def choose(files: Collection[str], variant: str | None, where: str) -> WeightFiles:
    """Pick the weights among ``files`` (posix paths relative to the model's folder).

    ``variant`` is what follows the colon of a name: ``q4``, ``fp16``, ..., the name of a weight
    file, or a folder inside (as repositories of onnxruntime-genai models have them). ``where``
    names the model in messages. Raises ModelError if nothing fits, saying what there is.
    """
    if variant in _KINDS:
        files = [name for name in files if not _is_other_kind(name, variant)]
        variant = None
    found = sorted(name for name in files if name.endswith(".onnx"))
    if variant in _PRECISIONS and any(name.endswith(".safetensors") for name in files):
        has_it = any(_label(name) in _ALIASES.get(variant, (variant,)) for name in found)
        found = found if has_it else []
    if not found:
        return _choose_other(sorted(files), variant, where)
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
    data = [name for name in files if name != weights and _is_data(name, weights)]
    return _with_sides(files, weights, data)


def _with_sides(files: Collection[str], weights: str, companions: Iterable[str]) -> WeightFiles:
    folder = posixpath.dirname(weights)
    if posixpath.basename(folder) == "onnx":
        folder = posixpath.dirname(folder)
    side = [path for name in _SIDE_FILES if (path := posixpath.join(folder, name)) in files]
    return WeightFiles(weights, folder, (*sorted(companions), *side))


def variants(files: Collection[str]) -> tuple[str, ...]:
    """Return what may follow the colon for these files, the preferred one first."""
    found = {_label(name) for name in files if name.endswith(".onnx")}
    labels = sorted(found, key=_rank_label)
    labels += sorted({_gguf_label(name) for name in files if name.endswith(".gguf")})
    if any(name.endswith(".safetensors") for name in files):
        labels += ["safetensors"] if labels else list(_PRECISIONS)
    return tuple(labels)


def _is_other_kind(name: str, kind: str) -> bool:
    return any(name.endswith(suffix) for other, suffix in _KINDS.items() if other != kind)


def _choose_other(files: Sequence[str], variant: str | None, where: str) -> WeightFiles:
    """Pick GGUF files, or else safetensors."""
    gguf = [name for name in files if name.endswith(".gguf") and "mmproj" not in name]
    torch = [name for name in files if name.endswith(".safetensors") and "/" not in name]
    if gguf and not (torch and variant in _PRECISIONS):
        weights = _gguf(gguf, variant, where)
        stem = _SHARD.sub("", weights)
        return _with_sides(
            files,
            weights,
            [name for name in gguf if name != weights and _SHARD.sub("", name) == stem],
        )
    if not torch:
        raise ModelError(_nothing(files, where))
    if variant is not None and variant not in _PRECISIONS:
        offered = ", ".join(_PRECISIONS)
        raise ModelError(f"{where} has no variant {variant!r}; as PyTorch weights it has {offered}")
    weights = "model.safetensors" if "model.safetensors" in torch else torch[0]
    others = [name for name in torch if name != weights and _SHARD.search(name)]
    index = [name for name in files if name == "model.safetensors.index.json"]
    # Tokenizers of other kinds are converted by transformers, which wants all of their files.
    return _with_sides(files, weights, [*others, *index])


def _gguf(found: Sequence[str], variant: str | None, where: str) -> str:
    """Return the first file of the GGUF model asked for, or of the preferred one."""
    first = [name for name in found if (_shard_of(name) or 1) == 1]
    labels = {name: _gguf_label(name) for name in first}
    if variant is not None:
        wanted = variant.lower()
        for name in first:
            if labels[name] == wanted or name == variant or posixpath.basename(name) == variant:
                return name
        raise ModelError(
            f"{where} has no variant {variant!r}; it has {', '.join(sorted(set(labels.values())))}"
        )
    if len(first) == 1:
        return first[0]
    for label in _GGUF:
        for name in first:
            if labels[name] == label:
                return name
    offered = ", ".join(sorted(set(labels.values())))
    raise ModelError(f"{where} holds several models; name one behind a colon: {offered}")


def _gguf_label(name: str) -> str:
    """Return what a file name says about its precision, as ``q4_k_m``."""
    stem = _SHARD.sub("", posixpath.basename(name)).removesuffix(".gguf").lower()
    return re.split(r"[-.]", stem)[-1]


def shards(name: str) -> tuple[str, ...]:
    """Return the names of all files of the weights that ``name`` is one of."""
    found = _SHARD.search(name)
    if found is None:
        return (name,)
    before, behind = name[: found.start()], name[found.end() :]
    count = int(found[2])
    return tuple(f"{before}-{at:05}-of-{count:05}{behind}" for at in range(1, count + 1))


def _shard_of(name: str) -> int | None:
    found = _SHARD.search(name)
    return int(found[1]) if found else None


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
    if any(name.endswith((".bin", ".pt", ".pth")) for name in files):
        return (
            f"{where} holds PyTorch weights in pickled form, which may run code as they are loaded; "
            "use the model's safetensors, GGUF or ONNX files"
        )
    return f"{where} holds no model: no .onnx, .gguf or .safetensors file in it or in its onnx/"


def weight_files(weights: Path) -> list[Path]:
    """Return a weight file and its external data, sorted."""
    beside = weights.parent.glob(f"{glob.escape(weights.name)}*")
    return sorted(path for path in beside if path.is_file())


def weight_bytes(weights: Path) -> int:
    """Size of a weight file with its external data."""
    return sum(path.stat().st_size for path in weight_files(weights))
