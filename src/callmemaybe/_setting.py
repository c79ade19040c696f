"""What every use of a model needs: its vocabulary, its format, checks of what it wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import jsonschema_rs
import numpy as np

from callmemaybe import _formats
from callmemaybe._json import repeated_key
from callmemaybe.calls import ToolCall, ToolSpec
from callmemaybe.decoding.branches import Symbol
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.errors import DecodingError, InputError, RepeatedKey, VocabularyError
from callmemaybe.grammar.nodes import Control
from callmemaybe.models.base import Model
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import Format, Part, formats
from callmemaybe.wire.pieces import Parts

#: Validators recurse; a value nested deeper is only checked by the grammar that generated it.
CHECKED_DEPTH = 100


def tool_of(value: ToolSpec | Mapping[str, Any]) -> ToolSpec:
    return value if isinstance(value, ToolSpec) else ToolSpec.from_json(value)


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
    """Return a sampler whose dice depend on the seed and the text, not on what was asked before."""
    if sampler.is_greedy or seed is None:
        return sampler
    digest = sha256(text.encode(errors="surrogatepass")).digest()
    return replace(sampler, generator=np.random.default_rng([seed, *digest]))


def validator_of(tool: ToolSpec) -> Any:
    """Return a validator of the schema as it was given; None if the validator cannot read it."""
    try:
        return jsonschema_rs.validator_for(dict(tool.parameters), retriever=_no_network)
    except Exception:
        # What the validator cannot read (an exotic pattern) the grammar alone vouches for.
        return None


def validate(call: ToolCall, validator: Any) -> None:
    """Check a call by its schema once more, with a validator of another make (None: it has none).

    Raises DecodingError: the grammar should have seen to it; RepeatedKey, see :func:`check_keys`.
    """
    check_keys(call.arguments, f"the arguments of {call.name!r} have")
    if validator is not None and depth_of(call.parsed) <= CHECKED_DEPTH:
        error = next(iter(validator.iter_errors(call.parsed)), None)
        if error is not None:
            raise DecodingError(
                f"a bug in this package: the arguments {call.arguments} of {call.name!r} do "
                f"not fit its schema ({error.message}); please report it"
            )


def check_keys(text: str, what: str) -> None:
    """Look through a finished JSON text for what no grammar can see to: a key that came twice.

    ``what`` are the words in front of it. Raises RepeatedKey.
    """
    key = repeated_key(text)
    if key is not None:
        raise RepeatedKey(what, key)


def _no_network(address: str) -> Any:
    raise InputError(f"the schema refers to {address}, which is not fetched")


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


def depth_of(value: Any) -> int:
    """Return how deep arrays and objects nest, without recursion."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        value, depth = stack.pop()
        inner: Iterable[Any]
        if isinstance(value, dict):
            inner = value.values()
        elif isinstance(value, list):
            inner = value
        else:
            continue
        deepest = max(deepest, depth)
        stack.extend((one, depth + 1) for one in inner)
    return deepest
