"""Spark 2.5: GLM 4.7's calls, in turns of their own marks.

Strings of the template in llama.cpp's models/templates/Spark2.5.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_function_json
from callmemaybe.wire.format_nodes import (
    ThoughtNode,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.glm45 import MARKS
from callmemaybe.wire.formats.glm47 import CHOICE
from callmemaybe.wire.formats.hermes import OPEN

_BEGIN, _END = "<｜start▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
_BEFORE = """\
## Tools
You have access to the following functions:
<tools>
"""


def _turn(role: str) -> tuple[str, str]:
    return f"{_BEGIN}<|{role}|>", _END


FORMAT = declare_format(
    "spark",
    "Spark 2.5: <tool_call>f, keys and values in tags, no line breaks",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>")), sequence(TokenNode("</think>"))),
        CHOICE,
    ),
    ChatMarkup(
        system=_turn("System"),
        user=_turn("User"),
        assistant=(f"{_BEGIN}<|Bot|></think>", _END),
        results=_turn("Tool"),
        result=("<tool_response>", "</tool_response>"),
        ask=f"{_BEGIN}<|Bot|>",
        no_thinking=("</think>", "</think>"),
        tools=ToolMarkup((_BEFORE, "\n</tools>"), between="\n", write=write_function_json),
    ),
    tokens=(
        OPEN, *MARKS, _BEGIN, _END, "<|System|>", "<|User|>", "<|Bot|>", "<|Tool|>", "<think>",
        "</think>", "<tool_response>", "</tool_response>",
    ),
    signs=("<|Bot|>", "<|Tool|>"),
    template_has=("<arg_key>", "<|Bot|>"),
    priority=4,
)  # fmt: skip
