"""Llama 4 as JSON: one object with name and parameters, Llama 4's turns around it.

Strings of the template in vLLM's examples/tool_chat_template_llama4_json.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_indented_json
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    sequence,
)

_END = "<|eot|>"
_HOW = """\
You have access to the following functions. To call a function, please respond with JSON for a function \
call. Respond in the format {"name": function name, "parameters": dictionary of argument name and its \
value}. Do not use variables.

"""


def _turn(role: str) -> tuple[str, str]:
    return f"<|header_start|>{role}<|header_end|>\n\n", _END


FORMAT = declare_format(
    "llama4_json",
    "Llama 4: one JSON object with name and parameters",
    ChoiceNode(
        CallsNode(
            sequence('{"name": "', NameNode(), '", "parameters": ', ArgumentsNode(), "}"),
            between=None,
        ),
        no_call=FreeTextNode(not_first="{"),
    ),
    ChatMarkup(
        begin="<|begin_of_text|>",
        system=_turn("system"),
        user=_turn("user"),
        assistant=_turn("assistant"),
        result=_turn("ipython"),
        ask=_turn("assistant")[0],
        tools=ToolMarkup((_HOW, ""), each=("", "\n\n"), write=write_indented_json),
    ),
    tokens=(_END, "<|begin_of_text|>", "<|header_start|>", "<|header_end|>"),
    signs=("<|header_start|>", "<|header_end|>"),
    template_has=("<|header_start|>", '"parameters": '),
    priority=1,
)
