"""A vocabulary spells every text byte for byte, and never takes text for a control token."""

from __future__ import annotations

import gc
import json
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from callmemaybe.errors import VocabularyError
from callmemaybe.testing.vocabularies import ByteVocabulary
from callmemaybe.vocabulary import Vocabulary
from tests.vocabulary.samples import TEXT, read, train, vocabulary

EVERY = ["bytes", "crossing", "toy", "nano", "smollm2", "qwen3"]
SLOW_FIRST = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("name", EVERY)
@given(st.text(max_size=30) | st.sampled_from([*TEXT, "e\u0301", "\u212b", "\r\n \u3000 x", "'s"]))
@SLOW_FIRST
def test_encoding_keeps_the_bytes(name: str, text: str) -> None:
    """The tokens of a text are exactly its bytes: no prefix space, no normal form, no controls."""
    words = vocabulary(name)
    data = text.encode()
    if not words.single_bytes.keys() >= set(data):
        return  # SmolLM2 has no token for some control characters
    ids = words.encode(data)
    assert words.decode(ids) == data
    assert not set(ids) & set(words.controls.values())


@given(st.binary(max_size=12))
@settings(max_examples=100, deadline=None)
def test_encoding_of_any_bytes(data: bytes) -> None:
    """Bytes that are no UTF-8 are spelt with single-byte tokens."""
    words = vocabulary("toy")
    assert words.decode(words.encode(data)) == data


@pytest.mark.parametrize("name", EVERY)
def test_control_text_is_text(name: str) -> None:
    """A control token has no bytes, and its text encodes to other tokens."""
    words = vocabulary(name)
    assert words.controls
    for text, index in words.controls.items():
        assert words.token(index) == b""
        ids = words.encode(b"x" + text.encode())
        assert index not in ids
        assert words.decode(ids) == b"x" + text.encode()
    assert all(not words.token(index) for index in words.ends)


@pytest.mark.parametrize("name", ["smollm2", "qwen3"])
def test_encoding_is_the_tokenizers_own(name: str) -> None:
    """For text in normal form without control tokens the library gives the same ids."""
    from tests.vocabulary.samples import REAL

    words = vocabulary(name)
    library = tokenizers.Tokenizer.from_file(str(REAL / name / "tokenizer.json"))
    for text in TEXT:
        assert words.encode(text.encode()) == library.encode(text).ids


def test_qwen_controls() -> None:
    """Markers that a file does not call special are control tokens too; ids without token exist."""
    words = vocabulary("qwen3")
    assert words.controls["<tool_call>"] == 151657
    assert words.ends == {words.controls["<|im_end|>"]}
    assert words.size == 151_936
    assert words.token(151_935) == b""


def test_added_words_are_text() -> None:
    """An added run of spaces is a token with bytes; an added marker is a control token."""
    words = vocabulary("toy")
    assert b"    " in words.tokens
    assert set(words.controls) == {"<|end|>", "<a>", "<b>"}
    assert words.ends == {words.controls["<|end|>"]}


def sentencepiece(pre: bool) -> tokenizers.Tokenizer:
    """Return a BPE tokenizer as Llama 2 has it: pieces with a raised space, bytes as fallback."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["\u2581", "a", "b", '"', "\u2581a", "ab", "\u2581ab", "é", "\u2581\u2581"]
    merges = [("\u2581", "a"), ("a", "b"), ("\u2581a", "b"), ("\u2581", "\u2581")]
    model = models.BPE(
        {piece: i for i, piece in enumerate(pieces)}, merges, byte_fallback=True, unk_token="<unk>"
    )
    tokenizer = tokenizers.Tokenizer(model)
    if pre:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
        )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


@pytest.mark.parametrize("pre", [True, False])
def test_sentencepiece(pre: bool) -> None:
    """Raised spaces are spaces, byte pieces are bytes, and nothing is put before the text."""
    words = read(
        sentencepiece(pre).to_str(),
        config={"vocab_size": 300, "eos_token_id": 2},
        tokenizer_config={"eos_token": {"content": "</s>"}},
    )
    assert words.size == 300
    assert words.ends == {2}
    assert words.controls == {"<unk>": 0, "<s>": 1, "</s>": 2}
    tokens = [words.token(i) for i in words.encode(b"ab ab  \xc3\xa9\n</s>\xff")]
    assert tokens == [b"ab", b" ab", b"  ", b"\xc3\xa9", b"\n", *b_(b"</s>"), b"\xff"]


def b_(data: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in data]


@pytest.mark.parametrize("content", ["\u2581\u2581\u2581", "   ", "\u2581yes", "a\u2581b"])
@pytest.mark.parametrize(("pre", "normalized"), [(True, True), (True, False), (False, False)])
def test_added_words_in_sentencepieces_spelling(pre: bool, content: str, normalized: bool) -> None:
    """A raised space is a space in added words too, as the library decodes it, and is kept in text."""
    tokenizer = sentencepiece(pre)
    tokenizer.add_tokens([tokenizers.AddedToken(content, normalized=normalized)])
    words, index = read(tokenizer.to_str()), tokenizer.token_to_id(content)
    assert words.token(index) == tokenizer.decode([index]).encode()
    for text in (f"a{content}a", f"a{words.token(index).decode()}a", "a\u2581ab"):
        assert words.decode(words.encode(text.encode())) == text.encode()


def byte_level(*before: pre_tokenizers.PreTokenizer, whole: bool = True) -> tokenizers.Tokenizer:
    """Return a byte-level tokenizer with pre-tokenizers before; not ``whole``: of the letters it knows."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    last = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*before, last])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet() if whole else []
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(["say yes to the cat, please"] * 3, trainer)
    return tokenizer


