"""EXAONE 4: JSON between ``<tool_call>`` tags on one line, turns in square brackets.

Strings of LG's template for EXAONE 4.0, as pinned in ollama's exaone4 renderer tests.
"""

from __future__ import annotations

from callmemaybe.jsonio import dumps
from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.hermes import CLOSE, NO_THINKING, OPEN, THINK

_END = "[|endofturn|]"
_BEFORE = """\
# Available Tools
You can use none, one, or multiple of the following tools by calling them as functions to help with \
the user’s query.
Here are the tools available to you in JSON format within <tool> and </tool> tags:
"""
_BEHIND = """\

For each function call you want to make, return a JSON object with function name and arguments \
within <tool_call> and </tool_call> tags, like:
<tool_call>{"name": function_1_name, "arguments": {argument_1_name: argument_1_value, \
argument_2_name: argument_2_value}}</tool_call>
<tool_call>{"name": function_2_name, "arguments": {...}}</tool_call>
...
Note that if no argument name is specified for a tool, you can just print the argument value \
directly, without the argument name or JSON formatting."""

FORMAT = declare_format(
    "exaone",
    "EXAONE 4: JSON between <tool_call> tags, on one line",
    sequence(
        THINK,
        ChoiceNode(
            CallsNode(
                sequence(
                    TokenNode(OPEN), '{"name": "', NameNode(), '", "arguments": ',
                    ArgumentsNode(), "}", TokenNode(CLOSE),
                ),
                between=sequence("\n"),
            ),
            no_call=FreeTextNode(stop=OPEN),
        ),
    ),
    ChatMarkup(
        system=("[|system|]\n", f"{_END}\n"),
        user=("[|user|]\n", f"{_END}\n"),
        assistant=("[|assistant|]\n<think>\n\n</think>\n\n", f"{_END}\n"),
        results=("[|tool|]\n", f"{_END}\n"),
        result=("<tool_result>", "</tool_result>"),
        ask="[|assistant|]\n",
        no_thinking=NO_THINKING,
        tools=ToolMarkup((_BEFORE, _BEHIND), each=("<tool>", "</tool>\n")),
        write_result=lambda _name, _id, content: (dumps({"result": content}),),
    ),
    tokens=(
        OPEN, CLOSE, _END, "[|system|]", "[|user|]", "[|assistant|]", "[|tool|]", "<think>",
        "</think>", "<tool>", "</tool>", "<tool_result>", "</tool_result>",
    ),
    signs=("[|assistant|]", _END),
    template_has=("[|assistant|]", "<tool_call>"),
    priority=2,
)  # fmt: skip
