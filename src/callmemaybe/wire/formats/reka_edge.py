"""Reka Edge: Hermes' JSON between ``<tool_call>`` tags, one behind the other, in Reka's turns.

Strings of the template in llama.cpp's models/templates/Reka-Edge.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import CallsNode, ChoiceNode, FreeTextNode, sequence
from callmemaybe.wire.formats.hermes import CALL, CLOSE, OPEN, THINK

_SEP = "<sep>"
_BEFORE = """\
You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
"""
_BEHIND = """
</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags."""


FORMAT = declare_format(
    "reka_edge",
    "Reka Edge: JSON between <tool_call> tags, human: and assistant: turns",
    sequence(
        THINK,
        ChoiceNode(CallsNode(CALL), no_call=FreeTextNode(stop=OPEN)),
    ),
    ChatMarkup(
        system=("system: ", f"\n\n{_SEP}"),
        user=("human: ", _SEP),
        assistant=("assistant: ", f"\n\n{_SEP}"),
        results=("human: ", _SEP),
        result=("<tool_response>\n", "\n</tool_response>"),
        ask="assistant:",
        tools=ToolMarkup((_BEFORE, _BEHIND), between="\n"),
    ),
    tokens=(OPEN, CLOSE, _SEP, "<think>", "</think>", "<tool_response>", "</tool_response>"),
    signs=(_SEP,),
    template_has=(OPEN, "assistant:", "human:"),
    priority=2,
)
