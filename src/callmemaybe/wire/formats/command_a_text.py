"""Cohere's models from Command A Reasoning's successors on: actions as before, text between ``<|START_TEXT|>``.

Strings of the template in llama.cpp's models/templates/Cohere2MoE.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import declare_format
from callmemaybe.wire.format_nodes import ChoiceNode, FreeTextNode, TokenNode, sequence
from callmemaybe.wire.formats.command_r import (
    ACTIONS,
    CLOSE,
    NO_THINKING,
    OPEN,
    THINK,
    cohere,
    tokens,
    turn,
)

_TEXT, _TEXT_END = "<|START_TEXT|>", "<|END_TEXT|>"
FORMAT = declare_format(
    "command_a_text",
    "Cohere2 MoE: a list of actions, an answer between <|START_TEXT|> tokens",
    sequence(
        THINK,
        ChoiceNode(
            ACTIONS,
            no_call=sequence(TokenNode(_TEXT), FreeTextNode(stop=_TEXT_END), TokenNode(_TEXT_END)),
        ),
    ),
    cohere((_TEXT, _TEXT_END), turn("USER", _TEXT, _TEXT_END), NO_THINKING),
    tokens=tokens(_TEXT, _TEXT_END),
    signs=(OPEN, CLOSE, _TEXT),
    template_has=(OPEN, _TEXT),
    priority=4,
)
