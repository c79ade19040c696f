"""Functions that share their nouns are told apart by what is done."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest

from training.data.generators import confusable_tools
from training.data.mixture import BlockMaker, Mix, Sources
from training.data.tasks import read_tasks

ACTIONS = confusable_tools.actions()


def test_no_two_actions_are_named_or_asked_for_alike() -> None:
    """A verb belongs to one action, and so does each way to ask."""
    verbs = Counter(verb for action in ACTIONS for verb in action.verbs)
    said = Counter(re.sub(r"\W+", " ", text) for action in ACTIONS for text in action.said)
    assert not [each for each, count in (verbs + said).items() if count > 1]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.verbs[0])
def test_every_way_to_ask_says_all_that_is_required(action: confusable_tools.Action) -> None:
    """The thing, and what else the function has to know; at least three ways, most without the verb."""
    assert len(action.said) >= 3
    for text in action.said:
        assert "{x}" in text
        assert ("{y}" in text) == bool(action.more)
    stems = [verb.replace("_", " ")[:5] for verb in action.verbs]
    plain = [text for text in action.said if any(stem in text for stem in stems)]
    assert len(plain) <= len(action.said) / 2


def test_no_action_is_drawn_twice() -> None:
    """A request need not say of which kind its thing is, so of two functions with one action either might be meant."""
    verbs = {verb.replace("_", " "): action.verbs for action in ACTIONS for verb in action.verbs}
    for seed in range(30):
        offered, others = confusable_tools.draw_confusable_tools(Random(seed), 8)
        said = [
            {
                verbs[verb]
                for verb in verbs
                for about in function.abouts
                if re.search(rf"\b{verb}\b", about.lower())
            }
            for function in (*offered, *others)
        ]
        sure = [actions.pop() for actions in said if len(actions) == 1]
        assert len(sure) == len(set(sure)) > 5


def test_what_fits_no_tool_is_meant_for_a_confusable_one() -> None:
    """In a list of confusable tools each pair calls an offered one, and most of the others mean another tool of the kind."""
    maker = BlockMaker(
        Sources(read_tasks()[:40], None), Mix({"tasks": 1.0}, none=0.5, two=0.0, confusable=1.0)
    )
    rng = Random(5)
    strays = []
    for _ in range(30):
        block, offers = maker.start(rng, 4)
        assert len(block.tools) == len({tool["name"] for tool in block.tools}) >= 3
        assert len(block.others) >= 4
        offered = {id(offer) for offer in offers}
        assert not offered & {id(other) for other in block.others}
        for pair in (maker.pair(block, offers, rng) for _ in range(10)):
            if pair.calls:
                ((index, arguments),) = pair.calls
                assert set(block.tools[index]["parameters"]["required"]) == set(arguments)
            else:
                strays.append(pair.prompt)
    assert len(set(strays)) > 100


def test_without_confusable_tools_lists_are_what_they_were() -> None:
    """Where none are wanted, none are drawn."""
    functions = read_tasks()[:40]
    plain = BlockMaker(Sources(functions, None, augment=False), Mix({"tasks": 1.0}))
    block, offers = plain.start(Random(1), 4)
    assert not block.others
    assert block.kind == "tasks"
    assert len(offers) == 4
