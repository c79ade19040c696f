"""Muse Glimmer: XML elements with the prefix ``atem:``, each call in a message to its tool.

Strings of the template in llama.cpp's models/templates/muse-glimmer.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.arg_syntax import ArgSyntax, TopLevelMarks
from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameAgainNode,
    NameNode,
    ThoughtNode,
    TokenNode,
    sequence,
)

_START, _MESSAGE, _MORE, _END = "<|start|>", "<|message|>", "<|eom|>", "<|eot|>"
_ARGS = ArgSyntax(
    "muse",
    TopLevelMarks(
        "", '<atem:parameter name="', '">', "</atem:parameter>\n", "", "</atem:invoke>\n"
    ),
    raw=True,
)
_BEHIND = """

To call a tool, send a message to it:
<atem:function_calls>
<atem:invoke name="tool-name">
<atem:parameter name="param-key">param-value</atem:parameter>
</atem:invoke>
</atem:function_calls>"""


def _turn(role: str) -> tuple[str, str]:
    return f"{_START}{role}{_MESSAGE}", _END


FORMAT = declare_format(
    "muse",
    "Muse Glimmer: <atem:invoke> elements, each in a message to its tool",
    sequence(
        ThoughtNode(
            sequence(" to=self", TokenNode(_MESSAGE)),
            sequence(TokenNode(_MORE), TokenNode(_START), "assistant"),
        ),
        ChoiceNode(
            CallsNode(
                sequence(
                    " to=",
                    NameNode(bare=True), TokenNode(_MESSAGE), '<atem:function_calls>\n<atem:invoke name="',
                    NameAgainNode(), '">\n', ArgumentsNode(syntax=_ARGS), "</atem:function_calls>",
                ),
                between=sequence(TokenNode(_MORE), TokenNode(_START), "assistant"),
            ),
            no_call=sequence(" to=user", TokenNode(_MESSAGE), FreeTextNode(stop=_END)),
        ),
    ),
    ChatMarkup(
        system=_turn("system"),
        user=_turn("user"),
        assistant=(f"{_START}assistant", _END),
        result=(f"{_START}tool ", f"\n</tool_output>{_END}"),
        ask=f"{_START}assistant",
        answer=(f" to=user{_MESSAGE}", ""),
        tools=ToolMarkup(("# Tools\n\n", _BEHIND), between="\n"),
        write_result=lambda name, _id, content: (name, f'<tool_output name="{name}">\n', content),
        result_gaps=(_MESSAGE, ""),
    ),
    tokens=(_START, _MESSAGE, _MORE, _END),
    signs=(_START, _MESSAGE, _MORE),
    template_has=("atem:invoke",),
    priority=4,
)  # fmt: skip
