"""Meanings of words that the vocabulary splits into pieces.

A vocabulary of six thousand pieces cuts every sixth word (`les|sons`, `pup|il`), and those are the words
that tell functions apart. So the last piece of a word takes the meaning of the whole word instead of its
own: it is found by the bases of up to three pieces, in a table without collisions (hash and displace:
Belazzougui, Botelho & Dietzfelbinger, 2009), so that the exported graph finds it, too.

Words of other languages are cut into up to eight, as the vocabulary has no pieces with accents: the bytes of
those letters count as letters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn

from callmemaybe.tuning import token_forms

PIECES = 3  # of an English word
MOST_PIECES = 8  # of any word: the places that are looked at
#: Bytes of the letters of French, German and Spanish that are not ASCII, as the vocabulary writes them. The other bytes
#: belong to dashes and quotation marks, too ("Ü" shares one with an opening quotation mark).
ACCENTS = frozenset("éèêçâîïôùûüöäßñáíóúœÉÈÊÇÂÎÔÖÄÑÁÓÚ")
FACTOR = 0x5851F42D4C957F2D  # odd; of Knuth's MMIX generator
LOAD, TRIES = 0.97, 50  # share of the places that are taken, if so many fit; sizes that are tried
#: By form: what letters a piece goes on with (1: small ones, perhaps behind a capital; 2: capitals;
#: a piece with a space or a capital begins a word), and what letters it is.
GOES_ON, IS = (1, 9, 2, 9, 9, 9), (1, 1, 2, 1, 1, 2)
Places = NDArray[np.int64]


def byte_codes() -> dict[int, str]:
    """How byte-level BPE writes each byte: printable ones as they are, others from U+0100 on (as GPT-2 does)."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in kept]
    return {byte: chr(byte) for byte in kept} | {byte: chr(256 + n) for n, byte in enumerate(rest)}


CODES = byte_codes()


def powers(count: int) -> Tensor:
    """int64 [count]: powers of `FACTOR`, modulo 2**64."""
    return torch.tensor([signed(pow(FACTOR, n, 1 << 64)) for n in range(count)])


def signed(number: int) -> int:
    """The number that int64 makes of it."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def key(pieces: Sequence[int]) -> int:
    """A hash of the bases of a word, as `suffix_hashes` has it."""
    return signed(sum(base * FACTOR**n for n, base in enumerate(reversed(pieces))))


def suffix_hashes(bases: Tensor) -> Tensor:
    """Hashes of the last one, two, three ... of bases [..., n], the last first."""
    return torch.cumsum(bases * powers(bases.shape[-1]).to(bases.device), -1)


def split_words(tokenizer: Tokenizer, words: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The bases of words (in lower case) that are cut into two or three."""
    bases, base, _, _ = token_forms.forms(tokenizer)
    found = {}
    for word in words:
        pieces = tokenizer.encode(word, add_special_tokens=False).ids
        if 1 < len(pieces) <= PIECES and word == "".join(bases[base[piece]] for piece in pieces):
            found[word] = tuple(int(base[piece]) for piece in pieces)
    return found


def byte_pieces(text: str) -> list[str]:
    """The bytes of a text as a byte-level vocabulary writes those beyond ASCII."""
    return [CODES[byte] for byte in text.encode()]


