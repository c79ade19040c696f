"""Natural requests from Schema-Guided Dialogue (CC BY-SA 4.0), with the call they mean."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from training.data.generators.slots import NUMBER_WORDS


@dataclass(slots=True)
class Dialogues:
    """One split: functions and, for each, (prompt, arguments, turns)."""

    tools: dict[str, dict[str, Any]]
    examples: dict[str, list[tuple[str, dict[str, Any], int]]]


# A boolean counts as meant if one of these words occurs. Some booleans of the dialogues answer a question of an earlier
# turn ("Yes, that should be fine."), which is not read here, and some are not mentioned at all.
MEANT = {
    "free_entry": r"free|entry|entrance|admission|cost|charg|pay|fees?\b|money|budget",
    "furnished": r"furnish|furniture",
    "good_for_kids": r"kid|child|family|families|son\b|daughter|boy|girl|nephew|niece|toddler",
    "has_laundry_service": r"laundry|washing",
    "has_live_music": r"music|\bband|\blive\b",
    "has_wifi": r"wi-? ?fi|internet|wireless",
    "is_unisex": r"uni-?sex|gender|men and women|both",
    "offers_cosmetic_services": r"cosmetic|whiten",
    "pets_allowed": r"\bpets?\b|\bpet-|\bdogs?\b|\bcats?\b|animal",
    "pets_welcome": r"\bpets?\b|\bpet-|\bdogs?\b|\bcats?\b|animal",
    "refundable": r"refund|money back|cancel|change",
    "serves_alcohol": r"alcohol|drink|wine|beer|\bbar\b|cocktail|tequila|liquor|booze|spirits",
    "shared_ride": r"shar(e|ing)|pool|stranger|other (people|passenger|rider)",
    "subtitles": r"sub-? ?titles?|\bsubs?\b|caption",
}


def spelled(prompt: str, text: str) -> str:
    """A text as a request spells it, in whole words; empty if it does not occur."""
    whole = rf"(?<!\w){re.escape(text)}(?!\w)"
    found = re.search(whole, prompt) or re.search(whole, prompt, re.IGNORECASE)
    return found[0] if found else ""


def is_said(prompt: str, name: str, value: Any, schema: dict[str, Any]) -> bool:
    """Whether an argument can be found in the request at all."""
    if isinstance(value, bool):
        return name not in MEANT or bool(re.search(MEANT[name], prompt, re.IGNORECASE))
    if isinstance(value, int):
        words = set(re.findall(r"[^\W_]+", prompt.lower()))
        alone = value == 1 and words & {"single", "myself", "alone", "me", "a", "an", "just", "1st"}
        return str(value) in words or (value < 21 and NUMBER_WORDS[value] in words) or bool(alone)
    if "enum" in schema:
        return value not in ("checking", "savings") or value in prompt.lower()
    return bool(spelled(prompt, str(value)))


def as_spelled(prompt: str, value: Any, schema: dict[str, Any]) -> Any:
    """Take the request's own spelling of a string, so that copying is right."""
    if isinstance(value, str) and "enum" not in schema:
        return spelled(prompt, value) or value
    return value


def load(folder: Path, part: str, *, turns: int, strict: bool) -> Dialogues:
    """Read one split; `strict` drops requests that leave an argument unsaid."""
    functions = json.loads((folder / "functions.json").read_text("utf-8"))
    tools = {function["name"]: function for function in functions}
    examples: dict[str, list[tuple[str, dict[str, Any], int]]] = defaultdict(list)
    with gzip.open(folder / f"{part}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if record["turns"] > turns:
                continue
            properties = tools[record["function"]]["parameters"]["properties"]
            prompt, arguments = record["prompt"], record["arguments"]
            said = (is_said(prompt, k, v, properties[k]) for k, v in arguments.items())
            if strict and not all(said):
                continue
            if strict:
                arguments = {k: as_spelled(prompt, v, properties[k]) for k, v in arguments.items()}
            ordered = {k: arguments[k] for k in properties if k in arguments}
            examples[record["function"]].append((prompt, ordered, record["turns"]))
    return Dialogues({name: tools[name] for name in examples}, dict(examples))


def family(name: str) -> str:
    """Services of one kind (`Hotels_1`, `Hotels_4`) answer each other's requests."""
    return name.split("_", maxsplit=1)[0]


def show(tool: dict[str, Any], rng: Random | None) -> dict[str, Any]:
    """The tool as offered; with `rng`, in one of several dresses.

    Nothing is required: what a dialogue's first turn leaves out is asked for in the next.
    """
    shown = {key: tool[key] for key in ("name", "description", "parameters")}
    shown["parameters"] = {**shown["parameters"], "required": []}
    if rng is None:
        return shown
    if rng.random() < 0.5:
        shown["description"] = shown["description"].partition(" (")[0]
    if rng.random() < 0.5:
        bare = shown["name"].split("_")[-1]
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", bare).lower()
        shown["name"] = rng.choice((bare, snake, bare[:1].lower() + bare[1:]))
    if rng.random() < 0.3:
        parameters = json.loads(json.dumps(shown["parameters"]))
        for schema in parameters["properties"].values():
            schema.pop("description", None)
        shown["parameters"] = parameters
    return shown
