"""``tokenizer.json`` of Hugging Face tokenizers: byte-level BPE, and BPE in SentencePiece's style.

The tokens' bytes are read from the file; encoding is done by ``tokenizers`` itself, set up so that
what it returns has exactly the bytes it was given: no control tokens, no prefix space, no Unicode
normalisation. For text in normal form that is what the tokenizer gives anyway.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import tokenizers

from callmemaybe.errors import VocabularyError
from callmemaybe.vocabulary.vocabulary import Vocabulary

#: Added tokens of this shape are control tokens even where the file does not call them special
#: (Qwen's ``<tool_call>``); what else was added (runs of spaces, words) is text.
MARKER = re.compile(r"<.+>|\[.+\]", re.DOTALL)
BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPACE_PIECE = "\u2581"


class TokenizerJson:
    """Reads ``tokenizer.json``, and the model's configuration beside it where there is one."""

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` is a .json file or a folder with a tokenizer.json."""
        return path.suffix == ".json" or (path / "tokenizer.json").is_file()

    def read(self, path: Path, size: int | None, ends: Iterable[int] | None) -> Vocabulary:
        """Read the tokenizer; see ``Reader``."""
        file = path / "tokenizer.json" if path.is_dir() else path
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise VocabularyError(f"{file}: cannot be read: {error}") from error
        return read(file, text, size, ends)


READER = TokenizerJson()


def read(file: Path, text: str, size: int | None, ends: Iterable[int] | None) -> Vocabulary:
    """Return the vocabulary that ``text``, the content of a ``tokenizer.json``, describes.

    ``file`` is named in messages; the configuration is read from beside it. Raises VocabularyError.
    """
    data = _parse(file, text)
    pieces = data["model"]["vocab"]
    byte_level = _alphabet(file, data)
    spelled = _byte_level(list(pieces)) if byte_level else _sentencepiece(list(pieces))
    added = data.get("added_tokens") or []
    count = 1 + max([*pieces.values(), *(entry["id"] for entry in added)], default=-1)
    tokens = [b""] * count
    for index, token in zip(pieces.values(), spelled, strict=True):
        tokens[index] = token
    controls: dict[str, int] = {}
    for entry in added:
        index, content = entry["id"], entry["content"]
        is_control = entry.get("special") or MARKER.fullmatch(content)
        tokens[index] = b"" if is_control else content.encode()
        if is_control:
            controls[content] = index
    for name in [data["model"].get("unk_token")]:
        if name in pieces and name not in controls:
            tokens[pieces[name]] = b""
    folder = file.parent
    width = max(_size(folder, count), 1) if size is None else size
    stated = (end for end in _ends(folder, controls) if 0 <= end < width)
    return Vocabulary(
        tokens,
        controls,
        _encoder(file, text, data, controls),
        stated if ends is None else ends,
        size=width,
    )


def _parse(file: Path, text: str) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(text)
        kind = data["model"].get("type", "BPE")
        if not isinstance(data["model"]["vocab"], dict) or kind != "BPE":
            raise VocabularyError(
                f"{file}: a {kind} tokenizer cannot be used, because its tokens do not spell out "
                f"every text byte for byte; only BPE (byte-level or with byte fallback) can"
            )
    except ValueError as error:
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
    parts = [*_parts(data.get("decoder")), *_parts(data.get("pre_tokenizer"))]
    kinds = {part["type"] for part in parts}
    if "ByteLevel" in kinds:
        return True
    if model.get("byte_fallback") or "ByteFallback" in kinds:
        return False
    raise VocabularyError(
        f"{file}: BPE without a byte alphabet or byte fallback is not supported, "
        f"because it cannot express every text"
    )


def _parts(component: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Flatten the Sequences of a normalizer, pre-tokenizer or decoder."""
    if not component:
        return []
    for key in ("normalizers", "pretokenizers", "decoders"):
        if key in component:
            return [part for inner in component[key] for part in _parts(inner)]
    return [dict(component)]


def _byte_level(pieces: list[str]) -> list[bytes]:
    """Translate GPT-2's alphabet (printable bytes stand for themselves, others moved up) to bytes."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in kept]
    table = {0x100 + place: byte for place, byte in enumerate(moved)}
    alphabet = frozenset(map(chr, [*kept, *table]))
    joined = "".join(pieces)
    if not alphabet.issuperset(joined):  # an added word that sits in the vocabulary in plain text
        return [_byte_level([p])[0] if alphabet.issuperset(p) else p.encode() for p in pieces]
    raw = joined.translate(table).encode("latin-1")
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    return [raw[a:b] for a, b in pairwise(ends)]


def _sentencepiece(pieces: list[str]) -> list[bytes]:
    found = []
    for piece in pieces:
        byte = BYTE_PIECE.fullmatch(piece)
        raw = bytes.fromhex(byte[1]) if byte else piece.replace(SPACE_PIECE, " ").encode()
        found.append(raw)
    return found


def _encoder(file: Path, text: str, data: Mapping[str, Any], controls: Mapping[str, int]) -> Any:
    """Return text -> ids by the tokenizer itself, faithful to the bytes, blind to control tokens."""
    try:
        tokenizer = tokenizers.Tokenizer.from_str(text)
        faithful = _faithful(data)
    except Exception as error:  # the library raises bare Exceptions
        raise VocabularyError(f"{file}: tokenizers refuses it: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if tokenizer.model.dropout is not None:
        tokenizer.model.dropout = None
    tokenizer.normalizer = faithful.normalizer
    tokenizer.pre_tokenizer = faithful.pre_tokenizer
    # With encode_special_tokens the library reads special tokens as text; make all of ours special.
    tokenizer.add_special_tokens(
        [tokenizers.AddedToken(name, special=True, normalized=False) for name in controls]
    )
    tokenizer.encode_special_tokens = True

    def encode(plain: str) -> list[int]:
        ids: list[int] = tokenizer.encode(plain, add_special_tokens=False).ids
        return ids

    for name, index in controls.items():
        if index in encode(name):
            raise VocabularyError(f"{file}: the text {name!r} always becomes the control token")
    return encode


def _faithful(data: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Build the file's normalizer and pre-tokenizer without whatever would change the bytes."""
    normalizers = [
        part
        for part in _parts(data.get("normalizer"))
        if part["type"] == "Replace" and part.get("content") == SPACE_PIECE
    ]
    splitters = _parts(data.get("pre_tokenizer"))
    for part in splitters:
        if part["type"] == "Metaspace":
            part["prepend_scheme"] = "never"
        if "add_prefix_space" in part:
            part["add_prefix_space"] = False
    small: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": normalizers} if normalizers else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splitters} if splitters else None,
        "model": {"type": "BPE", "vocab": {}, "merges": []},
    }
    return tokenizers.Tokenizer.from_str(json.dumps(small))


def _configuration(folder: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise VocabularyError(f"{folder / name}: cannot be read: {error}") from error
    return found if isinstance(found, dict) else {}


def _size(folder: Path, count: int) -> int:
    """Return the width of the logits: what config.json says, else as many as there are tokens."""
    config = _configuration(folder, "config.json")
    inner = config.get("text_config") or {}
    return int(config.get("vocab_size") or inner.get("vocab_size") or count)


def _ends(folder: Path, controls: Mapping[str, int]) -> frozenset[int]:
    """Return the ids that end a turn, as far as the folder says."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        stated = _configuration(folder, name).get("eos_token_id")
        found.update(stated if isinstance(stated, list) else [] if stated is None else [stated])
        if found:
            break
    token = _configuration(folder, "tokenizer_config.json").get("eos_token")
    content = token.get("content") if isinstance(token, dict) else token
    if isinstance(content, str) and content in controls:
        found.add(controls[content])
    return frozenset(found)
