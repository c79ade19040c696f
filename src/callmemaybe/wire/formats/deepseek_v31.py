"""DeepSeek V3.1: as V3, without the fence and the word "function".

Strings of DeepSeek's template as in vLLM's examples/tool_chat_template_deepseekv31.jinja.
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
from callmemaybe.wire.formats.deepseek_v3 import (
    ASSISTANT,
    BEGIN,
    CALL,
    CALL_END,
    CALLS,
    CALLS_END,
    END,
    OUTPUT,
    OUTPUT_END,
    SEP,
    TOKENS,
    USER,
)

_BEHIND = f"""\
IMPORTANT: ALWAYS adhere to this exact format for tool use:
{CALLS}{CALL}tool_call_name{SEP}tool_call_arguments{CALL_END}{{additional_tool_calls}}{CALLS_END}

Where:

- `tool_call_name` must be an exact match to one of the available tools
- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema
- For multiple tool calls, chain them directly without separators or spaces
"""

FORMAT = declare_format(
    "deepseek_v31",
    "DeepSeek V3.1: f<｜tool▁sep｜>{...} between tokens",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>")), sequence(TokenNode("</think>"))),
        ChoiceNode(
            sequence(
                TokenNode(CALLS),
                CallsNode(
                    sequence(
                        TokenNode(CALL), NameNode(bare=True), TokenNode(SEP), ArgumentsNode(),
                        TokenNode(CALL_END),
                    )
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
        assistant=(f"{ASSISTANT}</think>", END),
        result=(OUTPUT, OUTPUT_END),
        ask=ASSISTANT,
        resumes=True,
        no_thinking=("</think>", "</think>"),
        tools=ToolMarkup(("## Tools\nYou have access to the following tools:\n", _BEHIND)),
    ),
    tokens=TOKENS,
    signs=(CALLS, CALL, SEP),
    template_has=(CALLS,),
    template_lacks=("```json",),
    priority=3,
)  # fmt: skip
