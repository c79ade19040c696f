"""A model that plays out sensible answers to the requests of ``clients/kit/flows.py``, token by token.

It is a :class:`ScriptedModel` behind the real prompt format, grammar and server: what a capable model would say is decided
from the prompt that the server rendered. It prefers whole replies in an order (the calls that are missing, a function that
ends the run, text), and where the grammar wants JSON that it did not think of, it fills in values by their keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from callmemaybe.agent.framing import plain_conversation, request_within
from callmemaybe.models.scripted import ScriptedModel
from tests.decoding.helpers import CHATML, PIECES, vocabulary

MORE = (
    b"find_person", b"set_light", b"city", b"percent", b"room", b"Paris", b"Oslo", b"kitchen", b" degrees",
    b" in ", b"The ",
)  # fmt: skip
VOCABULARY = vocabulary(CHATML, ("<|im_end|>",), (*PIECES, *MORE))
CITIES = ("Paris", "Oslo", "Rome", "Berlin")
ROOMS = ("kitchen", "hall", "bedroom")
_ASK, _NO_THOUGHT = "<|im_start|>assistant\n", "<think>\n\n</think>\n\n"


@dataclass(frozen=True)
class Prompt:
    """A prompt as it was rendered: instructions, functions, the last request, and what came behind it."""

    instructions: str
    functions: Mapping[str, Mapping[str, Any]]
    request: str
    calls: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def known(self) -> str:
        """What there is to take values from: the newest result first."""
        return "\n".join((*reversed(self.results), self.request))


def read_prompt(text: str) -> Prompt:
    """Return what a prompt in ChatML says."""
    functions: dict[str, Any] = {}
    messages: list[dict[str, Any]] = []
    instructions = ""
    for turn in text.split("<|im_start|>")[1:]:
        role, _, body = turn.partition("\n")
        body = body.partition("<|im_end|>")[0]
        found = re.findall(r"<tool_response>\n(.*?)\n</tool_response>", body, re.DOTALL)
        if role == "system":
            instructions += body.partition("# Tools\n\nYou may call")[0]
            told = re.findall(r"^ *\(\d+\) (\w+), whose description", body, re.MULTILINE)
            functions |= {one: {} for one in told}
            for line in body.split("\n"):
                if line.startswith('{"type": "function"'):
                    one = json.loads(line)["function"]
                    functions[one["name"]] = one.get("parameters") or {}
        elif role == "user" and found:
            messages += [{"role": "tool", "content": one} for one in found]
        else:
            messages.append({"role": role, "content": body})
    request, calls, results = "", [], []
    # It reads through what frameworks write around requests and results, as a capable model would.
    for message in plain_conversation(messages):
        content = message["content"] or ""
        if message["role"] == "user":
            request = request_within(content)[0]
            calls, results = _trajectory(content)
        elif message["role"] == "tool":
            results.append(content)
        else:
            calls += re.findall(r"<tool_call>\n(.*?)\n</tool_call>", content, re.DOTALL)
            made = [one["function"] for one in message.get("tool_calls") or ()]
            calls += [_call(one["name"], json.loads(one["arguments"])) for one in made]
    return Prompt(instructions, functions, request, tuple(calls), tuple(results))


def _trajectory(content: str) -> tuple[list[str], list[str]]:
    """Return the calls and results that dspy's ReAct tells in a message of the user."""
    fields = re.findall(r"\[\[ ## (\w+)_\d+ ## \]\]\n(.*)", content)
    names, arguments, results = (
        [text for field, text in fields if field == one]
        for one in ("tool_name", "tool_args", "observation")
    )
    calls = [_call(*one) for one in zip(names, map(json.loads, arguments), strict=True)]
    return calls, results


def _named(prompt: Prompt, *words: str) -> str | None:
    """Return the function whose name has one of the words."""
    return next((one for one in prompt.functions if any(w in one.lower() for w in words)), None)


def missing_calls(prompt: Prompt) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that the request asks for and that were not made."""
    request, wanted = prompt.request, []
    cities: Sequence[str] = [one for one in CITIES if one in request]
    person = re.search(r"\b(Ada|Grace|Alan)\b", request)
    finder = _named(prompt, "person")
    weather = _named(prompt, "weather")
    light = _named(prompt, "light")
    if person and finder:
        wanted.append((finder, {"name": person[0]}))
        cities = [one for one in CITIES if one in prompt.results] or cities
    if weather and "weather" in request:
        wanted += [(weather, {"city": one}) for one in cities]
    dimmed = re.search(r"(\d+) percent", request)
    if light and dimmed:
        wanted.append((light, {"percent": int(dimmed[1])}))
    calls = [(name, _arguments(name, prompt, known)) for name, known in wanted]
    # smolagents does not tell with what a call was made that failed.
    done = {*prompt.calls}
    return [one for one in calls if not {_call(*one), _call(one[0], {})} & done]


def _arguments(name: str, prompt: Prompt, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a function needs: what is known for this call, and otherwise values by their keys."""
    schema = prompt.functions[name]
    needed = schema.get("required") or [*schema.get("properties", known)]
    return {key: known[key] if key in known else value_of(key, prompt) for key in needed}


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


