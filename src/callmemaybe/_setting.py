"""What every use of a model needs: its vocabulary, its format, its prompts as ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import numpy as np

from callmemaybe import _formats
from callmemaybe.decoding.branches import Symbol
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.errors import InputError, VocabularyError
from callmemaybe.grammar.nodes import Control
from callmemaybe.models.base import Model
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import Format, Part, formats
from callmemaybe.wire.pieces import Parts


def vocabulary_of(model: Model) -> Vocabulary:
    if model.files.vocabulary is None:
        raise VocabularyError(f"the model {model.name!r} has no tokenizer.json beside its weights")
    return Vocabulary.from_file(
        model.files.vocabulary, size=model.size, ends=model.files.ends or None
    )


def format_of(model: Model, vocabulary: Vocabulary, chosen: str | Format | None) -> Format:
    """Return the format asked for or told by the files, with the model's own chat template."""
    template = model.files.chat_template
    if isinstance(chosen, Format):
        return chosen
    controls = frozenset(vocabulary.controls)
    found = _formats.find(chosen) if chosen else formats.detect(template, controls)
    is_its_own = template is not None and found.fits(template, controls) and found.template_has
    if template is None or not is_its_own:
        return found
    names = {key: model.files.tokenizer_config.get(key) for key in ("bos_token", "eos_token")}
    # Older configurations spell a token as an object with its "content".
    texts = {
        key: value.get("content") if isinstance(value, dict) else value
        for key, value in names.items()
    }
    return found.with_template(template, **{key: text for key, text in texts.items() if text})


def encode(parts: Parts, vocabulary: Vocabulary, form: Format, model: Model) -> list[int]:
    """Return the ids of a prompt; plain text never becomes a control token.

    Raises VocabularyError for a control token that the vocabulary does not have.
    """
    ids: list[int] = []
    for part in parts:
        if isinstance(part, str):
            # Half a surrogate pair has no UTF-8; the model sees a question mark.
            ids += vocabulary.encode(part.encode(errors="replace"))
        elif part.text in vocabulary.controls:
            ids.append(vocabulary.controls[part.text])
        else:
            raise VocabularyError(
                f"the format {form.name!r} needs the control token {part.text!r}, which the "
                f"vocabulary of {model.name!r} does not have; choose another format"
            )
    return ids


def seeded(sampler: Sampler, seed: int | None, text: str) -> Sampler:
    """Return a sampler whose dice depend on the seed and the text, not on what was asked before.

    Raises InputError for a seed that no dice can be made of.
    """
    if sampler.is_greedy or seed is None:
        return sampler
    if seed < 0:
        raise InputError("it must not be negative", where="seed")
    digest = sha256(text.encode(errors="surrogatepass")).digest()
    return replace(sampler, generator=np.random.default_rng([seed, *digest]))


def parts_of(symbols: Sequence[Symbol]) -> list[Part | bytes]:
    """Join runs of bytes; control tokens stand alone."""
    parts: list[Part | bytes] = []
    run = bytearray()
    for symbol in symbols:
        if isinstance(symbol, int):
            run.append(symbol)
        else:
            parts += [bytes(run), Control(symbol)]
            run.clear()
    return [*parts, bytes(run)]
