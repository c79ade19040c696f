"""Plain JSON, for models behind a chat interface: instructions in words, no control token.

Not in the registry of formats: it cannot be detected from a model's files, and is used for every
server.

``{"name": "get_weather", "arguments": {"city": "Paris"}}``, one line for each call, or ``null``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from callmemaybe.jsonio import dumps
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.format import Format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    Controls,
    FreeTextNode,
    NameNode,
    PromptParts,
    TextNode,
    join_parts,
    sequence,
)

_BEFORE = """\
You turn requests into function calls. These are the functions:
"""
_BEHIND = """
Answer with nothing but one JSON object: the function that fits the request, and its arguments.
{"name": <function-name>, "arguments": <args-json-object>}
"""


def instructions(tools: Sequence[ToolSpec], _controls: Controls) -> PromptParts:
    """Write the instructions with the functions."""
    return join_parts([_BEFORE, *(f"{dumps(tool.as_openai())}\n" for tool in tools), _BEHIND])


def request(
    messages: Sequence[Mapping[str, Any]], _tools: Sequence[ToolSpec], _controls: Controls
) -> PromptParts:
    """Write the messages and begin the answer."""
    turns = [f"\n{message['role']}: {message.get('content') or ''}\n" for message in messages]
    return join_parts([*turns, "\nassistant: "])


_CALL = sequence(
    '{"name": "',
    NameNode(),
    '", "arguments": ',
    ArgumentsNode(),
    "}",
)
_CALLS = CallsNode(_CALL, between=sequence("\n"))
CALL_FORMAT = Format(
    name="json",
    summary="plain JSON: any instructed model, also behind a server",
    tree=ChoiceNode(_CALLS, no_call=TextNode("null")),
    prefix=instructions,
    request=request,
)
#: The same for conversations: text that does not begin like a call is an answer.
CONVERSATION_FORMAT = replace(
    CALL_FORMAT, tree=ChoiceNode(_CALLS, no_call=FreeTextNode(not_first="{"))
)
