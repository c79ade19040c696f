"""From cases and answers to figures and a page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import InputError
from callmemaybe.evals.case import Case
from callmemaybe.evals.page import page
from callmemaybe.evals.record import EvalRecord, UnconstrainedAttempt
from callmemaybe.evals.report import FIGURES, judge, report
from callmemaybe.evals.score import score, type_of
from callmemaybe.tools import ToolCall

FUNCTIONS: list[dict[str, Any]] = [
    {"name": "add", "parameters": {"a": {"type": "number"}, "b": {"type": "number"}}},
    {"name": "say", "parameters": {"text": {"type": "string"}}},
]
ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}


def case(expected: Any, identity: str = "x", **more: Any) -> Case:
    return Case.from_json(
        {"id": identity, "functions": FUNCTIONS, "prompt": "p", "expected": expected, **more}
    )


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, json.dumps(arguments))


def record(one: Case, made: ToolCall | None, **more: Any) -> EvalRecord:
    return EvalRecord(one.id, one.key, made, **more)


@pytest.mark.parametrize(
    ("value", "where", "words"),
    [
        ([], "", "object"),
        ({"functions": [], "prompt": "p"}, "", "expected"),
        ({"functions": [], "prompt": "p", "expected": None}, "/functions", "at least one"),
        ({"functions": FUNCTIONS, "prompt": 3, "expected": None}, "/prompt", "string"),
        ({"functions": [{}], "prompt": "p", "expected": None}, "/functions/0", "name"),
        ({"functions": FUNCTIONS, "prompt": "p", "expected": {"name": "no"}}, "/expected/name", "add"),
        ({"functions": FUNCTIONS, "prompt": "p", "expected": [ADD, 3]}, "/expected/1", "call"),
        ({"functions": FUNCTIONS, "prompt": "p", "expected": []}, "/expected", "null"),
        ({"functions": FUNCTIONS, "prompt": "p", "expected": None, "tags": [1]}, "/tags/0", "string"),
        ({"functions": FUNCTIONS, "prompt": "p", "expected": None, "compare": "?"}, "/compare", "exact"),
        ({"functions": FUNCTIONS, "prompt": "p", "expected": None, "tag": []}, "/tag", "key"),
    ],
)  # fmt: skip
def test_a_wrong_case_says_where(value: Any, where: str, words: str) -> None:
    """Whatever is wrong with a case has a JSON pointer and a sentence."""
    with pytest.raises(InputError, match=words) as raised:
        Case.from_json(value)
    assert (raised.value.where or "").startswith(where)


def test_a_case_survives_writing() -> None:
    """A case written as JSON is read as an equal one."""
    add = {"name": "add", "arguments": {"a": [1], "b": ["", 2]}}
    one = case([add, None], tags=["t"], compare="bfcl")
    assert Case.from_json(json.loads(json.dumps(one.as_json()))) == one


def test_one_of_several_answers_will_do() -> None:
    """An answer is judged by the right one it comes closest to."""
    one = case([ADD, {"name": "add", "arguments": {"a": 2, "b": 1}}, None])
    assert score(one, call("add", a=2, b=1)).exact
    assert score(one, None).exact
    assert score(one, call("add", a=2, b=9)).arguments == {"a": True, "b": False}
    assert not score(one, call("say", text="")).name


def test_types_have_names() -> None:
    """Arguments are grouped by what a reader would call their type."""
    tool = case(None, functions=[{"name": "f", "parameters": {
        "type": "object", "properties": {
            "e": {"enum": [1]}, "d": {"type": "string", "format": "date"},
            "l": {"type": "array", "items": {"type": "integer"}}, "n": {"type": ["string", "null"]},
        }}}]).tools[0]  # fmt: skip
    found = [type_of(tool, name) for name in ("e", "d", "l", "n", "?")]
    assert found == ["enum", "date", "array of integer", "string|null", "any"]


def some_report() -> dict[str, Any]:
    cases = [
        case(ADD, "right", tags=["<b>tag"]),
        case(ADD, "argument", tags=["<b>tag"]),
        case(ADD, "function"),
        case(ADD, "refused"),
        case(ADD, "failed"),
        case(None, "none"),
        case(None, "called"),
        case(ADD, "not asked"),
    ]
    made = [call("add", a=1, b=2), call("add", a=1, b=3), call("say", text="hi"), None, None, None]
    bad = UnconstrainedAttempt(None, "not in the format", 30, 0.1)
    good = UnconstrainedAttempt(call("add", a=1, b=2), None, 10, 0.1)
    more: list[dict[str, Any]] = [{} for _ in cases]
    more[0] = {"probability": 0.9, "forced": 4, "chosen": 2, "seconds": 0.5, "attempts": (good,)}
    more[1] = {"probability": 0.8, "attempts": (bad, bad, good)}
    more[2] = {"probability": 0.3, "attempts": (bad, bad, bad)}
    more[4] = {"failure": "<script>"}
    records = {
        one.id: record(one, found, **extra)
        for one, found, extra in zip(cases, [*made, call("add", a=1, b=2)], more, strict=False)
    }
    return report(judge(cases, records), {"model": "m<", "data": "d"})


def test_figures_by_hand() -> None:
    """Each share counts what it says; a failed case is wrong, an unasked one is not there."""
    found = some_report()
    shares = {key: (one["right"], one["of"]) for key, one in found["figures"].items()}
    assert shares == {
        "right": (2, 7), "name": (2, 5), "exact": (1, 5), "arguments": (1, 2), "values": (3, 4),
        "no_call_precision": (1, 2), "no_call_recall": (1, 2), "false_refusals": (1, 5),
    }  # fmt: skip
    assert found["by_tag"]["<b>tag"]["exact"]["of"] == 2
    assert found["by_type"]["number"]["right"] == 3
    assert found["calibration"]["cases"] == 3
    assert found["failures"] == {"<script>": ["failed"]}


def test_the_unconstrained_run_stands_beside() -> None:
    """Validity, accuracy and tokens are those of the same cases; retries cost what they cost."""
    found = some_report()["comparison"]
    assert found["constrained"]["valid"]["right"] == 3
    assert found["first"]["valid"]["right"] == 1
    assert (found["first"]["tokens"], found["retried"]["tokens"]) == (70, 170)
    assert found["retried"]["tokens_per_valid"] == 85
    assert (found["recovered"]["right"], found["recovered"]["of"]) == (1, 2)


class Tags(HTMLParser):
    """Notes every tag and where it loads something from."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.sources += [str(value) for name, value in attrs if name in ("src", "href")]


