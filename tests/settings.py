"""Flat settings of a test, as the configurations that callers and generators take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from callmemaybe.caller import Caller
from callmemaybe.errors import BudgetError
from callmemaybe.generation.config import DecodingConfig, encode
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.wire.format_nodes import PromptParts
from callmemaybe.wire.grounding import GroundingConfig

_DECODING = {field.name for field in fields(DecodingConfig)}
_GROUNDING = {field.name for field in fields(GroundingConfig)}


def configured(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a caller or a generator that these settings mean."""
    decoding = {name: value for name, value in settings.items() if name in _DECODING}
    grounding = {name: value for name, value in settings.items() if name in _GROUNDING}
    rest = {k: v for k, v in settings.items() if k not in _DECODING and k not in _GROUNDING}
    if decoding:
        rest["decoding"] = DecodingConfig(**decoding)
    if grounding:
        rest["grounding"] = GroundingConfig(**grounding)
    return rest


def prompt_ids(caller: Caller, parts: PromptParts) -> list[int]:
    """Return the ids of a prompt, as the caller's model reads it."""
    generator = caller.generator
    assert isinstance(generator, LocalGenerator)
    return encode(parts, generator.vocabulary, generator.format, generator.model)


def prefix_ids(caller: Caller) -> list[int]:
    """Return the ids that all of a caller's requests begin with."""
    generator = caller.generator
    assert isinstance(generator, LocalGenerator)
    controls = frozenset(generator.vocabulary.controls)
    return prompt_ids(caller, generator.format.prefix(generator.as_read(caller.tools), controls))


def shortest_call(caller: Caller) -> int:
    """Return how many tokens a caller's shortest call takes, found by trying budgets from 1 on."""
    for most in range(1, 1000):
        try:
            Caller(
                caller.model, caller.tools, format=caller.generator.format, max_tokens=most,
                no_call=caller.no_call, vocabulary=getattr(caller.generator, "vocabulary", None),
            )  # fmt: skip
        except BudgetError:
            continue
        return most
    raise AssertionError("no budget is enough")
