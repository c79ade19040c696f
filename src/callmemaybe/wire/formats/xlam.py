"""xLAM and Hammer: a plain JSON list of calls; ``[]`` calls nothing.

Strings of Salesforce's template as in vLLM's examples/tool_chat_template_xlam_qwen.jinja (ChatML), and
of BFCL's hammer.py for the empty list.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ToolMarkup, declare_format, write_indented_json
from callmemaybe.wire.format_nodes import ChoiceNode, TextNode, sequence
from callmemaybe.wire.formats.hermes import chatml
from callmemaybe.wire.formats.json_list import LIST_OF_CALLS

_BEFORE = """\
You have access to a set of tools. When using tools, make calls in a single JSON array:

[{"name": "tool_call_name", "arguments": {"arg1": "value1", "arg2": "value2"}}, ... (additional \
parallel tool calls as needed)]

If no tool is suitable, return an empty array. The available tools are:

"""

FORMAT = declare_format(
    "xlam",
    "xLAM, Hammer: a JSON list, [] calls nothing",
    sequence("[", ChoiceNode(LIST_OF_CALLS, no_call=TextNode("]"))),
    chatml(
        ToolMarkup((_BEFORE, ""), each=("", "\n\n"), write=write_indented_json),
        gap="\n",
        default="You are a helpful assistant.",
        results=("", ""),
        result=("<|im_start|>tool\n", "<|im_end|>\n"),
        no_thinking=("", ""),
    ),
    tokens=("<|im_start|>", "<|im_end|>"),
    signs=("<|im_start|>", "<|im_end|>"),
    template_has=("<|im_start|>", "single JSON array"),
    needs_template=True,
    priority=2,
)
