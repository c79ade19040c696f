"""Hunyuan 3 (Hy3): GLM's keys and values in a block of calls; every tag ends with the checkpoint's suffix.

Strings of the template in llama.cpp's models/templates/tencent-Hy3.jinja, whose suffix is ``:opensource``.
"""

from __future__ import annotations

from callmemaybe.wire.arg_syntax import ArgSyntax, TopLevelMarks
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


def _tag(name: str) -> str:
    return f"<{name}:opensource>"


_OPEN, _CLOSE, _CALLS, _CALLS_END = map(
    _tag, ("tool_call", "/tool_call", "tool_calls", "/tool_calls")
)
_SEP, _THINK, _THINK_END = map(_tag, ("tool_sep", "think", "/think"))
_KEY, _KEY_END, _VALUE, _VALUE_END = map(_tag, ("arg_key", "/arg_key", "arg_value", "/arg_value"))
_RESULTS, _RESULTS_END, _RESULT, _RESULT_END = map(
    _tag, ("tool_responses", "/tool_responses", "tool_response", "/tool_response")
)
_BEGIN, _USER, _ASSISTANT, _END = (
    f"<｜hy_{one}:opensource｜>" for one in ("begin_of_sentence", "User", "Assistant", "eos")
)
_ARGS = ArgSyntax(
    "hunyuan_v3",
    TopLevelMarks("\n", _KEY, f"{_KEY_END}\n{_VALUE}", f"{_VALUE_END}\n", "", _CLOSE),
    raw=True,
    tokens=(_KEY, _KEY_END, _VALUE, _VALUE_END, _CLOSE),
)
_BEFORE = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
"""
_BEHIND = f"""
</tools>

For function call returns, you should first print {_CALLS}
For each function call, you should return object like:
{_OPEN}{{function-name}}{_SEP}
{_KEY}{{arg-key-1}}{_KEY_END}
{_VALUE}{{arg-value-1}}{_VALUE_END}
...
{_CLOSE}
At the end of function call returns, you should print {_CALLS_END}"""


FORMAT = declare_format(
    "hunyuan_v3",
    "Hunyuan 3: <tool_calls:opensource>, keys and values in tags on lines",
    sequence(
        ThoughtNode(sequence(TokenNode(_THINK)), sequence(TokenNode(_THINK_END))),
        ChoiceNode(
            sequence(
                TokenNode(_CALLS), "\n",
                CallsNode(
                    sequence(
                        TokenNode(_OPEN), NameNode(bare=True), TokenNode(_SEP),
                        ArgumentsNode(syntax=_ARGS), "\n",
                    )
                ),
                TokenNode(_CALLS_END),
            ),
            no_call=FreeTextNode(stop=_CALLS),
        ),
    ),
    ChatMarkup(
        begin=_BEGIN,
        system=("", ""),
        user=(_USER, ""),
        assistant=(f"{_ASSISTANT}{_THINK}{_THINK_END}", _END),
        results=(f"{_RESULTS}\n", _RESULTS_END),
        result=(f"{_RESULT}\n", f"\n{_RESULT_END}\n"),
        ask=_ASSISTANT,
        no_thinking=(_THINK, f"{_THINK}{_THINK_END}"),
        tools=ToolMarkup((_BEFORE, _BEHIND), between="\n"),
    ),
    tokens=(
        _OPEN, _CLOSE, _CALLS, _CALLS_END, _SEP, _THINK, _THINK_END, _KEY, _KEY_END, _VALUE,
        _VALUE_END, _RESULTS, _RESULTS_END, _RESULT, _RESULT_END, _BEGIN, _USER, _ASSISTANT, _END,
    ),
    signs=(_OPEN, _KEY, _ASSISTANT),
    template_has=("hy_Assistant", "arg_key"),
    priority=4,
)  # fmt: skip
