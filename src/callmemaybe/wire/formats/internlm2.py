"""InternLM 2 and 2.5: a JSON object behind ``<|action_start|><|plugin|>``.

Strings of the template in vLLM's examples/tool_chat_template_internlm2_tool.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ToolMarkup, declare_format, write_function_json
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.hermes import chatml

_OPEN, _PLUGIN, _CLOSE = "<|action_start|>", "<|plugin|>", "<|action_end|>"


FORMAT = declare_format(
    "internlm2",
    "InternLM 2: <|action_start|><|plugin|> and a JSON object",
    ChoiceNode(
        CallsNode(
            sequence(
                TokenNode(_OPEN), TokenNode(_PLUGIN), '\n{"name": "', NameNode(), '", "parameters": ',
                ArgumentsNode(), "}", TokenNode(_CLOSE),
            )
        ),
        no_call=FreeTextNode(stop=_OPEN),
    ),
    chatml(
        ToolMarkup(("[", "]"), between=", ", write=write_function_json),
        begin="<s>",
        gap=f"<|im_end|>\n<|im_start|>system name={_PLUGIN}\n",
        default="You are InternLM2-Chat, a harmless AI assistant.",
        results=("", ""),
        result=(f"<|im_start|>environment name={_PLUGIN}\n", "<|im_end|>\n"),
        no_thinking=("", ""),
    ),
    tokens=(_OPEN, _PLUGIN, _CLOSE, "<s>", "<|im_start|>", "<|im_end|>"),
    signs=(_OPEN, _PLUGIN, _CLOSE),
    template_has=(_PLUGIN,),
    priority=3,
)  # fmt: skip
