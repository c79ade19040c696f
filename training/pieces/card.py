"""The model card, written from the recipe and the measured figures."""

from __future__ import annotations

from typing import Any

from training.pieces.recipe import ROOT, Recipe

PARTS = {
    "train": "functions seen in training, new requests",
    "function": "unseen functions of known domains",
    "domain": "functions of unseen domains",
    "dev": "SGD dev, services unseen in training, 1 turn",
}
ROWS = {
    "name": "function chosen",
    "exact": "whole call exact",
    "number": "numbers",
    "integer": "integers",
    "string": "strings",
    "enum": "enums",
    "boolean": "booleans",
    "array": "arrays",
    "none": "refused when nothing fits",
    "false refusal": "refused although a function fits",
}
FINISHED = "The schedule was run to its end."
UNFINISHED = "These weights are a checkpoint: the schedule had not reached its end."
TEXT = """# {name}: the embedded model of Call Me Maybe

A decoder-only transformer of Qwen3's architecture ({shape}), {parameters:.2f}M parameters,
{size} tokens of its own byte-level vocabulary, weights in {precision}. It reads a tool list and a
request and writes a call under a grammar; it is not a chat model and knows nothing of the world.

## Scores

Greedy, forced tokens supplied, 4 to 12 functions offered. Shares in percent with 95% Wilson
intervals; names compete with the tools offered, values with the whole vocabulary (the product's
grammar is narrower). Measured on the float weights, not on the shipped quantised file, by
`python -m training.evaluate --run {recipe}`. The rows of argument types judge one
argument while everything before it is given right, so they flatter: alone, the model errs earlier.

{table}

Held out are whole domains ({domains}) and, elsewhere, every {every}th function by hash; never single
prompts. SGD dev includes arguments that the request does not say literally.

## Training

{steps} steps, {tokens:.2f}M tokens on two shared CPU cores, {minutes} minutes of wall clock, seed
`{seed}`{before}. {state} Everything is generated from
`training/` by `{recipe}`; `training/LOG.md` tells what was tried. No evaluation set took part: `training/leaks.py` drops requests that share eight words in a
row with an evaluation prompt, and functions with an evaluation function's name and parameters.

## Data and licences

* {functions} function definitions in {count} domains written for this project (the project's licence),
  and made-up functions drawn anew for every block.
* The train split of Schema-Guided Dialogue (google-research-datasets), CC BY-SA 4.0. Requests were
  filtered and paired with varied tool lists. Credit: Rastogi et al., "Towards Scalable Multi-domain
  Conversational Agents: The Schema-Guided Dialogue Dataset", 2020.

## What it is bad at

**Choosing the function.** See the first row: on functions it has not seen it is far from useful, so
nothing should be run on its word. Trained for a few million tokens where such a model needs many more,
it seldom refuses, even where nothing fits. English only; long requests, nested objects and requests for
two calls were hardly trained; calls that need knowledge or arithmetic ("half a dozen") fail. The
probability it reports is not calibrated.
"""


def interval(share: float, cases: int) -> str:
    """Wilson's 95% interval in percent."""
    if not cases:
        return "-"
    z = 1.96
    middle = (share + z * z / (2 * cases)) / (1 + z * z / cases)
    half = z * (share * (1 - share) / cases + z * z / (4 * cases * cases)) ** 0.5
    half /= 1 + z * z / cases
    return f"{100 * share:.1f} ({100 * max(0.0, middle - half):.1f}-{100 * (middle + half):.1f})"


def score_table(scores: dict[str, Any]) -> str:
    """Markdown: one row per figure, one column per held-out part."""
    parts = [part for part in PARTS if part in scores]
    lines = [
        "| | " + " | ".join(PARTS[part] for part in parts) + " |",
        "|---" * (len(parts) + 1) + "|",
    ]
    for row, label in ROWS.items():
        cells = [scores[part].get(row, {"share": 0.0, "cases": 0}) for part in parts]
        shown = (interval(cell["share"], cell["cases"]) for cell in cells)
        lines.append(f"| {label} | " + " | ".join(shown) + " |")
    lines.append(
        "| requests | " + " | ".join(str(scores[p]["name"]["cases"]) for p in parts) + " |"
    )
    return "\n".join(lines)


def card(recipe: Recipe, report: dict[str, Any], *, parameters: int, precision: str) -> str:
    """Write the card."""
    model, held = recipe.table["model"], recipe.table["held_out"]
    functions = recipe.functions("train")
    return TEXT.format(
        name=recipe.table["name"],
        shape=f"{model['layers']} layers, width {model['width']}, {model['heads']} heads",
        parameters=parameters / 1e6,
        size=f"{recipe.table['tokenizer']['size']:,}",
        precision=precision,
        recipe=recipe.path.resolve().relative_to(ROOT).as_posix(),
        table=score_table(report["scores"]),
        domains=", ".join(held["domains"]),
        every=held["every"],
        steps=f"{report['steps']:,}",
        tokens=report["tokens"] / 1e6,
        minutes=report["minutes"],
        before=f", after {earlier}" if (earlier := recipe.table["training"].get("before")) else "",
        state=FINISHED if report["finished"] else UNFINISHED,
        seed=recipe.seed,
        functions=len(functions),
        count=len({function.domain for function in functions}),
    )
