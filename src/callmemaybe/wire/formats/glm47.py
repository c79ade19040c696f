"""GLM 4.7 and 5: as GLM 4.5, without any line breaks.

Strings of the template in llama.cpp's models/templates/GLM-4.7-Flash.jinja.
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
from callmemaybe.wire.formats.glm45 import BEFORE, MARKS, TOKENS
from callmemaybe.wire.formats.hermes import CLOSE, OPEN

_BEHIND = """
</tools>

For each function call, output the function name and arguments within the following XML format:
<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>\
<arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>"""
#: Keys and values behind each other.
ARGS = ArgSyntax(
    "glm47",
    TopLevelMarks("", "<arg_key>", "</arg_key><arg_value>", "</arg_value>", "", CLOSE),
    raw=True,
    tokens=MARKS,
)
#: Calls one behind the other, or text.
CHOICE = ChoiceNode(
    CallsNode(sequence(TokenNode(OPEN), NameNode(bare=True), ArgumentsNode(syntax=ARGS))),
    no_call=FreeTextNode(stop=OPEN),
)


FORMAT = declare_format(
    "glm47",
    "GLM 4.7, GLM 5: <tool_call>f, keys and values in tags, no line breaks",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>")), sequence(TokenNode("</think>"))),
        CHOICE,
    ),
    ChatMarkup(
        begin="[gMASK]<sop>",
        system=("<|system|>", ""),
        user=("<|user|>", ""),
        assistant=("<|assistant|></think>", ""),
        results=("<|observation|>", ""),
        result=("<tool_response>", "</tool_response>"),
        ask="<|assistant|>",
        no_thinking=("</think>", "</think>"),
        tools=ToolMarkup((BEFORE, _BEHIND), between="\n"),
    ),
    tokens=TOKENS,
    signs=("<|assistant|>", "<|observation|>", "<arg_key>"),
    template_has=("<arg_key>", "<|observation|>"),
    template_lacks=("\n<arg_value>",),
    priority=3,
)
