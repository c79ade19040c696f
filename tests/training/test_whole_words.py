"""Words that the vocabulary cuts mean what whole words mean."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")
pytest.importorskip("scipy", reason="training needs scipy")

import numpy as np  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from callmemaybe.tuning import token_forms  # noqa: E402
from callmemaybe.tuning.network import whole_words  # noqa: E402
from training.data import tokenizer as tokenizers  # noqa: E402
from training.data import wordnet_vectors  # noqa: E402
from training.recipe import ROOT  # noqa: E402

TOKENIZER = tokenizers.load(ROOT / "src/callmemaybe/data/nano/tokenizer.json")
BASES, BASE, FORM, _ = token_forms.forms(TOKENIZER)
WORDS = ("lessons", "pupil", "homework", "queue", "archive", "weekday", "owe", "dishwasher")


def looked_up(table: whole_words.WholeWords, text: str) -> np.ndarray:
    """What each token of a text gets: the number of a word (from 1), 0 for none."""
    begin = TOKENIZER.token_to_id("<|user|>")
    ids = np.array([begin, *TOKENIZER.encode(text, add_special_tokens=False).ids])
    at = np.arange(len(ids))[:, None] - np.arange(whole_words.MOST_PIECES)
    window = ids[np.maximum(at, 0)]
    bases, forms = (torch.from_numpy(each[window]) for each in (BASE, FORM))
    return table(whole_words.suffix_hashes(bases), bases, forms)[:, 0].numpy()


@pytest.fixture(scope="module")
def table() -> whole_words.WholeWords:
    pieces = whole_words.split_words(TOKENIZER, WORDS)
    assert list(pieces) == list(WORDS)
    more = np.arange(1, len(WORDS) + 1, dtype=np.float32)[:, None]
    return whole_words.WholeWords(BASES, [whole_words.key(each) for each in pieces.values()], more)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lessons", ["lessons"]),
        (" Lessons for each pupil", ["lessons", "pupil"]),
        ("list_lessons getHomework", ["lessons", "homework"]),
        ("ARCHIVE a Weekday", ["archive", "weekday"]),
        ("12 queue/owe.dishwasher", ["queue", "owe", "dishwasher"]),
        ("less sons pup illness homeWork les sons", []),
    ],
)
def test_a_word_is_found_in_every_form_and_nowhere_else(
    table: whole_words.WholeWords, text: str, words: list[str]
) -> None:
    """The last piece of a word tells it, however it is written and whatever stands around it."""
    found = [WORDS[int(number) - 1] for number in looked_up(table, text) if number]
    assert found == words


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(-(2**63), 2**63 - 1), max_size=300))
def test_every_key_has_a_place_of_its_own(keys: set[int]) -> None:
    """Hash and displace loses no key and gives no place twice."""
    listed = sorted(keys)
    shifts, held, at = whole_words.perfect_hash(listed)
    assert len(set(at.tolist())) == len(listed)
    assert [int(each) for each in held[at]] == listed
    for key, place in zip(listed, at.tolist(), strict=True):
        assert (key % len(held) + int(shifts[key % len(shifts)])) % len(held) == place


def test_turning_brings_an_analysis_back() -> None:
    """Vectors of a turned basis are turned back by what both bases have in common."""
    rng = np.random.default_rng(0)
    old = rng.normal(size=(50, 8))
    turn = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    others = rng.normal(size=(5, 8))
    assert np.allclose(wordnet_vectors.rotated(others @ turn, old @ turn, old), others, atol=1e-5)


def test_inflections_are_spelt() -> None:
    """Words go on as English spells them."""
    assert wordnet_vectors.inflected("query") == ["queries", "queried", "querying"]
    assert wordnet_vectors.inflected("merge") == ["merges", "merged", "merging"]
    assert wordnet_vectors.inflected("fetch") == ["fetches", "fetched", "fetching"]
    assert wordnet_vectors.inflected("play")[0] == "plays"
