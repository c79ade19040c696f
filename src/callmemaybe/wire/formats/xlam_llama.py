"""xLAM 2 on Llama: a JSON list of calls, in Llama 3's turns.

Strings of the template in vLLM's examples/tool_chat_template_xlam_llama.jinja.
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_indented_json
from callmemaybe.wire.format_nodes import ChoiceNode, FreeTextNode, sequence
from callmemaybe.wire.formats.json_list import LIST_OF_CALLS
from callmemaybe.wire.formats.llama3_json import TOKENS, header

_END = "<|eot_id|>"
_BEFORE = """\
You have access to a set of tools. When using tools, make calls in a single JSON array:

[{"name": "tool_call_name", "arguments": {"arg1": "value1", "arg2": "value2"}}, ... (additional \
parallel tool calls as needed)]

If no tool is suitable, state that explicitly. If the user's input lacks required parameters, ask for \
clarification.

"""


FORMAT = declare_format(
    "xlam_llama",
    "xLAM 2 on Llama: a JSON list in Llama 3's turns",
    ChoiceNode(sequence("[", LIST_OF_CALLS), no_call=FreeTextNode(not_first="[")),
    ChatMarkup(
        begin="<|begin_of_text|>",
        system=(header("system"), _END),
        user=(header("user"), _END),
        assistant=(header("assistant"), _END),
        result=(header("ipython"), _END),
        ask=header("assistant"),
        gap="\n",
        default="You are a helpful assistant. You are developed by Salesforce xLAM team.",
        tools=ToolMarkup((_BEFORE, ""), each=("", "\n\n"), write=write_indented_json),
    ),
    tokens=TOKENS,
    signs=("<|start_header_id|>", "<|end_header_id|>"),
    template_has=("single JSON array", "<|start_header_id|>"),
    needs_template=True,
    priority=2,
)
