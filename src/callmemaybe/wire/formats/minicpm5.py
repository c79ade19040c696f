"""MiniCPM 5: ``<function name="f">`` elements, values right behind their keys, strings as they are.

Strings of the template in llama.cpp's models/templates/openbmb-MiniCPM5-1B.jinja. Its CDATA blocks, which
only strings with ``<``, ``&`` or line breaks need, are not written: a string ends at its closing tag.
"""

from __future__ import annotations

from callmemaybe.wire.arg_syntax import ArgSyntax, TopLevelMarks
from callmemaybe.wire.chat_markup import ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    sequence,
)
from callmemaybe.wire.formats.hermes import THINK, TOKENS, chatml

_OPEN = '<function name="'
_ARGS = ArgSyntax(
    "minicpm5",
    TopLevelMarks("", '<param name="', '">', "</param>", "", "</function>"),
    raw=True,
)
_BEFORE = """\
# Tools

You are provided with function signatures within <tools></tools> XML tags:
<tools>
"""
_BEHIND = """
</tools>

When calling a function, return an XML object within <function ... </function> using:
<function name="function-name"><param name="param-name">param-value</param></function>"""


FORMAT = declare_format(
    "minicpm5",
    'MiniCPM 5: <function name="f"> elements',
    sequence(
        THINK,
        ChoiceNode(
            CallsNode(
                sequence(_OPEN, NameNode(), '">', ArgumentsNode(syntax=_ARGS)),
                between=sequence("\n"),
            ),
            no_call=FreeTextNode(stop=_OPEN, text_stop=True),
        ),
    ),
    chatml(ToolMarkup((_BEFORE, _BEHIND), between="\n"), begin="<s>"),
    tokens=(*TOKENS, "<s>"),
    signs=("<|im_start|>", "<|im_end|>"),
    template_has=('<function name="', "<param name="),
    needs_template=True,
    priority=4,
)
