"""The prefix tree holds exactly its tokens, wherever one looks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.vocabulary.trie import Trie
from tests.vocabulary.samples import vocabulary

tokens = st.lists(st.binary(max_size=4).map(lambda raw: bytes(b % 3 for b in raw)), min_size=1)


@given(tokens.filter(any))
@settings(max_examples=60, deadline=None)
def test_tree_of_sorted_tokens(words: list[bytes]) -> None:
    """Every prefix is one node; it knows its children in order, its own tokens and those below."""
    trie = Trie(words)
    prefixes = {w[:n] for w in words for n in range(len(w) + 1) if w}
    assert len(trie.byte) == len(prefixes) == len(trie.first) - 1
    for prefix in prefixes:
        node = trie.find(prefix)
        assert trie.depth(node) == len(prefix)
        children = range(trie.first[node], trie.first[node + 1])
        follow = sorted({p[-1] for p in prefixes if p[:-1] == prefix and p})
        assert [trie.bytes_[child] for child in children] == follow
        own = [i for i, w in enumerate(words) if w == prefix and w]
        below = {i for i, w in enumerate(words) if w.startswith(prefix) and w}
        assert trie.ids_at(node).tolist() == own
        assert set(trie.ids_below(node).tolist()) == below
    absent = {p + bytes([b]) for p in prefixes for b in range(3)} - prefixes
    assert all(trie.find(text) == -1 for text in absent)


@given(tokens.filter(any), st.data())
@settings(max_examples=30, deadline=None)
def test_tokens_of_several_nodes(words: list[bytes], data: st.DataObject) -> None:
    """ids_of() is ids_at() of each node, one after the other."""
    trie = Trie(words)
    nodes = data.draw(st.lists(st.integers(0, len(trie.byte) - 1)))
    expected = [i for node in nodes for i in trie.ids_at(node).tolist()]
    assert trie.ids_of(np.array(nodes, np.int32)).tolist() == expected


@given(st.lists(st.binary(max_size=4), max_size=20, unique=True), st.data())
def test_children_of_several_nodes(words: list[bytes], data: st.DataObject) -> None:
    """children_of() is what `first` says of each node, one after the other."""
    trie = Trie(words)
    nodes = data.draw(st.lists(st.integers(0, len(trie.byte) - 1)))
    children, counts = trie.children_of(np.array(nodes, np.intp))
    expected = [list(range(trie.first_[node], trie.first_[node + 1])) for node in nodes]
    assert children.tolist() == [child for each in expected for child in each]
    assert counts.tolist() == [len(each) for each in expected]


@pytest.mark.parametrize("name", ["bytes", "crossing", "toy", "nano", "smollm2", "qwen3"])
def test_every_token_is_found(name: str) -> None:
    """Each id is listed at the node of its bytes, and only ids with bytes are in the tree."""
    words = vocabulary(name)
    trie = words.trie
    step = max(1, words.size // 3000)
    for index in range(0, words.size, step):
        if words.tokens[index]:
            assert index in trie.ids_at(trie.find(words.tokens[index]))
    assert sorted(trie.order.tolist()) == [i for i, token in enumerate(words.tokens) if token]


@given(
    tokens.filter(any), st.binary(min_size=1, max_size=6).map(lambda raw: bytes(b % 3 for b in raw))
)
@settings(max_examples=60, deadline=None)
def test_endings(words: list[bytes], data: bytes) -> None:
    """No length at which the end of a text begins a longer token is left out."""
    lengths = list(Trie(words).suffix_lengths(data))
    expected = [
        n
        for n in range(1, len(data) + 1)
        if any(w.startswith(data[-n:]) and len(w) > n for w in words)
    ]
    assert lengths == sorted(set(lengths))
    assert set(expected) <= set(lengths)
    assert all(n <= len(data) for n in lengths)


def test_endings_of_long_tokens() -> None:
    """Tokens of any length are covered: Qwen has runs of more than a hundred spaces."""
    trie = Trie([b" " * 128, b"x"])
    assert list(trie.suffix_lengths(b" " * 100)) == list(range(1, 101))
    assert len(list(trie.suffix_lengths(b"ab" * 40))) <= 2
