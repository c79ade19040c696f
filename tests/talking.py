"""A model that wants to say certain things, turn by turn, as far as the grammar lets it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from callmemaybe.grammar.nodes import Control
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import PromptPart

Wishes = Sequence[tuple[PromptPart, ...]]


def brief(vocabulary: Vocabulary) -> np.ndarray:
    """Return logits that come to an end wherever they can: at once, in strings and in numbers."""
    logits = np.zeros(vocabulary.size, np.float32)
    for byte, wish in zip(b'"0]}', (1.0, 1.0, 2.0, 3.0), strict=True):
        logits[vocabulary.encode(bytes([byte]))[0]] = wish
    for end in vocabulary.ends:
        logits[end] = 4.0
    return logits


def speaks(
    vocabulary: Vocabulary, wishes: Wishes, turn: Callable[[bytes], int], ask: bytes
) -> ScriptedModel:
    """Return a model that prefers to say ``wishes[turn(everything before)]`` behind ``ask``.

    What it says is looked for behind the last ``ask`` (control tokens by their text).
    """
    names = vocabulary.names

    def spelled(ids: Sequence[int]) -> bytes:
        return b"".join(vocabulary.token(index) or names.get(index, "").encode() for index in ids)

    def script(ids: tuple[int, ...]) -> np.ndarray:
        logits = np.zeros(vocabulary.size, np.float32)
        text = spelled(ids)
        at = text.rfind(ask)
        if at < 0:
            return logits
        said = text[at + len(ask) :]
        wish = wishes[min(turn(text[:at]), len(wishes) - 1)]
        whole = b"".join(p.text.encode() if isinstance(p, Control) else p.encode() for p in wish)
        if not whole.startswith(said):
            return brief(vocabulary)
        rest = whole[len(said) :]
        if not rest:
            for end in vocabulary.ends:
                logits[end] = 20.0
            return logits
        for name, index in vocabulary.controls.items():
            if any(isinstance(p, Control) and p.text == name for p in wish) and rest.startswith(
                name.encode()
            ):
                logits[index] = 20.0
                return logits
        best = max(
            (
                index
                for index, token in enumerate(vocabulary.tokens)
                if token and rest.startswith(token)
            ),
            key=lambda index: len(vocabulary.token(index)),
        )
        logits[best] = 20.0
        return logits

    return ScriptedModel(vocabulary.size, script)
