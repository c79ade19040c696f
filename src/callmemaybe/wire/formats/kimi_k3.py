"""Kimi K3: calls and arguments in tags of tokens, each argument with the type of its value.

Strings of the template in llama.cpp's models/templates/Kimi-K3.jinja. An answer, the calls and the thought have a
section each; the section of the answer stands in front of calls, too, mostly empty.
"""

from __future__ import annotations

from callmemaybe.wire.arg_syntax import ArgSyntax, TopLevelMarks
from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    NumberNode,
    SequenceNode,
    ThoughtNode,
    TokenNode,
    sequence,
)

_OPEN, _CLOSE, _SEP, _END = "<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"


def _open(tag: str) -> SequenceNode:
    return sequence(TokenNode(_OPEN), tag, TokenNode(_SEP))


def _close(tag: str) -> SequenceNode:
    return sequence(TokenNode(_CLOSE), tag, TokenNode(_SEP))


_ARGS = ArgSyntax(
    "kimi_k3",
    TopLevelMarks(
        "",
        f'{_OPEN}argument key="',
        f'" type="string"{_SEP}',
        f"{_CLOSE}argument{_SEP}",
        "",
        f"{_CLOSE}call{_SEP}",
        after_json_key=f'" type="{{type}}"{_SEP}',
    ),
    raw=True,
    tokens=(_OPEN, _CLOSE, _SEP),
)
_CALL = sequence(
    TokenNode(_OPEN), 'call tool="', NameNode(), '" index="', NumberNode(first=1), '"', TokenNode(_SEP),
    ArgumentsNode(syntax=_ARGS),
)  # fmt: skip
_ANSWER = (*_open("response").nodes, FreeTextNode(stop=_CLOSE), *_close("response").nodes)


_TURN_END = f"{_CLOSE}message{_SEP}"


def _turn(attributes: str) -> tuple[str, str]:
    return f"{_OPEN}message {attributes}{_SEP}", f"{_TURN_END}{_END}"


FORMAT = declare_format(
    "kimi_k3",
    'Kimi K3: <|open|>call tool="f", arguments in tags with their types',
    sequence(
        ThoughtNode(_open("think"), _close("think")),
        ChoiceNode(
            sequence(*_ANSWER, *_open("tools").nodes, CallsNode(_CALL), *_close("tools").nodes),
            no_call=sequence(*_ANSWER),
        ),
        *_close("message").nodes,
    ),
    ChatMarkup(
        system=_turn('role="system"'),
        user=_turn('role="user"'),
        assistant=(_turn('role="assistant"')[0], _END),
        result=(f'{_OPEN}message role="tool" tool="', f"{_TURN_END}{_END}"),
        ask=_turn('role="assistant"')[0],
        answer=(f"{_OPEN}response{_SEP}", f"{_CLOSE}response{_SEP}{_TURN_END}"),
        gap="".join((f"{_TURN_END}{_END}", _turn('role="system" type="tool-declare"')[0])),
        default="You are Kimi, an AI assistant created by Moonshot AI.",
        write_result=lambda name, _id, content: (name, content),
        result_gaps=(f'" index="{{index}}"{_SEP}',),
        tools=ToolMarkup(
            ("# Tools\nHere are the available tools, described in JSONSchema.\n\n```json\n[", "]\n```"),
            between=",",
        ),
    ),
    tokens=(_OPEN, _CLOSE, _SEP, _END),
    signs=(_OPEN, _CLOSE, _SEP),
    template_has=(_OPEN, "xtml"),
    priority=4,
)  # fmt: skip
