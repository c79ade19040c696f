"""K2 Horizon: GLM's keys and values in a block of calls, tags that begin with ``ifm|``.

The default of its chat template's three forms (``tool_call_format``: xml, and not json or xml_typed, which a request
has to ask the template for). vLLM's tests of its parser ``k2_horizon`` have its outputs.
"""

from __future__ import annotations

from callmemaybe.wire.arg_syntax import ArgSyntax, TopLevelMarks
from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_function_json
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


def _tags(name: str) -> tuple[str, str]:
    return f"<ifm|{name}>", f"</ifm|{name}>"


_CALLS, _CALLS_END = _tags("tool_calls")
_CALL, _CALL_END = _tags("tool_call")
_KEY, _KEY_END = _tags("arg_key")
_VALUE, _VALUE_END = _tags("arg_value")
_THINK, _THINK_END = _tags("think")
_START, _END = "<|ifm|im_start|>", "<|ifm|im_end|>"
_ARGS = ArgSyntax(
    "k2_horizon",
    TopLevelMarks("\n", _KEY, f"{_KEY_END}\n{_VALUE}", f"{_VALUE_END}\n", "", _CALL_END),
    raw=True,
    tokens=(_KEY, _KEY_END, _VALUE, _VALUE_END, _CALL_END),
)
_BEFORE = """\
# Tools
You may call one or more tools to assist with the user query.

Available tools are:

<ifm|tools>
"""
_BEHIND = f"""
</ifm|tools>

When calling tools, you MUST follow the tool-call format below:

Wrap all tool calls in one {_CALLS}{_CALLS_END} block. For each call, write the function name at the start of \
{_CALL}, followed by paired {_KEY} and {_VALUE} tags for each argument:

{_CALLS}
{_CALL}$FUNCTION_NAME
{_KEY}$PARAMETER_NAME{_KEY_END}
{_VALUE}$PARAMETER_VALUE{_VALUE_END}
...
{_CALL_END}
{_CALLS_END}"""


def _turn(role: str) -> tuple[str, str]:
    return f"{_START}{role}\n", _END


FORMAT = declare_format(
    "k2_horizon",
    "K2 Horizon: <ifm|tool_calls>, keys and values in tags on lines",
    sequence(
        ThoughtNode(sequence(TokenNode(_THINK), "\n"), sequence(TokenNode(_THINK_END))),
        ChoiceNode(
            sequence(
                TokenNode(_CALLS), "\n",
                CallsNode(
                    sequence(
                        TokenNode(_CALL), NameNode(bare=True), ArgumentsNode(syntax=_ARGS), "\n"
                    )
                ),
                TokenNode(_CALLS_END),
            ),
            no_call=FreeTextNode(stop=_CALLS),
        ),
    ),
    ChatMarkup(
        begin="<|ifm|begin_of_text|>",
        system=_turn("system"),
        user=_turn("user"),
        assistant=(f"{_START}assistant\n{_THINK}\n{_THINK_END}\n", _END),
        result=_turn("tool"),
        ask=f"{_START}assistant\n",
        no_thinking=(_THINK, f"{_THINK}\n{_THINK_END}\n"),
        tools=ToolMarkup((_BEFORE, _BEHIND), between="\n", write=write_function_json),
    ),
    tokens=(
        _CALLS, _CALLS_END, _CALL, _CALL_END, _KEY, _KEY_END, _VALUE, _VALUE_END, _THINK, _THINK_END,
        _START, _END, "<|ifm|begin_of_text|>",
    ),
    signs=(_CALL, _START, _END),
    template_has=("ifm|tool_call",),
    priority=4,
)  # fmt: skip
