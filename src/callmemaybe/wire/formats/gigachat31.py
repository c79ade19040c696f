"""GigaChat 3.1: one JSON object behind ``<|function_call|>``.

Strings of the template in llama.cpp's models/templates/GigaChat3.1-10B-A1.8B.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import declare_format
from callmemaybe.wire.format_nodes import CallsNode, ChoiceNode, FreeTextNode, TokenNode, sequence
from callmemaybe.wire.formats.gigachat3 import TOKENS, gigachat, turn
from callmemaybe.wire.formats.json_list import JSON_CALL

_OPEN = "<|function_call|>"
FORMAT = declare_format(
    "gigachat31",
    "GigaChat 3.1: <|function_call|> and a JSON object",
    ChoiceNode(
        CallsNode(sequence(TokenNode(_OPEN), JSON_CALL), between=None),
        no_call=FreeTextNode(stop=_OPEN),
    ),
    gigachat(turn("assistant")),
    tokens=(*TOKENS, _OPEN),
    signs=(*TOKENS[:2], _OPEN),
    template_has=(_OPEN, "<|message_sep|>"),
    priority=4,
)
