"""Our own encoder gives the ids that the library gives, for every text."""

from __future__ import annotations

import json
import string
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.vocabulary import bpe
from callmemaybe.vocabulary.encoders import Encode, LibraryEncoder, array_encoder, compile_encoding
from callmemaybe.vocabulary.pretokenizer import ascii_splitter, translate
from callmemaybe.vocabulary.readers import gguf
from callmemaybe.vocabulary.trie import Trie
from tests.vocabulary.samples import NANO, REAL, TEXT, train

O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
OWN = r" ?(?:\p{Lu}?\p{Ll}+|\p{Lu}+(?!\p{Ll})|[\p{Lt}\p{Lm}\p{Lo}]+)|\s|[^\s\p{L}]|\p{L}"  # nano's

in_ascii = st.text(
    st.sampled_from("ab sStTrReE'\"\\/\n\r\t\x0b\x1c\x00 09AZ_{}:,.-~\x7f"), max_size=40
)
texts = (
    st.text(max_size=30)
    | in_ascii
    | st.text(st.sampled_from(string.printable), max_size=60)
    | st.sampled_from([*TEXT, "e\u0301", "\u212b", "\r\n \u3000 x", "I'S it's 'ſ K", "\u0085 \x1c"])
)


@cache
def encoders(path: Path) -> tuple[Encode, Encode]:
    """Return our own encoder of a file, and the library's."""
    return both(path.read_bytes())


def both(content: bytes) -> tuple[Encode, Encode]:
    data = json.loads(content)
    controls = [entry["content"] for entry in data["added_tokens"]]
    found = compile_encoding(data, controls)
    assert found is not None
    pieces = data["model"]["vocab"]
    spelled = [piece.translate(bpe.ALPHABET).encode("latin-1", "replace") for piece in pieces]
    trie = Trie(spelled, list(pieces.values()))
    file = Path("tokenizer.json")
    return array_encoder(file, found, trie), LibraryEncoder(file, lambda: content, controls).encode


@pytest.mark.parametrize(
    "path", [NANO, REAL / "smollm2", REAL / "qwen3"], ids=lambda path: path.name
)
@given(text=texts)
@settings(max_examples=80, deadline=None)
def test_ids_are_the_librarys(path: Path, text: str) -> None:
    """Every text has the ids that ``tokenizers`` gives it."""
    if not path.is_dir():
        pytest.skip(f"no tokenizer at {path}")
    ours, theirs = encoders(path / "tokenizer.json")
    assert ours(text) == theirs(text)


@pytest.mark.parametrize(
    "path", [NANO, REAL / "smollm2", REAL / "qwen3"], ids=lambda path: path.name
)
def test_ids_of_long_texts_are_the_librarys(path: Path) -> None:
    """Prose in several scripts, code, tables of numbers, and words of thousands of letters."""
    if not path.is_dir():
        pytest.skip(f"no tokenizer at {path}")
    ours, theirs = encoders(path / "tokenizer.json")
    root = Path(__file__).parents[2]
    some = [file.read_text(encoding="utf-8") for file in sorted((root / "docs").glob("*/*s.md"))]
    some += [Path(__file__).read_text(encoding="utf-8"), "x" * 3000, "ab" * 2000, " " * 500]
    some += ["".join(map(chr, range(0x4E00, 0x5200))), "".join(map(chr, range(0x20, 0x3000)))]
    for text in some:
        assert ours(text) == theirs(text)
        assert ours(text) == theirs(text)  # now every word is known


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    """Return a random byte-level BPE tokenizer of a few letters; not every byte has a token."""
    pieces = sorted(draw(st.sets(st.sampled_from("abcĠéÃ©"), min_size=2)))
    merges: list[list[str]] = []
    for _ in range(draw(st.integers(0, 14))):
        one, other = draw(st.sampled_from(pieces)), draw(st.sampled_from(pieces))
        merges.append([one, other])
        if one + other not in pieces:
            pieces.append(one + other)
    order = draw(st.permutations(range(len(pieces))))
    model = {
        "type": "BPE",
        "vocab": dict(zip(pieces, order, strict=True)),
        "merges": merges if draw(st.booleans()) else [" ".join(pair) for pair in merges],
        "ignore_merges": draw(st.booleans()),
    }
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}
    byte_level["use_regex"] = draw(st.booleans())
    return {
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": byte_level,
        "decoder": byte_level, "model": model,
    }  # fmt: skip


@given(files(), st.lists(st.text(st.sampled_from("abc é"), max_size=20), max_size=4))
@settings(max_examples=150, deadline=None)
def test_ids_of_random_tokenizers_are_the_librarys(data: dict[str, Any], some: list[str]) -> None:
    """Whatever the order of merges, the ids are the library's; so with words that skip merging."""
    ours, theirs = both(json.dumps(data).encode())
    for text in some:
        assert ours(text) == theirs(text)


SPLITTERS: list[list[dict[str, Any]]] = [
    *(
        [
            {"type": "Split", "pattern": {"Regex": one}, "behavior": "Isolated", "invert": False}
            for one in patterns
        ]
        for patterns in [*gguf.SPLITS.values(), (O200K,), (OWN,), (r"\d{1,2}|[^a-f]\S",)]
    ),
    [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "use_regex": True}],
    [{"type": "ByteLevel", "use_regex": True}],
]


