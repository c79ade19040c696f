"""The command ``formats``."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from callmemaybe.cli.main import app
from callmemaybe.wire import formats


def test_every_format_is_listed_with_an_example() -> None:
    """The list names each format once, and its example holds the call."""
    done = CliRunner().invoke(app, ["formats", "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.output)
    assert [row["name"] for row in rows] == list(formats.names())
    assert all("get_weather" in row["example"] and "Paris" in row["example"] for row in rows)
    text = CliRunner().invoke(app, ["formats"]).output
    assert all(f"{name}: " in text for name in formats.names())


def test_one_format_is_shown_with_its_prompt() -> None:
    """The turn is there from the tools to the call."""
    done = CliRunner().invoke(app, ["formats", "gemma4"])
    assert done.exit_code == 0
    assert "declaration:get_weather" in done.output
    assert 'call:get_weather{city:<|"|>Paris<|"|>,days:2}' in done.output
