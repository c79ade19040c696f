"""Languages are made once for equal tools, whoever asks."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from callmemaybe.tools import ToolSpec
from callmemaybe.wire import format as module
from callmemaybe.wire import formats
from callmemaybe.wire.formats.hermes import FORMAT
from callmemaybe.wire.formats.mistral import FORMAT as OTHER
from callmemaybe.wire.output_grammar import OutputGrammarBuilder, OutputSpec

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}, "s": {"enum": ["a", "b"]}},
    "required": ["n"],
}


def _tools(schema: Any, name: str = "f") -> list[ToolSpec]:
    return [ToolSpec(name, "What it does.", schema)]


def test_equal_tools_share_a_language() -> None:
    """Tools that are written anew have the language that was made for them before."""
    first = FORMAT.grammar(_tools(SCHEMA))
    assert FORMAT.grammar(_tools(copy.deepcopy(SCHEMA))) is first


@pytest.mark.parametrize("bound", [2, 1.5, -1])
def test_other_tools_have_another(bound: float) -> None:
    """A schema that was changed, even in place, has a language of its own; so has another name."""
    schema = copy.deepcopy(SCHEMA)
    first = FORMAT.grammar(_tools(schema))
    schema["properties"]["n"]["minimum"] = bound
    assert FORMAT.grammar(_tools(schema)) != first
    assert FORMAT.grammar(_tools(SCHEMA, "g")) != first
    assert FORMAT.grammar(_tools(SCHEMA), no_call=True) != first
    assert OTHER.grammar(_tools(SCHEMA)) != first


def test_true_is_not_one() -> None:
    """Values that Python takes for equal and JSON does not make different languages."""
    one, true = ({"type": "object", "properties": {"n": {"const": value}}} for value in (1, True))
    assert FORMAT.grammar(_tools(one)) != FORMAT.grammar(_tools(true))


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last used languages are kept."""
    monkeypatch.setattr(module, "GRAMMAR_CACHE_SIZE", 3)
    kept: dict[Any, Any] = {}
    monkeypatch.setattr(module, "_GRAMMARS", kept)
    for number in range(10):
        FORMAT.output_grammar(_tools(SCHEMA, f"f{number}"), OutputSpec())
        FORMAT.output_grammar(_tools(SCHEMA, "f0"), OutputSpec())
    assert len(kept) == 3
    assert any("f0" in str(key) for key in kept)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", formats.names())
def test_what_stands_around_a_call_is_written_once(
    name: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grammar within a frame that was kept is the very one that the general way writes."""
    format_ = formats.get(name)
    tools = [ToolSpec(f"f{index}", "What it does.", SCHEMA) for index in range(count)]
    spec = OutputSpec(thinking=9 if format_.has_thinking else 0)
    framed = [OutputGrammarBuilder(tools, spec, None).grammar(format_.tree) for _ in range(2)]
    monkeypatch.setattr(OutputGrammarBuilder, "_frame", lambda _, __: None)
    general = OutputGrammarBuilder(tools, spec, None).grammar(format_.tree)
    assert all(one.root is general.root and one == general for one in framed)
