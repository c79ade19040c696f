"""Mistral v13 (Magistral, Devstral 2, Ministral 3): ``[TOOL_CALLS]name[ARGS]{...}``, without ids.

Strings as mistral-common's tokenizer v13 renders them.
"""

from __future__ import annotations

from callmemaybe.wire.chat import declare
from callmemaybe.wire.format_nodes import (
    Answer,
    Arguments,
    Calls,
    Either,
    Name,
    Thought,
    Token,
    chain,
)
from callmemaybe.wire.formats.mistral import CALLS
from callmemaybe.wire.formats.mistral_v11 import TOKENS, chat

FORMAT = declare(
    "mistral_v13",
    "Mistral v13 (Magistral, Devstral 2, Ministral 3): [TOOL_CALLS]name[ARGS]{...}",
    chain(
        Thought(chain(Token("[THINK]")), chain(Token("[/THINK]"))),
        Either(
            Calls(chain(Token(CALLS), Name(bare=True), Token("[ARGS]"), Arguments("spaced"))),
            no_call=Answer(stop=CALLS),
        ),
    ),
    chat(("[TOOL_RESULTS]", "[/TOOL_RESULTS]"), ids=False),
    tokens=(*TOKENS, "[THINK]", "[/THINK]"),
    signs=("[INST]", CALLS, "[ARGS]"),
    template_has=("[TOOL_CALLS]", "[ARGS]"),
    template_lacks=("[CALL_ID]",),
    priority=1,
)
