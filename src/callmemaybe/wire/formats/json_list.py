"""Plain JSON, for any instructed model: a list of calls, or an answer in text.

No model's files give it away: choose it by name. Turns are written as plain words.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import ChoiceNode, FreeTextNode, sequence
from callmemaybe.wire.formats._lists import listed

_BEFORE = """\
You can call these functions:
"""
_BEHIND = """\
To call functions, answer with nothing but a JSON list:
[{"name": <function-name>, "arguments": <args-json-object>}, ...]
If none fits, answer in plain text."""

FORMAT = declare_format(
    "json_list",
    "plain JSON: any instructed model, no control token",
    ChoiceNode(sequence("[", listed()), no_call=FreeTextNode(not_first="[")),
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
