"""Vectors of what words bring to mind.

A word's vector is its row of the positive pointwise mutual information between words that stand in one line
of the associations (Church & Hanks, 1990), shortened by singular values (Bullinaria & Levy, 2012).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import svds

from training.data.associations import FOLDER, Line, read
from training.data.wordnet_vectors import of_forms

FIRST, FALL = 1.5, 0.07  # what the first word of a line counts, and how much less each after it
SMOOTH = 0.75  # rare words are less surprising than they look (Levy, Goldberg & Dagan, 2015)


def mutual_information(lines: Sequence[Line]) -> tuple[sparse.csr_array, dict[str, int]]:
    """Positive pointwise mutual information [words, words] of words that stand together, and their rows."""
    together: Counter[tuple[str, str]] = Counter()
    for head, words in lines:
        for rank, word in enumerate(words):
            together[head, word] += max(FIRST - FALL * rank, FALL)
    known = {word: row for row, word in enumerate(sorted({w for pair in together for w in pair}))}
    rows = [known[a] for a, _ in together]
    columns = [known[b] for _, b in together]
    weights = list(together.values())
    places = (rows + columns, columns + rows)
    counts = sparse.csr_array((weights * 2, places), (len(known), len(known)))
    often = np.asarray(counts.sum(1)).ravel()
    expected = often**SMOOTH / (often**SMOOTH).sum()
    found = counts.tocoo()
    bits = np.log(found.data / (often[found.row] * expected[found.col]))
    found.data = np.maximum(bits, 0)
    most = found.tocsr().max(axis=1).toarray().ravel()
    return found.tocsr() + sparse.diags_array(most).tocsr(), known  # a word brings itself to mind


def vectors(targets: Sequence[str], width: int, folder: Path = FOLDER) -> np.ndarray:
    """Return float32[len(targets), width]: unit vectors, zero for words that no line holds."""
    lines = list(read(folder))
    if not width or len({word for head, words in lines for word in (head, *words)}) <= width:
        return np.zeros((len(targets), width), np.float32)
    table, known = mutual_information(lines)
    left, strength, _ = svds(table, k=width, random_state=0)
    order = np.argsort(-strength)
    return of_forms(left[:, order], known, targets)
