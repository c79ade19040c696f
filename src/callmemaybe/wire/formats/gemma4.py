"""Gemma 4: calls as records between ``<|tool_call>`` and ``<tool_call|>``, strings between ``<|"|>``.

Strings of the template in vLLM's examples/tool_chat_template_gemma4.jinja (Google's). Keys are sorted.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    ThoughtNode,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats._gemma import call, declaration

_OPEN, _CLOSE, _FENCE = "<|tool_call>", "<tool_call|>", '<|"|>'
_TURN, _END = "<|turn>", "<turn|>"
_CHANNEL, _CHANNEL_END = "<|channel>", "<channel|>"

FORMAT = declare_format(
    "gemma4",
    'Gemma 4: <|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>',
    sequence(
        ThoughtNode(sequence(TokenNode(_CHANNEL), "thought\n"), sequence(TokenNode(_CHANNEL_END))),
        ChoiceNode(CallsNode(call(_OPEN, _CLOSE, _FENCE)), no_call=FreeTextNode(stop=_OPEN)),
    ),
    ChatMarkup(
        begin="<bos>",
        system=(f"{_TURN}system\n", f"{_END}\n"),
        user=(f"{_TURN}user\n", f"{_END}\n"),
        assistant=(f"{_TURN}model\n", f"{_END}\n"),
        resumes=True,
        open_calls=True,
        result=("<|tool_response>", "<tool_response|>"),
        ask=f"{_TURN}model\n",
        tools=ToolMarkup(
            ("", ""), each=("<|tool>", "<tool|>"), write=lambda tool: declaration(tool, _FENCE)
        ),
        gap="",
        write_result=lambda name, _id, content: (f"response:{name}{{value:", content, "}"),
        result_gaps=(_FENCE, _FENCE),
    ),
    tokens=(
        "<bos>", _TURN, _END, _OPEN, _CLOSE, _FENCE, _CHANNEL, _CHANNEL_END, "<|tool>", "<tool|>",
        "<|tool_response>", "<tool_response|>",
    ),
    signs=(_OPEN, _CLOSE, _FENCE),
    template_has=("<|tool_call>",),
    priority=2,
)  # fmt: skip
