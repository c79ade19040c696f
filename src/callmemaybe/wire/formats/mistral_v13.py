"""Mistral v13 (Magistral, Devstral 2, Ministral 3): ``[TOOL_CALLS]name[ARGS]{...}``, without ids.

Strings as mistral-common's tokenizer v13 renders them.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import declare_format
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
from callmemaybe.wire.formats.mistral import CALLS
from callmemaybe.wire.formats.mistral_v11 import TOKENS, chat

FORMAT = declare_format(
    "mistral_v13",
    "Mistral v13 (Magistral, Devstral 2, Ministral 3): [TOOL_CALLS]name[ARGS]{...}",
    sequence(
        ThoughtNode(sequence(TokenNode("[THINK]")), sequence(TokenNode("[/THINK]"))),
        ChoiceNode(
            CallsNode(
                sequence(
                    TokenNode(CALLS),
                    NameNode(bare=True),
                    TokenNode("[ARGS]"),
                    ArgumentsNode(),
                )
            ),
            no_call=FreeTextNode(stop=CALLS),
        ),
    ),
    chat(("[TOOL_RESULTS]", "[/TOOL_RESULTS]"), ids=False),
    tokens=(*TOKENS, "[THINK]", "[/THINK]"),
    signs=("[INST]", CALLS, "[ARGS]"),
    template_has=("[TOOL_CALLS]", "[ARGS]"),
    template_lacks=("[CALL_ID]",),
    priority=1,
)
