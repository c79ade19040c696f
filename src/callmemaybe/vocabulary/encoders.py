"""The canonical ids of a text, by :mod:`.bpe` where it gives the same as ``tokenizers``, else by that.

Both are configured to keep the bytes of the text: no control tokens, no prefix space, no Unicode
normalisation. For text in normal form the ids are those of the tokenizer itself.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from callmemaybe.errors import VocabularyError
from callmemaybe.vocabulary import bpe
from callmemaybe.vocabulary.disk_cache import CacheEntry
from callmemaybe.vocabulary.pretokenizer import ascii_splitter
from callmemaybe.vocabulary.trie import Trie

SPACE_PIECE = "\u2581"

Encode = Callable[[str], list[int]]


def flatten_components(component: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Flatten the Sequences of a normalizer, pre-tokenizer or decoder."""
    if not component:
        return []
    for key in ("normalizers", "pretokenizers", "decoders"):
        if key in component:
            return [part for inner in component[key] for part in flatten_components(inner)]
    return [dict(component)]


# -- by flat arrays -----------------------------------------------------------------------------------------


def compile_encoding(data: Mapping[str, Any], controls: Iterable[str]) -> CacheEntry | None:
    """Return what :func:`array_encoder` needs of a ``tokenizer.json``; None if only the library can encode.

    Malformed files are left to the library too, which reports what is wrong.
    """
    model = data["model"]
    pieces, unknown = model["vocab"], model.get("unk_token")
    faithful = _byte_preserving(data)
    splitters = flatten_components(faithful["pre_tokenizer"])
    kinds = [part.get("type") for part in splitters]
    byte_level = kinds.count("ByteLevel") == 1 and kinds[-1] == "ByteLevel"
    if not byte_level or faithful["normalizer"] or model.get("byte_fallback"):
        return None
    whole = bool(model.get("ignore_merges"))
    if whole and not pieces.keys().isdisjoint([*controls, unknown]):
        return None
    try:
        arrays = bpe.merge_tables(pieces, model["merges"])
    except (KeyError, TypeError, ValueError):
        return None
    if unknown is not None and arrays["of_byte"].min() < 0:
        return None
    return CacheEntry({"splitting": json.dumps(faithful), "ignore_merges": whole}, arrays)


def array_encoder(file: Path, found: CacheEntry, trie: Trie) -> Encode:
    """Return text -> ids by what :func:`compile_encoding` gave; ``trie`` is the tree of all tokens."""
    facts, arrays = found
    splitting: str = facts["splitting"]
    try:
        splitter = tokenizers.Tokenizer.from_str(splitting).pre_tokenizer.pre_tokenize_str
    except Exception as error:  # the library raises bare Exceptions
        raise VocabularyError(f"{file}: tokenizers refuses it: {error}") from error
    in_ascii = ascii_splitter(flatten_components(json.loads(splitting)["pre_tokenizer"]))

    def split(text: str) -> list[str]:
        if in_ascii is not None and text.isascii():
            return in_ascii(text)
        return [word for word, _ in splitter(text)]

    def whole(word: bytes) -> int:
        node = trie.find(word)
        return trie.order_[trie.low_[node]] if node >= 0 and trie.own_[node] else -1

    return bpe.Bpe(arrays, split, whole if facts["ignore_merges"] else None).encode


# -- by the library --------------------------------------------------------------------------------


class LibraryEncoder:
    """The encoder of ``tokenizers``, loaded on first use because it takes long and much memory."""

    def __init__(self, file: Path, content: Callable[[], bytes], controls: Iterable[str]) -> None:
        """Take a function that returns a ``tokenizer.json``; ``file`` is for messages."""
        self._file, self._controls = file, list(controls)
        self._content: Callable[[], bytes] | None = content
        self._encode: Encode | None = None
        self._lock = threading.Lock()

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; VocabularyError if the library refuses the file."""
        return (self._encode or self._read())(text)

    def _read(self) -> Encode:
        with self._lock:
            if self._encode is None:
                assert self._content is not None
                self._encode = self._encoder(self._content())
                self._content = None
            return self._encode

    def _encoder(self, content: bytes) -> Encode:
        try:
            data = json.loads(content)
            tokenizer = tokenizers.Tokenizer.from_str(_without_stripping(content, data))
            faithful = tokenizers.Tokenizer.from_str(json.dumps(_byte_preserving(data)))
        except Exception as error:  # the library raises bare Exceptions
            raise VocabularyError(f"{self._file}: tokenizers refuses it: {error}") from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        if tokenizer.model.dropout is not None:
            tokenizer.model.dropout = None
        tokenizer.normalizer = faithful.normalizer
        tokenizer.pre_tokenizer = faithful.pre_tokenizer
        # With encode_special_tokens the library reads special tokens as text; make all of ours
        # special.
        tokenizer.add_special_tokens(
            [tokenizers.AddedToken(n, special=True, normalized=False) for n in self._controls]
        )
        tokenizer.encode_special_tokens = True

        def encode(plain: str) -> list[int]:
            ids: list[int] = tokenizer.encode(plain, add_special_tokens=False).ids
            return ids

        return encode


def _without_stripping(content: bytes, data: dict[str, Any]) -> str:
    """Return the tokenizer with added tokens that do not strip the spaces beside them."""
    stripping = [
        entry
        for entry in data.get("added_tokens") or ()
        if entry.get("lstrip") or entry.get("rstrip")
    ]
    for entry in stripping:
        entry["lstrip"] = entry["rstrip"] = False
    return json.dumps(data) if stripping else content.decode()


def _byte_preserving(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tokenizer with the file's normalizer and pre-tokenizer only.

    Settings that would change the bytes of the text are removed.
    """
    normalizers = [
        part
        for part in flatten_components(data.get("normalizer"))
        if part["type"] == "Replace" and part.get("content") == SPACE_PIECE
    ]
    splitters = flatten_components(data.get("pre_tokenizer"))
    for part in splitters:
        if part["type"] == "Metaspace":
            part["prepend_scheme"] = "never"
        if "add_prefix_space" in part:
            part["add_prefix_space"] = False
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": normalizers} if normalizers else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splitters} if splitters else None,
        "model": {"type": "BPE", "vocab": {}, "merges": []},
    }
