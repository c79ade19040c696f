"""Granite 4: Hermes' JSON between ``<tool_call>`` tags, in Granite's turns.

Strings of the template in llama.cpp's models/templates/ibm-granite-granite-4.0.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import CallsNode, ChoiceNode, FreeTextNode, sequence
from callmemaybe.wire.formats.hermes import CALL, CLOSE, OPEN

_ROLE, _ROLE_END, _END = "<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"
_BEFORE = """\
You are a helpful assistant with access to the following tools. You may call one or more tools to assist \
with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
"""
_BEHIND = """
</tools>

For each tool call, return a json object with function name and arguments within <tool_call></tool_call> \
XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>. If a tool does not exist in the provided list of tools, notify the user that you do not have \
the ability to fulfill the request."""


def _turn(role: str) -> tuple[str, str]:
    return f"{_ROLE}{role}{_ROLE_END}", f"{_END}\n"


FORMAT = declare_format(
    "granite4",
    "Granite 4: JSON between <tool_call> tags, Granite's turns",
    ChoiceNode(CallsNode(CALL, between=sequence("\n")), no_call=FreeTextNode(stop=OPEN)),
    ChatMarkup(
        system=_turn("system"),
        user=_turn("user"),
        assistant=_turn("assistant"),
        results=_turn("user"),
        result=("\n<tool_response>\n", "\n</tool_response>"),
        ask=f"{_ROLE}assistant{_ROLE_END}",
        tools=ToolMarkup((_BEFORE, _BEHIND), between="\n"),
    ),
    tokens=(OPEN, CLOSE, _ROLE, _ROLE_END, _END, "<tool_response>", "</tool_response>"),
    signs=(_ROLE, _ROLE_END),
    template_has=(_ROLE, OPEN),
    needs_template=True,
    priority=2,
)
