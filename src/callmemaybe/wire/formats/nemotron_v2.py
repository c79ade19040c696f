"""Nemotron Nano v2 and Nemotron Super v1.5: a JSON list between ``<TOOLCALL>`` and ``</TOOLCALL>``.

Strings of the template in llama.cpp's models/templates/NVIDIA-Nemotron-Nano-v2.jinja. (Nemotron 3 writes
what Qwen3-Coder does.)
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_function_json
from callmemaybe.wire.format_nodes import ChoiceNode, FreeTextNode, ThoughtNode, TokenNode, sequence
from callmemaybe.wire.formats.json_list import LIST_OF_CALLS

_OPEN, _CLOSE, _END = "<TOOLCALL>", "</TOOLCALL>", "<SPECIAL_12>"
_BEFORE = """\
You can use the following tools to assist the user if required:
<AVAILABLE_TOOLS>["""
_BEHIND = """\
]</AVAILABLE_TOOLS>

If you decide to call any tool(s), use the following format:
<TOOLCALL>[{{"name": "tool_name1", "arguments": "tool_args1"}}, {{"name": "tool_name2", "arguments": \
"tool_args2"}}]</TOOLCALL>

The user will execute tool-calls and return responses from tool(s) in this format:
<TOOL_RESPONSE>[{{"tool_response1"}}, {{"tool_response2"}}]</TOOL_RESPONSE>

Based on the tool responses, you can call additional tools if needed, correct tool calls if any errors are \
found, or just respond to the user."""


FORMAT = declare_format(
    "nemotron_v2",
    "Nemotron Nano v2: a JSON list between <TOOLCALL> tags",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>"), "\n"), sequence(TokenNode("</think>"), "\n\n")),
        ChoiceNode(
            sequence(TokenNode(_OPEN), "[", LIST_OF_CALLS, TokenNode(_CLOSE)),
            no_call=FreeTextNode(stop=_OPEN),
        ),
    ),
    ChatMarkup(
        system=("<SPECIAL_10>System\n", "\n\n"),
        user=("<SPECIAL_11>User\n", "\n"),
        assistant=("<SPECIAL_11>Assistant\n", f"\n{_END}\n"),
        results=("<SPECIAL_11>User\n<TOOL_RESPONSE>[", "]</TOOL_RESPONSE>"),
        ask="<SPECIAL_11>Assistant\n",
        no_thinking=("<think>", "<think></think>"),
        result=("", ""),
        tools=ToolMarkup((_BEFORE, _BEHIND), between=", ", write=write_function_json),
    ),
    tokens=(
        _OPEN, _CLOSE, _END, "<SPECIAL_10>", "<SPECIAL_11>", "<think>", "</think>", "<AVAILABLE_TOOLS>",
        "</AVAILABLE_TOOLS>", "<TOOL_RESPONSE>", "</TOOL_RESPONSE>",
    ),
    template_has=("<TOOLCALL>",),
    priority=3,
)  # fmt: skip
