"""Granite 3: a JSON list behind ``<|tool_call|>``.

Strings of IBM's template for Granite 3.x (tools in a turn of their own, results in the role
``tool_response``), as quoted in llama.cpp's tests of chat templates and in BFCL's granite_3.py.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_indented_json
from callmemaybe.wire.format_nodes import ChoiceNode, FreeTextNode, ThoughtNode, TokenNode, sequence
from callmemaybe.wire.formats.json_list import LIST_OF_CALLS

_CALL, _ROLE, _ROLE_END, _END = (
    "<|tool_call|>",
    "<|start_of_role|>",
    "<|end_of_role|>",
    "<|end_of_text|>",
)


def _turn(role: str) -> tuple[str, str]:
    return f"{_ROLE}{role}{_ROLE_END}", f"{_END}\n"


FORMAT = declare_format(
    "granite3",
    "Granite 3: <|tool_call|> and a JSON list",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>")), sequence(TokenNode("</think>"))),
        ChoiceNode(
            sequence(TokenNode(_CALL), "[", LIST_OF_CALLS), no_call=FreeTextNode(stop=_CALL)
        ),
    ),
    ChatMarkup(
        system=_turn("system"),
        user=_turn("user"),
        assistant=_turn("assistant"),
        result=_turn("tool_response"),
        ask=f"{_ROLE}assistant{_ROLE_END}",
        gap=f"{_END}\n{_ROLE}tools{_ROLE_END}",
        default=(
            "You are a helpful AI assistant with access to the following tools. When a tool is "
            "required to answer the user's query, respond with <|tool_call|> followed by a JSON "
            "list of tools used. If a tool does not exist in the provided list of tools, notify "
            "the user that you do not have the ability to fulfill the request."
        ),
        tools=ToolMarkup(("[", "]"), between=",\n", write=write_indented_json),
    ),
    tokens=(_CALL, _ROLE, _ROLE_END, _END),
    signs=(_CALL, _ROLE, _ROLE_END),
    template_has=("<|start_of_role|>", "<|tool_call|>"),
    priority=1,
)
