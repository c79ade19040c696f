"""Functionary v3.1 and Llama 3.1 with functions of one's own: ``<function=f>{...}</function>``.

Strings of the template in llama.cpp's models/templates/meetkai-functionary-medium-v3.1.jinja.
"""

from __future__ import annotations

from collections.abc import Iterable

from callmemaybe.jsonio import dumps
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    PromptPart,
    sequence,
)
from callmemaybe.wire.formats.llama3_json import TOKENS, header

_OPEN, _CLOSE, _END = "<function=", "</function>", "<|eot_id|>"
_BEHIND = """
If you choose to call a function ONLY reply in the following format:
<function=example_function_name>{"example_name": "example_value"}</function>

Required parameters must be specified. Put each function call on one line."""


def _tool(tool: ToolSpec) -> Iterable[PromptPart]:
    yield f"Use the function '{tool.name}' to '{tool.description}'\n"
    yield f"{dumps(tool.as_openai()['function'])}\n\n"


FORMAT = declare_format(
    "functionary_v31",
    "Functionary v3.1: <function=f>{...}</function>",
    ChoiceNode(
        CallsNode(sequence(_OPEN, NameNode(bare=True), ">", ArgumentsNode(), _CLOSE)),
        no_call=FreeTextNode(stop=_OPEN, text_stop=True),
    ),
    ChatMarkup(
        begin="<|begin_of_text|>",
        system=(header("system"), _END),
        user=(header("user"), _END),
        assistant=(header("assistant"), _END),
        result=(header("ipython"), _END),
        ask=header("assistant"),
        tools=ToolMarkup(("You have access to the following functions:\n\n", _BEHIND), write=_tool),
    ),
    tokens=TOKENS,
    signs=("<|start_header_id|>", "<|end_header_id|>"),
    template_has=("<function=", "<|start_header_id|>"),
    needs_template=True,
    priority=2,
)