@pytest.mark.parametrize(
    "before",
    [
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.Whitespace(),
        pre_tokenizers.Split(" ", "removed"),
        pre_tokenizers.CharDelimiterSplit("|"),
    ],
)
def test_what_a_pre_tokenizer_drops_is_kept(before: pre_tokenizers.PreTokenizer) -> None:
    """Text that the tokenizer itself would lose is spelt by the longest tokens, and only that."""
    tokenizer = byte_level(before)
    words = read(tokenizer.to_str())
    for text in ("say  yes|to", " the cat ", "|", "please <|end|> the é"):
        ids = words.encode(text.encode())
        assert words.decode(ids) == text.encode()
        assert not set(ids) & set(words.controls.values())
    own = tokenizer.encode("say").ids
    assert words.encode(b"say  yes|to")[: len(own)] == own


def test_letters_without_a_token_are_refused() -> None:
    """A byte-level tokenizer that does not know every byte says so, instead of dropping text."""
    words = read(byte_level(whole=False).to_str())
    assert words.decode(words.encode(b"say please")) == b"say please"
    for text in ("Zebra", "the \U0001f600 cat", "<|end|>"):
        with pytest.raises(VocabularyError, match="cannot express"):
            words.encode(text.encode())


@pytest.mark.parametrize("side", ["lstrip", "rstrip"])
def test_added_words_leave_their_neighbours_alone(side: str) -> None:
    """Spaces that an added word would swallow are text, and encoded as such."""
    tokenizer = byte_level()
    tokenizer.add_tokens([tokenizers.AddedToken("yes!", normalized=False, **{side: True})])
    words = read(tokenizer.to_str())
    ids = words.encode(b"say   yes!   please")
    assert words.decode(ids) == b"say   yes!   please"
    assert tokenizer.token_to_id("yes!") in ids


def test_tokens_beyond_the_width_are_not_used() -> None:
    """Text becomes no id that the logits do not have, though the file has a token for it."""
    text = train(300)
    added = {entry["content"]: entry["id"] for entry in json.loads(text)["added_tokens"]}
    for size in range(min(index for index in added.values() if index), max(added.values()) + 2):
        words = read(text, config={"vocab_size": size})
        data = b"the    cat <a> sat <b> on <|end|>"
        ids = words.encode(data)
        assert max(ids) < size
        assert words.decode(ids) == data
        assert (added["    "] in ids) == (added["    "] < size)


def test_merges_that_make_a_control_token() -> None:
    """Text whose pieces merge into a control token is spelt otherwise."""
    data = json.loads(train(300, spaces=False))
    pieces = data["model"]["vocab"]
    first = len(pieces) + len(data["added_tokens"])
    pieces |= {"<|": first, "|>": first + 1, "<||>": first + 2}
    data["model"]["merges"] += [["<", "|"], ["|", ">"], ["<|", "|>"]]
    data["added_tokens"][0] |= {"content": "<||>", "id": pieces["<||>"]}
    words = read(json.dumps(data))
    assert words.controls["<||>"] == pieces["<||>"]
    ids = words.encode(b"a <||> b")
    assert words.controls["<||>"] not in ids
    assert words.decode(ids) == b"a <||> b"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "is not a tokenizer.json"),
        ('{"model": {"type": "WordPiece", "vocab": {"a": 0}}}', "WordPiece"),
        ('{"model": {"type": "Unigram", "vocab": [["a", 0.0]]}}', "Unigram"),
        ('{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}', "byte fallback"),
        (
            '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "end_of_word_suffix": "w"}}',
            "end_of_word_suffix",
        ),
        (
            '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": 3, "byte_fallback": true}}',
            "refuses",
        ),
    ],
)
def test_refusals(tmp_path: Path, content: str, message: str) -> None:
    """A file that is no usable tokenizer gives one VocabularyError that names file and reason."""
    file = tmp_path / "tokenizer.json"
    file.write_text(content)
    with pytest.raises(VocabularyError, match=message) as caught:
        Vocabulary.from_file(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data["added_tokens"][0].pop("id"), "'id'"),
        (lambda data: data["model"]["vocab"].update(a=1.5), "1.5 is no token's id"),
        (lambda data: data["model"]["vocab"].update(a=True), "True is no token's id"),
        (lambda data: data["model"]["vocab"].update(a=-5), "-5 is no token's id"),
        (lambda data: data["model"]["vocab"].update(a=10**12), "1000000000000 is no token's id"),
        (lambda data: data["model"]["vocab"].update({"\ud800": 1}), "surrogates not allowed"),
        (lambda data: data.update(added_tokens=5), "not iterable"),
        (lambda data: data["pre_tokenizer"].pop("type"), "'type'"),
    ],
)
def test_damaged_files(tmp_path: Path, change: Callable[[Any], Any], said: str) -> None:
    """A tokenizer that JSON can hold and that makes no sense is one VocabularyError, naming the file."""
    data = json.loads(train(300))
    change(data)
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(data))
    with pytest.raises(VocabularyError, match=f"is damaged .*{re.escape(said)}") as caught:
        Vocabulary.from_file(file)
    assert str(file) in str(caught.value)


