"""The keys and values that a recipe may have; one sentence for the first mistake."""

from __future__ import annotations

import reprlib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

EXAMPLE = "training/runs/nano-2.toml"
Size = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]
Inner = Annotated[float, Field(gt=0, lt=1)]
Below = Annotated[float, Field(ge=0, lt=1)]
Amount = Annotated[float, Field(gt=0)]
Kind = Literal["tasks", "synthetic", "dialogue", "mixed", "natural", "foreign"]


class StrictTable(BaseModel):
    """A table whose keys are these and no others, and whose values are of their types as they stand."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class TokenizerTable(StrictTable):
    """The vocabulary."""

    size: Size


class ModelTable(StrictTable):
    """Sizes of the network (`model.Shape`) and of what is known of words."""

    layers: Size
    deep: Count | None = None
    width: Size | None = None
    heads: Size | None = None
    kv_heads: Size | None = None
    head: Size | None = None
    inner: Size | None = None
    lexicon: Size | None = None
    associations: Count | None = None
    words: Count | None = None
    foreign: Count | None = None  # words of other languages, at most


class TrainingTable(StrictTable):
    """How long, how fast, on what machine, and how much at a time."""

    machine: str
    minutes: Amount
    requests: Size | None = None  # where the schedule counts them and not minutes
    lr_muon: Amount
    lr_adam: Amount
    decay_from: Below
    weight_decay: Share | None = None  # of the matrices that Muon moves
    # Share of the words of a step that are known by their meaning alone, at the full rates.
    word_dropout: Below | None = None
    workers: Size | None = None
    sync_steps: Size | None = None  # between two means over all processes
    threads: Size | None = None
    choice_weight: Amount | None = None
    blocks: Size
    pairs: Size
    longest_tool: Size
    longest_pair: Size
    checkpoint_minutes: Amount
    report_steps: Size
    evaluate_minutes: Amount


class TrainingMixTable(StrictTable):
    """What only training draws, so that the held-out requests stay the same."""

    none: Inner | None = None
    close: Share | None = None
    confusable: Share | None = None


class MixTable(StrictTable):
    """What requests are drawn from."""

    none: Inner
    two: Share
    training: TrainingMixTable | None = None
    kinds: Annotated[dict[Kind, PositiveShare], Field(min_length=1)]


class HeldOutTable(StrictTable):
    """What is held out of training."""

    domains: list[str]
    every: Size
    aside: list[str] | None = None
    trained: list[str] | None = None  # domains of which nothing is held out
    intents: list[str] | None = None  # of natural requests: `corpus/intent` or `corpus/family`


class RecipeTable(StrictTable):
    """The whole recipe."""

    name: str
    seed: str
    out: str
    sgd: str
    evaluation: str
    examples: str
    natural: str | None = None  # folder of the corpora of natural requests
    tokenizer: TokenizerTable
    model: ModelTable
    training: TrainingTable
    mix: MixTable
    held_out: HeldOutTable


def read(path: Path) -> dict[str, Any]:
    """The tables of a recipe; raises SystemExit with one sentence for a file that is none."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
        RecipeTable.model_validate(table)
    except ValidationError as problem:
        raise SystemExit(f"{path} is no recipe: {first_error(problem)} (see {EXAMPLE})") from None
    except (OSError, ValueError) as problem:
        raise SystemExit(f"{path} is no recipe: {problem}") from None
    return table


def first_error(problem: ValidationError) -> str:
    """The first mistake, in words."""
    first = problem.errors(include_url=False)[0]
    name = ".".join(str(part) for part in first["loc"] if part != "[key]")
    match first["type"]:
        case "missing":
            return f"it lacks {name}"
        case "extra_forbidden":
            return f"{name} is none of its keys"
        case "model_type":
            return f"{name} is no table"
    return f"{name} is {reprlib.repr(first['input'])}; {first['msg'].removeprefix('Input ')}"
