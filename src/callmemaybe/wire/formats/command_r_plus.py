"""Command R, Command R+: a JSON list of actions in a fence behind ``Action:``, tools as Python functions.

Strings of the template in llama.cpp's models/templates/CohereForAI-c4ai-command-r-plus-tool_use.jinja, its preamble
shortened. The model closes the fence on a line of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from callmemaybe.tools import ToolSpec
from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    PromptPart,
    sequence,
)
from callmemaybe.wire.formats.command_r import turn

_TYPES = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"}
_DEFAULT = """\
## Task and Context
You help people answer their questions and other requests interactively.

## Style Guide
Unless the user asks for a different style of answer, you should answer in full sentences, using proper grammar and \
spelling."""
_HOW = """\
Write 'Action:' followed by a json-formatted list of actions that you want to perform in order to produce a good \
response to the user's last input. You can use any of the supplied tools any number of times, but you should aim to \
execute the minimum number of necessary actions for the input. The list of actions you want to call should be \
formatted as a list of json objects, for example:
```json
[
    {
        "tool_name": title of the tool in the specification,
        "parameters": a dict of parameters to input into the tool as they are defined in the specs, or {} if it \
takes no parameters
    }
]```"""


def _type(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if isinstance(kind, list):
        return f"Union[{','.join(_TYPES.get(one, 'Any') for one in kind if isinstance(one, str))}]"
    if kind == "array":
        return f"List[{_type(schema.get('items'))}]"
    if kind == "object":
        return f"Dict[str, {_type(schema.get('additionalProperties'))}]"
    return _TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"


def _tool(tool: ToolSpec) -> Iterable[PromptPart]:
    """Write a tool as a Python function without a body."""
    properties = tool.parameters.get("properties")
    members = properties if isinstance(properties, Mapping) else {}
    required = tool.parameters.get("required") or ()
    types = {
        key: _type(one) if key in required else f"Optional[{_type(one)}]"
        for key, one in members.items()
    }
    given = ", ".join(
        f"{key}: {kind}" + ("" if key in required else " = None") for key, kind in types.items()
    )
    lines = [f"def {tool.name}({given}) -> List[Dict]:", f'    """{tool.description}']
    lines += ["", "    Args:"] if members else []
    for key, one in members.items():
        said = one.get("description", "") if isinstance(one, Mapping) else ""
        lines.append(f"        {key} ({types[key]}): {said}")
    yield "\n".join(["```python", *lines, '    """', "    pass", "```"])


FORMAT = declare_format(
    "command_r_plus",
    "Command R, Command R+: a list of actions in a fence behind Action:",
    ChoiceNode(
        sequence(
            "Action:\n```json\n[\n    ",
            CallsNode(
                sequence(
                    '{\n        "tool_name": "', NameNode(), '",\n        "parameters": ',
                    ArgumentsNode(), "\n    }",
                ),
                between=sequence(",\n    "),
            ),
            "\n]", "\n```",
        ),
        no_call=FreeTextNode(stop="Action:\n```json", text_stop=True),
    ),
    ChatMarkup(
        begin="<BOS_TOKEN>",
        system=turn("SYSTEM", "# User Preamble\n"),
        user=turn("USER"),
        assistant=turn("CHATBOT"),
        result=turn("SYSTEM", "<results>\n", "</results>"),
        ask="".join((*turn("SYSTEM", _HOW), turn("CHATBOT")[0])),
        default=_DEFAULT,
        tools=ToolMarkup(
            ("## Available Tools\nHere is a list of tools that you have available to you:\n\n", ""),
            between="\n\n",
            write=_tool,
        ),
    ),
    tokens=(
        "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<|SYSTEM_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>",
        "<|START_OF_TURN_TOKEN|>",
    ),
    signs=("<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"),
    template_has=("Action:", "tool_name"),
    needs_template=True,
    priority=2,
)  # fmt: skip