def test_the_page_needs_nothing_and_trusts_nothing() -> None:
    """One file without scripts or links; text from cases and models stays text."""
    text = page(some_report())
    tags = Tags()
    tags.feed(text)
    assert tags.sources == []
    assert not tags.names & {"script", "link", "img", "b"}
    assert {"svg", "table"} <= tags.names
    assert "m&lt;" in text
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == 3  # figures, calibration, types
    for drawing in drawings:
        ET.fromstring(drawing)


def test_a_report_of_nothing_is_one() -> None:
    """Without a single answer there are figures, all of nothing, and a page."""
    found = report([], {})
    assert [one["of"] for one in found["figures"].values()] == [0] * len(FIGURES)
    assert "<svg" not in page(found) or page(found)


@settings(max_examples=30)
@given(
    st.builds(
        EvalRecord,
        st.text(max_size=5), st.text(max_size=5), st.none() | st.just(call("add", a=1)),
        st.none() | st.text(max_size=5), st.none() | st.floats(0, 1).map(lambda p: round(p, 6)),
        st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.just(0.5),
        st.lists(st.just(UnconstrainedAttempt(None, "?", 3, 0.25)), max_size=2).map(tuple),
    )
)  # fmt: skip
def test_a_record_survives_writing(one: EvalRecord) -> None:
    """A record written as a line of JSON is read as an equal one; anything else is refused."""
    assert EvalRecord.from_json(json.loads(json.dumps(one.as_json()))) == one
    with pytest.raises(InputError):
        EvalRecord.from_json({"id": "x"})
