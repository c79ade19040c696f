"""LongCat Flash: Hermes' JSON between ``<longcat_tool_call>`` tags.

Strings as vLLM's LongCat tool parser and its tests have them; turns as Meituan's template writes them.
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

_OPEN, _CLOSE = "<longcat_tool_call>", "</longcat_tool_call>"
_BEHIND = """

For each function call, return a json object with function name and arguments within <longcat_tool_call> \
tags:
<longcat_tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</longcat_tool_call>"""


FORMAT = declare_format(
    "longcat",
    "LongCat Flash: JSON between <longcat_tool_call> tags",
    sequence(
        ThoughtNode(
            sequence(TokenNode("<longcat_think>"), "\n"),
            sequence(TokenNode("</longcat_think>"), "\n"),
        ),
        ChoiceNode(
            CallsNode(
                sequence(TokenNode(_OPEN), "\n", JSON_CALL, "\n", TokenNode(_CLOSE)),
                between=sequence("\n"),
            ),
            no_call=FreeTextNode(stop=_OPEN),
        ),
    ),
    ChatMarkup(
        system=("SYSTEM:", ""),
        user=(" USER:", ""),
        assistant=(" ASSISTANT:", "</longcat_s>"),
        result=(" TOOL:", ""),
        ask=" ASSISTANT:",
        tools=ToolMarkup(("# Tools\n\n", _BEHIND), between="\n"),
    ),
    tokens=(_OPEN, _CLOSE, "<longcat_think>", "</longcat_think>", "</longcat_s>"),
    signs=(_OPEN, _CLOSE),
    template_has=("<longcat_tool_call>",),
    priority=3,
)
