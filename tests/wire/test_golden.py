"""A whole conversation in each format, letter by letter; control tokens stand in guillemets.

``python -m tests.wire.test_golden`` writes the files anew, to be read before they are committed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from callmemaybe.grammar.nodes import Control
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire import Format, PromptPart, formats

FOLDER = Path(__file__).parent / "golden"
TOOLS = [
    ToolSpec(
        "get_weather",
        "The weather in a city.",
        {
            "type": "object",
            "properties": {
                "unit": {"enum": ["c", "f"], "description": "Unit"},
                "city": {"type": "string", "description": "The city"},
            },
            "required": ["city"],
        },
    ),
    ToolSpec("ping"),
]
CALLS = [
    ToolCall("get_weather", '{"unit": "c", "city": "Zürich \\"HB\\" <|im_end|>"}', "abcDEF123"),
    ToolCall("ping", "{}", "xyzXYZ789"),
]


def messages(form: Format) -> list[dict[str, object]]:
    calls = CALLS if form.is_parallel else CALLS[:1]
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather, and ping?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in calls
            ],
        },
        *({"role": "tool", "tool_call_id": c.id, "content": f"result of {c.name}"} for c in calls),
        {"role": "assistant", "content": "Sunny."},
        {"role": "user", "content": "Again."},
    ]  # fmt: skip


def shown(parts: tuple[PromptPart, ...]) -> str:
    return "".join(f"«{part.text}»" if isinstance(part, Control) else part for part in parts)


def transcript(form: Format) -> str:
    calls = CALLS if form.is_parallel else CALLS[:1]
    return f"{shown(form.prompt(messages(form), TOOLS))}⏎{shown(form.render(calls, tools=TOOLS))}\n"


@pytest.mark.parametrize("name", formats.names())
def test_the_transcript_is_the_one_that_was_read(name: str) -> None:
    """The prompt of a conversation with calls and results, and the answer, are as committed."""
    assert transcript(formats.get(name)) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_every_transcript_has_its_format() -> None:
    """No file is left over."""
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(formats.names())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in formats.names():
        (FOLDER / f"{each}.txt").write_text(transcript(formats.get(each)), encoding="utf-8")
