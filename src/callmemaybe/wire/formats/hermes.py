"""Hermes, Qwen2.5, Qwen3, Granite 4: JSON between ``<tool_call>`` tags, ChatML around it.

The strings are those of the chat template in Qwen3's tokenizer_config.json, with thinking
disabled as that template does it: an empty ``<think>`` block. A model that has no ``<think>``
token (Qwen2.5, Hermes) gets none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callmemaybe._json import dumps
from callmemaybe.calls import ToolSpec
from callmemaybe.wire.format import Format
from callmemaybe.wire.pieces import (
    Answer,
    Arguments,
    Calls,
    Controls,
    Either,
    Name,
    Part,
    Parts,
    Text,
    Token,
    chain,
    join,
)
from callmemaybe.wire.prompt import with_controls

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_START, _END, _THINK, _NO_THINK = "<|im_start|>", "<|im_end|>", "<think>", "</think>"
_CONTROLS = frozenset((OPEN, CLOSE, _START, _END, _THINK, _NO_THINK))

_BEFORE = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>"""
_BEHIND = """
</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
"""

_CALL = chain(
    Token(OPEN),
    Text('\n{"name": "'),
    Name(),
    Text('", "arguments": '),
    Arguments("spaced"),
    Text("}\n"),
    Token(CLOSE),
)


def prefix(tools: Sequence[ToolSpec], controls: Controls) -> Parts:
    """Write the system turn with the tools, and begin the next turn."""
    parts: list[Part] = [*_trusted(f"{_START}system\n{_BEFORE}", controls)]
    parts += [f"\n{dumps(tool.as_openai())}" for tool in tools]
    return join([*parts, *_trusted(f"{_BEHIND}{_START}", controls)])


def request(
    messages: Sequence[Mapping[str, Any]], _tools: Sequence[ToolSpec], controls: Controls
) -> Parts:
    """Write the turns (the first one is already begun), and begin the model's."""
    parts: list[Part] = []
    for message in messages:
        parts += [f"{message['role']}\n{message.get('content') or ''}"]
        parts += _trusted(f"{_END}\n{_START}", controls)
    parts.append("assistant\n")
    if _THINK in _known(controls):
        parts += _trusted(f"{_THINK}\n\n{_NO_THINK}\n\n", controls)
    return join(parts)


def _known(controls: Controls) -> frozenset[str]:
    return _CONTROLS if controls is None else _CONTROLS & controls


def _trusted(text: str, controls: Controls) -> Parts:
    return with_controls(text, _known(controls))


FORMAT = Format(
    name="hermes",
    summary="Hermes, Qwen2.5, Qwen3, Granite 4: JSON between <tool_call> tags",
    tree=Either(Calls(_CALL, between=chain(Text("\n"))), no_call=Answer(stop=OPEN)),
    prefix=prefix,
    request=request,
    controls=frozenset((_START, _END)),
    template_has=(OPEN, "arguments"),
    template_lacks=("<function=",),
)
