"""Solar Open: id, name and JSON between tokens; the model writes ids of 10 letters and digits.

Strings of the template in llama.cpp's models/templates/upstage-Solar-Open-100B.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_function_json
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    IdNode,
    NameNode,
    ThoughtNode,
    TokenNode,
    sequence,
)


def _call(part: str) -> str:
    return f"<|tool_call:{part}|>"


_CALLS, _END_CALLS = "<|tool_calls|>", "<|calls|>"
_BEGIN, _CONTENT, _END = "<|begin|>", "<|content|>", "<|end|>"
_IDS = IdNode(10)
_BEFORE = """\
## Tools

### Tool Call Instruction
You may invoke one or more tools to assist with the user's query. Available tools are provided in JSON \
Schema format:
<|tools:begin|>"""


FORMAT = declare_format(
    "solar_open",
    "Solar Open: id, name and JSON between <|tool_call:begin|> tokens",
    sequence(
        ThoughtNode(sequence(TokenNode("<|think|>")), sequence(TokenNode(_END), TokenNode(_BEGIN), "assistant")),
        ChoiceNode(
            sequence(
                TokenNode(_CALLS),
                CallsNode(
                    sequence(
                        TokenNode(_call("begin")), _IDS, TokenNode(_call("name")),
                        NameNode(bare=True), TokenNode(_call("args")), ArgumentsNode(),
                        TokenNode(_call("end")),
                    )
                ),
                TokenNode(_END_CALLS),
            ),
            no_call=sequence(TokenNode(_CONTENT), FreeTextNode(stop=_END)),
        ),
    ),
    ChatMarkup(
        system=(f"{_BEGIN}system{_CONTENT}", _END),
        user=(f"{_BEGIN}user{_CONTENT}", _END),
        assistant=(f"{_BEGIN}assistant", ""),
        results=(f"{_BEGIN}tool<|tool_response|>", _END),
        result=("<|tool_response:begin|>", "<|tool_response:end|>"),
        ask=f"{_BEGIN}assistant",
        answer=(_CONTENT, _END),
        tools=ToolMarkup(
            (_BEFORE, "<|tools:end|>"), each=("<|tool:begin|>", "<|tool:end|>"), write=write_function_json
        ),
        write_result=lambda name, call_id, content: (_IDS.encode(call_id), name, content),
        result_gaps=("<|tool_response:name|>", "<|tool_response:result|>"),
    ),
    tokens=(
        _CALLS, _END_CALLS, _BEGIN, _CONTENT, _END, "<|think|>",
        *map(_call, ("begin", "name", "args", "end")), "<|tool_response|>", "<|tool_response:begin|>",
        "<|tool_response:name|>", "<|tool_response:result|>", "<|tool_response:end|>",
        "<|tools:begin|>", "<|tools:end|>", "<|tool:begin|>", "<|tool:end|>",
    ),
    signs=(_CALLS, _call("begin"), _call("args")),
    template_has=("<|tool_call:begin|>",),
    priority=4,
)  # fmt: skip
