"""Mistral v3 (7B v0.3, Nemo, Large 2407): a JSON list behind ``[TOOL_CALLS]``, with ids of 9 letters.

Strings of the template in vLLM's examples/tool_chat_template_mistral_official.jinja, and of
mistral-common's instruct tokenizer v3. The model writes the id; a result refers to it.
"""

from __future__ import annotations

from callmemaybe.jsonio import dumps
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

CALLS = "[TOOL_CALLS]"
TOKENS = (
    "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", CALLS,
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
)  # fmt: skip
_IDS = IdNode(9)


def _result(_name: str, call_id: str, content: str) -> tuple[str]:
    return (f'{{"content": {dumps(content)}, "call_id": "{_IDS.encode(call_id)}"}}',)


FORMAT = declare_format(
    "mistral",
    "Mistral v3 (7B v0.3, Nemo): a JSON list behind [TOOL_CALLS], ids of 9 letters",
    ChoiceNode(
        sequence(
            TokenNode(CALLS),
            " [",
            CallsNode(
                sequence(
                    '{"name": "', NameNode(), '", "arguments": ', ArgumentsNode(),
                    ', "id": "', _IDS, '"}',
                ),
                between=sequence(", "),
            ),
            "]",
        ),
        no_call=FreeTextNode(stop=CALLS),
    ),
    ChatMarkup(
        begin="<s>",
        system=("[INST] ", "[/INST]"),
        user=("[INST] ", "[/INST]"),
        assistant=("", "</s>"),
        result=("[TOOL_RESULTS] ", "[/TOOL_RESULTS]"),
        ask="",
        tools=ToolMarkup(("[AVAILABLE_TOOLS] [", "][/AVAILABLE_TOOLS]"), between=", "),
        tools_in_user=True,
        system_in_user=True,
        write_result=_result,
    ),
    tokens=TOKENS,
    signs=("[INST]", CALLS, "[TOOL_RESULTS]"),
    template_has=("[TOOL_CALLS]",),
    template_lacks=("[ARGS]",),
)  # fmt: skip
