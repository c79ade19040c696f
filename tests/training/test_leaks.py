"""Evaluation data stays out of training."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from training.data import dialogues
from training.data.leak_filter import LeakFilter, build_leak_filter, normalise, spans
from training.data.mixture import BlockMaker, Mix, Sources
from training.data.requests import draw_request
from training.data.tasks import read_tasks
from training.data.variants import BlockStyle, draw_variant

EXAMPLES = Path(__file__).parents[2] / "data" / "input"
EVALUATION = Path(__file__).parents[3] / "shared" / "data"
LONG = "Please tell me how many days are left until the summer holidays begin"
TOOL = {"name": "days_left", "parameters": {"properties": {"day": {}, "zone": {}}}}


@pytest.fixture(scope="module")
def leak_filter() -> LeakFilter:
    return LeakFilter([LONG, "Stop now!"], [TOOL])


@pytest.mark.parametrize(
    "prompt",
    [
        LONG,
        LONG.upper() + "???",
        "Well, how many days are left until the summer, my friend?",
        "stop... NOW",
    ],
)
def test_planted_prompts_are_dropped(leak_filter: LeakFilter, prompt: str) -> None:
    """Eight words in a row, or the same few words, are a leak whatever the punctuation."""
    assert not leak_filter.allows_prompt(prompt)


@pytest.mark.parametrize(
    "prompt",
    ["how many days are left until the winter", "Stop now, please", "stop", "", "?!"],
)
def test_other_prompts_stay(leak_filter: LeakFilter, prompt: str) -> None:
    """Seven words in a row are not a leak, nor is a short prompt that goes on."""
    assert leak_filter.allows_prompt(prompt)


def test_planted_functions_are_dropped(leak_filter: LeakFilter) -> None:
    """A function leaks by its name together with its parameter names, in any order and form."""
    same = {"name": "days_left", "parameters": {"zone": {"type": "string"}, "day": {}}}
    assert not leak_filter.allows_tool(same)
    assert leak_filter.allows_tool({"name": "days_left", "parameters": {"properties": {"day": {}}}})
    assert leak_filter.allows_tool({**TOOL, "name": "days"})


def test_spans_cover_every_word() -> None:
    """A text of n words has n - 7 spans; a shorter one is one span."""
    assert len(list(spans(LONG))) == len(normalise(LONG)) - 7
    assert list(spans("Stop now!")) == ["stop now"]


def test_the_examples_of_the_product_are_protected(tmp_path: Path) -> None:
    """The leak filter reads the shipped examples, whichever of the two forms a definition has."""
    leak_filter = build_leak_filter(tmp_path, EXAMPLES)
    prompts = json.loads((EXAMPLES / "function_calling_tests.json").read_text("utf-8"))
    tools = json.loads((EXAMPLES / "functions_definition.json").read_text("utf-8"))
    assert not any(leak_filter.allows_prompt(item["prompt"]) for item in prompts)
    assert not any(leak_filter.allows_tool(item.get("function", item)) for item in tools)


def test_what_is_generated_passes_the_leak_filter() -> None:
    """Everything that the sources draw has passed the leak filter: nothing protected is among it."""
    functions = read_tasks()
    rng = Random("leaks")
    drawn = []
    for function in functions:
        variant = draw_variant(function, rng, BlockStyle.draw(rng))
        drawn.append((variant.tool, draw_request(function, variant, rng)[0]))
    planted = LeakFilter([prompt for _, prompt in drawn], [tool for tool, _ in drawn])
    sources = Sources(functions, None, planted.allows_tool, planted.allows_prompt)
    maker = BlockMaker(sources, Mix({"tasks": 1.0}))
    for index in range(60):
        block, offers = maker.start(Random(f"planted:{index}"))
        assert all(planted.allows_tool(tool) for tool in block.tools)
        for number in range(5):
            pair = maker.pair(block, offers, Random(f"planted:{index}:{number}"))
            if pair.tag == "one":
                assert planted.allows_prompt(pair.prompt)


@pytest.mark.skipif(not EVALUATION.is_dir(), reason="the evaluation sets are not here")
def test_real_evaluation_sets_do_not_come_out_of_the_real_functions() -> None:
    """What the sources draw from the task files passes a leak filter of every evaluation set that is there."""
    leak_filter = build_leak_filter(EVALUATION, EXAMPLES)
    assert len(leak_filter.spans) > 1000
    sources = Sources(read_tasks(), None, leak_filter.allows_tool, leak_filter.allows_prompt)
    maker = BlockMaker(sources, Mix({"tasks": 1.0}))
    for index in range(40):
        block, offers = maker.start(Random(f"real:{index}"))
        assert all(leak_filter.allows_tool(tool) for tool in block.tools)
        pairs = [maker.pair(block, offers, Random(f"real:{index}:{n}")) for n in range(5)]
        assert all(leak_filter.allows_prompt(pair.prompt) for pair in pairs if pair.tag == "one")


def test_dialogue_services_are_split_by_service() -> None:
    """Requests of one kind of service count as near, so that a refusal is really one."""
    assert dialogues.family("Hotels_1_BookHotel") == dialogues.family("Hotels_4_SearchHotel")
    assert dialogues.family("Hotels_1_BookHotel") != dialogues.family("Homes_1_FindHome")
