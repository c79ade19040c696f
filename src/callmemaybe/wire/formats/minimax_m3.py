"""MiniMax M3: elements inside of elements, a token in front of every tag.

Strings of the template in llama.cpp's models/templates/MiniMax-M3.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.arg_syntax import ArgSyntax, TopLevelMarks
from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_function_json
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

_NS = "]<]minimax[>["
_BEGIN, _END = "]~b]", "[e~["
_THINK, _ANSWER = "<mm:think>", "</mm:think>"
_ARGS = ArgSyntax(
    "minimax_m3",
    TopLevelMarks("", f"{_NS}<", ">", f"{_NS}</{{key}}>", "", f"{_NS}</invoke>"),
    raw=True,
    tokens=(_NS,),
    item="item",
)
_BEFORE = """\
# Tools
You may call one or more tools to assist with the user query.
Here are the tools available in JSONSchema format:

<tools>
"""
_BEHIND = f"""</tools>

To call tools, wrap all invocations in a single {_NS}<tool_call>{_NS}</tool_call> block. Parameter values containing \
nested objects or arrays are recursively expanded into XML elements. Example:

{_NS}<tool_call>
{_NS}<invoke name="tool-name-1">{_NS}<param-1>value-1{_NS}</param-1>{_NS}<param-2>{_NS}<item>\
{_NS}<key-a>val-a{_NS}</key-a>{_NS}<key-b>val-b{_NS}</key-b>{_NS}</item>{_NS}</param-2>{_NS}</invoke>
{_NS}<invoke name="tool-name-2">{_NS}<param-1>value-1{_NS}</param-1>{_NS}</invoke>
{_NS}</tool_call>"""
_SYSTEM = f"""\
Your model version is MiniMax-M3, developed by MiniMax. Knowledge cutoff: January 2026. Founded in early 2022, MiniMax \
is a global AI foundation model company committed to advancing the frontiers of AI towards AGI.

<thinking_instructions>
You have a thinking capability that allows you to reason step by step before responding. When thinking is enabled, \
wrap your reasoning in {_THINK}{_ANSWER} tags before your response. When thinking is disabled, begin your response \
directly after the {_ANSWER} prefix. When thinking is adaptive, decide on your own whether to think for the current turn.
Current thinking mode: adaptive. You are encouraged to think for complex decision-making, multi-step reasoning, or \
when analyzing function/tool results.
</thinking_instructions>"""


def _turn(role: str) -> tuple[str, str]:
    return f"{_BEGIN}{role}\n", f"{_END}\n"


FORMAT = declare_format(
    "minimax_m3",
    'MiniMax M3: <invoke name="f">, arguments as elements inside of elements, a token in front of each tag',
    sequence(
        ThoughtNode(sequence(TokenNode(_THINK)), sequence(TokenNode(_ANSWER))),
        ChoiceNode(
            sequence(
                TokenNode(_NS), "<tool_call>\n",
                CallsNode(
                    sequence(
                        TokenNode(_NS), '<invoke name="', NameNode(), '">',
                        ArgumentsNode(syntax=_ARGS), "\n",
                    )
                ),
                TokenNode(_NS), "</tool_call>",
            ),
            no_call=FreeTextNode(stop=_NS),
        ),
    ),
    ChatMarkup(
        begin=f"]~!b[{_BEGIN}system\n{_SYSTEM}{_END}\n",
        system=_turn("developer"),
        user=_turn("user"),
        assistant=(f"{_BEGIN}ai\n{_ANSWER}", f"{_END}\n"),
        results=(f"{_BEGIN}tool", f"{_END}\n"),
        result=("\n<response>", "</response>"),
        ask=f"{_BEGIN}ai\n",
        no_thinking=(_ANSWER, _ANSWER),
        default="You are a helpful assistant.",
        tools=ToolMarkup(
            (_BEFORE, _BEHIND), each=("<tool>", "</tool>\n"), write=write_function_json
        ),
    ),
    tokens=(_NS, _BEGIN, _END, "]~!b[", _THINK, _ANSWER),
    signs=(_NS, _BEGIN, _END),
    template_has=(_NS, "<invoke name="),
    priority=4,
)  # fmt: skip
