"""gpt-oss: harmony channels; a call is a message to a function on the commentary channel.

Strings of OpenAI's "harmony response format" (cookbook) and openai-harmony's renderer. One call a
turn, which ends with ``<|call|>``; thinking is the analysis channel, an answer the final one. Tools
are declared to the developer role as TypeScript types; here each as one line of JSON Schema behind its
name, which the model reads as well (its own template, where there is one, is used instead).
"""

from __future__ import annotations

from collections.abc import Iterable

from callmemaybe.jsonio.writer import dumps
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.chat import Chat, Tools, declare
from callmemaybe.wire.format_nodes import (
    Answer,
    Arguments,
    Calls,
    Either,
    Name,
    Part,
    Text,
    Thought,
    Token,
    chain,
)

_START, _END, _CHANNEL, _MESSAGE = "<|start|>", "<|end|>", "<|channel|>", "<|message|>"
_CALL, _JSON, _RETURN = "<|call|>", "<|constrain|>", "<|return|>"


def _tool(tool: ToolSpec) -> Iterable[Part]:
    for line in tool.description.splitlines():
        yield f"// {line}\n"
    yield f"type {tool.name} = (_: {dumps(tool.parameters)}) => any;\n\n"


FORMAT = declare(
    "harmony",
    "gpt-oss: commentary to=functions.f on harmony channels",
    chain(
        Thought(
            chain(Token(_CHANNEL), Text("analysis"), Token(_MESSAGE)),
            chain(Token(_END), Token(_START), Text("assistant")),
        ),
        Token(_CHANNEL),
        Either(
            Calls(
                chain(
                    Text("commentary to=functions."), Name(bare=True), Text(" "), Token(_JSON),
                    Text("json"), Token(_MESSAGE), Arguments("spaced"), Token(_CALL),
                ),
                between=None,
            ),
            no_call=chain(Text("final"), Token(_MESSAGE), Answer(stop=_END)),
        ),
    ),
    Chat(
        system=(f"{_START}developer{_MESSAGE}# Instructions\n\n", _END),
        user=(f"{_START}user{_MESSAGE}", _END),
        assistant=(f"{_START}assistant", ""),
        result=(f"{_START}functions.", _END),
        ask=f"{_START}assistant",
        tools=Tools(
            ("# Tools\n\n## functions\n\nnamespace functions {\n\n", "} // namespace functions"),
            write=_tool,
        ),
        begin=(
            f"{_START}system{_MESSAGE}You are ChatGPT, a large language model trained by OpenAI.\n"
            "Knowledge cutoff: 2024-06\n\nReasoning: low\n\n# Valid channels: analysis, commentary, "
            "final. Channel must be included for every message.\nCalls to these tools must go to the "
            f"commentary channel: 'functions'.{_END}"
        ),
        write_result=lambda name, _id, content: (f"{name} to=assistant", "", content),
        result_gaps=(f"{_CHANNEL}commentary", _MESSAGE),
        said_behind=f"{_CHANNEL}final{_MESSAGE}",
        said_end=_END,
    ),
    tokens=(_START, _END, _CHANNEL, _MESSAGE, _CALL, _JSON, _RETURN),
    signs=(_CHANNEL, _MESSAGE, _CALL),
    template_has=("<|channel|>", "functions."),
)  # fmt: skip
