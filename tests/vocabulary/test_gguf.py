"""Vocabularies read from GGUF files: the same as from the tokenizer.json they were made of."""

from __future__ import annotations

import json
import os
import string
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe import models
from callmemaybe.errors import ModelError, VocabularyError
from callmemaybe.vocabulary import Vocabulary, gguf_metadata
from callmemaybe.vocabulary.readers import gguf
from tests.training.qwen3_reference import random_tensors, tiny_config
from tests.vocabulary.samples import REAL, train
from training.export import qwen3_gguf as export_gguf
from training.export.qwen3_gguf import export

SIZE = 420


def split_as(text: str, name: str) -> str:
    """Return the same tokenizer with the split that llama.cpp knows by this name."""
    data = json.loads(text)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    byte_level["use_regex"] = False
    splits = [
        {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False}
        for split in gguf.SPLITS[name]
    ]
    data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*splits, byte_level]}
    return json.dumps(data)


def made(path: Path, tokenizer: str, pre: str, size: int = SIZE) -> Path:
    config = tiny_config(vocab_size=size)
    ends = {"eos_token_id": 0}
    return export(
        config, random_tensors(config), path, kind="f32", tokenizer=tokenizer, pre=pre, ends=ends
    )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vocabulary, Vocabulary]:
    folder = tmp_path_factory.mktemp("gguf")
    text = split_as(train(400), "qwen2")
    (folder / "tokenizer.json").write_text(text)
    return (
        Vocabulary.from_file(folder / "tokenizer.json", size=SIZE, ends=[0]),
        Vocabulary.from_file(made(folder / "model.gguf", text, "qwen2")),
    )


def test_tokens_controls_and_ends_are_the_same(pair: tuple[Vocabulary, Vocabulary]) -> None:
    """Both files give one vocabulary, to the byte."""
    from_json, from_gguf = pair
    assert from_gguf.fingerprint == from_json.fingerprint
    assert from_gguf.ends == {0}


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet=st.one_of(st.sampled_from(string.printable), st.characters(codec="utf-8"))))
def test_text_is_encoded_the_same(pair: tuple[Vocabulary, Vocabulary], text: str) -> None:
    """Both files encode every text to the same ids, control tokens' names included."""
    from_json, from_gguf = pair
    for some in (text, f"<|end|>{text}<a>"):
        assert from_gguf.encode(some.encode()) == from_json.encode(some.encode())


@pytest.mark.skipif(not (REAL / "qwen3").is_dir(), reason="Qwen3's tokenizer is not at hand")
def test_qwen3_is_read_whole(tmp_path: Path) -> None:
    """Qwen3's tokenizer through GGUF is Qwen3's tokenizer."""
    from_json = Vocabulary.from_file(REAL / "qwen3", size=151_936, ends=[151_645])
    data = (REAL / "qwen3" / "tokenizer.json").read_text(encoding="utf-8")
    config = tiny_config(vocab_size=151_936, hidden_size=32, num_hidden_layers=1)
    path = tmp_path / "qwen3.gguf"
    ends = {"eos_token_id": 151_645}
    export(config, random_tensors(config), path, kind="q4_0", tokenizer=data, ends=ends)
    from_gguf = Vocabulary.from_file(path)
    assert dict(from_gguf.controls) == dict(from_json.controls)
    assert from_gguf.tokens == from_json.tokens
    text = Path(__file__).read_bytes() + "Grüße 12345 한국어\r\n\t x  ".encode()
    assert from_gguf.encode(text) == from_json.encode(text)


@pytest.mark.parametrize(
    ("pre", "said"), [("unheard-of", "put the model's tokenizer.json beside it"), ("qwen2", "")]
)
def test_unknown_splits_are_refused(tmp_path: Path, pre: str, said: str) -> None:
    """A tokenizer whose way to split is not known is refused, never guessed."""
    path = made(tmp_path / "model.gguf", train(400), pre)
    if said:
        with pytest.raises(VocabularyError, match=said):
            Vocabulary.from_file(path)
    else:
        assert Vocabulary.from_file(path).size == SIZE


def test_damage_is_noticed(tmp_path: Path) -> None:
    """A file that is cut off in its metadata, or has another version, is refused with a reason."""
    whole = made(tmp_path / "model.gguf", train(400), "qwen2").read_bytes()
    path = tmp_path / "cut.gguf"
    for size in [5, 8, 20, 30, *range(40, 400, 23)]:
        path.write_bytes(whole[:size])
        with pytest.raises(VocabularyError, match="cannot be read"):
            Vocabulary.from_file(path)
    path.write_bytes(b"GGUF" + (9).to_bytes(4, "little") + whole[8:])
    with pytest.raises(VocabularyError, match="version 9"):
        Vocabulary.from_file(path)


