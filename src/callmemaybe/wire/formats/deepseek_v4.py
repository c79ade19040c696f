"""DeepSeek V4: as V3.2, in a block of another name, and results in a turn of the user's.

Strings of the template in llama.cpp's models/templates/deepseek-ai-DeepSeek-V4.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, declare_format
from callmemaybe.wire.format_nodes import ChoiceNode, FreeTextNode, sequence
from callmemaybe.wire.formats.deepseek_v3 import ASSISTANT, BEGIN, END, USER
from callmemaybe.wire.formats.deepseek_v32 import DSML, THINK, TOKENS, block, tools

FORMAT = declare_format(
    "deepseek_v4",
    "DeepSeek V4: <｜DSML｜tool_calls> with XML inside",
    sequence(THINK, ChoiceNode(block("tool_calls"), no_call=FreeTextNode(stop=DSML))),
    ChatMarkup(
        begin=BEGIN,
        system=("", ""),
        user=(USER, ""),
        assistant=(f"{ASSISTANT}</think>", END),
        results=(USER, ""),
        result=("<tool_result>", "</tool_result>"),
        ask=ASSISTANT,
        no_thinking=("</think>", "</think>"),
        tools=tools("tool_calls"),
    ),
    tokens=TOKENS,
    signs=(DSML, USER, ASSISTANT),
    template_has=(DSML, "tool_calls"),
    template_lacks=("function_calls",),
    priority=3,
)
