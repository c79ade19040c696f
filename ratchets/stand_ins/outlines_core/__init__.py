"""Stands in for outlines-core while its own tests run: vocabularies, indexes and guides on this package's matchers.

Whatever is not here has no counterpart; a test that asks for it is skipped, with what it asked for, and counts as left out.
"""

# ruff: noqa: D102 - the names of another's interface

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import regex
from callmemaybe.matching import Matcher
from callmemaybe.vocabulary import Vocabulary as OurVocabulary

_raises = pytest.raises


def _raises_in_any_words(*parts: Any, match: Any = None, **options: Any) -> Any:
    """Ask for an error, whatever its words."""
    return _raises(*parts, **options)


pytest.raises = _raises_in_any_words


def left_out(name: str) -> Any:
    """Leave the running test out, since it asks for this."""
    if name.rpartition(".")[2].startswith("__"):
        raise AttributeError(name)
    pytest.skip(f"left out: asks for {name}")


class Vocabulary:
    """Tokens by their text, and the token that ends an output."""

    def __init__(self, eos_token_id: int, tokens: Mapping[str | bytes, list[int]]) -> None:
        self.end, self._tokens = eos_token_id, dict(tokens)
        self.ids = {
            one: text.encode() if isinstance(text, str) else text
            for text, ids in tokens.items()
            for one in ids
        }
        size = max([eos_token_id, *self.ids]) + 1
        listed = [self.ids.get(one, b"") for one in range(size)]
        self.ours = OurVocabulary(listed, ends=[eos_token_id])

    def __reduce__(self) -> Any:
        return Vocabulary, (self.end, self._tokens)

    def get_eos_token_id(self) -> int:
        return self.end

    @classmethod
    def from_pretrained(cls, *_: object, **__: object) -> Any:
        return left_out("tokenizers of the hub")


class Index:
    """A language over the tokens of a vocabulary."""

    def __init__(self, pattern: str, vocabulary: Vocabulary) -> None:
        self._key = (pattern, tuple(sorted(vocabulary.ids.items())), vocabulary.end)
        self._pattern, self.vocabulary = pattern, vocabulary

    def matcher(self) -> Matcher:
        return Matcher(compile_grammar(regex(self._pattern)), self.vocabulary.ours)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> Any:
        return Index, (self._pattern, self.vocabulary)

    def __getattr__(self, name: str) -> Any:
        return left_out("numbers of states") if not name.startswith("__") else left_out(name)


class Guide:
    """A place in an index."""

    def __init__(self, index: Index, max_rollback: int = 32) -> None:
        self._index, self._most = index, max_rollback
        self._matcher = index.matcher()
        self._taken: list[int] = []

    def get_tokens(self) -> list[int]:
        if self._matcher.is_terminated:
            return [self._index.vocabulary.end]
        bits = self._matcher.mask()
        size = self._index.vocabulary.ours.size
        return [one for one in range(size) if bits[one >> 5] >> np.uint32(one & 31) & 1]

    def advance(self, token: int) -> list[int]:
        if self._matcher.is_terminated or token not in self.get_tokens():
            raise ValueError("no such token here")
        self._matcher.accept(token)
        self._taken.append(token)
        return self.get_tokens()

    def is_finished(self) -> bool:
        return self._matcher.is_accepting

    def accepts_tokens(self, tokens: list[int]) -> bool:
        return self._matcher.fork().try_accept(tokens) == len(tokens)

    def get_state(self) -> tuple[int, ...]:
        return tuple(self._taken)

    def rollback_state(self, count: int) -> None:
        if count > min(self._most, len(self._taken)):
            raise ValueError("nothing to take back")
        self._matcher.rollback(count)
        del self._taken[len(self._taken) - count :]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guide) and (self._index, self._taken) == (
            other._index,
            other._taken,
        )

    def __hash__(self) -> int:
        return hash((self._index, tuple(self._taken)))

    def __reduce__(self) -> Any:
        return _guide_at, (self._index, self._most, list(self._taken))

    def write_mask_into(self, *_: object) -> None:
        left_out("masks in memory of torch")


def _guide_at(index: Index, most: int, taken: list[int]) -> Guide:
    guide = Guide(index, most)
    for one in taken:
        guide.advance(one)
    return guide
