"""Plain JSON, for any instructed model: a list of calls, or an answer in text.

It cannot be detected from a model's files: choose it by name. Turns are written as plain words.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    sequence,
)

_BEFORE = """\
You can call these functions:
"""
_BEHIND = """\
To call functions, answer with nothing but a JSON list:
[{"name": <function-name>, "arguments": <args-json-object>}, ...]
If none fits, answer in plain text."""

#: A call as one JSON object, and a list of them behind its opening bracket; many families write these.
JSON_CALL = sequence('{"name": "', NameNode(), '", "arguments": ', ArgumentsNode(), "}")
LIST_OF_CALLS = sequence(CallsNode(JSON_CALL, between=sequence(", ")), "]")
FORMAT = declare_format(
    "json_list",
    "plain JSON: any instructed model, no control token",
    ChoiceNode(sequence("[", LIST_OF_CALLS), no_call=FreeTextNode(not_first="[")),
    ChatMarkup(
        system=("", "\n\n"),
        user=("user: ", "\n\n"),
        assistant=("assistant: ", "\n\n"),
        result=("result: ", "\n\n"),
        ask="assistant: ",
        tools=ToolMarkup((_BEFORE, _BEHIND), each=("", "\n")),
    ),
    tokens=(),
)
