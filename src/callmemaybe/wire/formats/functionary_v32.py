"""Functionary v3.2: ``>>>f`` and JSON on the next line; text is a call of ``all``.

Strings of the template in llama.cpp's models/templates/meetkai-functionary-medium-v3.2.jinja: the prompt
ends with the first ``>>>``. Tools are declared as TypeScript types, here each as one line of JSON Schema.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_typescript
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    sequence,
)
from callmemaybe.wire.formats.llama3_json import TOKENS, header

_END = "<|eot_id|>"
_BEFORE = """\
You are capable of executing available function(s) if required.
Only execute function(s) when absolutely necessary.
Ask for the required input to:recipient==all
Use JSON for function arguments.
Respond in this format:
>>>${recipient}
${content}
Available functions:
// Supported function definitions that should be called when necessary.
namespace functions {

"""


FORMAT = declare_format(
    "functionary_v32",
    "Functionary v3.2: >>>f and JSON on the next line",
    ChoiceNode(
        CallsNode(sequence(NameNode(bare=True), "\n", ArgumentsNode()), between=sequence(">>>")),
        no_call=sequence("all\n", FreeTextNode()),
    ),
    ChatMarkup(
        begin="<|begin_of_text|>",
        system=(header("system"), _END),
        user=(header("user"), _END),
        assistant=(f"{header('assistant')}>>>", _END),
        result=(header("tool"), _END),
        ask=f"{header('assistant')}>>>",
        answer=("all\n", ""),
        tools=ToolMarkup((_BEFORE, "} // namespace functions"), write=write_typescript),
    ),
    tokens=TOKENS,
    signs=("<|start_header_id|>", "<|end_header_id|>"),
    template_has=(">>>", "recipient", "<|start_header_id|>"),
    needs_template=True,
    priority=3,
)
