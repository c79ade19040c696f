"""The model card, written from the recipe and the measured figures."""

from __future__ import annotations

from typing import Any

from training.data import foreign
from training.data.associations import read
from training.data.statistics import count_drawn, count_written, table
from training.recipe import Recipe

PARTS = {
    "train": "functions seen in training, new requests",
    "function": "unseen functions of known domains",
    "domain": "functions of unseen domains",
    "dev": "SGD dev, services unseen in training, 1 turn",
    "foreign": "unseen functions, asked for in French, German and Spanish",
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
WORDS = """* French, German and Spanish words with their English translations, written for this project (its licence,
  `training/data/sources/foreign/words`): each has the vectors of what it translates to. No dictionary was used."""
REQUESTS = """* Requests in French (templates for {fr} of the written functions), German ({de}) and Spanish ({es}), written for this project (its
  licence, `training/data/sources/foreign`)."""
SAID = """* What people said, as requests to functions: SNIPS (CC0), HWU64 (CC BY 4.0), CLINC150 (CC BY 3.0), Restaurants-8k (CC BY 4.0) and
  the made-up requests of Seal-Tools (Apache-2.0)."""
UNTRAINED = """English. No request in another language was trained: words of French, German and Spanish are known by their translations
alone, and most calls of such requests are wrong or refused (last column)."""
TRAINED = """English first; French, German and Spanish with fewer requests (last column), to functions whose names and descriptions are mostly
English. No other language."""
ENGLISH = "English only."
LISTS = 600  # tool lists that are drawn to describe the data
FINISHED = "The schedule was run to its end."
MEAN = " The weights are the mean of those at minutes {} (`training/average.py`)."
UNFINISHED = "These weights are a checkpoint: the schedule had not reached its end."
TEXT = """# {name}: the embedded model of Call Me Maybe

A transformer made for one thing ({shape}; {parameters:.2f}M parameters, {vocabulary:,} tokens of its own
byte-level vocabulary, integer weights): it reads tools and a request and writes a call under a grammar. It is not a chat
model and knows nothing of the world. Tools are read one by one, so that neither their number nor their order
changes what is known of each; every word of the request votes on the tools it sounds like, `<|call|>` counts
the votes; arguments are written or copied, token by token (`training/nn/model.py`).

## Scores

Greedy, forced tokens supplied, 4 to 12 functions offered. Shares in percent with 95% Wilson
intervals; names compete with the tools offered and with refusing, values with the whole vocabulary (the product's
grammar is narrower). Measured on the float weights, not on the shipped integer file, by
`python -m training.evaluate --run {recipe}`; the shipped file is measured by `benchmarks/nano.py`
(docs/reference/nano.md), which is the table to quote. The rows of argument types judge one
argument while everything before it is given right, so they flatter: alone, the model errs earlier.

{table}

Held out are whole domains ({domains}) and, elsewhere, every {every}th function by hash; never single
prompts. {aside} of them are not measured: a function of another domain that does the same is trained on, or
was. SGD dev includes arguments that the request does not say literally. Requests of the first column are drawn as for training: made-up
functions among them, functions that are asked for by association, other verbs, more that share no word with their function, a third of the tools described at length.

## Training

{steps} steps, {pairs:,} requests, {tokens:.2f}M tokens in {minutes} minutes on {machine}, seed `{seed}`. {state}
Everything is generated from `training/` by `{recipe}`. Data and network were bettered on the way (`training/LOG.md`),
so the same recipe from the start gives other weights. Only weights that replace a released model are committed.
No evaluation set took part: `training/data/leak_filter.py` drops requests that share eight words in a
row with an evaluation prompt, and functions with an evaluation function's name and parameters.

## Data and licences

* {functions} function definitions in {count} domains written for this project (the project's licence),
  and made-up functions drawn anew for every block.
* The train split of Schema-Guided Dialogue (google-research-datasets), CC BY-SA 4.0. Requests were
  filtered and paired with varied tool lists. Credit: Rastogi et al., "Towards Scalable Multi-domain
  Conversational Agents: The Schema-Guided Dialogue Dataset", 2020.
* WordNet 3.0, Princeton University, https://wordnet.princeton.edu (WordNet licence): which words its
  synsets and glosses use together gives every word a vector before training begins
  (`training/data/wordnet_vectors.py`). No text of it is in the model.
* What {associations:,} words bring to mind, written for this project (its licence, `training/data/sources/associations`): a second vector.{more}

What was written, and what {lists} tool lists drawn from it and from dialogues hold
(`python -m training.describe`):

{written}

{drawn}

## In an agent's loop

It reads the last request of a user and the functions, and writes calls. Answers in text that `callmemaybe serve` gives in its name (after the
results of calls, where nothing fits, where it has to talk) are rendered from the results or are fixed sentences: rendered, not generated.
An answer by a JSON Schema is the arguments of one function with that schema.

## What it is bad at

{languages} Requests for two calls, nested objects and long requests were hardly trained; calls that need
knowledge or arithmetic fail (numbers in words, days, times and addresses are read by the library, `callmemaybe.values`, and
shown to the model). When two parameters have the same type it may put one value into both, and a value may take in words that stand beside it. What a switch is set to is right in two
thirds to nine tenths of the calls of functions it has not seen. Requests that fit nothing are refused less surely than those that fit
are served: see the row. It tells at most 64 functions apart.
"""


def means(minutes: list[Any]) -> str:
    """Minutes whose weights were averaged; what is a mean itself in brackets."""
    return " and ".join(
        f"({means(each)})" if isinstance(each, list) else str(each) for each in minutes
    )


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


def other_data(recipe: Recipe) -> str:
    """What this run learnt from beside the written functions, dialogues and WordNet: an item of a list each."""
    kinds = recipe.table["mix"]["kinds"]
    found = []
    if "foreign" in recipe.table["model"]:
        found.append(WORDS)
    if "foreign" in kinds:
        asked = foreign.read(recipe.functions("train"))
        found.append(REQUESTS.format_map({n: f"{len(t.functions):,}" for n, t in asked.items()}))
    if "natural" in kinds:
        found.append(SAID)
    return "".join(f"\n{each}" for each in found)


def languages(recipe: Recipe) -> str:
    """Which languages this run knows."""
    if "foreign" in recipe.table["mix"]["kinds"]:
        return TRAINED
    return UNTRAINED if "foreign" in recipe.table["model"] else ENGLISH


def card(recipe: Recipe, report: dict[str, Any], *, parameters: int, vocabulary: int) -> str:
    """Write the card."""
    model, held = recipe.table["model"], recipe.table["held_out"]
    functions = recipe.functions("train")
    state = FINISHED if report["finished"] else UNFINISHED
    if report["mean_of"]:
        state += MEAN.format(means(report["mean_of"]))
    return TEXT.format(
        name=recipe.table["name"],
        shape=f"{model['layers']} layers, {model.get('deep', 0)} more for answers, width {model['width']}, {model['heads']} heads",
        parameters=parameters / 1e6,
        vocabulary=vocabulary,
        recipe=recipe.shown,
        table=score_table(report["scores"]),
        domains=", ".join(held["domains"]),
        every=held["every"],
        aside=len(held.get("aside", ())),
        steps=f"{report['steps']:,}",
        tokens=report["tokens"] / 1e6,
        minutes=report["minutes"],
        machine=recipe.table["training"]["machine"],
        pairs=report["pairs"],
        state=state,
        seed=recipe.seed,
        more=other_data(recipe),
        languages=languages(recipe),
        functions=f"{len(functions):,}",
        lists=LISTS,
        written=table(count_written(functions)),
        drawn=table(count_drawn(recipe.maker("train"), LISTS, "card")),
        count=len({function.domain for function in functions}),
        associations=sum(1 for _ in read()),
    )
