"""Gemma 3 as Python: a list of calls with keyword arguments, in Gemma's turns.

Strings of the template in vLLM's examples/tool_chat_template_gemma3_pythonic.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_indented_json
from callmemaybe.wire.format_nodes import CallsNode, ChoiceNode, FreeTextNode, sequence
from callmemaybe.wire.formats.pythonic import CALL

_TURN, _END = "<start_of_turn>", "<end_of_turn>"
_HOW = """\
Tools (functions) are available. If you decide to invoke one or more of the tools, you must respond with a \
python list of the function calls.
Example Format: [func_name1(params_name1=params_value1, params_name2=params_value2...), func_name2(params)]
Do not use variables. Do not use markdown syntax, nor any other text, if you call a function.
Here is a list of functions in JSON format that you can invoke.
["""


FORMAT = declare_format(
    "gemma3_pythonic",
    "Gemma 3: [f(a='x', b=1)] in Gemma's turns",
    ChoiceNode(
        sequence("[", CallsNode(CALL, between=sequence(", ")), "]"),
        no_call=FreeTextNode(not_first="["),
    ),
    ChatMarkup(
        begin="<bos>",
        system=(f"{_TURN}user\n", f"{_END}\n"),
        user=(f"{_TURN}user\n", f"{_END}\n"),
        assistant=(f"{_TURN}model\n", f"{_END}\n"),
        result=(f"{_TURN}user\n<tool_response>\n", f"</tool_response>{_END}\n"),
        ask=f"{_TURN}model\n",
        tools=ToolMarkup((_HOW, "]\n\n"), between=",\n", write=write_indented_json),
    ),
    tokens=("<bos>", _TURN, _END),
    signs=(_TURN, _END),
    template_has=("func_name1(params_name1=params_value1", _TURN),
    needs_template=True,
    priority=2,
)
