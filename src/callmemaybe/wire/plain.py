"""Plain JSON, for models behind a chat interface: instructions in words, no control token.

Not in the registry of formats: no model's files give it away, and a chat server is given it anyway.

``{"name": "get_weather", "arguments": {"city": "Paris"}}``, one line for each call, or ``null``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from callmemaybe.jsonio.writer import dumps
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.format import Format
from callmemaybe.wire.format_nodes import (
    Answer,
    Arguments,
    Calls,
    Controls,
    Either,
    Name,
    Parts,
    Text,
    chain,
    join,
)

_BEFORE = """\
You turn requests into function calls. These are the functions:
"""
_BEHIND = """
Answer with nothing but one JSON object: the function that fits the request, and its arguments.
{"name": <function-name>, "arguments": <args-json-object>}
"""


def prefix(tools: Sequence[ToolSpec], _controls: Controls) -> Parts:
    """Write the instructions with the functions."""
    return join([_BEFORE, *(f"{dumps(tool.as_openai())}\n" for tool in tools), _BEHIND])


def request(
    messages: Sequence[Mapping[str, Any]], _tools: Sequence[ToolSpec], _controls: Controls
) -> Parts:
    """Write the messages and begin the answer."""
    turns = [f"\n{message['role']}: {message.get('content') or ''}\n" for message in messages]
    return join([*turns, "\nassistant: "])


_CALL = chain(Text('{"name": "'), Name(), Text('", "arguments": '), Arguments("spaced"), Text("}"))
_CALLS = Calls(_CALL, between=chain(Text("\n")))
PLAIN = Format(
    name="json",
    summary="plain JSON: any instructed model, also behind a server",
    tree=Either(_CALLS, no_call=Text("null")),
    prefix=prefix,
    request=request,
)
#: The same for conversations: whatever does not begin like a call is an answer in words.
TALKING = replace(PLAIN, tree=Either(_CALLS, no_call=Answer(not_first="{")))
