"""GLM 4.5 and 4.6: XML with keys and values in tags of their own, each on a line; strings as they are.

Strings of the template in llama.cpp's models/templates/GLM-4.6.jinja.
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
from callmemaybe.wire.formats.hermes import CLOSE, OPEN

#: What stands in front of the declarations of tools.
BEFORE = """
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
"""
_BEHIND = """
</tools>

For each function call, output the function name and arguments within the following XML format:
<tool_call>{function-name}
<arg_key>{arg-key-1}</arg_key>
<arg_value>{arg-value-1}</arg_value>
<arg_key>{arg-key-2}</arg_key>
<arg_value>{arg-value-2}</arg_value>
...
</tool_call>"""
MARKS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", CLOSE)
#: Keys and values, each on a line.
ARGS = ArgSyntax(
    "glm45",
    TopLevelMarks("\n", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", "", CLOSE),
    raw=True,
    tokens=MARKS,
)
#: Calls on lines of their own, or text.
CHOICE = ChoiceNode(
    CallsNode(
        sequence(TokenNode(OPEN), NameNode(bare=True), ArgumentsNode(syntax=ARGS)),
        between=sequence("\n"),
    ),
    no_call=FreeTextNode(stop=OPEN),
)
TOKENS = (
    OPEN, *MARKS, "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>",
    "<think>", "</think>", "<tool_response>", "</tool_response>",
)  # fmt: skip


FORMAT = declare_format(
    "glm45",
    "GLM 4.5, 4.6: <tool_call>f, keys and values in tags on lines",
    sequence(
        ThoughtNode(sequence("\n", TokenNode("<think>")), sequence(TokenNode("</think>"), "\n")),
        CHOICE,
    ),
    ChatMarkup(
        begin="[gMASK]<sop>",
        system=("<|system|>\n", ""),
        user=("<|user|>\n", ""),
        assistant=("<|assistant|>\n<think></think>\n", ""),
        results=("<|observation|>", ""),
        result=("\n<tool_response>\n", "\n</tool_response>"),
        ask="<|assistant|>",
        no_thinking=("<think>", "\n<think></think>\n"),
        tools=ToolMarkup((BEFORE, _BEHIND), between="\n"),
    ),
    tokens=TOKENS,
    signs=("<|assistant|>", "<|observation|>", "<arg_key>"),
    template_has=("<arg_key>", "<|observation|>", "\n<arg_value>"),
    priority=2,
)
