"""Tokens of the embedded model as bases and forms.

A token is a *base* (the piece in lower case, no space) with a *form* (its letter case, and whether a space stands before it);
the network has one vector for each base and one for each form.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from callmemaybe.tuning.rendering import CONTROL_TOKENS

SPACE = "Ġ"  # how byte-level BPE writes a space
LOWER, CAPITAL, UPPER = range(3)
FORMS = 6  # case + 3 * space
Table = NDArray[np.int64]


def forms(tokenizer: Tokenizer) -> tuple[list[str], Table, Table, Table]:
    """Return bases (text), and int64[size] tables: base and form of each token, token without space.

    Control tokens and bytes are bases of their own.
    """
    vocabulary = tokenizer.get_vocab()
    size = max(vocabulary.values()) + 1
    bases: dict[str, int] = {}
    base, form = np.zeros(size, np.int64), np.zeros(size, np.int64)
    bare = np.arange(size)
    for token, number in sorted(vocabulary.items(), key=lambda item: item[1]):
        text, space = token, False
        if token in CONTROL_TOKENS:
            pass
        elif len(token) > 1 and token.startswith(SPACE):
            text, space = token[1:], True
        case = LOWER
        if (
            token not in CONTROL_TOKENS
            and text.isascii()
            and text.isalpha()
            and text != text.lower()
        ):
            case = CAPITAL if text == text.capitalize() else UPPER
            text = text.lower()
        base[number] = bases.setdefault(text, len(bases))
        form[number] = case + 3 * space
        if space:
            bare[number] = vocabulary[token[1:]]
    return list(bases), base, form, bare
