"""Apriel 1.5 and 1.6: a JSON list between ``<tool_calls>`` and ``</tool_calls>``, each call with an id.

Strings of the templates in llama.cpp's models/templates (unsloth-Apriel-1.5.jinja). The ids are the
client's; a model writes none, as the template's instructions say. A thought stands between texts, not tokens.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import ChoiceNode, FreeTextNode, ThoughtNode, TokenNode, sequence
from callmemaybe.wire.formats.json_list import LIST_OF_CALLS

_OPEN, _CLOSE, _END = "<tool_calls>", "</tool_calls>", "<|end|>"
_BEFORE = """\
You are provided with function signatures within <available_tools></available_tools> XML tags. You may \
call one or more functions to assist with the user query. Don't make assumptions about the arguments. \
Here are the available tools:
<available_tools>
"""
_BEHIND = """
</available_tools>
Return all function calls as a list of json objects within <tool_calls></tool_calls> XML tags. Each json \
object should contain a function name and arguments as follows:
<tool_calls>[{"name": <function-name-1>, "arguments": <args-dict-1>}, {"name": <function-name-2>, \
"arguments": <args-dict-2>},...]</tool_calls>"""


def _turn(role: str) -> tuple[str, str]:
    return f"<|{role}|>\n", f"\n{_END}\n"


FORMAT = declare_format(
    "apriel",
    "Apriel: a JSON list between <tool_calls> tags, tags in the assistant's turn",
    sequence(
        ThoughtNode(
            sequence("Here are my reasoning steps:\n"), sequence("\n[BEGIN FINAL RESPONSE]\n")
        ),
        ChoiceNode(
            sequence(TokenNode(_OPEN), "[", LIST_OF_CALLS, TokenNode(_CLOSE)),
            no_call=FreeTextNode(stop=_OPEN),
        ),
    ),
    ChatMarkup(
        system=_turn("system"),
        user=_turn("user"),
        assistant=_turn("assistant"),
        result=_turn("tool_result"),
        ask="<|assistant|>\n",
        gap="\n",
        tools=ToolMarkup((_BEFORE, _BEHIND), between="\n"),
    ),
    tokens=(_OPEN, _CLOSE, _END, "<|system|>", "<|user|>", "<|assistant|>", "<|tool_result|>"),
    template_has=("<tool_calls>", "available_tools", "assistant"),
    priority=3,
)
