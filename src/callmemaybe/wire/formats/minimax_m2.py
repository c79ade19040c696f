"""MiniMax M2: XML between ``<minimax:tool_call>`` tags, all calls in one, strings as they are.

Strings of the template in llama.cpp's models/templates/MiniMax-M2.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.arg_syntax import ArgSyntax, TopLevelMarks
from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_function_json
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

_OPEN, _CLOSE = "<minimax:tool_call>", "</minimax:tool_call>"
_BEGIN, _END = "]~b]", "[e~["
#: Names and values as attributes and contents of elements.
ARGS = ArgSyntax(
    "minimax_m2",
    TopLevelMarks("", '<parameter name="', '">', "</parameter>\n", "", "</invoke>\n"),
    raw=True,
)
_BEFORE = """\
# Tools
You may call one or more tools to assist with the user query.
Here are the tools available in JSONSchema format:

<tools>
"""
_BEHIND = """</tools>

When making tool calls, use XML format to invoke tools and pass parameters:

<minimax:tool_call>
<invoke name="tool-name-1">
<parameter name="param-key-1">param-value-1</parameter>
<parameter name="param-key-2">param-value-2</parameter>
...
</invoke>
</minimax:tool_call>"""


def _turn(role: str) -> tuple[str, str]:
    return f"{_BEGIN}{role}\n", f"{_END}\n"


FORMAT = declare_format(
    "minimax_m2",
    "MiniMax M2: <invoke> elements between <minimax:tool_call> tags",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>"), "\n"), sequence(TokenNode("</think>"), "\n\n")),
        ChoiceNode(
            sequence(
                TokenNode(_OPEN), "\n",
                CallsNode(
                    sequence('<invoke name="', NameNode(), '">\n', ArgumentsNode(syntax=ARGS))
                ),
                TokenNode(_CLOSE),
            ),
            no_call=FreeTextNode(stop=_OPEN),
        ),
    ),
    ChatMarkup(
        begin="]~!b[",
        system=_turn("system"),
        user=_turn("user"),
        assistant=_turn("ai"),
        results=(f"{_BEGIN}tool\n", f"{_END}\n"),
        result=("<response>", "</response>"),
        ask=f"{_BEGIN}ai\n",
        no_thinking=("<think>", "<think>\n\n</think>\n\n"),
        default="You are a helpful assistant.",
        tools=ToolMarkup(
            (_BEFORE, _BEHIND), each=("<tool>", "</tool>\n"), write=write_function_json
        ),
    ),
    tokens=(_OPEN, _CLOSE, _BEGIN, _END, "]~!b[", "<think>", "</think>"),
    signs=(_OPEN, _BEGIN, _END),
    template_has=("minimax:tool_call", "<invoke name="),
    priority=4,
)  # fmt: skip
