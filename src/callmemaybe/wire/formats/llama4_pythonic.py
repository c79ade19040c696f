"""Llama 4 as Python: a list of calls between ``<|python_start|>`` and ``<|python_end|>``.

Strings of the template in vLLM's examples/tool_chat_template_llama4_pythonic.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_indented_json
from callmemaybe.wire.format_nodes import CallsNode, ChoiceNode, FreeTextNode, TokenNode, sequence
from callmemaybe.wire.formats.pythonic import CALL

_OPEN, _CLOSE, _END = "<|python_start|>", "<|python_end|>", "<|eot|>"
_HOW = """\
You are a helpful assistant and an expert in function composition. Here is a list of functions in JSON \
format that you can invoke. Use exact format: [func_name1(param1=value1, param2=value2), func_name2(...)]
"""


def _turn(role: str) -> tuple[str, str]:
    return f"<|header_start|>{role}<|header_end|>\n\n", _END


FORMAT = declare_format(
    "llama4_pythonic",
    "Llama 4: [f(a='x', b=1)] between <|python_start|> tokens",
    ChoiceNode(
        sequence(
            TokenNode(_OPEN), "[", CallsNode(CALL, between=sequence(", ")), "]", TokenNode(_CLOSE)
        ),
        no_call=FreeTextNode(stop=_OPEN),
    ),
    ChatMarkup(
        begin="<|begin_of_text|>",
        system=_turn("system"),
        user=_turn("user"),
        assistant=_turn("assistant"),
        result=_turn("ipython"),
        ask=_turn("assistant")[0],
        gap="\n",
        tools=ToolMarkup((f"{_HOW}[", "]"), between=", ", write=write_indented_json),
    ),
    tokens=(_OPEN, _CLOSE, _END, "<|begin_of_text|>", "<|header_start|>", "<|header_end|>"),
    signs=("<|header_start|>", "<|header_end|>"),
    template_has=("<|header_start|>", "param1=value1"),
    priority=3,
)
