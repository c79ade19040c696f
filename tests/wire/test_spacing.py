"""What readers take from models that no grammar leads: white space that a family does not write, or the lack of it."""

from __future__ import annotations

import pytest

from callmemaybe.errors import InputError
from callmemaybe.grammar.nodes import Control
from callmemaybe.tools import CallEnded
from callmemaybe.wire import formats
from callmemaybe.wire.prompt import split_controls

DESK = ("turn_on", {"lamp": "desk"})
HALL = ("turn_on", {"lamp": "hall", "level": "low"})
_DSML = "｜DSML｜"
#: Format, its tokens in the text, the text, the calls.
WRITTEN = {
    "JSON, indented by four": (
        "granite_20b", ["<function_call>"],
        '<function_call>{\n    "name": "turn_on",\n    "arguments": {\n        "lamp": "desk"\n    }\n}',
        [DESK],
    ),
    "white space around the tokens of a call": (
        "kimi_k2",
        ["<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
         "<|tool_call_end|>", "<|tool_calls_section_end|>"],
        ("<|tool_calls_section_begin|><|tool_call_begin|>functions.turn_on:12 <|tool_call_argument_begin|>"
        '{"lamp": "desk"} \n<|tool_call_end|>\n<|tool_call_begin|>functions.turn_on:13<|tool_call_argument_begin|>'
        '{"lamp": "hall", "level": "low"}<|tool_call_end|> <|tool_calls_section_end|>'),
        [DESK, HALL],
    ),
    "no line between elements": (
        "deepseek_v32", [_DSML],
        (f'<{_DSML}function_calls>\n<{_DSML}invoke name="turn_on">\n'
        f'<{_DSML}parameter name="lamp" string="true">hall</{_DSML}parameter>'
        f'<{_DSML}parameter name="level" string="true">low</{_DSML}parameter>\n'
        f"</{_DSML}invoke>\n</{_DSML}function_calls>"),
        [HALL],
    ),
    "lines between calls": (
        "step35", ["<tool_call>", "</tool_call>"],
        ("<tool_call>\n<function=turn_on>\n<parameter=lamp>\ndesk\n</parameter>\n</function>\n</tool_call>\n\n"
        "<tool_call>\n<function=turn_on>\n<parameter=lamp>\nhall\n</parameter>\n<parameter=level>\nlow\n"
        "</parameter>\n</function>\n</tool_call>"),
        [DESK, HALL],
    ),
    "a line feed and a null in a quoted string": (
        "pythonic", [], "[turn_on(lamp='a\nb\x00\tc')]", [("turn_on", {"lamp": "a\nb\x00\tc"})],
    ),
}  # fmt: skip


def calls_in(name: str, parts: list[str | Control | bytes]) -> list[tuple[str, object]]:
    """Return the calls that a format reads."""
    reader = formats.get(name).reader()
    events = [event for part in parts for event in reader.feed(part)]
    events += reader.end()
    return [(e.call.name, e.call.parsed) for e in events if isinstance(e, CallEnded)]


@pytest.mark.parametrize(("name", "tokens", "text", "calls"), WRITTEN.values(), ids=WRITTEN)
def test_white_space_that_means_nothing_may_stand_or_lack(
    name: str, tokens: list[str], text: str, calls: list[tuple[str, object]]
) -> None:
    """Law: around tokens, JSON's punctuation, elements and calls white space changes no call, cut anywhere."""
    parts = split_controls(text, frozenset(tokens))
    assert calls_in(name, list(parts)) == calls
    assert calls_in(name, [piece for part in parts for piece in in_bytes(part)]) == calls


def in_bytes(part: str | Control) -> list[Control | bytes]:
    """Cut a text into its bytes."""
    return [part] if isinstance(part, Control) else [bytes([one]) for one in part.encode()]


def test_white_space_in_a_number_is_none_between_its_digits() -> None:
    """Law: digits behind white space are no part of the number in front of it."""
    reader = formats.get("kimi_k2").reader()
    for token in ("<|tool_calls_section_begin|>", "<|tool_call_begin|>"):
        reader.feed(Control(token))
    reader.feed("functions.turn_on:1 ")
    with pytest.raises(InputError, match="does not fit"):
        reader.feed("2")


def test_white_space_behind_a_thought_is_text() -> None:
    """Law: outside of calls white space is kept: in front of a call it is part of the text there."""
    form = formats.get("kimi_k2")
    reader = form.reader()
    events = [*reader.feed("So: \n"), *reader.feed(Control("<|tool_calls_section_begin|>"))]
    assert b"".join(event.data for event in events if hasattr(event, "data")) == b"So: \n"
