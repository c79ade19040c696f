"""Poolside's Laguna S and later XS: GLM 4.7's keys and values, in turns that are tags.

Strings of the template in llama.cpp's models/templates/poolside-Laguna-S-2.1.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ThoughtNode,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.glm47 import CHOICE
from callmemaybe.wire.formats.laguna import BEFORE, TOKENS

FORMAT = declare_format(
    "laguna_s",
    "Laguna S: <tool_call>f, keys and values in tags, no line breaks",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>")), sequence(TokenNode("</think>"))),
        CHOICE,
    ),
    ChatMarkup(
        begin="〈|EOS|〉",
        system=("<system>", "</system>\n"),
        user=("<user>", "</user>\n"),
        assistant=("<assistant></think>", "</assistant>\n"),
        result=("<tool_response>", "</tool_response>\n"),
        ask="<assistant>",
        no_thinking=("</think>", "</think>"),
        tools=ToolMarkup((BEFORE, "\n</available_tools>"), between="\n"),
    ),
    tokens=TOKENS,
    signs=("<assistant>", "</assistant>"),
    template_has=("<arg_key>", "<assistant>"),
    template_lacks=("</arg_key>\\n",),
    priority=4,
)