def foreign_pieces(tokenizer: Tokenizer, words: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The bases of words of other languages (in lower case, or with a capital that has an accent), cut into two to
    `MOST_PIECES`.
    """
    bases, base, _, _ = token_forms.forms(tokenizer)
    found = {}
    for word in words:
        pieces = [int(base[n]) for n in tokenizer.encode(word, add_special_tokens=False).ids]
        text = "".join(byte_pieces(word))
        if 1 < len(pieces) <= MOST_PIECES and "".join(bases[n] for n in pieces) == text:
            found[word] = tuple(pieces)
    return found


def prime(least: int) -> int:
    """The first prime from `least` on."""
    while any(least % n == 0 for n in range(2, int(least**0.5) + 1)):
        least += 1
    return least


def perfect_hash(keys: Sequence[int]) -> tuple[Places, Places, Places]:
    """Displacements by bucket, the key at each place (0 where there is none), and the place of each key.

    Raises ValueError if two keys are equal in every table size tried.
    """
    buckets: Mapping[int, list[int]] = defaultdict(list)
    count = max(1, len(keys) // 4)
    for number, each in enumerate(keys):
        buckets[each % count].append(number)
    order = sorted(buckets.items(), key=lambda item: (-len(item[1]), item[0]))
    size = int(len(keys) / LOAD)
    for _ in range(TRIES):
        size = prime(size + 2)
        if found := _perfect_hash_of_size(keys, order, count, size):
            return found
    raise ValueError(f"{len(keys)} words cannot be told apart")


def _perfect_hash_of_size(
    keys: Sequence[int], order: Sequence[tuple[int, list[int]]], count: int, size: int
) -> tuple[Places, Places, Places] | None:
    """`perfect_hash` in `size` places, bucket by bucket in that order; None if one does not fit."""
    held, taken = np.zeros(size, np.int64), np.zeros(size, bool)
    shifts, at = np.zeros(count, np.int64), np.zeros(len(keys), np.int64)
    for bucket, members in order:
        firsts = np.array([keys[n] % size for n in members])
        for shift in range(size):
            to = (firsts + shift) % size
            if not taken[to].any() and len(set(to.tolist())) == len(to):
                break
        else:
            return None
        shifts[bucket], at[members] = shift, to
        held[to], taken[to] = [keys[n] for n in members], True
    return shifts, held, at


class WholeWords(nn.Module):
    """Finds what the meaning of a place's token lacks to that of the word that it may end."""

    def __init__(
        self, bases: Sequence[str], keys: Sequence[int], more: NDArray[np.float32]
    ) -> None:
        """`more` [words, lexicon]: what the words with these `keys` mean beyond their last piece."""
        shifts, held, at = perfect_hash(keys)
        rows = np.zeros((len(held) + 1, more.shape[1]), np.float32)
        rows[at] = more
        self.set_tables(bases, shifts, held, rows)

    @classmethod
    def from_tables(
        cls, bases: Sequence[str], shifts: Places, held: Places, rows: NDArray[np.float32]
    ) -> WholeWords:
        """Return the table that a graph holds, without hashing its words again."""
        made = cls.__new__(cls)
        made.set_tables(bases, shifts, held, rows)
        return made

    def set_tables(
        self, bases: Sequence[str], shifts: Places, held: Places, rows: NDArray[np.float32]
    ) -> None:
        """Register the buffers; `held` [places], `rows` [places + 1, lexicon]."""
        super().__init__()
        accents = {piece for letter in ACCENTS for piece in byte_pieces(letter)}
        letters = np.array(
            [(base.isascii() and base.isalpha()) or base in accents for base in bases], np.int64
        )
        values: dict[str, Any] = {"letters": letters, "shifts": shifts, "held": held, "rows": rows}
        values |= {"goes_on": np.array(GOES_ON), "shape": np.array(IS)}
        for name, value in values.items():
            self.register_buffer(name, torch.from_numpy(value))
        self.buckets, self.places = len(shifts), len(held)

    def _load_from_state_dict(self, *_: Any) -> None:
        """The table belongs to the run's files; what a checkpoint holds of it is not read."""

    def forward(self, hashes: Tensor, bases: Tensor, forms: Tensor) -> Tensor:
        """What to add to the meaning of a place's token [..., lexicon].

        bases, forms [..., MOST_PIECES]: of the tokens at the place, one before it, two before it ...; hashes: of
        `bases`. Segments need not be separated here, because none begins with
        letters.
        """
        letters = self.shape[forms[..., 1:]] * self.letters[bases[..., 1:]]
        joined = (self.goes_on[forms[..., :-1]] == letters).long().split(1, -1)
        run, count = joined[0], joined[0]
        for each in joined[1:]:
            run = run * each
            count = count + run
        found = torch.gather(hashes, -1, count)  # [..., 1]
        place = (found % self.places + self.shifts[found % self.buckets]) % self.places
        place = torch.where(self.held[place] == found, place, self.places)
        return self.rows[place[..., 0]]
