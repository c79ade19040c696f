"""nano's vocabulary cuts a word at the same places wherever it stands."""

from __future__ import annotations

from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

FILE = Path(__file__).parents[2] / "src/callmemaybe/data/nano/tokenizer.json"
TOKENIZER = Tokenizer.from_file(str(FILE))
TOKENIZER.encode_special_tokens = True
SPACE = "Ġ"
WORDS = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=14)


def tokens(text: str) -> list[str]:
    return list(TOKENIZER.encode(text, add_special_tokens=False).tokens)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_nothing_is_lost(text: str) -> None:
    """Any text comes back, control tokens written as text included."""
    for each in (text, f"<|call|>{text}<|end|>"):
        assert TOKENIZER.decode(TOKENIZER.encode(each).ids, skip_special_tokens=False) == each


@settings(max_examples=200, deadline=None)
@given(WORDS)
def test_a_space_changes_the_first_token_only(word: str) -> None:
    """Behind a space a word has the tokens it has without, the space on the first or before it."""
    for each in (word, word.capitalize()):
        bare, spaced = tokens(each), tokens(f" {each}")
        assert spaced in ([SPACE + bare[0], *bare[1:]], [SPACE, *bare])


@settings(max_examples=200, deadline=None)
@given(WORDS)
@example("aaa")
@example("bbbbb")
def test_case_changes_no_cut(word: str) -> None:
    """`Word` and `WORD` are cut where `word` is."""
    lengths = [len(token) for token in tokens(word)]
    assert [len(token) for token in tokens(word.capitalize())] == lengths
    if len(word) > 1:
        assert [len(token) for token in tokens(word.upper())] == lengths


@settings(max_examples=100, deadline=None)
@given(WORDS, st.sampled_from(['"', "/", "_", "-", "(", "'", "7"]))
def test_marks_and_digits_stand_alone(word: str, mark: str) -> None:
    """A word behind a quote, a slash or a digit is the word alone."""
    assert tokens(mark + word) == [mark, *tokens(word)]
