"""Kimi K2: ``functions.f:0`` and JSON between tokens, in a section of calls.

Strings of the template in llama.cpp's models/templates/moonshotai-Kimi-K2.jinja. The number behind a name
counts the calls of the conversation; a model may write any.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    NumberNode,
    ThoughtNode,
    TokenNode,
    sequence,
)

_CALLS, _CALLS_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
_CALL, _ARGS, _CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_MIDDLE, _END = "<|im_middle|>", "<|im_end|>"


FORMAT = declare_format(
    "kimi_k2",
    "Kimi K2: functions.f:0 and JSON between <|tool_call_begin|> tokens",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>")), sequence(TokenNode("</think>"))),
        ChoiceNode(
            sequence(
                TokenNode(_CALLS),
                CallsNode(
                    sequence(
                        TokenNode(_CALL), "functions.", NameNode(bare=True), ":", NumberNode(),
                        TokenNode(_ARGS), ArgumentsNode(), TokenNode(_CALL_END),
                    )
                ),
                TokenNode(_CALLS_END),
            ),
            no_call=FreeTextNode(stop=_CALLS),
        ),
    ),
    ChatMarkup(
        system=(f"<|im_system|>system{_MIDDLE}", _END),
        user=(f"<|im_user|>user{_MIDDLE}", _END),
        assistant=(f"<|im_assistant|>assistant{_MIDDLE}", _END),
        result=(f"<|im_system|>tool{_MIDDLE}", _END),
        ask=f"<|im_assistant|>assistant{_MIDDLE}",
        gap=f"{_END}<|im_system|>tool_declare{_MIDDLE}",
        default="You are Kimi, an AI assistant created by Moonshot AI.",
        tools=ToolMarkup(("[", "]"), between=", "),
        write_result=lambda name, _id, content: (f"## Return of functions.{name}\n{content}",),
    ),
    tokens=(
        _CALLS, _CALLS_END, _CALL, _ARGS, _CALL_END, _MIDDLE, _END, "<|im_system|>", "<|im_user|>",
        "<|im_assistant|>", "<think>", "</think>",
    ),
    signs=(_CALLS, _CALL, _ARGS),
    template_has=(_CALLS,),
    priority=3,
)  # fmt: skip
