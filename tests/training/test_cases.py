"""Held-out cases are what the package's evaluation reads, and mean what they say."""

from __future__ import annotations

from itertools import islice

import jsonschema_rs
import pytest

from callmemaybe.evals.case import Case
from training import recipe as recipes
from training.cases import cases, difficulties, shares_word

RECIPE = recipes.load(recipes.ROOT / "training/runs/nano-2.toml")


@pytest.mark.parametrize("part", ["function", "domain"])
def test_held_out_cases(part: str) -> None:
    """Four to twelve functions are offered, the right call satisfies its schema, ids are distinct."""
    found = [Case.from_json(one) for one in cases(RECIPE, part, 96)]
    assert len({case.id for case in found}) == 96
    assert {len(case.tools) for case in found} <= set(range(4, 13))
    for case in found:
        for expected in case.expected:
            if expected is not None:
                schema = dict(case.tool(expected.name).schema)
                assert jsonschema_rs.is_valid(schema, dict(expected.arguments)), case
                assert set(expected.arguments) <= set(schema["properties"])


def test_the_same_cases_every_time() -> None:
    """A set is fixed by recipe and part; more cases begin with the same ones."""
    few = list(islice(cases(RECIPE, "function", 13), 13))
    assert few == list(islice(cases(RECIPE, "function", 30), 13))


def test_difficulties_have_names() -> None:
    """What makes arguments hard to copy is found at any depth."""
    assert difficulties({"a": ["it's", {"b": "C:\\x"}], "n": -2, "u": "é", "t": True}) == [
        "negative", "path", "quotes", "unicode",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("prompt", "shared"),
    [("transposing [[1,2],[3,4]]", True), ("the MATRICES [[1]] rotated", False),
     ("rows and columns of this exchanged", False), ("for a matrix", True)],
)  # fmt: skip
def test_words_are_shared_in_any_common_form(prompt: str, shared: bool) -> None:
    """Endings and case do not matter, and words that any request may hold do not count."""
    tool = {"name": "la.transposeIt", "description": "Turns_a matrix around for you and this"}
    assert shares_word(prompt, tool) == shared
