"""Sentences that people said, as requests to functions made from their intents.

The corpora (SNIPS, HWU64, CLINC150, Restaurants-8k) name an intent and mark its slots in the sentence; what the intent
is as a function, and what it may be called, is written in `sources/natural/<corpus>.txt`:

    # intent / other_name                a function
    : One description. | Another.
    - slot/other name? : description | other
    - slot@2 name/other? : ...           the slot's second value in a sentence

A value is what stands in the sentence. A sentence with a slot that its function lacks, or with more values of one than it
takes, is left out.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from training.data.requests import arrange
from training.data.tasks import TaskFunction, TaskParameter, split
from training.data.variants import BlockStyle, Variant, draw_variant

SOURCES = Path(__file__).parent / "sources" / "natural"
EVERY = 20  # of the sentences of a trained intent, one in so many is held out
STRAYS = {"clinc150": ("oos",), "hwu64": ("general_quirky",)}  # intents that are no function
SINGLE = "book_table"  # the only function of Restaurants-8k, whose sentences have no intent
SWAPPED = 0.35  # share of the sentences in training whose values are those of other sentences
REQUIRED = 0.3  # share of the commoner slots that a function requires, of its sentences only those that have them
COMMON = 0.4  # share of the sentences that a commoner slot is in
LEFT_OUT = (
    0.12  # share of the slots that a function lacks, whose values its sentences then say in vain
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """What was said, with the places of its values by slot, in their order."""

    text: str
    values: tuple[tuple[str, int, int], ...]

    def said(self, key: str) -> str:
        """The value of a slot; empty if it has none."""
        return next((self.text[low:high] for slot, low, high in self.values if slot == key), "")


@dataclass(slots=True)
class NaturalCorpus:
    """The functions of a corpus with their sentences, and sentences that mean none of them."""

    name: str
    functions: list[TaskFunction]
    sentences: dict[str, list[Sentence]] = field(default_factory=dict)  # by function key
    strays: list[str] = field(default_factory=list)

    def shares(self, function: TaskFunction) -> dict[str, float]:
        """In what share of a function's sentences each slot has a value."""
        said = self.sentences[function.key]
        return {
            p.key: sum(bool(s.said(p.key)) for s in said) / len(said) for p in function.parameters
        }


def read_functions(file: Path, domains: Mapping[str, str]) -> list[TaskFunction]:
    """The functions of a corpus; `domains` names the domain of an intent. Raises ValueError with file and line."""
    functions: list[TaskFunction] = []
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        mark, _, rest = line.partition(" ")
        if not line.strip():
            continue
        if mark == "#":
            names = split(rest, "/")
            family = names[0].partition("_")[0] if "_" in names[0] else file.stem
            domain = domains.get(names[0], family)
            functions.append(TaskFunction(domain, names))
        elif mark == ":":
            functions[-1].abouts = split(rest, "|")
        elif mark == "-":
            functions[-1].parameters.append(read_slot(rest))
        else:
            raise ValueError(f"{file.name}:{number}: a line begins with #, : or -, not {line!r}")
    return functions


def read_slot(line: str) -> TaskParameter:
    """Parse one `-` line; the generator is the slot, with its number if it is not the first of its name."""
    head, _, about = line.partition(" : ")
    slot, at, rest = head.strip().rstrip("?").partition("@")
    names = split(rest.partition(" ")[2] if at else slot, "/")
    generator = f"{slot}@{rest.partition(' ')[0]}" if at else names[0]
    return TaskParameter(names, "string", generator, split(about, "|"), optional=True)


