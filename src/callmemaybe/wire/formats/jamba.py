"""Jamba 1.5 and later: a JSON list between ``<tool_calls>`` and ``</tool_calls>``, a call on each line.

Strings as vLLM's Jamba tool parser and its tests have them.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import CallsNode, ChoiceNode, FreeTextNode, TokenNode, sequence
from callmemaybe.wire.formats.json_list import JSON_CALL

_OPEN, _CLOSE = "<tool_calls>", "</tool_calls>"


def _turn(role: str) -> tuple[str, str]:
    return f"<|bom|><|{role}|> ", "<|eom|>"


FORMAT = declare_format(
    "jamba",
    "Jamba: a JSON list between <tool_calls> tags, a call on each line",
    ChoiceNode(
        sequence(
            TokenNode(_OPEN), "[\n    ", CallsNode(JSON_CALL, between=sequence(",\n    ")), "\n]",
            TokenNode(_CLOSE),
        ),
        no_call=FreeTextNode(stop=_OPEN),
    ),
    ChatMarkup(
        begin="<|startoftext|>",
        system=_turn("system"),
        user=_turn("user"),
        assistant=_turn("assistant"),
        result=_turn("tool"),
        ask="<|bom|><|assistant|>",
        tools=ToolMarkup(("<tool_definitions>\n[", "]\n</tool_definitions>"), between=", "),
    ),
    tokens=(
        _OPEN, _CLOSE, "<|startoftext|>", "<|bom|>", "<|eom|>", "<|system|>", "<|user|>",
        "<|assistant|>", "<|tool|>", "<tool_definitions>", "</tool_definitions>",
    ),
    signs=("<|bom|>", "<|eom|>"),
    template_has=("<|bom|>", "<tool_calls>"),
    priority=3,
)  # fmt: skip
