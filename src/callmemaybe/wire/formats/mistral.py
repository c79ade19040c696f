"""Mistral v3 (7B v0.3, Nemo, Large 2407): a JSON list behind ``[TOOL_CALLS]``, with ids of 9 letters.

Strings of the template in vLLM's examples/tool_chat_template_mistral_official.jinja, and of
mistral-common's instruct tokenizer v3. The model writes the id; a result refers to it.
"""

from __future__ import annotations

from callmemaybe.jsonio.writer import dumps
from callmemaybe.wire.chat import Chat, Tools, declare
from callmemaybe.wire.format_nodes import (
    Answer,
    Arguments,
    Calls,
    Either,
    Id,
    Name,
    Text,
    Token,
    chain,
)

CALLS = "[TOOL_CALLS]"
TOKENS = (
    "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", CALLS,
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
)  # fmt: skip
_IDS = Id(9)


def _result(_name: str, call_id: str, content: str) -> tuple[str]:
    return (f'{{"content": {dumps(content)}, "call_id": "{_IDS.encode(call_id)}"}}',)


FORMAT = declare(
    "mistral",
    "Mistral v3 (7B v0.3, Nemo): a JSON list behind [TOOL_CALLS], ids of 9 letters",
    Either(
        chain(
            Token(CALLS),
            Text(" ["),
            Calls(
                chain(
                    Text('{"name": "'), Name(), Text('", "arguments": '), Arguments("spaced"),
                    Text(', "id": "'), _IDS, Text('"}'),
                ),
                between=chain(Text(", ")),
            ),
            Text("]"),
        ),
        no_call=Answer(stop=CALLS),
    ),
    Chat(
        begin="<s>",
        system=("[INST] ", "[/INST]"),
        user=("[INST] ", "[/INST]"),
        assistant=("", "</s>"),
        result=("[TOOL_RESULTS] ", "[/TOOL_RESULTS]"),
        ask="",
        tools=Tools(("[AVAILABLE_TOOLS] [", "][/AVAILABLE_TOOLS]"), between=", "),
        tools_in_user=True,
        system_in_user=True,
        write_result=_result,
    ),
    tokens=TOKENS,
    signs=("[INST]", CALLS, "[TOOL_RESULTS]"),
    template_has=("[TOOL_CALLS]",),
    template_lacks=("[ARGS]",),
)  # fmt: skip
