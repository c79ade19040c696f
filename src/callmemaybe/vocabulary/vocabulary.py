"""A vocabulary as frozen data: the bytes of each token id, and how text is encoded.

Control tokens have a name instead of bytes: their bytes are empty, and text that spells one is encoded
as ordinary text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, Self

from callmemaybe import plugins
from callmemaybe.errors import VocabularyError
from callmemaybe.vocabulary.trie import Trie

READERS = "callmemaybe.vocabulary.readers"


class VocabularyReader(Protocol):
    """The type of the constant READER in a module of ``readers/``."""

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` (a file or a folder) looks like this reader's format."""

    def read(self, path: Path, size: int | None, ends: Iterable[int] | None) -> Vocabulary:
        """Read the vocabulary; ``size`` and ``ends`` override the files. Raises VocabularyError."""


class Vocabulary:
    """The tokens of a model: bytes per id, control tokens by name, canonical encoding.

    ``size`` is the width of the model's logits; ids without a token are never allowed.
    ``ends`` are the ids with which the model ends its turn.
    """

    def __init__(
        self,
        tokens: Sequence[bytes],
        controls: Mapping[str, int] | None = None,
        encode: Callable[[str], list[int]] | None = None,
        ends: Iterable[int] = (),
        *,
        size: int | None = None,
        trie: Trie | None = None,
    ) -> None:
        """Take the bytes of each id (empty: a control token or unused) and the control tokens' ids.

        ``encode`` gives the canonical ids of a text; without it the longest token that fits is
        taken, from left to right. ``trie`` is the prefix tree of these tokens, if it exists already.
        Raises VocabularyError for ids out of range, for a control token that also has bytes, and for
        a vocabulary without any token.
        """
        self.size = len(tokens) if size is None else size
        named = {text: index for text, index in (controls or {}).items() if index < self.size}
        for text, index in named.items():
            if index < 0 or (index < len(tokens) and tokens[index]):
                raise VocabularyError(f"control token {text!r} has id {index}, which is taken")
        self.controls: Mapping[str, int] = MappingProxyType(named)
        self.ends = frozenset(ends)
        if self.ends and not (min(self.ends) >= 0 and max(self.ends) < self.size):
            raise VocabularyError(f"ends {sorted(self.ends)} are not all ids below {self.size}")
        padded = [*tokens[: self.size], *[b""] * (self.size - len(tokens))]
        for index in self.ends:
            padded[index] = b""  # an end of turn is not text, even if the file gives it bytes
        self.tokens: tuple[bytes, ...] = tuple(padded)
        if not any(self.tokens):
            raise VocabularyError("the vocabulary has no token")
        self._encode_text = encode
        if trie is not None:
            self.trie = trie
        #: Whether an end token takes nothing of a budget: an output may also stop without one.
        self.has_free_ends = False

    @classmethod
    def from_file(
        cls, path: str | Path, *, size: int | None = None, ends: Iterable[int] | None = None
    ) -> Vocabulary:
        """Read a vocabulary from a file or a model's folder, by the first reader that recognises it.

        ``size`` (the width of the logits) and ``ends`` override the folder's configuration. Raises
        VocabularyError if there is no such file, no reader recognises it, or it is malformed.
        """
        place = Path(path)
        try:
            if not place.exists():
                raise VocabularyError(f"{place}: there is no such file or folder")
            for name in plugins.names(READERS):
                reader: VocabularyReader = plugins.load(READERS, name, "READER")  # type: ignore[assignment]
                if reader.recognises(place):
                    return reader.read(place, size, ends)
        except OSError as error:  # a folder without permission, a name that is too long
            raise VocabularyError(f"{place}: cannot be read: {error}") from error
        raise VocabularyError(f"{place}: no known vocabulary format; expected a tokenizer.json")

    def with_free_ends(self) -> Self:
        """Return the same vocabulary, except that an end token takes nothing of a budget.

        Where a budget ends, an output may then stop without one, as the continuation of a text does.
        """
        found = copy(self)
        found.has_free_ends = True
        return found

    def token(self, index: int) -> bytes:
        """Return the bytes of an id; empty for a control token or an unused id."""
        return self.tokens[index]

    @cached_property
    def trie(self) -> Trie:
        """The prefix tree of all tokens with bytes."""
        return Trie(self.tokens)

    @cached_property
    def names(self) -> Mapping[int, str]:
        """The control tokens' texts by id."""
        return MappingProxyType({index: text for text, index in self.controls.items()})

    @cached_property
    def longest(self) -> int:
        """The bytes of the longest token: a text of n bytes takes at least n / longest tokens."""
        return max(map(len, self.tokens), default=0) or 1

    @cached_property
    def single_bytes(self) -> Mapping[int, int]:
        """The id of each byte that is a token by itself (the lowest id where there are several)."""
        trie = self.trie
        children = range(trie.first_[0], trie.first_[1])
        return MappingProxyType(
            {
                trie.bytes_[child]: trie.order_[trie.low_[child]]
                for child in children
                if trie.own_[child]
            }
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of size, tokens, control tokens and ends; equal data, equal fingerprint."""
        digest = hashlib.sha256(repr((self.size, sorted(self.controls.items()))).encode())
        digest.update(repr(sorted(self.ends)).encode())
        digest.update(b"".join(len(token).to_bytes(4, "little") for token in self.tokens))
        digest.update(b"".join(self.tokens))
        return digest.hexdigest()

    def encode(self, data: bytes) -> list[int]:
        """Return the ids that the tokenizer itself gives for this text; never a control token.

        The bytes of the ids are exactly ``data``: a part that the tokenizer itself would lose or
        change is encoded with the longest tokens that fit. Bytes that are not UTF-8 become
        single-byte tokens. Raises VocabularyError if the vocabulary cannot express the data.
        """
        ids: list[int] = []
        while data:
            try:
                text, spelled, broken, rest = data.decode(), data, b"", b""
            except UnicodeDecodeError as error:
                spelled, broken = data[: error.start], data[error.start : error.end]
                text, rest = spelled.decode(), data[error.end :]
            if text:
                ids += self._encode_exactly(text, spelled)
            ids += [self._byte(byte) for byte in broken]
            data = rest
        return ids

    def decode(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of these ids; control tokens have none."""
        return b"".join(map(self.tokens.__getitem__, ids))

    def _byte(self, byte: int) -> int:
        if byte not in self.single_bytes:
            raise VocabularyError(f"the vocabulary has no token for the byte {bytes([byte])!r}")
        return self.single_bytes[byte]

    def _encode_exactly(self, text: str, data: bytes) -> list[int]:
        """Return ids whose bytes are ``data`` (``text`` in UTF-8): the tokenizer's, as far as it keeps them."""
        if self._encode_text is None:
            return self._encode_longest(data)
        ids = self._encode_text(text)
        try:
            if self.decode(ids) == data:
                return ids
        except IndexError:
            pass  # a token of the file outside the width of the logits
        # Pre-tokenizers may drop spaces, bytes may have no token, and the character that stands for a
        # space in tokens may be in the text. The ids before and behind such a place are kept.
        tokens = [self.tokens[index] if index < self.size else b"" for index in ids]
        low, high, start, end = 0, len(ids), 0, len(data)
        while low < high and tokens[low] and data.startswith(tokens[low], start):
            start += len(tokens[low])
            low += 1
        while low < high and tokens[high - 1] and data.endswith(tokens[high - 1], start, end):
            high -= 1
            end -= len(tokens[high])
        return [*ids[:low], *self._encode_longest(data[start:end]), *ids[high:]]

    def _encode_longest(self, data: bytes) -> list[int]:
        at, ids, trie = 0, [], self.trie
        while at < len(data):
            node, depth, best = 0, 0, (-1, 0)
            while at + depth < len(data) and (node := trie.child(node, data[at + depth])) >= 0:
                depth += 1
                if trie.own_[node]:
                    best = (int(trie.order[trie.low[node]]), depth)
            index, length = best
            if index < 0:
                rest = data[at : at + 20].decode(errors="replace")
                raise VocabularyError(
                    f"the vocabulary cannot express {rest!r}; leave it out, or use a model whose "
                    "tokenizer knows every byte"
                )
            ids.append(index)
            at += length
        return ids

    def __repr__(self) -> str:
        known = sum(map(bool, self.tokens))
        return f"<Vocabulary of {known} tokens, {len(self.controls)} controls, size {self.size}>"
