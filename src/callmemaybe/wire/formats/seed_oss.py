"""Seed-OSS: XML between ``<seed:tool_call>`` tags, values right behind their keys, strings as they are.

Strings of the template in llama.cpp's models/templates/ByteDance-Seed-OSS.jinja. It declares tools as
Python functions; here each is a line of JSON, which the model reads as well.
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

_OPEN, _CLOSE = "<seed:tool_call>", "</seed:tool_call>"
_THINK, _THINK_END = "<seed:think>", "</seed:think>"
_BEGIN, _END = "<seed:bos>", "<seed:eos>"
ARGS = ArgSyntax(
    "seed_oss",
    TopLevelMarks("", "<parameter=", ">", "</parameter>\n", "", "</function>"),
    raw=True,
)
_BEHIND = """
工具调用请遵循如下格式:
<seed:tool_call>
<function=example_function_name>
<parameter=example_parameter_1>value_1</parameter>
<parameter=example_parameter_2>This is the value for the second parameter
that can span
multiple lines</parameter>
</function>
</seed:tool_call>
"""


def _turn(role: str) -> tuple[str, str]:
    return f"{_BEGIN}{role}\n", _END


FORMAT = declare_format(
    "seed_oss",
    "Seed-OSS: XML between <seed:tool_call> tags",
    sequence(
        ThoughtNode(sequence(TokenNode(_THINK)), sequence(TokenNode(_THINK_END))),
        ChoiceNode(
            CallsNode(
                sequence(
                    TokenNode(_OPEN), "\n<function=", NameNode(bare=True), ">\n",
                    ArgumentsNode(syntax=ARGS), "\n", TokenNode(_CLOSE),
                ),
                between=sequence("\n"),
            ),
            no_call=FreeTextNode(stop=_OPEN),
        ),
    ),
    ChatMarkup(
        system=_turn("system"),
        user=_turn("user"),
        assistant=_turn("assistant"),
        result=_turn("tool"),
        ask=f"{_BEGIN}assistant\n",
        default="You are Doubao, a helpful AI assistant. You may call one or more functions to assist with the user query.",
        tools=ToolMarkup(("Function:\n", _BEHIND), between="\n"),
    ),
    tokens=(_OPEN, _CLOSE, _THINK, _THINK_END, _BEGIN, _END),
    signs=(_OPEN, _BEGIN, _END),
    template_has=("seed:tool_call", "<function="),
    priority=4,
)  # fmt: skip
