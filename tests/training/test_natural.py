"""Natural requests: corpora as functions, what is held out of them, and what a list of them asks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from training import recipe as recipes
from training.data import natural, seal_tools
from training.data.mixture import CORPORA, SEAL, BlockMaker, Mix, Sources
from training.data.variants import BlockStyle

CURRENCY = {
    "text": "what are 10 dollars in euros",
    "intent": "qa_currency",
    "slots": [
        {"name": "currency_name", "value": "dollars", "start": 12, "end": 19},
        {"name": "currency_name", "value": "euros", "start": 23, "end": 28},
    ],
}
STOP = {"text": "stop that now", "intent": "general_commandstop", "slots": []}


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    (folder / name).mkdir(parents=True)
    with gzip.open(folder / name / "train.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def test_the_definitions_can_be_read() -> None:
    """Every function has a description, every slot a name of its own."""
    for name in CORPORA:
        if name == SEAL:
            continue
        functions = natural.read_functions(natural.SOURCES / f"{name}.txt", {})
        assert functions
        for function in functions:
            assert function.abouts, function.key
            keys = [parameter.key for parameter in function.parameters]
            assert len(set(keys)) == len(keys), function.key
            assert all(parameter.abouts for parameter in function.parameters), function.key


def test_a_second_value_of_a_slot_is_another_parameter(tmp_path: Path) -> None:
    """Sentences with more values than the function takes, or of another slot, are left out."""
    third = {**CURRENCY, "slots": [*CURRENCY["slots"], CURRENCY["slots"][0]]}  # type: ignore[misc]
    foreign = {**STOP, "slots": [{"name": "date", "value": "now", "start": 10, "end": 13}]}
    quirk = {"text": "is the moon a plum", "intent": "general_quirky", "slots": []}
    write(tmp_path, "hwu64", [CURRENCY, third, STOP, foreign, quirk])
    corpus = natural.load(tmp_path, "hwu64")
    said = {key: some for key, some in corpus.sentences.items() if some}
    assert {key: len(some) for key, some in said.items()} == {
        "qa/qa_currency": 1, "general/general_commandstop": 1,
    }  # fmt: skip
    assert corpus.strays == ["is the moon a plum"]
    function = next(f for f in corpus.functions if f.names[0] == "qa_currency")
    rng = Random(0)
    variant, fitting = natural.present(corpus, function, rng, BlockStyle.draw(rng), varied=False)
    text, arguments = natural.ask(variant, fitting, rng, varied=False)
    assert text == CURRENCY["text"]
    flat = json.dumps(arguments)
    assert "dollars" in flat
    assert "euros" in flat


def test_values_stand_in_the_sentence_however_it_is_varied(tmp_path: Path) -> None:
    """Exchanged values, small letters, capitals: what is expected is what is said."""
    other = {"text": "rupees to yen please", "intent": "qa_currency", "slots": [
        {"name": "currency_name", "value": "rupees", "start": 0, "end": 6},
        {"name": "currency_name", "value": "yen", "start": 10, "end": 13}]}  # fmt: skip
    write(tmp_path, "hwu64", [CURRENCY, other])
    corpus = natural.load(tmp_path, "hwu64")
    function = next(f for f in corpus.functions if f.names[0] == "qa_currency")
    asked = set()
    for seed in range(60):
        rng = Random(seed)
        style = BlockStyle.draw(rng)
        variant, fitting = natural.present(corpus, function, rng, style, varied=True)
        text, arguments = natural.ask(variant, fitting, rng, varied=True)
        values = [v for v in arguments.values() if isinstance(v, str)]
        assert all(value in text for value in values), (text, arguments)
        asked.add(text.lower())
    assert "rupees to euros please" in asked


def test_what_is_held_out_is_never_trained_on(tmp_path: Path) -> None:
    """A share of the sentences of trained intents, and whole intents and families."""
    many = [{**STOP, "text": f"stop number {number}"} for number in range(200)]
    write(tmp_path, "hwu64", [*many, CURRENCY])
    corpus = natural.load(tmp_path, "hwu64")
    unseen = ["hwu64/qa"]
    parts = {p: natural.part_of(corpus, p, unseen) for p in ("train", "natural", "intent")}
    said = {p: {s.text for each in c.sentences.values() for s in each} for p, c in parts.items()}
    assert said["intent"] == {CURRENCY["text"]}
    assert said["train"].isdisjoint(said["natural"] | said["intent"])
    assert 0 < len(said["natural"]) < 25
    assert len(said["train"]) + len(said["natural"]) == 200


def test_a_list_may_want_several_calls() -> None:
    """Requests of Seal-Tools keep their calls, by the places of their functions in the list."""
    number = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    tools = {
        f"tool{i}": {"name": f"tool{i}", "description": "", "parameters": number} for i in range(8)
    }
    single = [
        seal_tools.SealRequest(f"use {i} with 5", ((f"tool{i}", {"n": 5}),), (f"tool{i}",))
        for i in range(8)
    ]
    both = seal_tools.SealRequest(
        "use 0 with 5 and 1 with 6", (("tool0", {"n": 5}), ("tool1", {"n": 6})), ("tool0", "tool1")
    )
    sources = Sources([], None, augment=False)
    sources.seal = seal_tools.SealTools(tools, single, [both])
    maker = BlockMaker(sources, Mix({"natural": 1.0}, 0.0, 0.0))
    rng = Random(1)
    seen = set()
    for _ in range(20):
        block, offers = maker.start(rng)
        pair = maker.pair(block, offers, rng)
        named = tuple(block.tools[index]["name"] for index, _ in pair.calls)
        assert all(str(name[-1]) in pair.prompt for name in named)
        seen.add(len(named))
    assert seen == {1, 2}


def test_values_are_taken_as_the_request_spells_them() -> None:
    """A request that does not say a value is left out; numbers keep their digits."""
    tools = {"pay": {"parameters": {"properties": {"to": {}, "amount": {}}}}}
    row = {"prompt": "Pay ANNA 2.50 today", "calls": [{"name": "pay", "arguments": {"amount": 2.5, "to": "Anna"}}],
           "candidates": ["pay"], "valid": True, "grounded": True, "nested": False}  # fmt: skip
    assert seal_tools.readable(row, tools) is None  # 2.5 is not what is written
    said = seal_tools.readable({**row, "prompt": "Pay ANNA 2.5 today"}, tools)
    assert said
    assert list(said.calls[0][1].items()) == [("to", "ANNA"), ("amount", "2.5")]


@pytest.mark.skipif(not (recipes.ROOT / "../shared/data/snips").is_dir(), reason="no corpora here")
def test_the_recipe_holds_intents_out() -> None:
    """Those that the recipe names are in no training list, and there is something of each to measure."""
    recipe = recipes.load(recipes.DEFAULT)
    unseen = recipe.table["held_out"]["intents"]
    trained, held = recipe.natural("train"), recipe.natural("intent")
    for name in unseen:
        corpus, intent = name.split("/")
        for function in trained[corpus].functions:
            assert intent not in (function.domain, function.names[0])
        assert any(intent in (f.domain, f.names[0]) for f in held[corpus].functions)
