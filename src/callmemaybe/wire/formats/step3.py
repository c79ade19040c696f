"""Step 3: XML elements with the prefix ``steptml:`` between tokens.

Strings as vLLM's Step 3 tool parser and its tests have them. (Step 3.5 and later write what Qwen3-Coder does.)
"""

from __future__ import annotations

from callmemaybe.wire.arg_syntax import ArgSyntax, TopLevelMarks
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

_CALLS, _CALLS_END = "<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"
_CALL, _CALL_END = "<｜tool_call_begin｜>", "<｜tool_call_end｜>"
_SEP, _END = "<｜tool_sep｜>", "<|EOT|>"
_ARGS = ArgSyntax(
    "step3",
    TopLevelMarks(
        "", '<steptml:parameter name="', '">', "</steptml:parameter>", "", "</steptml:invoke>"
    ),
    raw=True,
)
_BEHIND = """

For each function call, write between the tokens of a call:
<steptml:invoke name="function-name"><steptml:parameter name="param-key">param-value\
</steptml:parameter></steptml:invoke>"""


def _turn(role: str) -> tuple[str, str]:
    return f"<|BOT|>{role}\n", _END


FORMAT = declare_format(
    "step3",
    "Step 3: <steptml:invoke> elements between tokens",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>"), "\n"), sequence(TokenNode("</think>"), "\n")),
        ChoiceNode(
            sequence(
                TokenNode(_CALLS),
                CallsNode(
                    sequence(
                        TokenNode(_CALL), "function", TokenNode(_SEP), '<steptml:invoke name="',
                        NameNode(), '">', ArgumentsNode(syntax=_ARGS), TokenNode(_CALL_END),
                    )
                ),
                TokenNode(_CALLS_END),
            ),
            no_call=FreeTextNode(stop=_CALLS),
        ),
    ),
    ChatMarkup(
        system=_turn("system"),
        user=_turn("user"),
        assistant=_turn("assistant"),
        result=("<|BOT|>tool_response\n", _END),
        ask="<|BOT|>assistant\n",
        no_thinking=("<think>", "<think>\n\n</think>\n"),
        tools=ToolMarkup(("# Tools\n\n", _BEHIND), between="\n"),
    ),
    tokens=(_CALLS, _CALLS_END, _CALL, _CALL_END, _SEP, _END, "<|BOT|>", "<think>", "</think>"),
    signs=(_CALLS, _CALL, _CALL_END),
    template_has=("steptml",),
    priority=4,
)  # fmt: skip