def test_damaged_configurations() -> None:
    """What configurations should say and do not is not heeded; an absurd width is an error."""
    text = train(300)
    known = read(text)
    assert read(text, config={"text_config": "abc"}).size == known.size
    assert read(text, generation_config={"eos_token_id": [None, "x", 0]}).ends == {0}
    for size in ("abc", 10**12, -1, [3]):
        with pytest.raises(VocabularyError, match=r"config\.json: vocab_size is"):
            read(text, config={"vocab_size": size})


def test_missing_file(tmp_path: Path) -> None:
    """A missing file and an unknown format are said to be so."""
    with pytest.raises(VocabularyError, match="no such file"):
        Vocabulary.from_file(tmp_path / "nothing.json")
    with pytest.raises(VocabularyError, match="no known vocabulary format"):
        Vocabulary.from_file(tmp_path)
    with pytest.raises(VocabularyError, match=r"xxx: (cannot be read|there is no such file)"):
        Vocabulary.from_file("x" * 300)


def test_size_from_configuration() -> None:
    """The width of the logits is what config.json says, also inside text_config; else the tokens'."""
    text = train(300, spaces=False)
    count = 1 + max(t["id"] for t in json.loads(text)["added_tokens"])
    assert read(text).size == count
    assert read(text, config={"vocab_size": 512}).size == 512
    assert read(text, config={"text_config": {"vocab_size": 600}}).size == 600
    cut = read(text, config={"vocab_size": 256})
    assert cut.size == len(cut.tokens) == 256
    assert "<a>" not in cut.controls


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([b"a"], {"<a>": 0}), "taken"),
        (([b"a"], {"<a>": -1}), "taken"),
        (([b""],), "no token"),
        (([b"a"], {}, None, [4]), "ends"),
        (([b"a"], {}, None, [-1]), "ends"),
    ],
)
def test_bad_data(arguments: tuple[object, ...], message: str) -> None:
    """Impossible data is refused when the vocabulary is made."""
    with pytest.raises(VocabularyError, match=message):
        Vocabulary(*arguments)  # type: ignore[arg-type]


def test_missing_bytes() -> None:
    """Text that the tokens cannot spell is refused, not garbled."""
    words = Vocabulary([b"a", b"ab"])
    assert words.encode(b"aba") == [1, 0]
    with pytest.raises(VocabularyError, match="cannot express"):
        words.encode(b"abc")
    with pytest.raises(VocabularyError, match="byte"):
        words.encode(b"\xff")


def test_fingerprint() -> None:
    """Equal data, equal fingerprint; any difference in tokens, controls, ends or size changes it."""
    made = [
        ByteVocabulary(),
        ByteVocabulary(["<a>"]),
        ByteVocabulary(ends=["<a>"]),
        ByteVocabulary(["<a>"], size=300),
        ByteVocabulary(more=[b"ab"]),
        ByteVocabulary(more=[b"a", b"b"]),
    ]
    assert len({words.fingerprint for words in made}) == len(made)
    assert ByteVocabulary(["<a>"]).fingerprint == made[1].fingerprint


def test_nothing_keeps_a_vocabulary() -> None:
    """A vocabulary goes when its user lets it go, even after it was matched with."""
    from callmemaybe.grammar import compile as compile_grammar
    from callmemaybe.grammar.grammar import Grammar, lit
    from callmemaybe.matching import Matcher

    words = ByteVocabulary()
    matcher = Matcher(compile_grammar(Grammar(lit("ab"))), words)
    matcher.mask()
    matcher.forced()
    assert matcher.remaining == 2
    gone = weakref.ref(words)
    del words, matcher
    gc.collect()
    assert gone() is None
