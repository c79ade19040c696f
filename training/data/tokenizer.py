"""nano's own byte-level BPE, that splits a word at the same places wherever it stands.

Every digit, mark and whitespace character stands alone; only letters merge, with at most one space
before them. Merges are learnt on words in lower case and then mirrored: `paris`, `Paris`, `PARIS`, ` paris` and ` Paris`
are cut at the same places. Merges with the space come last, so a word behind a space is the word with its first token exchanged
for the one that has the space: copying into quotes is verbatim but for that token.

So a token is a *base* (the piece in lower case, no space) with a *form*; the network has one vector
for each base and one for each form.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import regex
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from callmemaybe.tuning.rendering import CONTROL_TOKENS
from callmemaybe.tuning.token_forms import SPACE

PATTERN = r" ?(?:\p{Lu}?\p{Ll}+|\p{Lu}+(?!\p{Ll})|[\p{Lt}\p{Lm}\p{Lo}]+)|\s|[^\s\p{L}]|\p{L}"


def words(texts: Iterable[str]) -> Counter[str]:
    """Words as they are written, without their spaces."""
    found: Counter[str] = Counter()
    pattern = regex.compile(PATTERN)
    for text in texts:
        found.update(m.strip() for m in pattern.findall(text))
    return found


def learn(counts: Mapping[str, int], size: int) -> list[tuple[str, str]]:
    """Learn merges of lower-case ASCII words."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, max_token_length=14)
    lower: Counter[str] = Counter()
    for word, count in counts.items():
        if word.isascii() and word.isalpha():
            lower[word.lower()] += count
    tokenizer.train_from_iterator(
        (" ".join([word] * count) for word, count in sorted(lower.items())), trainer
    )
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [(left, right) for left, right in merges]


def build(counts: Mapping[str, int], size: int) -> Tokenizer:
    """Build the tokenizer: `size` pieces in lower case, and their other forms."""
    merges = learn(counts, size)
    firsts = first_pieces(merges, counts)
    every: list[tuple[str, str]] = []
    for left, right in merges:
        # The capital form goes first: in a run of one letter (`aaa`, `Aaa`) both are open to it, and the
        # letter case must not decide where the run is cut.
        every.append((left.capitalize(), right))
        every.append((left, right))
        every.append((left.upper(), right.upper()))
    bare = [*"abcdefghijklmnopqrstuvwxyz", *(a + b for a, b in merges)]
    for piece in bare:
        if piece in firsts:
            every += [(SPACE, piece), (SPACE, piece.capitalize())]
    seen: set[tuple[str, str]] = set()
    every = [pair for pair in every if not (pair in seen or seen.add(pair))]  # type: ignore[func-returns-value]
    symbols = [*CONTROL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    symbols += dict.fromkeys(left + right for left, right in every)
    vocabulary = {symbol: number for number, symbol in enumerate(dict.fromkeys(symbols))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=every))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in CONTROL_TOKENS]
    )
    return tokenizer


def first_pieces(merges: list[tuple[str, str]], counts: Mapping[str, int]) -> set[str]:
    """Pieces that words begin with."""
    symbols = {c: i for i, c in enumerate("abcdefghijklmnopqrstuvwxyz")}
    for left, right in merges:
        symbols.setdefault(left + right, len(symbols))
    plain = Tokenizer(models.BPE(vocab=symbols, merges=merges))
    found: Counter[str] = Counter()
    for word, count in counts.items():
        if word.isascii() and word.isalpha():
            found[plain.encode(word.lower()).tokens[0]] += count
    return {piece for piece, count in found.items() if count >= 2}


def load(path: Path) -> Tokenizer:
    return Tokenizer.from_file(str(path))
