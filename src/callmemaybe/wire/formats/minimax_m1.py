"""MiniMax M1: JSON objects on lines between ``<tool_calls>`` and ``</tool_calls>``.

Strings of the template in llama.cpp's models/templates/MiniMax-M1.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    ThoughtNode,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.json_list import JSON_CALL

_OPEN, _CLOSE = "<tool_calls>", "</tool_calls>"
_BEGIN, _END = "<beginning_of_sentence>", "<end_of_sentence>"
_BEFORE = """\
You are provided with these tools:
<tools>
"""
_BEHIND = """
</tools>

If you need to call tools, please respond with <tool_calls></tool_calls> XML tags, and provide tool-name \
and json-object of arguments, following the format below:
<tool_calls>
{"name": <tool-name>, "arguments": <args-json-object>}
...
</tool_calls>"""


def _turn(who: str) -> tuple[str, str]:
    return f"{_BEGIN}{who}\n", f"{_END}\n"


FORMAT = declare_format(
    "minimax_m1",
    "MiniMax M1: JSON objects on lines between <tool_calls> tags",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>"), "\n"), sequence(TokenNode("</think>"), "\n\n")),
        ChoiceNode(
            sequence(
                TokenNode(_OPEN), "\n", CallsNode(JSON_CALL, between=sequence("\n")), "\n",
                TokenNode(_CLOSE),
            ),
            no_call=FreeTextNode(stop=_OPEN),
        ),
    ),
    ChatMarkup(
        begin="<begin_of_document>",
        system=_turn("system ai_setting=assistant"),
        user=_turn("user name=user"),
        assistant=_turn("ai name=assistant"),
        result=("<beginning_of_sentence>tool name=tools\ntool result: ", f"\n\n{_END}\n"),
        ask=f"{_BEGIN}ai name=assistant\n",
        gap=f"{_END}\n{_BEGIN}system tool_setting=tools\n",
        default="You are a helpful assistant.",
        tools=ToolMarkup((_BEFORE, _BEHIND), between="\n"),
    ),
    tokens=(_OPEN, _CLOSE, _BEGIN, _END, "<begin_of_document>", "<think>", "</think>"),
    signs=(_BEGIN, _END),
    template_has=("<tool_calls>", _BEGIN),
    priority=3,
)  # fmt: skip
