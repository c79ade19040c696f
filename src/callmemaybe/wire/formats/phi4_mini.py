"""Phi-4-mini: a JSON list between ``<|tool_call|>`` and ``<|/tool_call|>``.

Strings of the model's template (tools between ``<|tool|>`` tokens in the system's turn) and of BFCL's
phi_fc.py. Left alone the model often forgets the end tag; the grammar writes it.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import ChoiceNode, FreeTextNode, TokenNode, sequence
from callmemaybe.wire.formats.json_list import LIST_OF_CALLS

_OPEN, _CLOSE, _END = "<|tool_call|>", "<|/tool_call|>", "<|end|>"

FORMAT = declare_format(
    "phi4_mini",
    "Phi-4-mini: a JSON list between <|tool_call|> tokens",
    ChoiceNode(
        sequence(TokenNode(_OPEN), "[", LIST_OF_CALLS, TokenNode(_CLOSE)), no_call=FreeTextNode(stop=_OPEN)
    ),
    ChatMarkup(
        system=("<|system|>", _END),
        user=("<|user|>", _END),
        assistant=("<|assistant|>", _END),
        result=("<|tool_response|>", _END),
        ask="<|assistant|>",
        gap="",
        default="You are a helpful assistant with some tools.",
        tools=ToolMarkup(("<|tool|>[", "]<|/tool|>"), between=", "),
    ),
    tokens=(
        _OPEN, _CLOSE, _END, "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|/tool|>",
        "<|tool_response|>",
    ),
    signs=(_OPEN, _CLOSE, "<|tool|>"),
    template_has=("<|tool|>",),
    priority=1,
)  # fmt: skip
