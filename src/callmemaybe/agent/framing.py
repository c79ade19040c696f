"""What frameworks for agents write around a request, for a model that reads one request and nothing else.

Such a model takes every word for the request's own: the city of "the weather in Paris?" becomes "Paris? Respond" where
a framework goes on with "Respond with a JSON object". So three things are read off the texts, by the tables below
and by nothing else:

- The request within its frame (:data:`FRAMES`); what stands around it are instructions, which are left out and named.
- Calls and results that a framework writes as text (smolagents: ``Calling tools:``, ``Observation:``) are calls and results.
- A JSON Schema in the instructions (:func:`told_schema`) is the form of an answer that is to be JSON.
- A conversation that a framework writes into one message (LlamaIndex: ``<current_conversation>``) is its last request, with
  the results behind it in brackets.
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
    Frame("smolagents", re.compile("New task:\n")),
    Frame(
        "crewai",
        re.compile(r"\s*Current Task: "),
        re.compile(r"\n\nThis is the expected criteria for your final answer:"),
    ),
    Frame("dspy", re.compile(_FIELD), re.compile(r"\n\n" + _ASKED)),
)
_CALLING = "Calling tools:\n"
_OBSERVED = "Observation:\n"
_NEW_TASK = "New task:\n"
#: What smolagents says of an error; it is greedy, so that no error ends where its own text says so.
_ERROR = r"Error:\n(?P<why>.*)\nNow let's retry: [^\n]*\n?"
_FAILED = re.compile(r"(?:Call id: \S*\n)?" + _ERROR, re.DOTALL)
#: A call that failed before any other was made is told behind the task, and is in no list of calls.
_FAILED_FIRST = re.compile(_NEW_TASK + r"(?P<task>.*?)\n" + _ERROR, re.DOTALL)
_FAILED_TOOL = re.compile(r"Error executing tool '(?P<name>[^']*)' with arguments ")
#: Parameters that are the answer itself, not a part of one.
_ANSWERS = {"answer", "final_answer", "output", "response", "result", "text"}
#: How many places of instructions are looked at for a JSON Schema.
_MOST_TOLD = 16
#: A conversation that LlamaIndex wants an object of, and what of it is a message.
_TOLD = re.compile(
    r"<current_conversation>\n(.*)</current_conversation>\n\nGiven the conversation, format .*",
    re.DOTALL,
)
_TOLD_TURN = re.compile(r"\t</?(system|user|assistant|tool|function)>\n")
_TOLD_MESSAGE = ("\t\t<message>", "</message>\n")
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
    waiting: list[dict[str, Any]] = []
    for message in messages:
        text, role = str(message.get("content") or ""), message["role"]
        is_behind_result = role == "user" and found and found[-1]["role"] == "tool"
        if is_behind_result and re.match(_ASKED, text):
            continue
        if role == "assistant" and (calls := _written_calls(text)):
            waiting = calls
            found.append({"role": "assistant", "content": None, "tool_calls": calls})
        elif role == "user" and (request := _told_request(text)):
            found.append({"role": "user", "content": request})
        elif role == "user" and (results := _results(text, waiting)):
            waiting = []
            found += results
        else:
            waiting = []
            found.append(message)
    return found


def _told_request(text: str) -> str:
    """Return the last request of a conversation that is told in one text, with its results; "" where none is told."""
    told = _TOLD.fullmatch(text)
    request = ""
    results: list[str] = []
    before, behind = _TOLD_MESSAGE
    pieces = _TOLD_TURN.split(told[1])[1:] if told else []
    for role, written in zip(pieces[::2], pieces[1::2], strict=True):
        said = written.removeprefix(before).removesuffix(behind).replace(behind + before, "\n")
        if role == "user" and said:
            request, results = said, []
        elif role in {"tool", "function"} and said:
            results.append(said)
    return f"{request} ({', '.join(results)})" if request and results else request


def told_schema(messages: Sequence[Message]) -> dict[str, Any] | None:
    """Return the JSON Schema of an object that the instructions tell, the first if there are several.

    Where an answer is to be JSON of no stated form, pydantic-ai (``PromptedOutput``) and instructor (``Mode.JSON``) write
    the form there.
    """
    for message in messages:
        text = str(message.get("content") or "") if message["role"] == "system" else ""
        at = text.find("{")
        for _ in range(_MOST_TOLD):
            if at < 0:
                break
            try:
                found, _ = json.JSONDecoder().raw_decode(text, at)
            except (ValueError, RecursionError):
                found = None
            if (
                isinstance(found, dict)
                and found.get("type") == "object"
                and found.get("properties")
            ):
                return found
            at = text.find("{", at + 1)
    return None


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


def _results(text: str, calls: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return what a message of the user brings behind calls: results, and a next task behind a final answer.

    The observation of several calls is a line for each where the lines are as many, else it is with the first. A next
    task is told from a line of a result by the final answer before it, which is known: a tool cannot set a task.
    """
    if not calls:
        return _failed_first(text)
    ids = [one["id"] for one in calls]
    if failed := _FAILED.fullmatch(text):
        return [_failure(ids[0], failed["why"])]
    if not text.startswith(_OBSERVED):
        return []
    whole, answer = text.removeprefix(_OBSERVED), _final_text(calls)
    if answer is not None and whole.startswith(f"{answer}\n{_NEW_TASK}"):
        task = {"role": "user", "content": whole[len(answer) + 1 :]}
        return [{"role": "tool", "tool_call_id": ids[0], "content": answer}, task]
    lines = whole.split("\n")
    contents = lines if len(lines) == len(ids) else [whole]
    return [
        {"role": "tool", "tool_call_id": id_, "content": content}
        for id_, content in zip(ids, contents, strict=False)
    ]


def _failed_first(text: str) -> list[Message]:
    """Return a task, the call of it that failed, and its failure, where they are one text."""
    failed = _FAILED_FIRST.fullmatch(text)
    tool = failed and _FAILED_TOOL.match(failed["why"])
    if not failed or not tool:
        return []
    function = {"name": tool["name"], "arguments": "{}"}
    calls = [{"id": "failed", "type": "function", "function": function}]
    return [
        {"role": "user", "content": _NEW_TASK + failed["task"]},
        {"role": "assistant", "content": None, "tool_calls": calls},
        _failure("failed", failed["why"]),
    ]


def _failure(id_: str, why: str) -> Message:
    content = json.dumps({"ok": False, "detail": why}, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": id_, "content": content}


def _final_text(calls: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what a call handed in as the final answer, as its observation says it."""
    if len(calls) != 1 or not _FINAL.fullmatch(calls[0]["function"]["name"]):
        return None
    values = list(json.loads(calls[0]["function"]["arguments"]).values())
    return str(values[0]).strip() if len(values) == 1 else None


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