@given(st.sampled_from(SPLITTERS), in_ascii | st.text(st.sampled_from(string.printable)))
@settings(max_examples=400, deadline=None)
def test_ascii_is_split_as_the_library_does(parts: list[dict[str, Any]], text: str) -> None:
    """Translated expressions split ASCII text into the library's words."""
    split = ascii_splitter(parts)
    assert split is not None
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    alone = byte_level | {"use_regex": False}
    parts = [byte_level | part if part["type"] == "ByteLevel" else part for part in parts]
    if parts[-1]["type"] != "ByteLevel":
        parts.append(alone)
    library = tokenizers.Tokenizer.from_str(
        json.dumps(
            {
                "version": "1.0",
                "added_tokens": [],
                "pre_tokenizer": {"type": "Sequence", "pretokenizers": parts},
                "model": {"type": "BPE", "vocab": {}, "merges": []},
            }
        )
    ).pre_tokenizer
    words = [word.translate(bpe.ALPHABET) for word, _ in library.pre_tokenize_str(text)]
    assert split(text) == words


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w+", r"\p{Han}+", r"[\p{Sc}]", r"a*", r"(?=a)|b", r"(a)", r"^a", r"a$", r".", r"[[:alpha:]]",
        r"[a&&b]", r"a{2}+", r"a{1,2}?", r"(?<=a)b", r"(?>a)", r"\x41", r"[\x41]", r"a(", r"*a", "[",
    ],
)  # fmt: skip
def test_other_expressions_are_left_to_the_library(pattern: str) -> None:
    """What ``re`` might read in another way, or what matches nothing at all, is not translated."""
    part = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    assert ascii_splitter([part]) is None


def test_other_splitters_are_left_to_the_library() -> None:
    """Of pre-tokenizers only those are imitated that are known to the letter."""
    split = {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Isolated"}
    assert ascii_splitter([split]) is not None
    for change in ({"behavior": "Removed"}, {"invert": True}, {"pattern": {"String": "a"}}):
        assert ascii_splitter([split | change]) is None
    for other in ({"type": "Whitespace"}, {"type": "ByteLevel", "add_prefix_space": True}):
        assert ascii_splitter([split, other]) is None
    assert translate(r"[^\p{Lo}]") == "(?:.)"


@pytest.mark.parametrize(
    "change",
    [
        {"merges": [["a", "b", "ab"]]}, {"merges": [["a", "?"]]}, {"merges": 3}, {"merges": ["a  b"]},
        {"byte_fallback": True}, {"unk_token": "a"},
    ],
)  # fmt: skip
def test_odd_models_are_left_to_the_library(change: dict[str, Any]) -> None:
    """Malformed merges and other ways to encode are not ours to interpret."""
    data = json.loads(train(300, spaces=False))
    assert compile_encoding(data, []) is not None
    model = data["model"] | change
    if "unk_token" in change:
        del model["vocab"]["b"]
        model["merges"] = []
    assert compile_encoding(data | {"model": model}, []) is None


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words met are remembered up to a bound, and forgetting them changes no ids."""
    monkeypatch.setattr(bpe, "WORD_CACHE_SIZE", 8)
    content = train(300, spaces=False).encode()
    data = json.loads(content)
    found = compile_encoding(data, [])
    assert found is not None
    words = [f"w{n}" for n in range(40)]
    encoder = bpe.Bpe(found.arrays, str.split)
    first = [encoder.encode(word) for word in words]
    assert [encoder.encode(word) for word in words] == first
    assert len(vars(encoder)["_known"]) <= 8
    assert np.concatenate(first).min() >= 0


def test_long_words_are_not_remembered() -> None:
    """Words of any length are merged, but only short ones are held, so that memory is bounded."""
    found = compile_encoding(json.loads(train(300, spaces=False)), [])
    assert found is not None
    encoder = bpe.Bpe(found.arrays, str.split)
    short, long = "w" * bpe.LONGEST_CACHED_WORD, "w" * (bpe.LONGEST_CACHED_WORD + 1)
    first = encoder.encode(f"{short} {long}")
    assert encoder.encode(f"{short} {long}") == first
    assert list(vars(encoder)["_known"]) == [short]


@cache
def merging() -> bpe.Bpe:
    """Return an encoder that remembers few pairs, and so forgets them again and again."""
    found = compile_encoding(json.loads(train(2000, spaces=False)), [])
    assert found is not None
    return bpe.Bpe(found.arrays, str.split)


@given(st.text(st.sampled_from("abcdeghilnorst _é#"), min_size=1, max_size=bpe.SHORT_WORD + 8))
def test_short_words_are_merged_as_long_ones_are(word: str) -> None:
    """To look at all places for each merge gives what a heap gives, whatever pairs were met before."""
    encoder = merging()
    of_byte = vars(encoder)["_of_byte"]
    ids = [of_byte[byte] for byte in word.encode() if of_byte[byte] >= 0]
    assert encoder._merge_short(ids.copy()) == encoder._merge_long(ids.copy())


def test_pairs_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs met are remembered up to a bound, and forgetting them changes no ids."""
    found = compile_encoding(json.loads(train(2000, spaces=False)), [])
    assert found is not None
    whole, small = (bpe.Bpe(found.arrays, str.split) for _ in range(2))
    words = ["".join(pair) for pair in zip("abcdefgh" * 4, "aeiou" * 6, strict=False)]
    expected = [whole.encode("".join(words[:n])) for n in range(1, 12)]
    monkeypatch.setattr(bpe, "PAIR_CACHE_SIZE", 4)
    assert [small.encode("".join(words[:n])) for n in range(1, 12)] == expected
    assert len(vars(small)["_pairs"]) <= 4 < len(vars(whole)["_pairs"])
