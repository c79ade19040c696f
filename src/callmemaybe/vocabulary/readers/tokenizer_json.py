"""``tokenizer.json`` of Hugging Face tokenizers: byte-level BPE, and BPE in SentencePiece's style.

Everything derived from the file (the tokens' bytes, their prefix tree, the merges) is stored as arrays
in the user's cache folder, and the next process maps those instead of parsing the file. Both build the
vocabulary from the same arrays.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from callmemaybe.errors import VocabularyError
from callmemaybe.vocabulary import bpe, disk_cache
from callmemaybe.vocabulary.disk_cache import CacheEntry
from callmemaybe.vocabulary.encoders import (
    SPACE_PIECE,
    Encode,
    LibraryEncoder,
    array_encoder,
    compile_encoding,
    flatten_components,
)
from callmemaybe.vocabulary.trie import Trie
from callmemaybe.vocabulary.vocabulary import Vocabulary

#: Version of the cached arrays: raise it whenever they change.
FORMAT = 3
#: The files beside it with the width of the logits and the ends of a turn.
CONFIGURATIONS = ("config.json", "generation_config.json", "tokenizer_config.json")
#: Added tokens of this shape are control tokens even where the file does not call them special
#: (Qwen's ``<tool_call>``); what else was added (runs of spaces, words) is text.
MARKER = re.compile(r"<.+>|\[.+\]", re.DOTALL)
BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
#: Larger ids and widths than this are damage, not data.
MOST = 1 << 24


class TokenizerJson:
    """Reads ``tokenizer.json``, and the model's configuration beside it where there is one."""

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` is a .json file or a folder with a tokenizer.json."""
        return path.suffix == ".json" or (path / "tokenizer.json").is_file()

    def read(self, path: Path, size: int | None, ends: Iterable[int] | None) -> Vocabulary:
        """Read the tokenizer; see ``Reader``."""
        file = path / "tokenizer.json" if path.is_dir() else path
        try:
            content = file.read_bytes()
        except OSError as error:
            raise VocabularyError(f"{file}: cannot be read: {error}") from error
        return read(file, content, lambda: Source(content), size, ends)


READER = TokenizerJson()


class Source(NamedTuple):
    """The content of a ``tokenizer.json``, and the width and ends where known from elsewhere."""

    content: bytes
    size: int | None = None
    ends: frozenset[int] | None = None


def read(
    file: Path,
    identity: bytes,
    source: Callable[[], Source],
    size: int | None,
    ends: Iterable[int] | None,
) -> Vocabulary:
    """Return the vocabulary that ``source()`` describes.

    ``identity`` identifies the source for the cache without computing it. ``file`` is for messages;
    what neither arguments nor source give is read from the configuration beside it. Raises
    VocabularyError.
    """
    asked = None if ends is None else frozenset(ends)
    key = _key(file.parent, identity, size, asked)
    found = disk_cache.load(key)
    if found is not None:
        return _build(file, lambda: source().content, found)
    made = source()
    size = made.size if size is None else size
    try:
        found = _compile(file, made.content, size, made.ends if asked is None else asked)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise VocabularyError(f"{file}: is damaged ({what}); fetch the file again") from error
    vocabulary = _build(file, lambda: made.content, found, is_new=True)
    disk_cache.save(key, found)
    return vocabulary


def _key(folder: Path, identity: bytes, size: int | None, ends: frozenset[int] | None) -> str:
    """Return the cache key: a hash of all inputs of a vocabulary and of the format's version."""
    machine = (FORMAT, sys.byteorder, np.dtype(np.intp).str)
    asked = (size, None if ends is None else sorted(ends))
    digest = hashlib.blake2b(repr((machine, asked)).encode(), digest_size=16)
    for name in CONFIGURATIONS:
        try:
            beside = (folder / name).read_bytes()
        except OSError:
            beside = b""
        digest.update(len(beside).to_bytes(8, "little") + beside)
    digest.update(identity)
    return digest.hexdigest()


def _build(
    file: Path, content: Callable[[], bytes], found: CacheEntry, is_new: bool = False
) -> Vocabulary:
    """Return the vocabulary of a cache entry."""
    facts, arrays = found
    controls: dict[str, int] = facts["controls"]
    blob, bounds = arrays["tokens"].tobytes(), arrays["bounds"].tolist()
    tokens = tuple(blob[low:high] for low, high in pairwise(bounds))
    trie = Trie(tokens, arrays={name: arrays[f"trie.{name}"] for name in Trie.ARRAYS})
    encode: Encode
    if facts["encoding"] is None:
        encode = LibraryEncoder(file, content, controls).encode
    else:
        merges = {name: arrays[f"merges.{name}"] for name in bpe.ARRAYS}
        encode = array_encoder(file, CacheEntry(facts["encoding"], merges), trie)
    if is_new:
        encode(" ")  # so that the library reports a file it refuses now
    return Vocabulary(tokens, controls, encode, facts["ends"], trie=trie)


def _compile(
    file: Path, content: bytes, size: int | None, ends: frozenset[int] | None
) -> CacheEntry:
    """Return the cache entry that is derived from the files."""
    data = _parse(file, content)
    tokens, controls, is_plain = _tokens(file, data)
    width = max(_size(file.parent, len(tokens)), 1) if size is None else size
    stated = (end for end in _ends(file.parent, controls) if 0 <= end < width)
    made = Vocabulary(tokens, controls, None, stated if ends is None else ends, size=width)
    bounds = np.zeros(width + 1, np.int64)
    np.cumsum(np.fromiter(map(len, made.tokens), np.int64, width), out=bounds[1:])
    arrays: dict[str, Any] = {
        "tokens": np.frombuffer(b"".join(made.tokens), np.uint8),
        "bounds": bounds,
        **{f"trie.{name}": array for name, array in made.trie.arrays().items()},
    }
    # The array encoder has no tokens but those of the merges, so all must be in the vocabulary.
    is_whole = [*tokens, *[b""] * (width - len(tokens))] == list(made.tokens)
    encoding = compile_encoding(data, controls) if is_plain and is_whole else None
    if encoding is not None:
        arrays |= {f"merges.{name}": array for name, array in encoding.arrays.items()}
    facts = {
        "controls": dict(made.controls),
        "ends": sorted(made.ends),
        "encoding": None if encoding is None else encoding.facts,
    }
    return CacheEntry(facts, arrays)


def _tokens(file: Path, data: Mapping[str, Any]) -> tuple[list[bytes], dict[str, int], bool]:
    """Return the bytes by id, the control tokens, and whether it is byte-level with no added words."""
    pieces = data["model"]["vocab"]
    byte_level = _alphabet(file, data)
    spelled = _byte_level(list(pieces)) if byte_level else _sentencepiece(list(pieces))
    added = data.get("added_tokens") or []
    ids = [*pieces.values(), *(entry["id"] for entry in added)]
    for index in ids:
        if type(index) is not int or not 0 <= index < MOST:
            raise ValueError(f"{index!r} is no token's id")
    tokens = [b""] * (1 + max(ids, default=-1))
    for index, token in zip(pieces.values(), spelled, strict=True):
        tokens[index] = token
    controls: dict[str, int] = {}
    for entry in added:
        index, text = entry["id"], entry["content"]
        is_control = entry.get("special") or MARKER.fullmatch(text)
        if is_control:
            tokens[index] = b""
            controls[text] = index
        else:
            tokens[index] = _plain(text) if byte_level else _sentencepiece([text])[0]
    for name in [data["model"].get("unk_token")]:
        if name in pieces and name not in controls:
            tokens[pieces[name]] = b""
    return tokens, controls, byte_level and len(controls) == len(added)


def _parse(file: Path, content: bytes) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(content)
        kind = data["model"].get("type", "BPE")
        if not isinstance(data["model"]["vocab"], dict) or kind != "BPE":
            raise VocabularyError(
                f"{file}: a {kind} tokenizer cannot be used, because its tokens do not spell out "
                f"every text byte for byte; only BPE (byte-level or with byte fallback) can"
            )
    except (RecursionError, ValueError) as error:
        raise VocabularyError(f"{file}: cannot be read: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise VocabularyError(f"{file}: is not a tokenizer.json (no model.vocab)") from error
    return data


def _alphabet(file: Path, data: Mapping[str, Any]) -> bool:
    """Return True for GPT-2's byte alphabet, False for SentencePiece's pieces, else refuse."""
    model = data["model"]
    for setting in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(setting):
            raise VocabularyError(f"{file}: BPE with a {setting} is not supported")
    parts = [
        *flatten_components(data.get("decoder")),
        *flatten_components(data.get("pre_tokenizer")),
    ]
    kinds = {part["type"] for part in parts}
    if "ByteLevel" in kinds:
        return True
    if model.get("byte_fallback") or "ByteFallback" in kinds:
        return False
    raise VocabularyError(
        f"{file}: BPE without a byte alphabet or byte fallback is not supported, "
        f"because it cannot express every text"
    )


def _byte_level(pieces: list[str]) -> list[bytes]:
    """Translate GPT-2's alphabet to bytes."""
    alphabet = frozenset(map(chr, bpe.ALPHABET))
    joined = "".join(pieces)
    if not alphabet.issuperset(joined):  # an added word that is in the vocabulary as plain text
        return [_byte_level([p])[0] if alphabet.issuperset(p) else _plain(p) for p in pieces]
    raw = joined.translate(bpe.ALPHABET).encode("latin-1")
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    return [raw[a:b] for a, b in pairwise(ends)]


def _sentencepiece(pieces: list[str]) -> list[bytes]:
    found = []
    for piece in pieces:
        byte = BYTE_PIECE.fullmatch(piece)
        raw = bytes.fromhex(byte[1]) if byte else _plain(piece.replace(SPACE_PIECE, " "))
        found.append(raw)
    return found


def _plain(text: str) -> bytes:
    return text.encode(errors="surrogateescape")  # bytes that are not UTF-8, from a GGUF file


def _configuration(folder: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, RecursionError, ValueError) as error:
        raise VocabularyError(f"{folder / name}: cannot be read: {error}") from error
    return found if isinstance(found, dict) else {}


def _size(folder: Path, count: int) -> int:
    """Return the width of the logits: from config.json, else the number of tokens."""
    config = _configuration(folder, "config.json")
    inner = config.get("text_config")
    if not isinstance(inner, dict):
        inner = {}
    stated = config.get("vocab_size") or inner.get("vocab_size") or count
    if not isinstance(stated, int) or not 0 <= stated <= MOST:
        raise VocabularyError(
            f"{folder / 'config.json'}: vocab_size is {stated!r:.40}, which is no number of tokens; "
            "correct it, or fetch the file again"
        )
    return stated


def _ends(folder: Path, controls: Mapping[str, int]) -> frozenset[int]:
    """Return the ids that end a turn, from the folder's configuration."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        stated = _configuration(folder, name).get("eos_token_id")
        listed = stated if isinstance(stated, list) else [stated]
        found.update(end for end in listed if isinstance(end, int))
        if found:
            break
    token = _configuration(folder, "tokenizer_config.json").get("eos_token")
    content = token.get("content") if isinstance(token, dict) else token
    if isinstance(content, str) and content in controls:
        found.add(controls[content])
    return frozenset(found)