def read_rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a corpus."""
    with gzip.open(folder / name / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def annotated(row: Mapping[str, Any], function: TaskFunction) -> Sentence | None:
    """A row as a sentence to a function; None if a value of it has no parameter."""
    keys: dict[str, list[str]] = defaultdict(list)
    for parameter in function.parameters:
        keys[parameter.generator.partition("@")[0]].append(parameter.key)
    values = []
    for slot in sorted(row.get("slots", ()), key=lambda slot: slot["start"]):
        if not keys.get(slot["name"]):
            return None
        values.append((keys[slot["name"]].pop(0), slot["start"], slot["end"]))
    text = row["text"]
    if any(text[low:high] != text[low:high].strip() or low == high for _, low, high in values):
        return None
    return Sentence(text, tuple(values))


def load(
    folder: Path, name: str, allows: Callable[[str], bool] = lambda text: True
) -> NaturalCorpus:
    """Read a corpus of `folder`; `allows` refuses sentences that an evaluation set holds."""
    domains = {}
    if (folder / name / "domains.json").is_file():
        listed = json.loads((folder / name / "domains.json").read_text("utf-8"))
        domains = {intent: domain for domain, intents in listed.items() for intent in intents}
    corpus = NaturalCorpus(name, read_functions(SOURCES / f"{name}.txt", domains))
    by_intent = {function.names[0]: function for function in corpus.functions}
    corpus.sentences = {function.key: [] for function in corpus.functions}
    for row in read_rows(folder, name):
        intent = row.get("intent", SINGLE)
        if intent in STRAYS.get(name, ()):
            corpus.strays += [row["text"]] if allows(row["text"]) else []
        elif "intent" in row or row["slots"]:
            sentence = annotated(row, by_intent[intent])
            if sentence and allows(sentence.text):
                corpus.sentences[by_intent[intent].key].append(sentence)
    return corpus


def is_held_out(text: str) -> bool:
    """Whether a sentence of a trained intent is kept for measuring."""
    return crc32(text.encode()) % EVERY == 0


def part_of(corpus: NaturalCorpus, part: str, unseen: Sequence[str]) -> NaturalCorpus:
    """`train`, `natural` (held-out sentences of trained intents) or `intent` (intents that are held out whole).

    `unseen` names the latter: `corpus/intent`, or `corpus/family` for all whose domain that is.
    """
    hidden = {
        function.key
        for function in corpus.functions
        if not {
            f"{corpus.name}/{function.domain}",
            f"{corpus.name}/{function.names[0]}",
        }.isdisjoint(unseen)
    }
    functions = [f for f in corpus.functions if (f.key in hidden) == (part == "intent")]
    kept = {
        f.key: [
            s
            for s in corpus.sentences[f.key]
            if part == "intent" or is_held_out(s.text) == (part == "natural")
        ]
        for f in functions
    }
    functions = [function for function in functions if kept[function.key]]
    strays = [text for text in corpus.strays if is_held_out(text) == (part != "train")]
    return NaturalCorpus(corpus.name, functions, {f.key: kept[f.key] for f in functions}, strays)


def present(
    corpus: NaturalCorpus, function: TaskFunction, rng: Random, style: BlockStyle, *, varied: bool
) -> tuple[Variant, list[Sentence]]:
    """A function as a list shows it, and its sentences that fit; `varied`: some slots required, some left out."""
    shares = corpus.shares(function)
    said = corpus.sentences[function.key]
    parameters = []
    for parameter in function.parameters:
        share = shares[parameter.key]
        if not share or (varied and share < 1 and rng.random() < LEFT_OUT):
            continue
        needed = share == 1 or (varied and share > COMMON and rng.random() < REQUIRED)
        parameters.append(
            replace(parameter, optional=not needed, generator=examples(said, parameter, rng))
        )
    shown = replace(function, parameters=parameters, requests=[])
    required = [p.key for p in parameters if not p.optional]
    fitting = [s for s in said if all(s.said(key) for key in required)]
    if not fitting:
        return present(corpus, function, rng, style, varied=False)
    return draw_variant(shown, rng, style), fitting


def examples(said: Sequence[Sentence], parameter: TaskParameter, rng: Random) -> str:
    """Values that a description may give as examples, as literal choices of a generator."""
    drawn = (rng.choice(said).said(parameter.key) for _ in range(12))
    found = {value for value in drawn if re.fullmatch(r"[\w' .-]{2,30}", value)}
    return ";".join(sorted(found) if len(found) > 1 else ("this", "that"))


def ask(
    variant: Variant, fitting: Sequence[Sentence], rng: Random, *, varied: bool
) -> tuple[str, dict[str, Any]]:
    """Draw a sentence, and the arguments that it means."""
    sentence = rng.choice(fitting)
    if varied and rng.random() < SWAPPED:
        sentence = swap(sentence, fitting, rng)
    text, ends = sentence.text, [(low, high) for _, low, high in sentence.values]
    if varied:
        text = vary_case(text, rng)
        if (
            rng.random() < 0.1
            and text[-1] in ".?!"
            and not any(high == len(text) for _, high in ends)
        ):
            text = text[:-1]
    known = {parameter.key for parameter in variant.function.parameters}
    values = {key: text[low:high] for key, low, high in sentence.values if key in known}
    return text, arrange(values, variant)


def swap(sentence: Sentence, fitting: Sequence[Sentence], rng: Random) -> Sentence:
    """The sentence with some of its values exchanged for those that other sentences have."""
    text, values, shift = sentence.text, [], 0
    for key, low, high in sentence.values:
        low, high = low + shift, high + shift
        other = rng.choice(fitting).said(key) if rng.random() < 0.6 else ""
        if other:
            text = text[:low] + other + text[high:]
            shift += len(other) - (high - low)
            high = low + len(other)
        values.append((key, low, high))
    return Sentence(text, tuple(values))


def vary_case(text: str, rng: Random) -> str:
    """Write a sentence in small letters, in capitals or with a capital; its length stays."""
    luck = rng.random()
    changed = text
    if luck < 0.15:
        changed = text.lower()
    elif luck < 0.17:
        changed = text.upper()
    elif luck < 0.4:
        changed = text[:1].upper() + text[1:]
    return changed if len(changed) == len(text) else text


def describe(corpus: NaturalCorpus, function: TaskFunction) -> str:
    """Words of a function's descriptions and sentences, for likeness."""
    names = " ".join(function.names).replace("_", " ")
    said = " ".join(sentence.text for sentence in corpus.sentences[function.key][:40])
    return f"{names} {names} {' '.join(function.abouts)} {said}"
