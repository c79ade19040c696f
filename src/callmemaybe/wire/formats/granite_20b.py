"""Granite 20B for function calling: ``<function_call>`` and a JSON object, one on each line.

Strings of the template in vLLM's examples/tool_chat_template_granite_20b_fc.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_function_json
from callmemaybe.wire.format_nodes import CallsNode, ChoiceNode, FreeTextNode, TokenNode, sequence
from callmemaybe.wire.formats.json_list import JSON_CALL

_OPEN = "<function_call>"


FORMAT = declare_format(
    "granite_20b",
    "Granite 20B FC: <function_call> and a JSON object",
    ChoiceNode(
        CallsNode(sequence(TokenNode(_OPEN), " ", JSON_CALL), between=sequence("\n")),
        no_call=FreeTextNode(stop=_OPEN),
    ),
    ChatMarkup(
        system=("SYSTEM: ", "\n"),
        user=("USER: ", "\n"),
        assistant=("ASSISTANT: ", "<|endoftext|>\n"),
        result=("FUNCTION RESPONSE: ", "\n"),
        ask="ASSISTANT:",
        gap="\n",
        default=(
            "You are a helpful assistant with access to the following function calls. Your task is to "
            "produce a sequence of function calls necessary to generate response to the user utterance. "
            "Use the following function calls as required."
        ),
        tools=ToolMarkup(
            ("<|function_call_library|>\n", ""), between="\n", write=write_function_json
        ),
    ),
    tokens=(_OPEN, "<|function_call_library|>", "<|endoftext|>"),
    template_has=("<function_call>", "<|function_call_library|>"),
    priority=3,
)
