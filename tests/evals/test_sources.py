"""Published sets become cases; the files here are made up in their form."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.errors import InputError
from callmemaybe.evals import sources
from callmemaybe.evals.case import Case
from callmemaybe.evals.score import score, score_all
from callmemaybe.evals.sources.bfcl import schema
from callmemaybe.tools import ToolCall


def lines(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def function(name: str, kind: str = "float") -> dict[str, Any]:
    parameters = {
        "type": "dict",
        "properties": {"x": {"type": kind, "default": 1}},
        "required": ["x"],
    }
    return {"name": name, "description": "d", "parameters": parameters}


def test_leaderboard(tmp_path: Path) -> None:
    """Types get their JSON names; where nothing fits, calling nothing is right."""
    question = [[{"role": "user", "content": "five"}]]
    rows = [{"id": "m_0", "question": question, "function": [function("a.b"), function("c")]}]
    lines(tmp_path / "BFCL_v4_multiple.json", rows)
    truth = [{"id": "m_0", "ground_truth": [{"a.b": {"x": [5.0]}}]}]
    lines(tmp_path / "possible_answer" / "BFCL_v4_multiple.json", truth)
    lines(tmp_path / "BFCL_v4_irrelevance.json", [{**rows[0], "id": "i_0"}])
    one, none = sources.read("bfcl", tmp_path)
    assert one.tools[0].parameters["properties"] == {"x": {"type": "number"}}
    assert score(one, ToolCall("a.b", '{"x": 5}')).exact
    assert (one.tags, none.tags, none.wants_none) == (("multiple",), ("irrelevance",), True)
    assert schema({"type": "any", "items": {"type": "tuple"}}) == {"items": {"type": "array"}}


def test_requests_of_the_leaderboard_for_several_calls(tmp_path: Path) -> None:
    """All calls are wanted, in any order, each once; live_relevance wants any call, whatever its arguments."""
    question = [[{"role": "user", "content": "five and six"}]]
    row = {"id": "p_0", "question": question, "function": [function("a"), function("b")]}
    lines(tmp_path / "BFCL_v4_live_parallel.json", [row])
    truth = [{"id": "p_0", "ground_truth": [{"a": {"x": [5.0, 6.0]}}, {"a": {"x": [5.0]}}]}]
    lines(tmp_path / "possible_answer" / "BFCL_v4_live_parallel.json", truth)
    lines(tmp_path / "BFCL_v4_live_relevance.json", [{**row, "id": "r_0"}])
    lines(tmp_path / "BFCL_v4_live_irrelevance.json", [{**row, "id": "i_0"}])
    several, none, any_ = sources.read("bfcl", tmp_path)
    five, six = ToolCall("a", '{"x": 5}'), ToolCall("a", '{"x": 6}')
    for calls, name, exact in (
        ((five, six), True, True),
        ((six, five), True, True),
        ((six, six), True, False),
        ((five,), False, False),
        ((five, six, five), False, False),
        ((five, ToolCall("b", '{"x": 6}')), False, False),
        ((), False, False),
    ):
        found = score_all(several, calls)
        assert (found.called, found.name, found.exact) == (bool(calls), name, exact)
    assert Case.from_json(several.as_json()) == several
    assert none.wants_none
    assert any_.wants_call
    assert score(any_, ToolCall("b", '{"x": 7}')).exact
    assert not score(any_, None).exact


@pytest.mark.parametrize(
    "truth",
    [
        [],
        [{"id": "m_0", "ground_truth": []}],
        [{"id": "m_0", "ground_truth": ["a.b(x=5)"]}],
        [{"id": "m_0", "ground_truth": [{"a.b": {"x": 5}}]}],
    ],
)
def test_an_answer_that_is_missing_is_no_refusal(tmp_path: Path, truth: list[Any]) -> None:
    """A case that wants a call has its ground truth, in the set's form, or the set is refused."""
    question = [[{"role": "user", "content": "five"}]]
    rows = [{"id": "m_0", "question": question, "function": [function("a.b"), function("c")]}]
    lines(tmp_path / "BFCL_v4_multiple.json", rows)
    lines(tmp_path / "possible_answer" / "BFCL_v4_multiple.json", truth)
    with pytest.raises(InputError, match="no set of 'bfcl'"):
        sources.read("bfcl", tmp_path)


