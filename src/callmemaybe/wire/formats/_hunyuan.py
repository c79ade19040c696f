"""What the checkpoints of Hunyuan 3 have in common: all but the suffix of their tokens."""

from __future__ import annotations

from callmemaybe.wire.arg_syntax import ArgSyntax, TopLevelMarks
from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format import Format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    SequenceNode,
    ThoughtNode,
    TokenNode,
    sequence,
)

_BEFORE = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
"""
_BEHIND = """
</tools>

For function call returns, you should first print {calls}
For each function call, you should return object like:
{call}{{function-name}}{sep}
{key}{{arg-key-1}}{key_end}
{value}{{arg-value-1}}{value_end}
...
{call_end}
At the end of function call returns, you should print {calls_end}"""
#: Our names of the tags -> theirs.
_TAGS = {
    "call": "tool_call", "call_end": "/tool_call", "calls": "tool_calls", "calls_end": "/tool_calls",
    "sep": "tool_sep", "think": "think", "think_end": "/think", "key": "arg_key", "key_end": "/arg_key",
    "value": "arg_value", "value_end": "/arg_value", "results": "tool_responses",
    "results_end": "/tool_responses", "result": "tool_response", "result_end": "/tool_response",
}  # fmt: skip


def _tree(name: str, tags: dict[str, str]) -> SequenceNode:
    """Return what a model writes."""
    syntax = ArgSyntax(
        name,
        TopLevelMarks(
            "\n", tags["key"], f"{tags['key_end']}\n{tags['value']}", f"{tags['value_end']}\n", "",
            tags["call_end"],
        ),
        raw=True,
        tokens=tuple(tags[one] for one in ("key", "key_end", "value", "value_end", "call_end")),
    )  # fmt: skip
    call = sequence(
        TokenNode(tags["call"]), NameNode(bare=True), TokenNode(tags["sep"]),
        ArgumentsNode(syntax=syntax), "\n",
    )  # fmt: skip
    return sequence(
        ThoughtNode(sequence(TokenNode(tags["think"])), sequence(TokenNode(tags["think_end"]))),
        ChoiceNode(
            sequence(TokenNode(tags["calls"]), "\n", CallsNode(call), TokenNode(tags["calls_end"])),
            no_call=FreeTextNode(stop=tags["calls"]),
        ),
    )


def hunyuan(name: str, summary: str, suffix: str) -> Format:
    """Return the format of the checkpoints whose tokens have this suffix."""
    tags = {ours: f"<{theirs}{suffix}>" for ours, theirs in _TAGS.items()}
    begin, user, assistant, end = (
        f"<｜hy_{one}{suffix}｜>" for one in ("begin_of_sentence", "User", "Assistant", "eos")
    )
    no_thought = f"{tags['think']}{tags['think_end']}"
    return declare_format(
        name,
        summary,
        _tree(name, tags),
        ChatMarkup(
            begin=begin,
            system=("", ""),
            user=(user, ""),
            assistant=(f"{assistant}{no_thought}", end),
            results=(f"{tags['results']}\n", tags["results_end"]),
            result=(f"{tags['result']}\n", f"\n{tags['result_end']}\n"),
            ask=assistant,
            no_thinking=(tags["think"], no_thought),
            tools=ToolMarkup((_BEFORE, _BEHIND.format(**tags)), between="\n"),
        ),
        tokens=(*tags.values(), begin, user, assistant, end),
        signs=(tags["call"], tags["key"], assistant),
        template_has=("hy_Assistant", "arg_key"),
        priority=4,
    )
