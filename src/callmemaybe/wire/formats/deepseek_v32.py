"""DeepSeek V3.2: XML with the token ``｜DSML｜`` in its tags; each argument says whether it is a string.

Strings of the template in llama.cpp's models/templates/deepseek-ai-DeepSeek-V3.2.jinja.
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
    SequenceNode,
    ThoughtNode,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.deepseek_v3 import ASSISTANT, BEGIN, END, USER

DSML = "｜DSML｜"
TOKENS = (DSML, BEGIN, END, USER, ASSISTANT, "<think>", "</think>")
ARGS = ArgSyntax(
    "dsml",
    TopLevelMarks(
        "",
        f'<{DSML}parameter name="',
        '" string="true">',
        f"</{DSML}parameter>\n",
        "",
        f"</{DSML}invoke>\n",
        after_json_key='" string="false">',
    ),
    raw=True,
    tokens=(DSML,),
)
THINK = ThoughtNode(sequence(TokenNode("<think>")), sequence(TokenNode("</think>")))
_HOW = """\
## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a \
"<{dsml}{calls}>" block like the following:

<{dsml}{calls}>
<{dsml}invoke name="$TOOL_NAME">
<{dsml}parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</{dsml}parameter>
...
</{dsml}invoke>
<{dsml}invoke name="$TOOL_NAME2">
...
</{dsml}invoke>
</{dsml}{calls}>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, \
booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

Here are the functions available in JSONSchema format:
<functions>
"""


def block(calls: str) -> SequenceNode:
    """Return calls in a block of that name."""
    call = sequence(
        "<", TokenNode(DSML), 'invoke name="', NameNode(), '">\n', ArgumentsNode(syntax=ARGS)
    )
    return sequence(
        "\n\n<", TokenNode(DSML), f"{calls}>\n", CallsNode(call),
        "</", TokenNode(DSML), f"{calls}>",
    )  # fmt: skip


def tools(calls: str) -> ToolMarkup:
    """Return how tools are declared, with the name of that block."""
    how = _HOW.format(dsml=DSML, calls=calls)
    return ToolMarkup((how, "\n</functions>"), between="\n", write=write_function_json)


FORMAT = declare_format(
    "deepseek_v32",
    "DeepSeek V3.2: <｜DSML｜function_calls> with XML inside",
    sequence(THINK, ChoiceNode(block("function_calls"), no_call=FreeTextNode(stop=DSML))),
    ChatMarkup(
        begin=BEGIN,
        system=("", ""),
        user=(USER, ""),
        assistant=(f"{ASSISTANT}</think>", END),
        resumes=True,
        results=("\n\n<function_results>\n", "</function_results>\n\n</think>"),
        result=("<result>", "</result>\n"),
        ask=ASSISTANT,
        no_thinking=("</think>", "</think>"),
        tools=tools("function_calls"),
    ),
    tokens=TOKENS,
    signs=(DSML, USER, ASSISTANT),
    template_has=(DSML, "function_calls"),
    priority=3,
)
