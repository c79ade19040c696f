"""FunctionGemma (Gemma 3 270M): calls as records, every string between two ``<escape>`` tokens.

Strings of Google's page "FunctionGemma formatting and best practices" and of the model's template:
tools are declared in a developer's turn, keys are sorted, results come as records in the model's turn.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import CallsNode, ChoiceNode, FreeTextNode
from callmemaybe.wire.formats._gemma import call, declaration

_OPEN, _CLOSE, _FENCE = "<start_function_call>", "<end_function_call>", "<escape>"
_TURN, _END = "<start_of_turn>", "<end_of_turn>"
_RESULT, _RESULT_END = "<start_function_response>", "<end_function_response>"
_TOOL, _TOOL_END = "<start_function_declaration>", "<end_function_declaration>"

FORMAT = declare_format(
    "functiongemma",
    "FunctionGemma: call:f{a:<escape>x<escape>}",
    ChoiceNode(CallsNode(call(_OPEN, _CLOSE, _FENCE)), no_call=FreeTextNode(stop=_OPEN)),
    ChatMarkup(
        begin="<bos>",
        system=(f"{_TURN}developer\n", f"{_END}\n"),
        user=(f"{_TURN}user\n", f"{_END}\n"),
        assistant=(f"{_TURN}model\n", f"{_END}\n"),
        resumes=True,
        open_calls=True,
        result=(_RESULT, _RESULT_END),
        ask=f"{_TURN}model\n",
        tools=ToolMarkup(
            ("", ""), each=(_TOOL, _TOOL_END), write=lambda tool: declaration(tool, _FENCE)
        ),
        gap="",
        default="You are a model that can do function calling with the following functions",
        write_result=lambda name, _id, content: (f"response:{name}{{value:", content, "}"),
        result_gaps=(_FENCE, _FENCE),
    ),
    tokens=(
        "<bos>", _TURN, _END, _OPEN, _CLOSE, _FENCE, _RESULT, _RESULT_END, _TOOL, _TOOL_END,
    ),
    signs=(_OPEN, _CLOSE, _FENCE),
    template_has=("start_function_call",),
    priority=2,
)  # fmt: skip
