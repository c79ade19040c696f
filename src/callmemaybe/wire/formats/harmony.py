"""gpt-oss: harmony channels; a call is a message to a function on the commentary channel.

Strings of OpenAI's "harmony response format" (cookbook) and openai-harmony's renderer. One call a
turn, which ends with ``<|call|>``; thinking is the analysis channel, an answer the final one. Tools
are declared to the developer role as TypeScript types; here each as one line of JSON Schema behind its
name, which the model reads as well (its own template, where there is one, is used instead).
"""

from __future__ import annotations

from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format, write_typescript
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    ThoughtNode,
    TokenNode,
    sequence,
)

_START, _END, _CHANNEL, _MESSAGE = "<|start|>", "<|end|>", "<|channel|>", "<|message|>"
_CALL, _JSON, _RETURN = "<|call|>", "<|constrain|>", "<|return|>"


FORMAT = declare_format(
    "harmony",
    "gpt-oss: commentary to=functions.f on harmony channels",
    sequence(
        ThoughtNode(
            sequence(TokenNode(_CHANNEL), "analysis", TokenNode(_MESSAGE)),
            sequence(TokenNode(_END), TokenNode(_START), "assistant"),
        ),
        TokenNode(_CHANNEL),
        ChoiceNode(
            CallsNode(
                sequence(
                    "commentary to=functions.", NameNode(bare=True), " ", TokenNode(_JSON),
                    "json", TokenNode(_MESSAGE), ArgumentsNode(), TokenNode(_CALL),
                ),
                between=None,
            ),
            no_call=sequence("final", TokenNode(_MESSAGE), FreeTextNode(stop=_END)),
        ),
    ),
    ChatMarkup(
        system=(f"{_START}developer{_MESSAGE}# Instructions\n\n", _END),
        user=(f"{_START}user{_MESSAGE}", _END),
        assistant=(f"{_START}assistant", ""),
        result=(f"{_START}functions.", _END),
        ask=f"{_START}assistant",
        tools=ToolMarkup(
            ("# Tools\n\n## functions\n\nnamespace functions {\n\n", "} // namespace functions"),
            write=write_typescript,
        ),
        begin=(
            f"{_START}system{_MESSAGE}You are ChatGPT, a large language model trained by OpenAI.\n"
            "Knowledge cutoff: 2024-06\n\nReasoning: low\n\n# Valid channels: analysis, commentary, "
            "final. Channel must be included for every message.\nCalls to these tools must go to the "
            f"commentary channel: 'functions'.{_END}"
        ),
        write_result=lambda name, _id, content: (f"{name} to=assistant", "", content),
        result_gaps=(f"{_CHANNEL}commentary", _MESSAGE),
        answer=(f"{_CHANNEL}final{_MESSAGE}", _END),
    ),
    tokens=(_START, _END, _CHANNEL, _MESSAGE, _CALL, _JSON, _RETURN),
    signs=(_CHANNEL, _MESSAGE, _CALL),
    template_has=("<|channel|>", "functions."),
)  # fmt: skip
