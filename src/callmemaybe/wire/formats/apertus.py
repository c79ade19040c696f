"""Apertus: a JSON list of objects with one key, the name, between ``<|tools_prefix|>`` and ``<|tools_suffix|>``.

Strings of the template in vLLM's examples/tool_chat_template_apertus.jinja. Thinking is a section of its
own; tools are declared to the developer role as TypeScript types, here each as one line of JSON Schema.
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
    ThoughtNode,
    TokenNode,
    sequence,
)

_OPEN, _CLOSE = "<|tools_prefix|>", "<|tools_suffix|>"
_THINK, _THINK_END = "<|inner_prefix|>", "<|inner_suffix|>"


def _turn(role: str) -> tuple[str, str]:
    return f"<|{role}_start|>", f"<|{role}_end|>"


def _tool(tool: ToolSpec) -> Iterable[PromptPart]:
    for line in tool.description.splitlines():
        yield f"// {line}\n"
    yield f"type {tool.name} = (_: {dumps(tool.parameters)}) => any;"


FORMAT = declare_format(
    "apertus",
    'Apertus: [{"f": {...}}] between <|tools_prefix|> tokens',
    sequence(
        ThoughtNode(sequence(TokenNode(_THINK)), sequence(TokenNode(_THINK_END))),
        ChoiceNode(
            sequence(
                TokenNode(_OPEN), "[",
                CallsNode(
                    sequence('{"', NameNode(), '": ', ArgumentsNode(), "}"), between=sequence(", ")
                ),
                "]", TokenNode(_CLOSE),
            ),
            no_call=FreeTextNode(stop=_OPEN),
        ),
    ),
    ChatMarkup(
        begin="<s>",
        system=_turn("system"),
        user=_turn("user"),
        assistant=_turn("assistant"),
        resumes=True,
        open_calls=True,
        results=("[", "]"),
        result=("", ""),
        ask="<|assistant_start|>",
        gap="<|system_end|><|developer_start|>",
        default="You are Apertus, a helpful assistant created by the SwissAI initiative.",
        tools=ToolMarkup(
            ("Deliberation: disabled\nTool Capabilities:\n", ""), between="\n", write=_tool
        ),
    ),
    tokens=(
        _OPEN, _CLOSE, _THINK, _THINK_END, "<s>",
        *(mark for role in ("system", "user", "assistant", "developer") for mark in _turn(role)),
    ),
    signs=(_OPEN, _CLOSE, "<|assistant_start|>"),
    template_has=(_OPEN, "<|assistant_start|>"),
    priority=3,
)  # fmt: skip
