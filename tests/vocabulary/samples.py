"""The vocabularies that the laws are tried on: shipped, made here, and real ones where they lie."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from callmemaybe.testing.vocabularies import ByteVocabulary
from callmemaybe.vocabulary import Vocabulary

NANO = Path(str(files("callmemaybe"))) / "data" / "nano"
#: Large tokenizers are not part of the repository; these laws are skipped where they are not found.
REAL = Path(__file__).parents[3] / "shared" / "data" / "tokenizers"
REAL_SIZES = {"smollm2": None, "qwen3": 151_936}

TEXT = [
    '{"name": "get_weather", "arguments": {"city": "Paris", "days": 12}}',
    '{"name": "send_email", "arguments": {"to": "ann@example.com", "subject": "Grüße aus Zürich"}}',
    'the cat sat on the mat; "quoted", \\"escaped\\" and 1234567890.5e-3 [true, false, null]',
    "  indented\n\n\tline é 한국어 日本 🎉🎉  ",
] * 3


def train(
    size: int, *, added: tuple[str, ...] = ("<|end|>", "<a>", "<b>"), spaces: bool = True
) -> str:
    """Return the tokenizer.json of a byte-level BPE learnt from a few lines."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[added[0]],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    words = [tokenizers.AddedToken(text, normalized=False) for text in added[1:]]
    if spaces:
        words.append(tokenizers.AddedToken("    ", normalized=False))
    tokenizer.add_tokens(words)
    return tokenizer.to_str()


def read(text: str, **configuration: object) -> Vocabulary:
    """Read a tokenizer.json from a folder of its own; ``configuration`` is put beside it."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tokenizer.json").write_text(text, encoding="utf-8")
        for name, content in configuration.items():
            (Path(folder) / f"{name}.json").write_text(json.dumps(content))
        return Vocabulary.from_file(folder)


@cache
def vocabulary(name: str) -> Vocabulary:
    """Return a vocabulary by name; skips the test where a real one is not there."""
    if name == "bytes":
        return ByteVocabulary(["<a>", "<b>"], ends=["<|end|>"])
    if name == "crossing":
        more = [b'",', b'":', b'": "', b'"}', b'"}}', b"}}", b', "', b"ab", b"abc", b'a"', b'"a']
        more += [
            b"\xc3\xa9\xc3",
            b"\xa9",
            b"\xa9a",
            b"12",
            b"1,",
            b"1}",
            b"    ",
            b"aa",
            b"bb",
            b"ba",
        ]
        return ByteVocabulary(["<a>", "<b>"], ends=["<|end|>"], more=more, size=300)
    if name == "toy":
        return read(train(420), generation_config={"eos_token_id": 0})
    path = NANO if name == "nano" else REAL / name
    if not (path / "tokenizer.json").exists():
        pytest.skip(f"no tokenizer at {path}")
    size = REAL_SIZES.get(name)
    return Vocabulary.from_file(path, size=size)
