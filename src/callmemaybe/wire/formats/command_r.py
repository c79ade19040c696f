"""Command R7B, Command A: a JSON list of actions between ``<|START_ACTION|>`` and ``<|END_ACTION|>``.

Strings of the template in llama.cpp's models/templates/CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja
(its long instructions shortened). An answer stands between tokens of its own, as the thought does.
"""

from __future__ import annotations

from collections.abc import Iterable

from callmemaybe.jsonio import dumps
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.chat_markup import ChatMarkup, ToolMarkup, declare_format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FreeTextNode,
    NameNode,
    NumberNode,
    PromptPart,
    ThoughtNode,
    TokenNode,
    sequence,
)

_TURN, _TURN_END = "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>"
OPEN, CLOSE = "<|START_ACTION|>", "<|END_ACTION|>"
_THINK, _THINK_END = "<|START_THINKING|>", "<|END_THINKING|>"
_ANSWER, _ANSWER_END = "<|START_RESPONSE|>", "<|END_RESPONSE|>"
_BEFORE = """\
# Available Tools
You can use these tools by writing a JSON list of actions between <|START_ACTION|> and <|END_ACTION|>, \
each with "tool_call_id", "tool_name" and "parameters". If none fits, answer between <|START_RESPONSE|> \
and <|END_RESPONSE|>.

```json
[
    """
#: The list of actions, as all models of the family write it.
ACTIONS = sequence(
    TokenNode(OPEN), "[\n    ",
    CallsNode(
        sequence(
            '{"tool_call_id": "', NumberNode(), '", "tool_name": "', NameNode(),
            '", "parameters": ', ArgumentsNode(), "}",
        ),
        between=sequence(",\n    "),
    ),
    "\n]", TokenNode(CLOSE),
)  # fmt: skip


def turn(role: str, begin: str = "", end: str = "") -> tuple[str, str]:
    """Return the marks around a turn of that role, and inside of it."""
    return f"{_TURN}<|{role}_TOKEN|>{begin}", f"{end}{_TURN_END}"


def _tool(tool: ToolSpec) -> Iterable[PromptPart]:
    yield dumps({**tool.as_openai()["function"], "responses": None})


def cohere(
    answer: tuple[str, str], user: tuple[str, str], no_thinking: tuple[str, str]
) -> ChatMarkup:
    """Return Cohere's turns, with these marks around an answer."""
    return ChatMarkup(
        begin="<BOS_TOKEN>",
        system=turn("SYSTEM"),
        user=user,
        assistant=turn("CHATBOT"),
        results=turn("SYSTEM", "<|START_TOOL_RESULT|>[", "\n]<|END_TOOL_RESULT|>"),
        result=("\n    ", ""),
        ask=turn("CHATBOT")[0],
        answer=answer,
        no_thinking=no_thinking,
        tools=ToolMarkup((_BEFORE, "\n]\n```"), between=",\n    ", write=_tool),
        write_result=lambda _name, _id, content: (dumps({"results": {"0": content}}),),
    )


def tokens(*more: str) -> tuple[str, ...]:
    """Return the control tokens of the family."""
    return (
        "<BOS_TOKEN>", _TURN, _TURN_END, OPEN, CLOSE, _THINK, _THINK_END, "<|SYSTEM_TOKEN|>",
        "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|START_TOOL_RESULT|>", "<|END_TOOL_RESULT|>", *more,
    )  # fmt: skip


THINK = ThoughtNode(sequence(TokenNode(_THINK)), sequence(TokenNode(_THINK_END)))
NO_THINKING = (_THINK, f"{_THINK}{_THINK_END}")
FORMAT = declare_format(
    "command_r",
    "Command R7B, Command A: a list of actions between <|START_ACTION|> tokens",
    sequence(
        THINK,
        ChoiceNode(
            ACTIONS,
            no_call=sequence(
                TokenNode(_ANSWER), FreeTextNode(stop=_ANSWER_END), TokenNode(_ANSWER_END)
            ),
        ),
    ),
    cohere((_ANSWER, _ANSWER_END), turn("USER"), NO_THINKING),
    tokens=tokens(_ANSWER, _ANSWER_END),
    signs=(OPEN, CLOSE, _ANSWER),
    template_has=(OPEN, _ANSWER),
    priority=3,
)
