"""``.gguf``: the tokenizer that llama.cpp's converter put into the model file.

A GGUF file has the tokens, their kinds and the merges, but only the name of the pre-tokenizer
(``tokenizer.ggml.pre``); the expressions behind the names are llama.cpp's (``llama-vocab.cpp``). From
these a ``tokenizer.json`` is made in memory and read by :mod:`.tokenizer_json`, so that all formats are
encoded by the same code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from callmemaybe.errors import VocabularyError
from callmemaybe.vocabulary import gguf_metadata
from callmemaybe.vocabulary.readers import tokenizer_json
from callmemaybe.vocabulary.vocabulary import Vocabulary

#: A file is identified by so many bytes at its beginning, its length and its date; tokenizers are within
#: those bytes (Qwen's takes 6 MB).
FIRST = 1 << 24
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = range(1, 7)

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_DIGITS = r"\p{N}"
#: The regular expressions of each name, applied one after the other.
SPLITS: Mapping[str, tuple[str, ...]] = {
    "gpt-2": (_GPT2,),
    "default": (_GPT2,),
    "phi-2": (_GPT2,),
    "llama-bpe": (_LLAMA3,),
    "llama3": (_LLAMA3,),
    "llama-v3": (_LLAMA3,),
    "qwen2": (_QWEN2,),
    "deepseek-r1-qwen": (_QWEN2,),
    "smollm": (_DIGITS, _GPT2),
    "starcoder": (_DIGITS, _GPT2),
    "refact": (_DIGITS, _GPT2),
    "command-r": (_DIGITS, _GPT2),
}


class Gguf:
    """Reads the tokenizer of a GGUF file."""

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` is a GGUF file."""
        return path.is_file() and gguf_metadata.is_gguf(path)

    def read(self, path: Path, size: int | None, ends: Iterable[int] | None) -> Vocabulary:
        """Read the tokenizer; see ``Reader``."""
        # Parsing hundreds of thousands of strings takes long, so the cache key is made without it.
        try:
            facts = path.stat()
            with path.open("rb") as file:
                identity = repr((facts.st_size, facts.st_mtime_ns)).encode() + file.read(FIRST)
        except OSError as error:
            raise VocabularyError(f"{path}: cannot be read: {error}") from error
        return tokenizer_json.read(path, identity, lambda: _source(path), size, ends)


READER = Gguf()


def _source(path: Path) -> tokenizer_json.Source:
    try:
        metadata = gguf_metadata.metadata(path)
    except (OSError, ValueError) as error:
        raise VocabularyError(f"{path}: cannot be read: {error}") from error
    tokens = _listed(path, metadata, "tokens", str)
    if not tokens:
        raise VocabularyError(f"{path}: holds no tokenizer")
    data = _tokenizer_json(path, metadata, tokens)
    return tokenizer_json.Source(json.dumps(data).encode(), len(tokens), _ends(metadata))


def _listed(path: Path, metadata: Mapping[str, Any], name: str, kind: type) -> list[Any]:
    """Return a list from the tokenizer's metadata, empty if it is missing."""
    found = metadata.get(f"tokenizer.ggml.{name}") or []
    if not isinstance(found, list) or not all(isinstance(item, kind) for item in found):
        raise VocabularyError(f"{path}: its tokenizer.ggml.{name} is damaged; fetch the file again")
    return found


def _ends(metadata: Mapping[str, Any]) -> frozenset[int]:
    """Return the ids that end a turn."""
    names = ("eos_token_id", "eot_token_id", "eom_token_id")
    found = (metadata.get(f"tokenizer.ggml.{name}") for name in names)
    return frozenset(end for end in found if isinstance(end, int) and end >= 0)


def _tokenizer_json(path: Path, metadata: Mapping[str, Any], tokens: list[str]) -> dict[str, Any]:
    """Return the ``tokenizer.json`` of the same tokenizer."""
    kind = metadata.get("tokenizer.ggml.model")
    if kind != "gpt2":
        raise VocabularyError(
            f"{path}: its tokenizer is of the kind {kind!r}, which is not read from GGUF files; "
            "put the model's tokenizer.json beside it"
        )
    name = metadata.get("tokenizer.ggml.pre", "default")
    if name not in SPLITS:
        raise VocabularyError(
            f"{path}: it is not known how its tokenizer ({name!r}) splits text; put the model's "
            "tokenizer.json beside it"
        )
    kinds = _listed(path, metadata, "token_type", int) or [_NORMAL] * len(tokens)
    if len(kinds) != len(tokens):
        raise VocabularyError(
            f"{path}: has {len(tokens)} tokens, but says of {len(kinds)} what they are; fetch the "
            "file again"
        )
    added = [
        {"id": index, "content": text, "special": kind in (_CONTROL, _UNKNOWN)}
        for index, (text, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (_CONTROL, _UNKNOWN, _USER)
    ]
    settings = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    left_out = {entry["id"] for entry in added}
    pieces = {
        text: index
        for index, (text, kind) in enumerate(zip(tokens, kinds, strict=True))
        if index not in left_out and kind != _UNUSED
    }
    merges = [merge.split(" ", 1) for merge in _listed(path, metadata, "merges", str)]
    splits = [
        {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False}
        for split in SPLITS[name]
    ]
    bytes_only = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    return {
        "version": "1.0",
        "added_tokens": [entry | settings for entry in added],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [*splits, bytes_only | {"use_regex": False}],
        },
        "decoder": bytes_only | {"use_regex": False},
        "model": {
            "type": "BPE",
            "vocab": pieces,
            "merges": merges,
            "ignore_merges": name in _IGNORE_MERGES,
        },
    }


#: Names of tokenizers that look a word up as a whole token before merging.
_IGNORE_MERGES = frozenset({"llama-bpe", "llama3", "llama-v3"})