def test_a_packed_file_that_is_damaged_is_said(tmp_path: Path) -> None:
    """Bytes that were cut off or changed on the way are the file's fault, and told as such."""
    path = tmp_path / "train.jsonl.gz"
    (tmp_path / "functions.json").write_text("[]")
    lines(path, [{"function": f"f{number}"} for number in range(3000)])
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:30] + b"\xff" * 30 + whole[60:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=str(tmp_path)):
            sources.read("sgd", tmp_path)


def test_dialogues(tmp_path: Path) -> None:
    """Four functions are offered, none of which answers the same requests; always the same four."""
    names = [f"{kind}_{number}_{what}" for kind in ("Hotels", "Buses", "Media") for number in (1, 2)
             for what in ("Find", "Book")]  # fmt: skip
    functions = [
        {
            "name": name, "description": "d", "x-service": name.rpartition("_")[0],
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        }
        for name in names
    ]  # fmt: skip
    (tmp_path / "functions.json").write_text(json.dumps(functions))
    row = {
        "prompt": "a bed in Rome",
        "turns": 1,
        "function": names[0],
        "arguments": {"city": "Rome"},
    }
    lines(tmp_path / "train.jsonl.gz", [{**row, "function": names[1]}])
    lines(tmp_path / "dev.jsonl.gz", [{**row, "id": f"d{n}"} for n in range(8)])
    lines(tmp_path / "test.jsonl.gz", [{**row, "id": "t", "turns": 2}, {**row, "id": "u", "arguments": {"city": "Oslo"}}])  # fmt: skip
    cases = sources.read("sgd", tmp_path)
    assert [case.id for case in cases] == [*(f"d{n}" for n in range(8)), "u"]
    assert cases[0].tags == ("dev", "unseen", "said")
    assert cases[-1].tags == ("test", "unseen", "unsaid")
    for case in cases:
        offered = {tool.name for tool in case.tools}
        assert len(offered) == 4
        assert names[0] in offered
        assert not offered & {"Hotels_2_Find", "Hotels_2_Book"}
    assert [case.offered for case in sources.read("sgd", tmp_path)] == [c.offered for c in cases]


def test_exercise(tmp_path: Path) -> None:
    """Corrections become cases that are judged by output."""
    for name in ("input", "correction"):
        (tmp_path / name).mkdir()
    tools = [{"name": "fn_get_square_root", "parameters": {"a": {"type": "number"}}}]
    (tmp_path / "input" / "functions_definition.json").write_text(json.dumps(tools))
    rows = [{"prompt": "root of 16", "name": "fn_get_square_root", "parameters": {"a": 16.0}}]
    path = tmp_path / "correction" / "function_calling_corrections.json"
    path.write_text(json.dumps(rows))
    (case,) = sources.read("exercise", tmp_path)
    assert score(case, ToolCall("fn_get_square_root", '{"a": 16}')).exact
    assert not score(case, ToolCall("fn_get_square_root", '{"a": 4}')).exact


def test_wrong_folders_are_said(tmp_path: Path) -> None:
    """A missing file is named; a file of another form is, too; so is an unknown set."""
    for name in sources.names():
        with pytest.raises(InputError, match=str(tmp_path)):
            sources.read(name, tmp_path)
    lines(tmp_path / "BFCL_v4_irrelevance.json", [{"id": 1}])
    with pytest.raises(InputError, match="no set of 'bfcl'"):
        sources.read("bfcl", tmp_path)
    with pytest.raises(InputError, match="bfcl, exercise, sgd"):
        sources.read("gsm8k", tmp_path)


def test_the_command_knows_every_source() -> None:
    """What --from offers is what the folder holds."""
    from callmemaybe.cli.eval import EvalSource

    assert tuple(sorted(source.value for source in EvalSource)) == sources.names()
