"""Hunyuan A13B: a JSON list between ``<tool_calls>`` and ``</tool_calls>``.

Strings of the template in vLLM's examples/tool_chat_template_hunyuan_a13b.jinja (its instructions are in
Chinese and long; here they are one sentence).
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import ChoiceNode, FreeTextNode, ThoughtNode, TokenNode, sequence
from callmemaybe.wire.formats.json_list import LIST_OF_CALLS

_OPEN, _CLOSE = "<tool_calls>", "</tool_calls>"
_HOW = (
    '\n如果你决定返回函数调用，请将其格式化为<tool_calls>[{"name": "func_name1", "arguments": '
    '{"argument1": "value1", "argument2": "value2"}},...]</tool_calls>，不得包含其他文本。'
)


FORMAT = declare_format(
    "hunyuan_a13b",
    "Hunyuan A13B: a JSON list between <tool_calls> tags",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>"), "\n"), sequence(TokenNode("</think>"), "\n")),
        ChoiceNode(
            sequence(TokenNode(_OPEN), "[", LIST_OF_CALLS, TokenNode(_CLOSE)),
            no_call=FreeTextNode(stop=_OPEN),
        ),
    ),
    ChatMarkup(
        system=("<|startoftext|>", "<|extra_4|>"),
        user=("用户：", "<|extra_0|>"),
        assistant=("助手：", "<|eos|>"),
        result=("工具：<tool_response>", "</tool_response><|extra_0|>"),
        ask="",
        gap="\n",
        no_thinking=("<think>", "<think>\n\n</think>\n"),
        tools=ToolMarkup(("[", f"]{_HOW}"), between=", "),
    ),
    tokens=(
        _OPEN, _CLOSE, "<|startoftext|>", "<|extra_4|>", "<|extra_0|>", "<|eos|>", "<think>", "</think>",
    ),
    signs=("<|startoftext|>", "<|extra_0|>", "<|extra_4|>"),
    template_has=("<|extra_0|>", "<tool_calls>"),
    priority=3,
)  # fmt: skip
