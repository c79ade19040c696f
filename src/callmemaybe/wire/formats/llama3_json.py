"""Llama 3.1 and 3.2 in JSON: one call a turn, as a bare object with "parameters".

Strings of Meta's template as in vLLM's examples/tool_chat_template_llama3.1_json.jinja, tools in the
first system turn as for Llama 3.2's small models. The model ends with ``<|eot_id|>`` (or
``<|eom_id|>``); an answer in text is one that does not begin with a brace.
"""

from __future__ import annotations

from callmemaybe.jsonio import dumps
from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_indented_json
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    sequence,
)

_END = "<|eot_id|>"
TOKENS = (
    "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", _END, "<|eom_id|>",
    "<|python_tag|>",
)  # fmt: skip
_DEFAULT = (
    "You are a helpful assistant with tool calling capabilities. Only reply with a tool call if the "
    "function exists in the library provided by the user. If it doesn't exist, just reply directly "
    "in natural language. When you receive a tool call response, use the output to format an "
    "answer to the original user question."
)
_HOW = (
    "You have access to the following functions. To call a function, please respond with JSON for "
    'a function call. Respond in the format {"name": function name, "parameters": dictionary of '
    "argument name and its value}. Do not use variables.\n\n"
)


def header(role: str) -> str:
    """Return what begins a turn of that role."""
    return f"<|start_header_id|>{role}<|end_header_id|>\n\n"


def llama(how: str) -> ChatMarkup:
    """Return Llama's turns, with these words in front of the tools."""
    return ChatMarkup(
        begin="<|begin_of_text|>",
        system=(f"{header('system')}Environment: ipython\n\n", _END),
        user=(header("user"), _END),
        assistant=(header("assistant"), _END),
        result=(header("ipython"), _END),
        ask=header("assistant"),
        tools=ToolMarkup((how, ""), each=("", "\n\n"), write=write_indented_json),
        default=_DEFAULT,
        write_result=lambda _name, _id, content: (dumps({"output": content}),),
    )


FORMAT = declare_format(
    "llama3_json",
    "Llama 3.1, 3.2, 3.3: one JSON object with name and parameters",
    ChoiceNode(
        CallsNode(
            sequence(
                '{"name": "',
                NameNode(),
                '", "parameters": ',
                ArgumentsNode(),
                "}",
            ),
            between=None,
        ),
        no_call=FreeTextNode(not_first="{"),
    ),
    llama(_HOW),
    tokens=TOKENS,
    signs=("<|start_header_id|>", "<|end_header_id|>"),
    template_has=('"parameters": ', "ipython"),
)
