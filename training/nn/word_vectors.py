"""Meanings of a run's tokens before training: vectors of WordNet, and of word associations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from callmemaybe.tuning import token_forms
from callmemaybe.tuning.network import whole_words
from callmemaybe.tuning.network.whole_words import WholeWords
from training.data import association_vectors, associations, foreign_words, wordnet_vectors
from training.files import atomic_write
from training.recipe import Recipe


def documents(recipe: Recipe) -> list[list[str]]:
    """The words of each training function and its requests: a document per function."""
    found = []
    for function in recipe.functions("train"):
        texts = [*function.names, *function.abouts, *function.requests]
        for parameter in function.parameters:
            texts += [*parameter.names, *parameter.abouts]
        found.append(wordnet_vectors.words(" ".join(texts).replace("_", " ")))
    talk = recipe.dialogues("train")
    for name, tool in talk.tools.items() if talk else ():
        said = [example[0] for example in talk.examples[name][:40]] if talk else []
        found.append(wordnet_vectors.words(" ".join([json.dumps(tool), *said])))
    return found


def compute_word_vectors(
    recipe: Recipe, tokenizer: Tokenizer, width: int, begun: np.ndarray | None = None
) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Vectors [bases, width]; and of words that are cut, the commonest first, by their keys: what they mean
    beyond their last piece. `begun`: see `_both_vectors`."""
    bases = token_forms.forms(tokenizer)[0]
    said = documents(recipe)
    lines = [[head, *words] for head, words in associations.read()]
    pieces = whole_words.split_words(tokenizer, wordnet_vectors.common([*said, *lines]))
    brought = recipe.table["model"].get("associations", 0)
    every = _both_vectors([*bases, *pieces], brought, width, said, begun)
    of_bases, of_words = np.split(every, [len(bases)])
    listed = list(pieces.values())
    return of_bases, {
        whole_words.key(listed[number]): of_words[number] - of_bases[listed[number][-1]]
        for number in np.flatnonzero(np.abs(of_words).sum(1))
    }


def load_word_vectors(
    recipe: Recipe, tokenizer: Tokenizer, width: int
) -> tuple[torch.Tensor, WholeWords]:
    """Vectors [bases, width], and those of words that are cut; computed once for a run and stored in its folder."""
    file, wholes_file = recipe.out / "lexicon.npy", recipe.out / "wholes.npz"
    if not wholes_file.is_file() or np.load(wholes_file)["more"].shape[1] != width:
        begun = np.load(file) if file.is_file() else None  # of a run that knew less of words
        of_bases, of_words = compute_word_vectors(recipe, tokenizer, width, begun)
        common = dict(list(of_words.items())[: recipe.table["model"]["words"]])
        with atomic_write(file) as part:
            np.save(part, of_bases)
        common |= foreign_meanings(
            tokenizer, of_bases, common, recipe.table["model"].get("foreign", 0)
        )
        write_wholes(wholes_file, common, width)
    kept = np.load(wholes_file)
    whole = WholeWords(token_forms.forms(tokenizer)[0], kept["keys"].tolist(), kept["more"])
    return torch.from_numpy(np.load(file)), whole


def write_wholes(file: Path, meanings: Mapping[int, np.ndarray], width: int) -> None:
    """Write what words that are cut mean beyond their last piece, by their keys."""
    more = np.array(list(meanings.values()), np.float32).reshape(-1, width)
    with atomic_write(file) as part:
        np.savez(part, keys=np.array(list(meanings), np.int64), more=more)


def foreign_meanings(
    tokenizer: Tokenizer, of_bases: np.ndarray, known: Mapping[int, np.ndarray], most: int
) -> dict[int, np.ndarray]:
    """What words of other languages mean beyond their last piece, by their keys: the mean of what their translations
    do. Words of which nothing is known are left out, as are those that `known` has: they are English words, too."""
    bases = token_forms.forms(tokenizer)[0]
    number = {base: n for n, base in enumerate(bases)}
    words = foreign_words.read() if most else {}
    english = sorted({each.lower() for found in words.values() for each in found})
    pieces = whole_words.split_words(tokenizer, english)

    def meaning(word: str) -> np.ndarray | None:
        if word in number:
            return of_bases[number[word]]
        more = known.get(whole_words.key(pieces[word])) if word in pieces else None
        return None if more is None else more + of_bases[pieces[word][-1]]

    found = {}
    for word, cut in whole_words.foreign_pieces(tokenizer, words).items():
        each = [m for w in words[word] if (m := meaning(w.lower())) is not None and m.any()]
        key = whole_words.key(cut)
        if each and key not in known and len(found) < most:
            found[key] = np.mean(each, 0) - of_bases[cut[-1]]
    return found


def _both_vectors(
    targets: list[str], brought: int, width: int, said: list[list[str]], begun: np.ndarray | None
) -> np.ndarray:
    """Float32[len(targets), width]: WordNet's vectors, followed by `brought` numbers of associations.

    `begun` are the first targets' vectors as a network has learnt to read them: newly computed vectors are
    rotated towards them, part by part, and the WordNet part of the first targets stays.
    """
    width_of_wordnet = width - brought
    found = wordnet_vectors.vectors(targets, width_of_wordnet, said)
    more = association_vectors.vectors(targets, brought)
    if begun is not None:
        found = wordnet_vectors.rotated(found, found[: len(begun)], begun[:, :width_of_wordnet])
        found[: len(begun)] = begun[:, :width_of_wordnet]
        if begun.shape[1] == width:
            more = wordnet_vectors.rotated(more, more[: len(begun)], begun[:, width_of_wordnet:])
    return np.hstack((found, more))
