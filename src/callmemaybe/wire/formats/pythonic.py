"""Llama 3.2 and 4, Gemma 3 and others as Python: a list of calls with keyword arguments.

Strings of the template in vLLM's examples/tool_chat_template_llama3.2_pythonic.jinja. Strings stand in
quotes of either kind; a parameter that is no Python name, in quotes too.
"""

from __future__ import annotations

from callmemaybe.wire.arg_syntax import PYTHON_ARGS
from callmemaybe.wire.chat_markup import declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    sequence,
)
from callmemaybe.wire.formats.llama3_json import TOKENS, llama

_HOW = (
    "You have access to the following functions. To call functions, please respond with a python "
    "list of the calls. Respond in the format [func_name1(params_name1=params_value1, "
    "params_name2=params_value2...), func_name2(params)] Do not use variables.\n\n"
)
#: One call, as any family that writes Python writes it.
CALL = sequence(NameNode(bare=True), ArgumentsNode(syntax=PYTHON_ARGS))
FORMAT = declare_format(
    "pythonic",
    "Llama 3.2, Llama 4 as Python: [f(a='x', b=1)]",
    ChoiceNode(
        sequence("[", CallsNode(CALL, between=sequence(", ")), "]"),
        no_call=FreeTextNode(not_first="["),
    ),
    llama(_HOW),
    tokens=TOKENS,
    signs=("<|start_header_id|>", "<|end_header_id|>"),
    template_has=("func_name1(params_name1=params_value1",),
    needs_template=True,
    priority=1,
)
