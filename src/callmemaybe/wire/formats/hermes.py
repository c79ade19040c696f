"""Hermes, Qwen2.5, Qwen3: JSON between ``<tool_call>`` tags, ChatML around it.

The strings are those of the chat template in Qwen3's tokenizer_config.json, with thinking
disabled as that template does it: an empty ``<think>`` block. A model that has no ``<think>``
token (Qwen2.5, Hermes) gets none.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    ThoughtNode,
    TokenNode,
    sequence,
)

OPEN, CLOSE = "<tool_call>", "</tool_call>"
#: ChatML, thinking as Qwen3 does it.
TOKENS = (
    OPEN, CLOSE, "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_response>",
    "</tool_response>",
)  # fmt: skip
THINK = ThoughtNode(
    sequence(TokenNode("<think>"), "\n"),
    sequence(TokenNode("</think>"), "\n\n"),
)
NO_THINKING = ("<think>", "<think>\n\n</think>\n\n")

#: What stands around the declarations of tools.
BEFORE = """\
You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
"""
BEHIND = """
</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""


def chatml(tools: ToolMarkup, **marks: object) -> ChatMarkup:
    """Return ChatML with these tools; results as Qwen takes them, in a turn of the user's."""
    given: dict[str, object] = {
        "system": ("<|im_start|>system\n", "<|im_end|>\n"),
        "user": ("<|im_start|>user\n", "<|im_end|>\n"),
        "assistant": ("<|im_start|>assistant\n", "<|im_end|>\n"),
        "results": ("<|im_start|>user", "<|im_end|>\n"),
        "result": ("\n<tool_response>\n", "\n</tool_response>"),
        "ask": "<|im_start|>assistant\n",
        "no_thinking": NO_THINKING,
    }
    return ChatMarkup(tools=tools, **{**given, **marks})  # type: ignore[arg-type]


#: One call.
CALL = sequence(
    TokenNode(OPEN),
    '\n{"name": "',
    NameNode(),
    '", "arguments": ',
    ArgumentsNode(),
    "}\n",
    TokenNode(CLOSE),
)
FORMAT = declare_format(
    "hermes",
    "Hermes, Qwen2.5, Qwen3: JSON between <tool_call> tags",
    sequence(
        THINK,
        ChoiceNode(CallsNode(CALL, between=sequence("\n")), no_call=FreeTextNode(stop=OPEN)),
    ),
    chatml(ToolMarkup((f"# Tools\n\n{BEFORE}", BEHIND), between="\n")),
    tokens=TOKENS,
    signs=("<|im_start|>", "<|im_end|>"),
    template_has=(OPEN, "arguments"),
    template_lacks=("<function=", "<|tool_call_start|>"),
)
