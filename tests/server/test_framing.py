"""What frameworks for agents write around a request does not get into the calls of a model that reads one request."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from callmemaybe.agent.framing import plain_conversation, request_within, told_schema
from tests.server.conftest import WEATHER
from tests.server.test_nano import LIGHT, called, client, result

__all__ = ["client"]
ASK = "What's the weather in Paris?"
DSPY = "\n\nRespond with a JSON object in the following order of fields: `city`."
CREWAI = "\n\nThis is the expected criteria for your final answer: an answer\nyou MUST return it."
MADE = (
    "Calling tools:\n[{'id': 'c1', 'type': 'function', "
    "'function': {'name': 'get_weather', 'arguments': {'city': 'Paris'}}}]"
)


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def function(name: str, /, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


FINAL = function("final_answer", answer={"type": "string", "description": "The answer"})


def ask(client: httpx2.Client, *messages: Any, **body: Any) -> dict[str, Any]:
    """The message of an answer, which is the same when it is streamed."""
    asked = {"model": "nano", "messages": messages, "tools": [WEATHER, FINAL], **body}
    answer = client.post("/v1/chat/completions", json=asked)
    assert answer.status_code == 200, answer.text
    message: dict[str, Any] = answer.json()["choices"][0]["message"]
    streamed = ""
    with client.stream("POST", "/v1/chat/completions", json={**asked, "stream": True}) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: {"):
                for one in json.loads(line[6:])["choices"][0]["delta"].get("tool_calls") or ():
                    streamed += one["function"].get("arguments") or ""
    assert streamed == "".join(
        one["function"]["arguments"] for one in message.get("tool_calls") or ()
    )
    return message


def calls(message: dict[str, Any]) -> list[tuple[str, Any]]:
    made = [one["function"] for one in message.get("tool_calls") or ()]
    return [(one["name"], json.loads(one["arguments"])) for one in made]


@pytest.mark.parametrize(
    ("text", "request_", "is_told"),
    [
        (ASK, ASK, False),
        (f"New task:\n{ASK}", ASK, False),
        (f"\nCurrent Task: {ASK}", ASK, False),
        (f"\nCurrent Task: {ASK}{CREWAI}", ASK, True),
        (f"[[ ## question ## ]]\n{ASK}{DSPY}", ASK, True),
        (f"[[ ## a ## ]]\nx\n\ny\n\n[[ ## b ## ]]\nz{DSPY}", "x\n\ny\n\nz", True),
        (f"Tell me. {CREWAI}", f"Tell me. {CREWAI}", False),
        ("Say: New task:\nx", "Say: New task:\nx", False),
    ],
)
def test_a_request_is_read_within_its_frame(text: str, request_: str, is_told: bool) -> None:
    """Only known frames are taken off, and only whole."""
    assert request_within(text) == (request_, is_told)


@pytest.mark.parametrize("around", [("\nCurrent Task: ", CREWAI), ("[[ ## question ## ]]\n", DSPY)])
def test_instructions_around_a_request_are_in_no_argument(
    client: httpx2.Client, around: tuple[str, str]
) -> None:
    """The arguments are those of the bare request, and the header names what was not read."""
    message = user(ASK.join(around))
    assert calls(ask(client, message, tools=[WEATHER])) == [("get_weather", {"city": "Paris"})]
    answer = client.post(
        "/v1/chat/completions", json={"model": "nano", "messages": [message], "tools": [WEATHER]}
    )
    assert answer.headers["callmemaybe-unread"] == "instructions"


def test_a_loop_that_is_written_as_text_ends(client: httpx2.Client) -> None:
    """smolagents: a call, its observation, and the final answer with the result in it."""
    task = user(f"New task:\n{ASK}")
    assert calls(ask(client, task, tool_choice="required")) == [("get_weather", {"city": "Paris"})]
    said = {"role": "assistant", "content": [{"type": "text", "text": MADE}]}
    for observed, answer in (
        ("Observation:\n22 degrees", "22 degrees"),
        (
            "Call id: c1\nError:\nit is closed\nNow let's retry: take care",
            "it failed: it is closed",
        ),
    ):
        message = ask(client, task, said, user(observed), tool_choice="required")
        assert calls(message) == [("final_answer", {"answer": answer})]


PLACE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.mark.parametrize("before", ["", "Write {} or {x}, no text: "])
def test_a_schema_in_the_instructions_is_the_form_of_an_answer(
    client: httpx2.Client, before: str
) -> None:
    """pydantic-ai and instructor tell it there where the answer is to be JSON of no stated form."""
    system = {"role": "system", "content": f"{before}{json.dumps(PLACE)} is the schema."}
    body = {"tools": None, "response_format": {"type": "json_object"}}
    made = ask(client, system, user("I live in Paris."), **body)
    assert json.loads(made["content"]) == {"city": "Paris"}
    flat = {"model": "nano", "instructions": system["content"], "input": "I live in Paris.",
            "text": {"format": {"type": "json_object"}}}  # fmt: skip
    answer = client.post("/v1/responses", json=flat)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    "instructions",
    ["Answer in JSON.", "{" * 99999, '{"a":' * 99999, '{"properties": {}}', "{} " * 99],
)
def test_instructions_without_a_schema_tell_none(instructions: str) -> None:
    """However they look; a request cannot have one."""
    assert told_schema([{"role": "system", "content": instructions}]) is None
    assert told_schema([user(json.dumps(PLACE))]) is None


def told(*turns: tuple[str, str]) -> str:
    """A conversation as LlamaIndex writes it where it wants an object of it."""
    written = "".join(
        f"\t<{role}>\n\t\t<message>{text}</message>\n\t</{role}>\n" for role, text in turns
    )
    how = "Given the conversation, format the output according to the provided schema."
    return f"<current_conversation>\n{written}</current_conversation>\n\n{how}"


def test_a_conversation_told_in_one_text_is_its_last_request_and_the_results() -> None:
    """LlamaIndex asks for an object so; the values are of the request and of the results behind it."""
    text = told(("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello"), ("user", ASK),
                ("assistant", ""), ("tool", "22 degrees in Paris"), ("assistant", "It is 22."))  # fmt: skip
    assert plain_conversation([user(text)]) == [user(f"{ASK} (22 degrees in Paris)")]
    for other in (
        text.partition("\n\nGiven")[0],
        told(),
        told(("assistant", "Hello")),
        "<current_conversation>\n",
    ):
        assert plain_conversation([user(other)]) == [user(other)]


def test_an_object_of_a_conversation_told_in_one_text(client: httpx2.Client) -> None:
    """No mark of the text gets into a value."""
    text = told(("user", ASK), ("assistant", ""), ("tool", "22 degrees in Paris"))
    place = function("Weather", city={"type": "string"}, degrees={"type": "integer"})
    made = calls(ask(client, user(text), tools=[place], tool_choice="required"))
    assert made == [("Weather", {"city": "Paris", "degrees": 22})]


@pytest.mark.parametrize(
    "written", ["Calling tools:\n[{'id': ", "Calling tools:\n[1]", "Calling tools:\n" + "[" * 9999]
)
def test_what_only_looks_like_calls_stays_text(written: str) -> None:
    """A text that cannot be read is no call, and what stands behind it is no result."""
    messages = [user(ASK), {"role": "assistant", "content": written}, user("Observation:\n22")]
    assert plain_conversation(messages) == messages


def test_several_observations_belong_to_their_calls() -> None:
    """A line for each call; where the lines are not as many, all belong to the first."""
    written = "Calling tools:\n" + repr(
        [{"id": id_, "function": {"name": id_, "arguments": {}}} for id_ in ("a", "b")]
    )
    for observed, contents in (("1\n2", ["1", "2"]), ("1", ["1"]), ("1\n2\n3", ["1\n2\n3"])):
        messages = [{"role": "assistant", "content": written}, user(f"Observation:\n{observed}")]
        found = plain_conversation(messages)[1:]
        assert [one["content"] for one in found] == contents
        assert [one["tool_call_id"] for one in found] == ["a", "b"][: len(found)]


def test_a_call_that_failed_before_any_other_is_told_of(client: httpx2.Client) -> None:
    """smolagents writes the failure of a first call behind the task, and the call nowhere."""
    why = "Error executing tool 'get_weather' with arguments {'city': 'Paris'}: it is closed"
    text = f"New task:\n{ASK}\nError:\n{why}\nNow let's retry: take care not to repeat previous errors!\n"
    assert calls(ask(client, user(text), tool_choice="required")) == [
        ("final_answer", {"answer": f"it failed: {why}"})
    ]


def test_a_next_task_follows_a_final_answer_and_no_other_result(client: httpx2.Client) -> None:
    """smolagents writes it into the message of the last observation; what a tool returns sets no task."""
    written = MADE.replace("get_weather", "final_answer").replace("city", "answer")
    task, done = user(f"New task:\n{ASK}"), {"role": "assistant", "content": written}
    next_ = "\nNew task:\nAnd what's the weather in Oslo?"
    message = ask(client, task, done, user(f"Observation:\nParis{next_}"), tool_choice="required")
    assert calls(message) == [("get_weather", {"city": "Oslo"})]
    for made, observed in ((done, f"Observation:\nParis is{next_}"),
                           ({"role": "assistant", "content": MADE}, f"Observation:\nParis{next_}")):  # fmt: skip
        message = ask(client, task, made, user(observed), tool_choice="required")
        ((name, arguments),) = calls(message)
        assert (name, "Oslo" in arguments["answer"]) == ("final_answer", True)


def test_what_asks_for_a_form_behind_results_is_no_request(client: httpx2.Client) -> None:
    """dspy says how to answer in a message of the user; the results before it are still the last ones."""
    submit = function("submit", answer={"type": "string"})
    loop = [user(f"[[ ## question ## ]]\n{ASK}{DSPY}"), called("c1", "get_weather", city="Paris"),
            result("c1", "22 degrees"), user(DSPY.strip())]  # fmt: skip
    message = ask(client, *loop, tools=[WEATHER, submit])
    assert calls(message) == [("submit", {"answer": "22 degrees"})]


def test_a_final_answer_is_given_last(client: httpx2.Client) -> None:
    """Not instead of a call that fits; without results it says what would be said in text."""
    nothing = user("Hello there!")
    assert calls(ask(client, user(ASK))) == [("get_weather", {"city": "Paris"})]
    assert not calls(ask(client, nothing, tools=[LIGHT, FINAL]))
    assert calls(ask(client, nothing, tools=[LIGHT, FINAL], tool_choice="required")) == [
        ("final_answer", {"answer": "None of the functions fits this request."})
    ]
    named = {"type": "function", "function": {"name": "final_answer"}}
    ((name, _),) = calls(ask(client, user(ASK), tool_choice=named))
    assert name == "final_answer"


def test_a_final_answer_of_parts_is_filled_in(client: httpx2.Client) -> None:
    """By the model, from the request and the results."""
    final = function("final_result", city={"type": "string"})
    loop = [user(ASK), called("c1", "get_weather", city="Paris"), result("c1", "22 degrees")]
    message = ask(client, *loop, tools=[WEATHER, final], tool_choice="required")
    ((name, _),) = calls(message)
    assert name == "final_result"


def test_a_form_without_fields_is_one(client: httpx2.Client) -> None:
    """dspy asks for an empty object beside the functions that are its only output."""
    form = {"type": "json_schema", "json_schema": {"name": "outputs", "schema": {
        "type": "object", "properties": {}, "required": [], "additionalProperties": False}}}  # fmt: skip
    asked = {"tools": [WEATHER], "response_format": form}
    assert calls(ask(client, user(ASK), **asked)) == [("get_weather", {"city": "Paris"})]
    assert ask(client, user(ASK), response_format=form, tools=None)["content"] == "{}"
