"""dots.llm: MiniMax' elements between ``<dots_function_call>`` tags.

Strings as vLLM's Dots tool parser and its tests have them; turns as the model's template writes them.
"""

from __future__ import annotations

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
from callmemaybe.wire.formats.minimax_m2 import ARGS

_OPEN, _CLOSE = "<dots_function_call>", "</dots_function_call>"
_BEHIND = """

To call functions, write:
<dots_function_call>
<invoke name="function-name">
<parameter name="param-key">param-value</parameter>
</invoke>
</dots_function_call>"""


def _turn(role: str) -> tuple[str, str]:
    return f"<|{role}|>", f"<|endof{role}|>"


FORMAT = declare_format(
    "dots",
    "dots.llm: <invoke> elements between <dots_function_call> tags",
    ChoiceNode(
        sequence(
            TokenNode(_OPEN), "\n",
            CallsNode(sequence('<invoke name="', NameNode(), '">\n', ArgumentsNode(syntax=ARGS))),
            TokenNode(_CLOSE),
        ),
        no_call=FreeTextNode(stop=_OPEN),
    ),
    ChatMarkup(
        system=_turn("system"),
        user=_turn("userprompt"),
        assistant=_turn("response"),
        result=_turn("userprompt"),
        ask="<|response|>",
        tools=ToolMarkup(("# Tools\n\n", _BEHIND), between="\n"),
    ),
    tokens=(
        _OPEN, _CLOSE,
        *(mark for role in ("system", "userprompt", "response") for mark in _turn(role)),
    ),
    template_has=("<dots_function_call>",),
    priority=4,
)  # fmt: skip
