"""LFM2: Python calls between ``<|tool_call_start|>`` and ``<|tool_call_end|>``, ChatML around them.

Strings of LiquidAI's template (tools as a JSON list between ``<|tool_list_start|>`` tokens) as in
llama.cpp's models/templates/llama-cpp-lfm2.jinja, and of vLLM's lfm2 tool parser.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    ThoughtNode,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.hermes import chatml
from callmemaybe.wire.formats.pythonic import CALL

_OPEN, _CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
_LIST, _LIST_END = "<|tool_list_start|>", "<|tool_list_end|>"
_RESULT, _RESULT_END = "<|tool_response_start|>", "<|tool_response_end|>"

FORMAT = declare_format(
    "lfm2",
    'LFM2: [f(a="x")] between <|tool_call_start|> tokens',
    sequence(
        ThoughtNode(sequence(TokenNode("<think>")), sequence(TokenNode("</think>"))),
        ChoiceNode(
            sequence(
                TokenNode(_OPEN), "[", CallsNode(CALL, between=sequence(", ")), "]",
                TokenNode(_CLOSE),
            ),
            no_call=FreeTextNode(stop=_OPEN),
        ),
    ),
    chatml(
        ToolMarkup((f"List of tools: {_LIST}[", f"]{_LIST_END}"), between=", "),
        begin="<|startoftext|>",
        gap="\n",
        results=("", ""),
        result=(f"<|im_start|>tool\n{_RESULT}", f"{_RESULT_END}<|im_end|>\n"),
        no_thinking=("", ""),
    ),
    tokens=(
        _OPEN, _CLOSE, _LIST, _LIST_END, _RESULT, _RESULT_END, "<|im_start|>", "<|im_end|>",
        "<|startoftext|>", "<think>", "</think>",
    ),
    signs=(_OPEN, _CLOSE, "<|im_start|>"),
    template_has=("<|im_start|>",),
    priority=3,
)  # fmt: skip
