"""OLMo 3: Python calls on lines between ``<function_calls>`` and ``</function_calls>``.

Strings as vLLM's OLMo 3 tool parser and its tests have them; turns are ChatML, tools a JSON list in
``<functions>``.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    ThoughtNode,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.hermes import chatml
from callmemaybe.wire.formats.pythonic import CALL

_OPEN, _CLOSE = "<function_calls>", "</function_calls>"


FORMAT = declare_format(
    "olmo3",
    "OLMo 3: Python calls on lines between <function_calls> tags",
    sequence(
        ThoughtNode(sequence(TokenNode("<think>")), sequence(TokenNode("</think>"), "\n")),
        ChoiceNode(
            sequence(TokenNode(_OPEN), CallsNode(CALL, between=sequence("\n")), TokenNode(_CLOSE)),
            no_call=FreeTextNode(stop=_OPEN),
        ),
    ),
    chatml(
        ToolMarkup(("<functions>[", "]</functions>"), between=", "),
        begin="<|endoftext|>",
        gap=" You have access to the following functions: ",
        default="You are a helpful function-calling AI assistant.",
        results=("", ""),
        result=("<|im_start|>environment\n", "<|im_end|>\n"),
        no_thinking=("", ""),
    ),
    tokens=(
        _OPEN, _CLOSE, "<functions>", "</functions>", "<|endoftext|>", "<|im_start|>", "<|im_end|>",
        "<think>", "</think>",
    ),
    signs=("<|im_start|>", "<|im_end|>"),
    template_has=("<function_calls>", "<functions>"),
    needs_template=True,
    priority=3,
)  # fmt: skip
