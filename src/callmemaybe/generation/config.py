"""The settings of decoding, and what every turn needs of a model: vocabulary, wire format, prompt ids."""

from __future__ import annotations

import runpy
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

import numpy as np

from callmemaybe.decoding.adjustment import LogitAdjuster
from callmemaybe.decoding.name_choice import Symbol
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.decoding.strategy import DecodingStrategy
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
_PENALTIES = {"frequency_penalty": 0.0, "presence_penalty": 0.0, "repetition_penalty": 1.0}
_NUMBERS = frozenset(("temperature", "top_p", "min_p", "min_confidence", *_PENALTIES))
_WORDS = {
    "choose": ("exact", "greedy"),
    "overflow": ("cut", "refuse"),
    "order": ("schema", "any"),
}
_FLAGS = frozenset(("forcing", "speculate", "logprobs", "call_logprobs", "trace"))
_ALL_UNSET = frozenset((
    "max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "choose", "best_of", "beam", "order",
    "overflow", "forcing", "speculate", "logprobs", "top_logprobs", "call_logprobs", "trace", "logit_bias",
    "min_confidence", *_PENALTIES,
))  # fmt: skip
_RNG = np.random.default_rng(0)
DEFAULT_MAX_TOKENS = 512
#: Most tokens that may be shown for each place of a text.
MOST_TOP_LOGPROBS = 20


def check_settings(
    settings: Mapping[str, Any], unset: frozenset[str] = frozenset(("seed",))
) -> None:
    """Raise InputError, naming the setting, for a value of another type; ``unset`` may be None."""
    for name, value in settings.items():
        if value is None and name in unset:
            continue
        if name in _FLAGS and not isinstance(value, bool):
            raise InputError(f"it must be True or False, not {value!r}", where=name)
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


