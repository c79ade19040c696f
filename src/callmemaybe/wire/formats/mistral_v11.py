"""Mistral v11 (Small 3.1, 3.2): one ``[TOOL_CALLS]`` for each call, an id, arguments behind ``[ARGS]``.

Strings as mistral-common's tokenizer v11 renders them for Mistral-Small-3.2-24B-Instruct-2506.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    IdNode,
    NameNode,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.mistral import CALLS

TOKENS = (
    "<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]", CALLS, "[CALL_ID]", "[ARGS]", "[TOOL_RESULTS]", "[TOOL_CONTENT]",
    "[/TOOL_RESULTS]",
)  # fmt: skip
_IDS = IdNode(9)


def chat(result: tuple[str, str], *, ids: bool) -> ChatMarkup:
    """Return the turns of tokenizers from v11 on; ``ids``: a result begins with the call's."""

    def write(_name: str, call_id: str, content: str) -> tuple[str, ...]:
        return (_IDS.encode(call_id), content) if ids else (content,)

    return ChatMarkup(
        begin="<s>",
        system=("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
        user=("[INST]", "[/INST]"),
        assistant=("", "</s>"),
        result=result,
        ask="",
        tools=ToolMarkup(("[AVAILABLE_TOOLS][", "][/AVAILABLE_TOOLS]"), between=", "),
        tools_in_user=True,
        write_result=write,
        result_gaps=("[TOOL_CONTENT]",),
    )


FORMAT = declare_format(
    "mistral_v11",
    "Mistral v11 (Small 3.1, 3.2): [TOOL_CALLS]name[CALL_ID]id[ARGS]{...}",
    ChoiceNode(
        CallsNode(
            sequence(
                TokenNode(CALLS), NameNode(bare=True), TokenNode("[CALL_ID]"), _IDS, TokenNode("[ARGS]"),
                ArgumentsNode(),
            )
        ),
        no_call=FreeTextNode(stop=CALLS),
    ),
    chat(("[TOOL_RESULTS]", "[/TOOL_RESULTS]"), ids=True),
    tokens=TOKENS,
    signs=("[INST]", CALLS, "[CALL_ID]", "[ARGS]"),
    template_has=("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    priority=2,
)  # fmt: skip
