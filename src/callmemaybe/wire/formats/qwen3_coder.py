"""Qwen3-Coder, Qwen3.5, Nemotron 3: XML between ``<tool_call>`` tags, strings as they are.

Strings of the template in vLLM's examples/tool_chat_template_qwen3coder.jinja. Strings stand without
quotes and other values in JSON, so what a text means depends on the parameter's type; where both are
possible, a string that looks like JSON is quoted. No string can hold the closing tag on a line of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from callmemaybe.jsonio import dumps
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.arg_syntax import XML_ARGS
from callmemaybe.wire.chat_markup import ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    PromptPart,
    TokenNode,
    sequence,
)
from callmemaybe.wire.formats.hermes import CLOSE, OPEN, THINK, TOKENS, chatml

_BEFORE = """\
# Tools

You have access to the following functions:

<tools>
"""
_BEHIND = """
</tools>

If you choose to call a function ONLY reply in the following format with NO suffix:

<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
<parameter=example_parameter_2>
This is the value for the second parameter
that can span
multiple lines
</parameter>
</function>
</tool_call>"""


def _tool(tool: ToolSpec) -> Iterable[PromptPart]:
    lines = ["<function>", f"<name>{tool.name}</name>"]
    if tool.description:
        lines.append(f"<description>{tool.description.strip()}</description>")
    lines.append("<parameters>")
    properties = tool.parameters.get("properties")
    for name, schema in (properties if isinstance(properties, Mapping) else {}).items():
        lines += ["<parameter>", f"<name>{name}</name>", *_fields(schema), "</parameter>"]
    rest = {k: v for k, v in tool.parameters.items() if k not in ("type", "properties")}
    lines += [*_extra(rest), "</parameters>", "</function>"]
    yield "\n".join(lines)


def _fields(schema: Any) -> Iterable[str]:
    fields = dict(schema) if isinstance(schema, Mapping) else {}
    for key in ("type", "description"):
        if key in fields:
            yield f"<{key}>{str(fields.pop(key)).strip()}</{key}>"
    yield from _extra(fields)


def _extra(fields: Mapping[str, Any]) -> Iterable[str]:
    for key, value in fields.items():
        text = dumps(value) if isinstance(value, Mapping | list | tuple) else str(value)
        yield f"<{key}>{text}</{key}>"


#: One call, and how tools are declared.
CALL = sequence(
    TokenNode(OPEN), "\n<function=", NameNode(bare=True), ">\n", ArgumentsNode(syntax=XML_ARGS),
    "\n", TokenNode(CLOSE),
)  # fmt: skip
TOOLS = ToolMarkup((_BEFORE, _BEHIND), between="\n", write=_tool)
FORMAT = declare_format(
    "qwen3_coder",
    "Qwen3-Coder, Qwen3.5, Nemotron 3: XML between <tool_call> tags",
    sequence(
        THINK,
        ChoiceNode(CallsNode(CALL, between=sequence("\n")), no_call=FreeTextNode(stop=OPEN)),
    ),
    chatml(TOOLS),
    tokens=TOKENS,
    signs=("<|im_start|>", "<|im_end|>"),
    template_has=("<function=", "<parameter="),
    needs_template=True,
    priority=1,
)
