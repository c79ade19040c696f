"""What frameworks for agents write around a request, for a model that reads one request and nothing else.

Such a model takes every word for the request's own: the city of "the weather in Paris?" becomes "Paris? Respond" where
a framework goes on with "Respond with a JSON object". So three things are read off the texts, by the tables below
and by nothing else:

- The request within its frame (:data:`FRAMES`); what stands around it are instructions, which are left out and named.
- Calls and results that a framework writes as text (smolagents: ``Calling tools:``, ``Observation:``) are calls and results.
- A function that hands in the final answer (:func:`is_final`) is called last. If it takes a text and nothing else
  (:func:`text_parameter`), it gets what would otherwise be said.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callmemaybe.tools import ToolSpec

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Frame:
    """How a framework writes a request: what stands before it, and what behind it (to the end of the message)."""

    framework: str
    before: re.Pattern[str]
    behind: re.Pattern[str] | None = None


#: A field of dspy: its name stands in a line of its own above its value.
_FIELD = r"\[\[ ## \w+ ## \]\]\n"
#: What dspy asks for behind the fields, and alone in a message behind results.
_ASKED = "Respond with (?:a JSON object in the following order of fields|the corresponding output fields)"
FRAMES = (
    Frame("smolagents", re.compile(r"New task:\n")),
    Frame(
        "crewai",
        re.compile(r"\s*Current Task: "),
        re.compile(r"\n\nThis is the expected criteria for your final answer:"),
    ),
    Frame("dspy", re.compile(_FIELD), re.compile(r"\n\n" + _ASKED)),
)
_CALLING = "Calling tools:\n"
_OBSERVED = "Observation:\n"
_FAILED = re.compile(
    r"(?:Call id: (?P<id>\S*)\n)?Error:\n(?P<why>.*?)\nNow let's retry: ", re.DOTALL
)
#: Parameters that are the answer itself, not a part of one.
_ANSWERS = {"answer", "final_answer", "output", "response", "result", "text"}
_FINAL = re.compile(r"final_(answer|result|output)(_\w+)?|submit|finish|attempt_completion")


def request_within(text: str) -> tuple[str, bool]:
    """Return the request within its frame, and whether there were instructions around it."""
    for frame in FRAMES:
        if opening := frame.before.match(text):
            inner = text[opening.end() :]
            ends = list(frame.behind.finditer(inner)) if frame.behind else []
            request = inner[: ends[-1].start()] if ends else inner
            if frame.framework == "dspy":
                request = re.sub(_FIELD, "", request)
            return request.strip(), bool(ends)
    return text, False


def plain_conversation(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the calls and results that a framework wrote as text in their usual form.

    A text that only looks so and cannot be read stays what it is. A message behind results that only says how to answer
    is left out.
    """
    found: list[Message] = []
    open_ids: list[str] = []
    for message in messages:
        text = str(message.get("content") or "")
        is_behind_result = message["role"] == "user" and found and found[-1]["role"] == "tool"
        if is_behind_result and re.match(_ASKED, text):
            continue
        if message["role"] == "assistant" and (calls := _written_calls(text)):
            open_ids = [one["id"] for one in calls]
            found.append({"role": "assistant", "content": None, "tool_calls": calls})
        elif message["role"] == "user" and open_ids and (results := _results(text, open_ids)):
            found += results
        else:
            open_ids = []
            found.append(message)
    return found


def _written_calls(text: str) -> list[dict[str, Any]]:
    """Return the calls of "Calling tools:", whose list is written as Python prints it."""
    _, marked, written = text.rpartition(_CALLING)
    if not marked:
        return []
    try:
        return [
            {"id": one["id"], "type": "function", "function": {
                "name": one["function"]["name"], "arguments": json.dumps(one["function"]["arguments"])}}
            for one in ast.literal_eval(written)
        ]  # fmt: skip
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        return []


def _results(text: str, ids: Sequence[str]) -> list[Message]:
    """Return the results of calls: a line for each where the lines are as many, else all with the first."""
    if failed := _FAILED.match(text):
        content = json.dumps({"ok": False, "detail": failed["why"]})
        return [{"role": "tool", "tool_call_id": failed["id"] or ids[0], "content": content}]
    if not text.startswith(_OBSERVED):
        return []
    whole = text.removeprefix(_OBSERVED)
    lines = whole.split("\n")
    contents = lines if len(lines) == len(ids) else [whole]
    return [
        {"role": "tool", "tool_call_id": id_, "content": content}
        for id_, content in zip(ids, contents, strict=False)
    ]


def is_final(tool: ToolSpec) -> bool:
    """Say whether a function hands in the final answer, by its name."""
    return _FINAL.fullmatch(tool.name) is not None


def text_parameter(tool: ToolSpec) -> str | None:
    """Return the name of a function's only parameter if it is an answer that may be any text, else None."""
    properties = tool.parameters.get("properties") or {}
    if len(properties) != 1:
        return None
    ((name, schema),) = properties.items()
    if name not in _ANSWERS:
        return None
    is_text = isinstance(schema, Mapping) and schema.get("type") in ("string", ["string", "null"])
    return name if is_text and {*schema} <= {"type", "title", "description", "nullable"} else None
