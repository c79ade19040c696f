"""Requests of dialogues say what is expected of them, each read without what was said before."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from training.data.dialogues import as_spelled, is_said, load


@pytest.mark.parametrize(
    ("prompt", "value", "said"),
    [
        ("Is there anything interesting to see there?", "ny", ""),
        ("I want two tickets for the Lafc game, I heard it is great", "LA", ""),
        ("Is there any bus to NY?", "ny", "NY"),
        ("Take me to the place in la", "LA", "la"),
        ("Send $1,000 to Amir", "$1,000", "$1,000"),
        ("to Toronto, ontario please", "Toronto, Ontario", "Toronto, ontario"),
    ],
)
def test_an_argument_is_said_in_whole_words(prompt: str, value: str, said: str) -> None:
    """What stands inside of other words is not said, and what is copied is the word and not such a place."""
    assert is_said(prompt, "city", value, {"type": "string"}) == bool(said)
    assert as_spelled(prompt, value, {"type": "string"}) == (said or value)


@pytest.mark.parametrize(
    ("prompt", "name", "said"),
    [
        ("I need a cab for one person. Yes, that should be fine.", "shared_ride", False),
        ("I need a cab, I'd share it", "shared_ride", True),
        ("find attractions paris", "good_for_kids", False),
        ("Somewhere I can take my kids to", "good_for_kids", True),
        ("an apartment in Petaluma", "pets_allowed", False),
        ("a pet-friendly apartment", "pets_allowed", True),
        ("whatever", "switch_of_another_service", True),
    ],
)
def test_a_switch_is_meant_where_a_word_speaks_of_it(prompt: str, name: str, said: bool) -> None:
    """The answer to a question that is not shown says nothing of what was asked."""
    assert is_said(prompt, name, True, {"type": "boolean"}) is said


def test_only_training_leaves_out_what_is_not_said(tmp_path: Path) -> None:
    """What is measured is read as it was, whatever it says."""
    properties = {"city": {"type": "string"}, "shared_ride": {"type": "boolean"}}
    tool = {"name": "GetRide", "description": "", "parameters": {"properties": properties}}
    (tmp_path / "functions.json").write_text(json.dumps([tool]), "utf-8")
    rows = [
        {"prompt": "a cab in NY, shared", "arguments": {"city": "ny", "shared_ride": True}},
        {"prompt": "any cab", "arguments": {"city": "ny"}},
        {"prompt": "a cab. That is fine.", "arguments": {"shared_ride": True}},
    ]
    with gzip.open(tmp_path / "dev.jsonl.gz", "wt", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row | {"function": "GetRide", "turns": 1}) + "\n")
    strict = load(tmp_path, "dev", turns=1, strict=True).examples["GetRide"]
    assert strict == [("a cab in NY, shared", {"city": "NY", "shared_ride": True}, 1)]
    assert len(load(tmp_path, "dev", turns=1, strict=False).examples["GetRide"]) == len(rows)
