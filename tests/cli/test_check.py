"""The command ``check``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from callmemaybe.cli.main import app

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 5},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    },
    "required": ["city"],
    "title": "T",
}


def run(schema: Any, *options: str) -> Result:
    """Check a schema from standard input."""
    return CliRunner().invoke(app, ["check", "-", *options], input=json.dumps(schema))


def test_every_keyword_is_listed() -> None:
    """Law: each keyword stands in the table and in the JSON, with what becomes of it."""
    done = run(SCHEMA, "--json", "--closed")
    assert done.exit_code == 0, done.output
    data = json.loads(done.output)
    assert {row["pointer"]: row["how"] for row in data["keywords"]} == {
        "/type": "masked",
        "/properties": "masked",
        "/required": "masked",
        "/title": "annotation",
        "/properties/city/type": "masked",
        "/properties/city/maxLength": "masked",
        "/properties/tags/type": "masked",
        "/properties/tags/items": "masked",
        "/properties/tags/uniqueItems": "checked",
        "/properties/tags/items/type": "masked",
    }
    assert data["bytes"] == {"fewest": 12, "most": None}
    assert data["automaton"]["complete"] is True
    told = run(SCHEMA).output
    assert "/properties/city\n  masked      type maxLength\n" in told
    assert "  annotation  title\n" in told
    assert "  checked     uniqueItems: " in told
    assert "no limit" in told


def test_what_is_refused_ends_with_two() -> None:
    """Law: a refused keyword is named, and the exit code says so."""
    done = run({"extends": {}, "$ref": "#/x"})
    assert done.exit_code == 2
    assert "2 refused" in done.output
    assert "not in the schema" in done.output


def test_of_functions_is_checked_what_their_calls_are_checked_for() -> None:
    """Law: all is masked where all can be; else something is checked, if the validator can read it."""
    host = {"type": "string", "format": "hostname"}
    tags = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}

    def told(**properties: Any) -> tuple[int, dict[str, str]]:
        schema = {"type": "object", "properties": properties}
        done = run({"name": "tag", "parameters": schema}, "--json")
        (found,) = json.loads(done.output)["functions"]
        last = {row["pointer"].rpartition("/")[2]: row["how"] for row in found["keywords"]}
        return done.exit_code, {key: last[key] for key in ("format", "uniqueItems") if key in last}

    assert told(host=host) == (0, {"format": "masked"})
    assert told(tags=tags) == (0, {"uniqueItems": "checked"})
    assert told(host=host, tags=tags) == (0, {"format": "checked", "uniqueItems": "checked"})
    unread = {"minimum": 1, "exclusiveMinimum": True}
    assert told(tags=tags, size=unread) == (2, {"uniqueItems": "refused"})


def test_of_functions_is_refused_what_takes_all_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern out of bounds is refused of a function, as its calls are, and not tried wider."""
    monkeypatch.setattr("callmemaybe.grammar.automaton.WORK_BUDGET", 20_000)
    pattern = {"type": "string", "pattern": "^(?=.*a.{30}$)(?=.*b.{29}$).*$"}
    function = {"name": "f", "parameters": {"type": "object", "properties": {"x": pattern}}}
    done = run([function])
    assert done.exit_code == 2
    assert "an automaton of more than" in done.output


def test_what_must_be_said_is_known_or_to_come() -> None:
    """Law: x-ground is masked, whatever will be said; of a text given the language is that text's."""
    schema = {"type": "string", "x-ground": "prompt"}
    data = json.loads(run(schema, "--json").output)
    assert {row["pointer"]: row["how"] for row in data["keywords"]}["/x-ground"] == "masked"
    assert data["bytes"]["most"] is None
    assert json.loads(run(schema, "--json", "--ground", "to Oslo").output)["bytes"] == {
        "fewest": 4, "most": 9,
    }  # fmt: skip
    assert run(schema, "--ground", "").exit_code == 2


def test_functions_are_told_one_by_one() -> None:
    """Law: of a file of functions, in any form, each one's parameters are certified, closed."""
    flat = {"name": "f", "parameters": {"a": {"type": "boolean"}}}
    nested = {
        "type": "function",
        "function": {"name": "g", "parameters": {"extends": {}, "$ref": "#/x"}},
    }
    done = run([flat, nested], "--json")
    assert done.exit_code == 2
    first, second = json.loads(done.output)["functions"]
    assert (first["function"], second["function"]) == ("f", "g")
    assert first["bytes"] == {"fewest": 11, "most": 12}
    assert "bytes" not in second
    assert run(flat).output.startswith("f\n/\n  masked      type")
    assert "bytes of an output: 11 to 12\n" in run([flat]).output


def test_a_function_alone_is_one_in_any_form() -> None:
    """Law: what run takes in a list is no schema by itself, whoever's form it has; places are the file's."""
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    anthropic = {"name": "f", "input_schema": schema}
    for one in (anthropic, {"function": {"name": "f", "parameters": schema}}):
        (found,) = json.loads(run(one, "--json").output)["functions"]
        assert (found["function"], found["bytes"]) == ("f", {"fewest": 11, "most": 12})
    wrong = run({"name": "f", "parameters": {"a": 5}})
    assert "(/parameters/a): the parameter must be" in str(wrong.exception)


def test_two_functions_of_one_name_are_refused(tmp_path: Path) -> None:
    """Law: what run refuses, check does: the second is named with its place in the file."""
    file = tmp_path / "functions.json"
    one = {"name": "f", "parameters": {"a": {"type": "boolean"}}}
    file.write_text(json.dumps([one, {"type": "function", "function": one}]), encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(file)])
    assert done.exit_code != 0
    assert "the name 'f' is used twice (first at /0)" in str(done.exception)
    assert f"{file}:1:" in str(done.exception)


def test_eighty_columns_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: only a pointer, which is for copying, may be wider than the terminal; brief leaves out what is plain."""
    monkeypatch.setenv("COLUMNS", "80")
    inner: Any = {
        "type": "object",
        "uniqueItems": True,
        "title": "T",
        "minLength": 2,
        "pattern": "a" * 90,
    }
    for _ in range(12):
        inner = {
            "type": "object",
            "properties": {"a long name": inner},
            "$comment": "",
            "maximum": 3,
            "patternProperties": {"^x": {}},
            "minProperties": 0,
            "additionalProperties": False,
        }
    lines = run(inner).output.splitlines()
    assert max(map(len, (line for line in lines if not line.startswith("/")))) <= 80
    brief = run(SCHEMA, "--brief").output
    assert brief.startswith("/properties/tags\n  checked     uniqueItems")
    assert "masked  " not in brief


def test_what_limits_nothing_is_said() -> None:
    """Law: an object without any keyword of JSON Schema is told to allow everything."""
    assert "every JSON value fits" in run({"city": {"type": "string"}}).output
    assert run(True).output.startswith("anything\n")


@pytest.mark.parametrize("text", ["[]", "3", "[", ""])
def test_what_is_no_schema_is_said_in_one_sentence(text: str, tmp_path: Path) -> None:
    """Law: a file that holds no schema is refused as bad input, with its name."""
    file = tmp_path / "schema.json"
    file.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(file)])
    assert done.exit_code != 0
    assert "schema.json" in str(done.exception)
