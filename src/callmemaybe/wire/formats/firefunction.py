"""FireFunction v2: a JSON list behind the word ``functools``, Llama 3's turns around it.

Strings of the template in llama.cpp's models/templates/fireworks-ai-llama-3-firefunction-v2.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import ChoiceNode, FreeTextNode, sequence
from callmemaybe.wire.formats.json_list import LIST_OF_CALLS
from callmemaybe.wire.formats.llama3_json import TOKENS, header

_OPEN = " functools["
_BEHIND = """

To call functions, write nothing but functools[{"name": <function-name>, "arguments": \
<args-json-object>}, ...], with the functions that match the user's intent. Otherwise answer in plain text."""


FORMAT = declare_format(
    "firefunction",
    "FireFunction v2: functools[...] with a JSON list",
    ChoiceNode(sequence(_OPEN, LIST_OF_CALLS), no_call=FreeTextNode(stop=_OPEN, text_stop=True)),
    ChatMarkup(
        begin="<|begin_of_text|>",
        system=(header("system"), "<|eot_id|>"),
        user=(header("user"), "<|eot_id|>"),
        assistant=(header("assistant"), "<|eot_id|>"),
        result=(header("tool"), "<|eot_id|>"),
        ask=header("assistant"),
        gap="\n",
        default="You are a helpful assistant with access to functions.",
        tools=ToolMarkup(("Available functions as JSON spec:\n[", f"]{_BEHIND}"), between=", "),
    ),
    tokens=TOKENS,
    signs=("<|start_header_id|>", "<|end_header_id|>"),
    template_has=("functools[",),
    needs_template=True,
    priority=3,
)
