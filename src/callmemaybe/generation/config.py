"""What every use of a model needs: its vocabulary, its format, its prompts as ids."""

from __future__ import annotations

import runpy
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from callmemaybe.decoding.name_choice import Symbol
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.errors import InputError, ModelError, VocabularyError
from callmemaybe.generation.template_process import RenderingError, shared
from callmemaybe.grammar.nodes import Control
from callmemaybe.models.base import Model
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import Format, PromptPart, formats
from callmemaybe.wire.format_mapping import format_from_mapping
from callmemaybe.wire.format_nodes import PromptParts

#: Settings by the kind of their values: whole numbers, any numbers, and words out of few.
_WHOLE = frozenset((
    "max_tokens", "top_k", "seed", "best_of", "beam", "top_logprobs",
    "steps", "repeats", "most_calls", "thinking", "text",
))  # fmt: skip
_NUMBERS = frozenset(("temperature", "top_p", "min_p"))
_WORDS = {"choose": ("exact", "greedy"), "overflow": ("cut", "refuse")}


def check_settings(
    settings: Mapping[str, Any], unset: frozenset[str] = frozenset(("seed",))
) -> None:
    """Raise InputError, naming the setting, for a value of another kind; ``unset`` may be None."""
    for name, value in settings.items():
        if value is None and name in unset:
            continue
        words = _WORDS.get(name)
        if words is not None and value not in words:
            raise InputError(
                f"there is no {value!r} here", where=name, hint=f"use {' or '.join(words)}"
            )
        if name in _WHOLE and not isinstance(value, Integral):
            hint = "leave it out for the usual one" if value is None else None
            raise InputError(f"it must be a whole number, not {value!r}", where=name, hint=hint)
        if name in _NUMBERS and not isinstance(value, Real):
            hint = "leave it out for the usual one" if value is None else None
            raise InputError(f"it must be a number, not {value!r}", where=name, hint=hint)


def check_text(prompt: object, where: str = "prompt") -> None:
    """Raise InputError for a request that is no text: its spelling in Python would be asked about."""
    if not isinstance(prompt, str):
        raise InputError(
            f"a request is a text, not {kind_of(prompt)}", where=where,
            hint="chat messages become a conversation for Caller.run: "
            "Conversation.from_messages(messages); call_many takes several requests",
        )  # fmt: skip


def given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings among the arguments that a Caller is made with.

    Raises InputError as :func:`check_settings` does, and for what is no loaded model, such as its name.
    """
    found = {k: v for k, v in arguments.items() if k not in ("self", "model", "tools")}
    check_settings(found)
    model = arguments["model"]
    if isinstance(model, str | Path) or not hasattr(model, "name"):
        name = model if isinstance(model, str) else "nano"
        raise InputError(
            f"a loaded model is needed, not {kind_of(model)}", where="model",
            hint=f"give load_model({name!r})",
        )  # fmt: skip
    return found


def check_callable(value: object, where: str) -> None:
    """Raise InputError for what cannot be called, where functions run calls."""
    if not callable(value):
        raise InputError(
            f"a function is needed, not {kind_of(value)}", where=where,
            hint="hand in functions(add, multiply), each by itself",
        )  # fmt: skip


def kind_of(value: object) -> str:
    """Name the kind of a value, for messages."""
    return "None" if value is None else f"a value of type {type(value).__name__}"


class _ProcessRenderer:
    """Renders chat templates in a child process with limits of time and memory."""

    def check(self, source: str, names: Mapping[str, str]) -> None:
        """Raise ModelError unless the template compiles."""
        try:
            shared().check(source, names)
        except RenderingError as error:
            raise ModelError(f"the model's chat template is not valid: {error}") from error

    def render(self, source: str, names: Mapping[str, str], values: Mapping[str, Any]) -> str:
        """Return what the template writes; raise ModelError if it fails or passes a limit."""
        try:
            return shared().render(source, names, values)
        except RenderingError as error:
            raise ModelError(f"the model's chat template failed: {error}") from error


#: Where the chat templates of models run.
TEMPLATES = _ProcessRenderer()


def vocabulary_of(model: Model) -> Vocabulary:
    """Return the vocabulary in the model's files. Raises VocabularyError where they have none."""
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
    found = find_format(chosen) if chosen else formats.detect(template, controls)
    is_its_own = template is not None and found.matches(template, controls) and found.template_has
    if template is None or not is_its_own:
        return found
    names = {key: model.files.tokenizer_config.get(key) for key in ("bos_token", "eos_token")}
    # Older configurations spell a token as an object with its "content".
    texts = {
        key: value.get("content") if isinstance(value, dict) else value
        for key, value in names.items()
    }
    return found.with_template(
        template, TEMPLATES, **{key: text for key, text in texts.items() if text}
    )


def encode(parts: PromptParts, vocabulary: Vocabulary, form: Format, model: Model) -> list[int]:
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


def parts_of(symbols: Sequence[Symbol]) -> list[PromptPart | bytes]:
    """Join runs of bytes; control tokens stand alone."""
    parts: list[PromptPart | bytes] = []
    run = bytearray()
    for symbol in symbols:
        if isinstance(symbol, int):
            run.append(symbol)
        else:
            parts += [bytes(run), Control(symbol)]
            run.clear()
    return [*parts, bytes(run)]


def find_format(name: str) -> Format:
    """Return the format ``name``: one of the registry, or a file that ends in .py or .toml.

    A Python file is run and carries the constant ``FORMAT``; a TOML file is declared as
    :mod:`callmemaybe.wire.format_mapping` says. Raises InputError for what is no format.
    """
    path = Path(name)
    if path.suffix == ".toml":
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"this format cannot be read: {error}", where=name) from None
        return format_from_mapping(data, name)
    if path.suffix != ".py":
        return formats.get(name)
    if not path.is_file():
        raise InputError("there is no such file", where=name)
    try:
        found = runpy.run_path(name).get("FORMAT")
    except Exception as error:
        raise InputError(f"it fails when it is run: {error!r}", where=name) from error
    if not isinstance(found, Format):
        raise InputError("it has no constant FORMAT that is a Format", where=name)
    return found