def written(path: Path, **changes: object) -> Path:
    """Write a file with a tokenizer and no tensors; ``changes`` replace what the tokenizer says."""
    held = export_gguf._tokens(split_as(train(400, spaces=False), "qwen2"), SIZE, "qwen2")
    held |= {f"tokenizer.ggml.{name}": value for name, value in changes.items()}
    with path.open("wb") as file:
        export_gguf._write(file, held, [], "f32")
    return path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"token_type": [1] * (SIZE - 3)}, f"has {SIZE} tokens, but says of {SIZE - 3}"),
        ({"token_type": 5}, "token_type is damaged"),
        ({"tokens": [1, 2, 3]}, "tokens is damaged"),
        ({"tokens": 5}, "tokens is damaged"),
        ({"merges": 5}, "merges is damaged"),
        ({"merges": [1]}, "merges is damaged"),
        ({"tokens": []}, "holds no tokenizer"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    """Lists of unlike lengths, and what should be a list of something else, are named."""
    path = written(tmp_path / "model.gguf", **changes)
    with pytest.raises(VocabularyError, match=said) as caught:
        Vocabulary.from_file(path)
    assert str(path) in str(caught.value)


def test_lists_in_lists_have_an_end(tmp_path: Path) -> None:
    """A file that nests thousands of lists is refused, and not read until Python gives up."""
    path = tmp_path / "model.gguf"
    path.write_bytes(
        struct.pack("<4sIQQ", b"GGUF", 3, 0, 1)
        + export_gguf._string("a")
        + struct.pack("<I", 9)
        + struct.pack("<IQ", 9, 1) * 3000
        + struct.pack("<IQ", 4, 0)
    )
    for read in (Vocabulary.from_file, models.load):
        with pytest.raises((VocabularyError, ModelError), match="lists in lists"):
            read(path)


@pytest.mark.parametrize("kind", [1, 3])
def test_tokens_that_are_no_text(tmp_path: Path, kind: int) -> None:
    """Bytes that are no UTF-8 are a token's bytes as they are; a control token has none."""
    kinds = [*[5] * (SIZE - 1), kind]
    data = json.loads(train(400, spaces=False))
    for index in data["model"]["vocab"].values():
        kinds[index] = 1
    whole = written(tmp_path / "model.gguf", token_type=kinds).read_bytes()
    last = export_gguf._string(f"[PAD{SIZE - 1}]")
    assert whole.count(last) == 1
    (tmp_path / "model.gguf").write_bytes(whole.replace(last, struct.pack("<Q", 2) + b"\xff\xfe"))
    words = Vocabulary.from_file(tmp_path / "model.gguf")
    assert words.token(SIZE - 1) == (b"\xff\xfe" if kind == 1 else b"")
    assert words.decode(words.encode(b"the cat \xff")) == b"the cat \xff"
    assert Vocabulary.from_file(tmp_path / "model.gguf").fingerprint == words.fingerprint


def test_the_second_time_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier reading kept is the same vocabulary; another file, or size, is read anew."""
    text = split_as(train(400), "qwen2")
    path = made(tmp_path / "model.gguf", text, "qwen2")
    first = Vocabulary.from_file(path)
    read = gguf_metadata.metadata
    monkeypatch.setattr(gguf_metadata, "metadata", None)
    again = Vocabulary.from_file(path)
    assert again.fingerprint == first.fingerprint
    with pytest.raises(TypeError):
        Vocabulary.from_file(path, size=SIZE + 1)
    monkeypatch.setattr(gguf_metadata, "metadata", read)
    # Added words are encoded by the library, for which the file is read after all.
    assert again.encode(b"the  cat    sat") == first.encode(b"the  cat    sat")
    assert Vocabulary.from_file(path, size=SIZE + 1).size == SIZE + 1


def test_every_kind_of_value_is_read(tmp_path: Path) -> None:
    """Numbers, truth values, strings and lists come back as they were written."""
    held = gguf_metadata.metadata(made(tmp_path / "model.gguf", train(400), "qwen2"))
    assert held["general.architecture"] == "qwen3"
    assert held["qwen3.block_count"] == 2
    assert held["qwen3.rope.freq_base"] == 10_000.0
    assert held["tokenizer.ggml.add_bos_token"] is False
    assert len(held["tokenizer.ggml.tokens"]) == SIZE == len(held["tokenizer.ggml.token_type"])
    assert not gguf_metadata.is_gguf(tmp_path / os.devnull.strip("/"))
