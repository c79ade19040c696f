"""GigaChat 3: one JSON object in a turn of the role ``function call``.

Strings of the template in llama.cpp's models/templates/GigaChat3-10B-A1.8B.jinja.
"""

from __future__ import annotations

from collections.abc import Iterable

from callmemaybe.jsonio import dumps
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    PromptPart,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.json_list import JSON_CALL

_SEP, _ROLE = "<|message_sep|>", "<|role_sep|>"
_OPEN = "function call"


def turn(role: str) -> tuple[str, str]:
    """Return the marks around a turn of that role."""
    return f"{role}{_ROLE}\n", f"{_SEP}\n\n"


def _tool(tool: ToolSpec) -> Iterable[PromptPart]:
    for line in tool.description.splitlines():
        yield f"// {line}\n"
    yield f"type {tool.name} = (_: {dumps(tool.parameters)}) => any;\n\n"


def gigachat(calls: tuple[str, str]) -> ChatMarkup:
    """Return GigaChat's turns; ``calls`` stand around the model's turn."""
    return ChatMarkup(
        begin="<s>",
        system=turn("system"),
        user=turn("user"),
        assistant=calls,
        result=turn("function result"),
        ask=calls[0],
        gap=f"{_SEP}\n\nfunction descriptions{_ROLE}\n",
        default="You are a helpful assistant.",
        tools=ToolMarkup(("namespace functions {\n", "} // namespace functions\n\n"), write=_tool),
    )


TOKENS = (_SEP, _ROLE, "<s>")
FORMAT = declare_format(
    "gigachat3",
    "GigaChat 3: a turn of the role function call, with a JSON object",
    ChoiceNode(
        CallsNode(
            sequence(TokenNode(_SEP), "\n\nfunction call", TokenNode(_ROLE), "\n", JSON_CALL),
            between=None,
        ),
        no_call=FreeTextNode(stop=_SEP),
    ),
    gigachat(turn("assistant")),
    tokens=TOKENS,
    signs=(_SEP, _ROLE),
    template_has=(_SEP, _OPEN),
    template_lacks=("<|function_call|>",),
    priority=3,
)
