"""Ling 3: GLM's keys and values; a line break between a key and its value, none behind the value.

Strings of the template in llama.cpp's models/templates/inclusionai-ling-3.0-flash.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.arg_syntax import ArgSyntax, TopLevelMarks
from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    ThoughtNode,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.glm45 import MARKS
from callmemaybe.wire.formats.hermes import CLOSE, OPEN

_BEFORE = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
"""
_BEHIND = """
</tools>

If you need to use a function, for each function call, output the function name and arguments within the \
following XML format:
<tool_call>{function-name}
<arg_key>{arg-key-1}</arg_key>
<arg_value>{arg-value-1}</arg_value>
<arg_key>{arg-key-2}</arg_key>
<arg_value>{arg-value-2}</arg_value>
...
</tool_call>
detailed thinking off"""
_ARGS = ArgSyntax(
    "ling3",
    TopLevelMarks("\n", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>", "", f"\n{CLOSE}"),
    raw=True,
    tokens=MARKS,
)


def _turn(role: str) -> tuple[str, str]:
    return f"<role>{role}</role>", "<|role_end|>"


FORMAT = declare_format(
    "ling3",
    "Ling 3: <tool_call>f, keys and values in tags on lines of their own",
    sequence(
        ThoughtNode(sequence("\n", TokenNode("<think>")), sequence(TokenNode("</think>"))),
        ChoiceNode(
            CallsNode(
                sequence(TokenNode(OPEN), NameNode(bare=True), ArgumentsNode(syntax=_ARGS)),
                between=sequence("\n"),
            ),
            no_call=FreeTextNode(stop=OPEN),
        ),
    ),
    ChatMarkup(
        system=_turn("SYSTEM"),
        user=_turn("HUMAN"),
        assistant=("<role>ASSISTANT</role>\n<think></think>", "<|role_end|>"),
        results=_turn("OBSERVATION"),
        result=("\n<tool_response>\n", "\n</tool_response>"),
        ask="<role>ASSISTANT</role>",
        gap="\n",
        no_thinking=("<think>", "\n<think></think>"),
        tools=ToolMarkup((_BEFORE, _BEHIND), between="\n"),
    ),
    tokens=(
        OPEN, *MARKS, "<role>", "</role>", "<|role_end|>", "<think>", "</think>", "<tool_response>",
        "</tool_response>",
    ),
    signs=("<role>", "</role>", "<|role_end|>"),
    template_has=("<arg_key>", "<role>"),
    priority=4,
)  # fmt: skip
