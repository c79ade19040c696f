"""DeepSeek R1 and V3: each call between tokens, arguments as JSON in a fence of backquotes.

Strings of DeepSeek's template as in vLLM's examples/tool_chat_template_deepseekv3.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    ThoughtNode,
    TokenNode,
    sequence,
)

CALLS, CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, CALL_END, SEP = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
BEGIN, END = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
USER, ASSISTANT = "<｜User｜>", "<｜Assistant｜>"
_OUTPUTS, _OUTPUTS_END = "<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>"
OUTPUT, OUTPUT_END = "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"
TOKENS = (
    CALLS, CALLS_END, CALL, CALL_END, SEP, BEGIN, END, USER, ASSISTANT, _OUTPUTS, _OUTPUTS_END,
    OUTPUT, OUTPUT_END, "<think>", "</think>",
)  # fmt: skip
THINK = ThoughtNode(
    sequence(TokenNode("<think>"), "\n"),
    sequence(TokenNode("</think>"), "\n\n"),
)
_BEFORE = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
"""

FORMAT = declare_format(
    "deepseek_v3",
    "DeepSeek R1, V3: function<｜tool▁sep｜>f and fenced JSON between tokens",
    sequence(
        THINK,
        ChoiceNode(
            sequence(
                TokenNode(CALLS),
                CallsNode(
                    sequence(
                        TokenNode(CALL), "function", TokenNode(SEP), NameNode(bare=True),
                        "\n```json\n", ArgumentsNode(), "\n```", TokenNode(CALL_END),
                    ),
                    between=sequence("\n"),
                ),
                TokenNode(CALLS_END),
            ),
            no_call=FreeTextNode(stop=CALLS),
        ),
    ),
    ChatMarkup(
        begin=BEGIN,
        system=("", ""),
        user=(USER, ""),
        assistant=(ASSISTANT, END),
        results=(_OUTPUTS, _OUTPUTS_END),
        result=(OUTPUT, OUTPUT_END),
        ask=ASSISTANT,
        resumes=True,
        tools=ToolMarkup((_BEFORE, "\n</tools>\n\n"), between="\n"),
    ),
    tokens=TOKENS,
    signs=(CALLS, CALL, SEP),
    template_has=(CALLS, "```json"),
    priority=2,
)  # fmt: skip
