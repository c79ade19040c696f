"""Step 3.5 and later: Qwen3-Coder's XML, one call right behind the other.

Strings of the template in llama.cpp's models/templates/StepFun3.5-Flash.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import declare_format
from callmemaybe.wire.format_nodes import (
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    ThoughtNode,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.hermes import OPEN, TOKENS, chatml
from callmemaybe.wire.formats.qwen3_coder import CALL, TOOLS

FORMAT = declare_format(
    "step35",
    "Step 3.5, Step 5: Qwen3-Coder's XML, no line break between calls",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>"), "\n"), sequence(TokenNode("</think>"), "\n")),
        ChoiceNode(CallsNode(CALL), no_call=FreeTextNode(stop=OPEN)),
    ),
    chatml(
        TOOLS,
        results=("<|im_start|>tool_response\n", "<|im_end|>\n"),
        result=("<tool_response>", "</tool_response>"),
        no_thinking=("<think>", "<think>\n\n</think>\n"),
    ),
    tokens=TOKENS,
    signs=("<|im_start|>", "<|im_end|>"),
    template_has=("<function=", "<parameter=", "tool_response\\n"),
    needs_template=True,
    priority=2,
)
