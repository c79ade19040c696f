"""Arguments of earlier calls come from anywhere: they are taken, or named as what is wrong."""

from __future__ import annotations

import time
from typing import Any

import pytest

from callmemaybe.errors import InputError
from callmemaybe.generation.config import TEMPLATES
from callmemaybe.jsonio import rewrite
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire import formats
from callmemaybe.wire.arg_syntax import MAX_DEPTH
from callmemaybe.wire.prompt import ChatTemplate

TOOL = ToolSpec("f", parameters={"type": "object", "properties": {"a": {}}})
TRANSLATING = ("functiongemma", "gemma4", "lfm2", "pythonic", "qwen3_coder")
TEMPLATE = (
    "{% for m in messages %}{% for c in m.tool_calls or () %}{{ c.function.arguments | tojson }}"
    "{% endfor %}{% endfor %}"
)
WHERE = r"^messages\[2\]\.tool_calls\[1\]\.function\.arguments: "


def history(arguments: Any) -> list[dict[str, Any]]:
    """Return a conversation whose second call has these arguments."""
    calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": "f", "arguments": one}}
        for at, one in enumerate(("{}", arguments))
    ]
    return [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        *({"role": "tool", "tool_call_id": f"c{at}", "content": "r"} for at in range(2)),
    ]


def nested(depth: int) -> str:
    """Return arguments of which so many arrays and objects stand in each other."""
    return '{"a": ' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


@pytest.mark.parametrize("name", formats.names())
@pytest.mark.parametrize("arguments", ["", "null", " null ", None])
def test_none_are_none(name: str, arguments: str | None) -> None:
    """Clients send null, or nothing, for a call without arguments: it is written as one with none."""
    form = formats.get(name)
    if form.is_parallel:
        assert form.prompt(history(arguments), [TOOL]) == form.prompt(history("{}"), [TOOL])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("not json", "not valid JSON"),
        ("[1]", "must be a JSON object"),
        ([1], "must be a JSON object"),
        ('"x"', "must be a JSON object"),
        ("7", "must be a JSON object"),
        (nested(MAX_DEPTH + 1), "deeper than 100"),
        (nested(5000), "deeper than 100"),
        ('{"a": ' + "7" * 4001 + "}", "more than 4,000 digits"),
        (r'{"a": "\q"}', "not valid JSON"),
    ],
    ids=range(9),
)
def test_what_cannot_be_written_is_named(arguments: Any, why: str) -> None:
    """By its place in the conversation, with what is wrong; in every notation, and for a template."""
    for name in TRANSLATING:
        with pytest.raises(InputError, match=WHERE + f".*{why}"):
            formats.get(name).prompt(history(arguments), [TOOL])
    if isinstance(arguments, str):
        with pytest.raises(InputError, match=WHERE + f".*{why}"):
            ChatTemplate(TEMPLATE, TEMPLATES).render(history(arguments), [TOOL], frozenset())


def test_what_is_json_is_written_as_it_was() -> None:
    """A family that writes JSON takes any, however deep and whatever it is; but no broken string."""
    form = formats.get("hermes")
    for arguments in ("[1]", '"x"', nested(5000), '{"a": ' + "7" * 5000 + "}"):
        assert arguments in "".join(map(str, form.prompt(history(arguments), [TOOL])))
    with pytest.raises(InputError, match=WHERE):
        form.prompt(history(r'{"a": "\q"}'), [TOOL])


@pytest.mark.parametrize(
    "arguments",
    ['{"a": "cut off', '{"a": 1', "not json", '{"a" 1}', '{"a": NaN}', "{} {}", '"\\' * 20_000],
    ids=range(7),
)
def test_what_is_no_json_is_named_by_families_that_write_json(arguments: str) -> None:
    """Nothing of it is left out in silence, and many quotes take no more time than other characters."""
    began = time.process_time()
    for name in ("hermes", "llama3_json", "mistral"):
        form = formats.get(name)
        with pytest.raises(InputError, match=WHERE + "not valid JSON"):
            form.prompt(history(arguments), [TOOL])
    if arguments.count('"') % 2 or arguments.endswith("\\"):
        with pytest.raises(InputError, match="not valid JSON"):
            rewrite(arguments)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("name", TRANSLATING)
def test_up_to_the_bounds_all_is_written(name: str) -> None:
    """Depth and digits are bounded where more would hurt, not before."""
    form = formats.get(name)
    for arguments in (nested(MAX_DEPTH), '{"a": ' + "7" * 4000 + "}"):
        calls = [ToolCall("f", arguments)]
        assert form.prompt(history(arguments), [TOOL])
        assert form.render(calls, tools=[TOOL])


def test_a_template_reads_values() -> None:
    """A template gets the arguments as an object, also where there are none."""
    for arguments, read in (("", "{}"), ("null", "{}"), ('{"a": 1}', '{"a": 1}')):
        parts = ChatTemplate(TEMPLATE, TEMPLATES).render(history(arguments), [TOOL], frozenset())
        assert "".join(map(str, parts)) == "{}" + read