@dataclass(frozen=True)
class DecodingConfig:
    """How tokens are chosen. A field that is None takes the value of the caller, and there its default.

    ``max_tokens`` (512) bounds an answer, which always ends within it. ``temperature`` (0: the likeliest
    token), ``top_p`` (1), ``top_k`` (0: all) and ``min_p`` (0) say how tokens are drawn; with a ``seed``
    equal requests get equal answers, whatever was asked before. ``stop`` are texts that end an answer
    in text and are no part of it.

    ``choose`` is how a function's name is chosen: "exact" by the probabilities of all names, "greedy"
    token by token. ``best_of`` (1) draws so many calls and keeps the most probable; ``beam`` (1) searches
    for it with so many hypotheses at a time. Both are for single requests (``Caller.call``); turns of a
    conversation are decoded once. ``order`` "any" lets a model write keys in any order; "schema" in the
    order of the schema. ``overflow`` says what becomes of a single request that does not fit into the
    model's context: "cut" leaves out its middle, "refuse" raises ModelError. ``forcing`` False asks the
    model for every token, also where only one is allowed; ``speculate`` False guesses no tokens ahead;
    the answers are the same either way.

    ``frequency_penalty`` (0) and ``presence_penalty`` (0), from -2 to 2, are taken from the logit of a token for
    each time that a text had it, and once if it had it; ``repetition_penalty`` (1), above 0, divides the logits
    of tokens that the prompt or the text had. All three act in texts, not in calls. ``logit_bias`` are pairs of a
    token's id and what is added to its logit; it acts on single tokens, not on the choice among functions' names.
    Both are for turns of a conversation; what the grammar forbids stays forbidden.

    ``logprobs`` returns log-probabilities (nats) of the text's tokens, with the ``top_logprobs`` likeliest
    in each place (at most 20); it asks the model for every token. ``call_logprobs`` returns those of a
    whole call and of each argument, at the cost of one forward pass. ``trace`` returns every step with
    the likeliest tokens. ``min_confidence`` (0) is the least probability with which a whole call must be right; less likely
    calls are not made, and the result says so. It acts where the model's files tell that probability, as the embedded
    model's do.

    Raises InputError, naming the field, for a value of another type or out of range.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: tuple[tuple[int, float], ...] | None = None
    stop: tuple[str, ...] | None = None
    choose: Literal["exact", "greedy"] | None = None
    best_of: int | None = None
    beam: int | None = None
    order: Literal["schema", "any"] | None = None
    overflow: Literal["cut", "refuse"] | None = None
    forcing: bool | None = None
    speculate: bool | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    call_logprobs: bool | None = None
    trace: bool | None = None
    min_confidence: float | None = None

    def __post_init__(self) -> None:
        check_settings(vars(self), _ALL_UNSET)
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InputError("it must be at least 1", where="max_tokens")
        if self.top_logprobs is not None and not 0 <= self.top_logprobs <= MOST_TOP_LOGPROBS:
            raise InputError(f"it must be between 0 and {MOST_TOP_LOGPROBS}", where="top_logprobs")
        if self.top_logprobs and not self.logprobs:
            raise InputError("it needs logprobs", where="top_logprobs")
        if self.seed is not None and self.seed < 0:
            raise InputError("it must not be negative", where="seed")
        stop: object = self.stop
        if isinstance(stop, str):
            raise InputError(
                "it must be a tuple of texts; each letter of a text would be one", where="stop"
            )
        if stop is not None and (
            not isinstance(stop, Sequence) or not all(isinstance(each, str) for each in stop)
        ):
            raise InputError("it must be a tuple of texts", where="stop")
        if stop and not all(stop):
            raise InputError("an empty text would end everything", where="stop")
        for name in ("frequency_penalty", "presence_penalty"):
            if not -2 <= (getattr(self, name) or 0) <= 2:
                raise InputError("it must be between -2 and 2", where=name)
        if self.repetition_penalty is not None and not 0 < self.repetition_penalty < float("inf"):
            raise InputError(
                "it must be above 0", where="repetition_penalty", hint="1 changes nothing"
            )
        if not 0 <= (self.min_confidence or 0) <= 1:
            raise InputError("it must be between 0 and 1", where="min_confidence")
        # The ranges of the sampler are its own; nothing is drawn to check them.
        Sampler(
            self.temperature or 0.0, self.top_p or 1.0, self.top_k or 0, self.min_p or 0.0, _RNG
        )

    def over(self, base: DecodingConfig) -> DecodingConfig:
        """Return this configuration with the values of ``base`` where a field is None."""
        values = {name: value for name, value in vars(self).items() if value is not None}
        return replace(base, **values) if values else base

    @property
    def budget(self) -> int:
        """Most tokens of an answer."""
        return self.max_tokens or DEFAULT_MAX_TOKENS

    def sampler(self, text: str) -> Sampler:
        """Return the sampler; with a seed, its random numbers depend on the seed and ``text`` alone."""
        temperature = self.temperature or 0.0
        rng: np.random.Generator | None = None
        if temperature and self.seed is not None:
            digest = sha256(text.encode(errors="surrogatepass")).digest()
            rng = np.random.default_rng([self.seed, *digest])
        elif temperature:
            rng = np.random.default_rng()
        top_p = 1.0 if self.top_p is None else self.top_p
        return Sampler(temperature, top_p, self.top_k or 0, self.min_p or 0.0, rng)

    def adjuster(self, size: int, prompt: Sequence[int]) -> LogitAdjuster | None:
        """Return what changes the logits of a vocabulary of ``size`` in one turn; None for nothing.

        ``prompt`` are the ids in front of the turn. Raises InputError for a bias of an unknown token.
        """
        if not self.logit_bias and all(
            getattr(self, name) in (None, usual) for name, usual in _PENALTIES.items()
        ):
            return None
        repetition = 1.0 if self.repetition_penalty is None else self.repetition_penalty
        return LogitAdjuster(
            size, bias=dict(self.logit_bias or ()), frequency=self.frequency_penalty or 0.0,
            presence=self.presence_penalty or 0.0, repetition=repetition, prompt=prompt,
        )  # fmt: skip

    def strategy(
        self, *, certain: bool, clock: Callable[[], float], keeps_choices: bool = False
    ) -> DecodingStrategy:
        """Return how a single call is found; the parameters are fields of ``DecodingStrategy``."""
        return DecodingStrategy(
            self.choose or "exact", self.forcing is not False, self.speculate is not False,
            bool(self.call_logprobs), 1 if self.best_of is None else self.best_of,
            1 if self.beam is None else self.beam, bool(self.trace), certain,
            keeps_choices, clock,
        )  # fmt: skip


#: What holds where a caller says nothing.
DEFAULT_DECODING = DecodingConfig(
    max_tokens=DEFAULT_MAX_TOKENS, temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, stop=(), choose="exact",
    frequency_penalty=0.0, presence_penalty=0.0, repetition_penalty=1.0, logit_bias=(),
    best_of=1, beam=1, order="schema", overflow="cut", forcing=True, speculate=True, logprobs=False,
    top_logprobs=0, call_logprobs=False, trace=False, min_confidence=0.0,
)  # fmt: skip


def check_text(prompt: object, where: str = "prompt") -> None:
    """Raise InputError for a request that is no text: its spelling in Python would be asked about."""
    if not isinstance(prompt, str):
        raise InputError(
            f"a request is a text, not {kind_of(prompt)}", where=where,
            hint="chat messages become a conversation for Caller.run: "
            "Conversation.from_messages(messages); call_many takes several requests",
        )  # fmt: skip


def check_callable(value: object, where: str) -> None:
    """Raise InputError for what cannot be called, where functions run calls."""
    if not callable(value):
        raise InputError(
            f"a function is needed, not {kind_of(value)}", where=where,
            hint="hand in PythonExecutor(add, multiply), each by itself",
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
    """Return the format asked for, or detected from the files, with the model's own chat template."""
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
