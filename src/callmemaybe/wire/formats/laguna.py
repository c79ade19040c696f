"""Poolside's Laguna XS: GLM's keys and values on lines, in turns that are tags.

Strings of the template in llama.cpp's models/templates/poolside-Laguna-XS.2.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ThoughtNode,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.glm45 import CHOICE, MARKS
from callmemaybe.wire.formats.hermes import OPEN

#: What stands in front of the declarations of tools.
BEFORE = """\
### Tools

You may call functions to assist with the user query.
All available function signatures are listed below:
<available_tools>
"""
_BEHIND = """
</available_tools>

For each function call, return an unescaped XML-like object with function name and arguments within \
'<tool_call>' and '</tool_call>' tags, like here:
<tool_call>function-name
<arg_key>argument-key</arg_key>
<arg_value>value-of-argument-key</arg_value>
</tool_call>"""
TOKENS = (
    OPEN, *MARKS, "〈|EOS|〉", "<system>", "</system>", "<user>", "</user>", "<assistant>",
    "</assistant>", "<think>", "</think>", "<tool_response>", "</tool_response>",
)  # fmt: skip


FORMAT = declare_format(
    "laguna",
    "Laguna XS: <tool_call>f, keys and values in tags on lines",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>")), sequence(TokenNode("</think>"), "\n")),
        CHOICE,
    ),
    ChatMarkup(
        begin="〈|EOS|〉",
        system=("<system>\n\n", "\n</system>\n"),
        user=("<user>\n", "\n</user>\n"),
        assistant=("<assistant>\n</think>\n", "\n</assistant>\n"),
        result=("<tool_response>\n", "\n</tool_response>\n"),
        ask="<assistant>\n",
        no_thinking=("</think>", "</think>"),
        tools=ToolMarkup((BEFORE, _BEHIND), between="\n"),
    ),
    tokens=TOKENS,
    signs=("<assistant>", "</assistant>"),
    template_has=("<arg_key>", "<assistant>", "</arg_key>\\n"),
    priority=4,
)
