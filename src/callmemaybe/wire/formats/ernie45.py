"""ERNIE 4.5 Thinking: Hermes' JSON between ``<tool_call>`` tags, each with a line break behind it.

Strings as vLLM's ERNIE 4.5 tool parser and its tests have them. An answer may stand between
``<response>`` tags.
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
from callmemaybe.wire.formats.hermes import BEFORE, BEHIND, CALL, NO_THINKING, OPEN, TOKENS

FORMAT = declare_format(
    "ernie45",
    "ERNIE 4.5: JSON between <tool_call> tags",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>"), "\n"), sequence(TokenNode("</think>"), "\n\n")),
        ChoiceNode(
            CallsNode(sequence(CALL, "\n")),
            no_call=FreeTextNode(stop=OPEN),
        ),
    ),
    ChatMarkup(
        begin="<|begin_of_sentence|>",
        system=("<|im_start|>system\n", "<|im_end|>\n\n"),
        user=("<|im_start|>user\n", "<|im_end|>\n\n"),
        assistant=("<|im_start|>assistant\n", "<|im_end|>\n\n"),
        result=("<|im_start|>tool\n<tool_output>\n", "\n</tool_output><|im_end|>\n\n"),
        ask="<|im_start|>assistant\n",
        no_thinking=NO_THINKING,
        tools=ToolMarkup((BEFORE, BEHIND), between="\n"),
    ),
    tokens=(*TOKENS, "<|begin_of_sentence|>"),
    signs=("<|begin_of_sentence|>", "<|im_start|>", OPEN),
    template_has=("<tool_call>", "<tool_output>"),
    priority=2,
)