def _written(calls: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    return "\n".join(f"<tool_call>\n{_call(*one)}\n</tool_call>" for one in calls)


def answer(prompt: Prompt) -> str:
    """Return an answer in text."""
    if prompt.results:
        return "I found this: " + "; ".join(prompt.results) + "."
    return "Hello! What can I do for you?"


def _asked_schema(prompt: Prompt) -> Mapping[str, Any] | None:
    """Return the JSON Schema that the instructions tell, if they do."""
    for start in re.finditer(r"\{", prompt.instructions):
        try:
            found, _ = json.JSONDecoder().raw_decode(prompt.instructions, start.start())
        except ValueError:
            continue
        if isinstance(found.get("properties"), dict):
            return found  # type: ignore[no-any-return]
    return None


def replies(prompt: Prompt) -> Iterable[str]:
    """Yield whole replies, the best first."""
    if "next_tool_name" in prompt.instructions:
        name, arguments = next(iter(missing_calls(prompt)), ("finish", {}))
        told = {"next_thought": "so", "next_tool_name": name, "next_tool_args": arguments}
        yield json.dumps(told)
    if calls := missing_calls(prompt):
        yield _written(calls)
        yield _written(calls[:1])
    if last := _named(prompt, "final_", "submit"):
        yield _written([(last, _arguments(last, prompt, {}))])
    if schema := _asked_schema(prompt):
        keys = schema.get("required") or schema["properties"]
        yield json.dumps({key: value_of(key, prompt) for key in keys})
    yield answer(prompt)
    # Where a call is required although nothing is missing, it is one that hands in the answer.
    fetching = {_named(prompt, one) for one in ("weather", "light", "person")}
    for name in prompt.functions.keys() - fetching:
        yield _written([(name, _arguments(name, prompt, {}))])


def value_of(key: str, prompt: Prompt) -> Any:
    """Return what an answer says under a key."""
    known = prompt.known
    city = next((one for one in CITIES if one in known), "Paris")
    number = re.search(r"\d+", known)
    match key.lower():
        case "city" | "place" | "location":
            return city
        case "degrees" | "temperature" | "percent":
            return int(number[0]) if number else 22
        case "room":
            return next((one for one in ROOMS if one in known), ROOMS[0])
        case "input" | "question" | "query" | "task":
            return prompt.request
        case _:
            return answer(prompt)


def _open_value(said: str) -> tuple[str, str] | None:
    """Return the key of the value that JSON text is at, and what is written of it; None elsewhere."""
    found = re.search(r'"((?:[^"\\]|\\.)*)": ?("(?:[^"\\]|\\.)*|-?\d*)$', said)
    return (found[1], found[2]) if found else None


def _write(logits: np.ndarray, rest: str, wish: float) -> None:
    """Wish for the tokens that ``rest`` begins with, longer ones more; for an end where nothing is left."""
    data = rest.encode()
    if not data:
        for end in VOCABULARY.ends:
            logits[end] = max(logits[end], wish)
    for name, index in VOCABULARY.controls.items():
        if rest.startswith(name):  # written as one token, never as its letters
            logits[index] = max(logits[index], wish)
            return
    for index, token in enumerate(VOCABULARY.tokens):
        if token and data.startswith(token):
            logits[index] = max(logits[index], wish + 0.01 * len(token))


def _fill(logits: np.ndarray, said: str, prompt: Prompt) -> None:
    """Wish for values by their keys, and otherwise for whatever ends soon."""
    for byte, wish in zip(b'{["0]}', (1.4, 1.2, 1.0, 0.5, 2.0, 3.0), strict=True):
        logits[byte] = wish
    for end in VOCABULARY.ends:
        logits[end] = 4.0
    if re.search(r'[{,] ?"$', said):
        is_dimming = "percent" in prompt.request
        for key in ("room", "percent") if is_dimming else ("city", "degrees"):
            _write(logits, f'{key}"', 9.0)
    at = _open_value(said)
    if at is None:
        return
    key, written = at
    value = value_of(key, prompt)
    texts = (json.dumps(value), json.dumps(str(value), ensure_ascii=False), "22")
    for place, text in enumerate(dict.fromkeys(texts)):
        if text.startswith(written) and text != written:
            _write(logits, text[len(written) :], 9.0 - place)


@lru_cache(maxsize=64)
def _plan(before: str) -> tuple[Prompt, tuple[str, ...]]:
    prompt = read_prompt(before)
    return prompt, tuple(replies(prompt))


def _script(ids: tuple[int, ...]) -> np.ndarray:
    names = VOCABULARY.names
    text = b"".join(VOCABULARY.token(one) or names.get(one, "").encode() for one in ids)
    before, ask, said = text.decode(errors="replace").rpartition(_ASK)
    logits = np.zeros(VOCABULARY.size, np.float32)
    if not ask:
        return logits
    said = said.removeprefix(_NO_THOUGHT)
    prompt, wishes = _plan(before)
    _fill(logits, said, prompt)
    for place, wish in enumerate(wishes):
        if wish.startswith(said):
            _write(logits, wish[len(said) :], 20.0 - place)
    return logits


def player() -> ScriptedModel:
    """Return the model; it is served in the format ``hermes`` with :data:`VOCABULARY`."""
    return ScriptedModel(VOCABULARY.size, _script, name="scripted")
