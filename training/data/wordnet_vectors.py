"""What words mean before training begins: vectors from WordNet's glosses.

A thousand functions are too few to learn from that "how hot is it" asks for a temperature. WordNet states
it: each of its 117,000 synsets is taken as a small document (its words, its gloss, the words of
its hypernyms), and latent semantic analysis (Deerwester et al., 1990) of the words' counts in them
gives every word a short vector. The network adds the vector of a token to its embedding.

WordNet 3.0 (Princeton University, https://wordnet.princeton.edu, free licence) is read from the
files of Debian's `wordnet-base`; without them the vectors are zero and only training is left.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import svds

FOLDER = Path("/usr/share/wordnet")
PARTS = ("noun", "verb", "adj", "adv")
OWN, ABOVE, GLOSS = 4.0, 1.5, 1.0
TOLD = 5  # what a text about a function counts, in uses of a word by WordNet
INFLECTED = 0.15  # and an inflection that does not occur, in uses of its word
WORD = re.compile(r"[a-z]+")
Document = dict[str, float]


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def synsets(folder: Path) -> Iterator[tuple[str, list[str], list[str], str]]:
    """Yield (key, words, keys of the hypernyms, gloss) of every synset."""
    for part in PARTS:
        for line in (folder / f"data.{part}").read_text("utf-8").splitlines():
            if line.startswith("  "):
                continue  # the licence
            head, _, gloss = line.partition("|")
            fields = head.split()
            count = int(fields[3], 16)
            own = [fields[4 + 2 * i].lower() for i in range(count)]
            rest = fields[4 + 2 * count :]
            above = [
                f"{rest[i + 2]}{rest[i + 1]}"
                for i in range(1, 1 + 4 * int(rest[0]), 4)
                if rest[i] in ("@", "&", "+")
            ]
            yield f"{fields[2].replace('s', 'a')}{fields[0]}", own, above, gloss


def documents(folder: Path) -> Iterator[Document]:
    """Turn every synset into weighted words."""
    found = {key: (own, above, gloss) for key, own, above, gloss in synsets(folder)}
    for own, above, gloss in found.values():
        document: Document = defaultdict(float)
        for name in own:
            for word in words(name):
                document[word] += OWN if "_" not in name else 1.0
        for key in above:
            for name in found.get(key, ((), (), ""))[0]:
                if "_" not in name:
                    document[name] += ABOVE
        for word in words(gloss):
            document[word] += GLOSS
        yield document


def counts(folder: Path = FOLDER) -> Counter[str]:
    """Words with how often WordNet uses them: what a vocabulary should know."""
    found: Counter[str] = Counter()
    if folder.is_dir():
        for _, own, _, gloss in synsets(folder):
            found.update(w for name in own for w in words(name))
            found.update(words(gloss))
    return found


def stem(word: str, known: dict[str, int]) -> list[str]:
    """The word and what it may be an inflection of."""
    forms = [word]
    for end, others in (
        ("ies", ("y",)),
        ("es", ("", "e")),
        ("s", ("",)),
        ("ied", ("y",)),
        ("ed", ("", "e")),
        ("ing", ("", "e")),
        ("er", ("", "e")),
        ("ly", ("",)),
    ):
        if word.endswith(end) and len(word) > len(end) + 2:
            bare = word[: -len(end)]
            forms += [bare + other for other in others if bare + other in known]
            if len(bare) > 2 and bare[-1] == bare[-2] and bare[:-1] in known:
                forms.append(bare[:-1])
    return forms


def inflected(word: str) -> list[str]:
    """How a word may go on: `lessons`, `uploaded`, `merging`, `queries`."""
    if word.endswith("y") and word[-2:-1] not in tuple("aeou"):
        return [f"{word[:-1]}ies", f"{word[:-1]}ied", f"{word}ing"]
    if word.endswith("e"):
        return [f"{word}s", f"{word}d", f"{word[:-1]}ing"]
    plural = "es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s"
    return [f"{word}{end}" for end in (plural, "ed", "ing")]


def common(extra: Iterable[Iterable[str]] = (), folder: Path = FOLDER) -> list[str]:
    """Words of WordNet and of `extra`, the commonest first, with inflections that neither has."""
    found = counts(folder)
    for text in extra:
        found.update(dict.fromkeys(set(text), TOLD))
    more: Counter[str] = Counter()
    for word, count in found.items():
        if len(word) > 2:
            more.update({form: count * INFLECTED for form in inflected(word) if form not in found})
    found.update(more)
    return [word for word, _ in sorted(found.items(), key=lambda item: (-item[1], item[0]))]


def rotated(vectors: np.ndarray, here: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Vectors turned as brings those of `here` nearest to those of `there` (Schoenemann, 1966).

    Of other documents the same analysis has axes of its own.
    """
    left, _, right = np.linalg.svd(here.T @ there)
    return np.asarray(vectors @ left @ right, np.float32)


def vectors(
    targets: Sequence[str],
    width: int,
    extra: Iterable[Iterable[str]] = (),
    folder: Path = FOLDER,
    weight: float = 2.0,
) -> np.ndarray:
    """Return float32[len(targets), width]: unit vectors, zero for words without a document.

    `extra` are more documents (of words), such as a training function with its requests.
    """
    gathered: list[Document] = list(documents(folder)) if folder.is_dir() else []
    gathered += [{word: weight * n**0.5 for word, n in Counter(text).items()} for text in extra]
    frequency = Counter(word for document in gathered for word in document)
    known = {word: i for i, word in enumerate(w for w, n in frequency.items() if n > 1)}
    places = ([], [], [])  # type: tuple[list[int], list[int], list[float]]
    for row, document in enumerate(gathered):
        for word, value in document.items():
            if word in known:
                places[0].append(row)
                places[1].append(known[word])
                places[2].append(np.log1p(value) * np.log(len(gathered) / frequency[word]))
    table = sparse.csr_matrix((places[2], places[:2]), shape=(len(gathered), len(known)))
    norms = np.sqrt(np.asarray(table.multiply(table).sum(1)).ravel()) + 1e-9
    table = sparse.diags_array(1 / norms) @ table
    if not known:
        return np.zeros((len(targets), width), np.float32)
    _, strength, right = svds(table, k=width, random_state=0)
    return of_forms(right.T * strength**0.5, known, targets)


def of_forms(found: np.ndarray, known: dict[str, int], targets: Sequence[str]) -> np.ndarray:
    """float32[len(targets), width]: the unit mean of what is found of a word and of what it is a form of."""
    result = np.zeros((len(targets), found.shape[1]), np.float32)
    for number, target in enumerate(targets):
        if forms := [form for form in stem(target, known) if form in known]:
            each = found[[known[form] for form in forms]]
            each = each / (np.linalg.norm(each, axis=1, keepdims=True) + 1e-9)
            total = each.sum(0)
            result[number] = total / (np.linalg.norm(total) + 1e-9)
    return result
