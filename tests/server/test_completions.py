"""Texts that are continued: plainly, and under a grammar in every spelling; raw, and by OpenAI's client."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from callmemaybe import models
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.server.config import ServerConfig
from callmemaybe.server.serving import application
from tests.decoding.helpers import CHATML, vocabulary
from tests.models.conftest import Maker, tiny  # noqa: F401 - a fixture
from tests.server.conftest import (
    PATIENCE,
    USER,
    VOCABULARY,
    Running,
    Seen,
    Start,
    begin,
    running,
)

ASK = b"Say: "
SAID = "Grüße, 🌍! One two."
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
DATE = "[0-9]{4}-[01][0-9]-[0-3][0-9]"
COLOURS = ["red", "green", "blue", "green-ish"]
SUM = 'root ::= number ("+" number)*\nnumber ::= [1-9] [0-9]{0,3}'
LARK = 'start: NUMBER ("+" NUMBER)*\nNUMBER: /[1-9][0-9]{0,3}/'


def is_person(text: str) -> bool:
    try:
        jsonschema.validate(json.loads(text), PERSON)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


IS_SUM = matches(r"[1-9][0-9]{0,3}(\+[1-9][0-9]{0,3})*")
FORM = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
#: Every spelling of a constraint, and what a text of it is.
SPELLINGS: list[tuple[dict[str, Any], Callable[[str], bool]]] = [
    ({"response_format": FORM}, is_person),
    ({"response_format": {"type": "json_object"}}, is_object),
    ({"response_format": {"type": "regex", "regex": DATE}}, matches(DATE)),
    ({"response_format": {"type": "grammar", "grammar": LARK}}, IS_SUM),
    ({"structured_outputs": {"json": PERSON}}, is_person),
    ({"structured_outputs": {"json": json.dumps(PERSON), "disable_fallback": False}}, is_person),
    ({"structured_outputs": {"regex": DATE}}, matches(DATE)),
    ({"structured_outputs": {"choice": COLOURS}}, COLOURS.__contains__),
    ({"structured_outputs": {"grammar": SUM}}, IS_SUM),
    ({"structured_outputs": {"json_object": True}}, is_object),
    ({"guided_json": PERSON}, is_person),
    ({"guided_json": json.dumps(PERSON)}, is_person),
    ({"guided_regex": DATE}, matches(DATE)),
    ({"guided_choice": COLOURS}, COLOURS.__contains__),
    ({"guided_grammar": LARK}, IS_SUM),
    ({"grammar": SUM}, IS_SUM),
    ({"json_schema": PERSON}, is_person),
]


@pytest.fixture(scope="module")
def talker() -> Iterator[Running]:
    """A model that says one thing behind "Say: "."""
    server = begin((SAID,), ask=ASK)
    yield server
    server.close()


def server_of(model: Any, **options: Any) -> Running:
    config = ServerConfig(port=0, run_seconds=PATIENCE)
    seen = Seen()
    options = {"format": "hermes", "vocabulary": VOCABULARY} | options
    return running(application(model, config, name="talker", observers=[seen], **options), config, model, seen)  # fmt: skip


@pytest.fixture(scope="module")
def dice() -> Iterator[Running]:
    """A model whose logits are noise: what it writes is up to the grammar."""
    server = server_of(ScriptedModel(VOCABULARY.size, 11))
    yield server
    server.close()


def complete(server: Running, **body: Any) -> Any:
    answer = server.post("/v1/completions", {"model": "talker", "prompt": "Say: ", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def choice_of(server: Running, **body: Any) -> Any:
    (choice,) = complete(server, **body)["choices"]
    return choice


def chunks_of(server: Running, **body: Any) -> list[dict[str, Any]]:
    body = {"model": "talker", "prompt": "Say: ", "stream": True, **body}
    lines = server.post("/v1/completions", body).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""], lines[-2:]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def refused(server: Running, **body: Any) -> tuple[str, str]:
    """Return the parameter and the sentence of a refusal."""
    answer = server.post("/v1/completions", {"model": "talker", "prompt": "Say: ", **body})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    return error["param"], error["message"]


# -- plain texts ----------------------------------------------------------------------------------


def test_a_text_is_continued_to_its_end(talker: Running) -> None:
    """Law: the answer is what the model says behind the prompt, which is all that it reads."""
    found = complete(talker)
    assert found["object"] == "text_completion"
    assert found["choices"] == [
        {"index": 0, "text": SAID, "logprobs": None, "finish_reason": "stop"}
    ]
    usage = found["usage"]
    assert usage["prompt_tokens"] == len(VOCABULARY.encode(ASK))
    assert usage["completion_tokens"] == len(VOCABULARY.encode(SAID.encode())) + 1
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@pytest.mark.parametrize("most", range(1, 30))
def test_a_budget_is_used_to_its_last_token(talker: Running, most: int) -> None:
    """Law: a text of n tokens or more has n where n are allowed, less those of a character that they would cut."""
    ids = VOCABULARY.encode(SAID.encode())
    choice = choice_of(talker, max_tokens=most)
    # Where a character would be cut, the budget holds something else in its place.
    common = VOCABULARY.decode(ids[:most]).decode(errors="ignore")
    assert choice["text"].startswith(common)
    assert (choice["text"] == SAID) == (most >= len(ids))
    assert choice["finish_reason"] == ("stop" if most > len(ids) else "length")


def test_a_stream_is_the_same_text(talker: Running) -> None:
    """Law: the pieces of a stream make the whole answer, with its usage where that is asked for."""
    chunks = chunks_of(talker, stream_options={"include_usage": True})
    assert "".join(one["choices"][0]["text"] for one in chunks[:-1]) == SAID
    assert [one["choices"][0]["finish_reason"] for one in chunks[-2:-1]] == ["stop"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == complete(talker)["usage"]["completion_tokens"]  # fmt: skip
    assert len({one["id"] for one in chunks}) == 1
    assert "usage" not in chunks_of(talker)[0]


def test_prompts_in_every_form(talker: Running) -> None:
    """Law: a text, its ids, and lists of either are the same prompts; choices come prompt by prompt."""
    ids = VOCABULARY.encode(ASK)
    assert choice_of(talker, prompt=ids)["text"] == SAID
    said = complete(talker, prompt=["Say: ", "Say: Gr", "Say: "], n=2)
    assert [one["index"] for one in said["choices"]] == [0, 1, 2, 3, 4, 5]
    texts = [one["text"] for one in said["choices"]]
    assert texts == [SAID, SAID, SAID[2:], SAID[2:], SAID, SAID]
    assert said["usage"]["prompt_tokens"] == 2 * len(ids) + len(VOCABULARY.encode(b"Say: Gr"))
    listed = complete(talker, prompt=[ids, VOCABULARY.encode(b"Say: Gr")])
    assert [one["text"] for one in listed["choices"]] == [SAID, SAID[2:]]


def test_control_tokens_in_a_prompt_are_control_tokens(start: Start) -> None:
    """Law: who writes a whole prompt can write a chat template in it; the answer does not have them."""
    server = start(("Hi.",), ask=b"<|im_start|>assistant\n")
    body = {"model": "talker", "prompt": "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"}  # fmt: skip
    found = server.post("/v1/completions", body).json()
    controls = len(re.findall(r"<\|im_\w+\|>", body["prompt"]))
    plain = len(VOCABULARY.encode(b"user\nHello")) + 1 + len(VOCABULARY.encode(b"assistant\n"))
    assert found["usage"]["prompt_tokens"] == controls + plain
    assert found["choices"][0]["text"] == "Hi."


@pytest.mark.parametrize("stop", ["One", ["xyz", " One", "One two"]])
def test_a_stop_text_ends_it(talker: Running, stop: Any) -> None:
    """Law: a text ends in front of the first stop text, and has finished."""
    choice = choice_of(talker, stop=stop)
    assert choice["text"].rstrip() == "Grüße, 🌍!"
    assert choice["finish_reason"] == "stop"


def test_sampling_is_kept(dice: Running) -> None:
    """Law: equal seeds give equal texts, choices of one request differ, and a bias decides."""
    body: dict[str, Any] = {"temperature": 1.5, "max_tokens": 12, "seed": 3}
    first = [one["text"] for one in complete(dice, **body, n=3)["choices"]]
    assert first == [one["text"] for one in complete(dice, **body, n=3)["choices"]]
    assert len(set(first)) == 3
    assert choice_of(dice, logit_bias={"97": 100}, max_tokens=5)["text"] == "aaaaa"
    biased = choice_of(
        dice, logit_bias={"97": 50, "98": 49}, frequency_penalty=2, max_tokens=4, top_k=1,
        temperature=1,
    )  # fmt: skip
    assert sorted(biased["text"]) == ["a", "a", "b", "b"]


# -- log-probabilities and the prompt --------------------------------------------------------------


def test_logprobs_in_the_older_form(talker: Running) -> None:
    """Law: four lists of the same length, whose tokens make the text; offsets count its characters."""
    choice = choice_of(talker, logprobs=2)
    told = choice["logprobs"]
    assert len({len(told[name]) for name in told}) == 1
    data = b"".join(
        bytes.fromhex(token[6:].replace("\\x", "")) if token.startswith("bytes:") else token.encode()
        for token in told["tokens"]
    )  # fmt: skip
    assert data.decode() == choice["text"] == SAID
    assert told["text_offset"][0] == 0
    for token, offset in zip(told["tokens"], told["text_offset"], strict=True):
        assert token.startswith("bytes:") or choice["text"][offset:].startswith(token)
    for token, logprob, top in zip(
        told["tokens"], told["token_logprobs"], told["top_logprobs"], strict=True
    ):
        assert 2 <= len(top) <= 3
        assert top[token] == logprob <= 0
    assert list(choice_of(talker, logprobs=0)["logprobs"]["top_logprobs"][0]) == ["G"]


def test_logprobs_of_a_stream_are_those_of_the_whole(talker: Running) -> None:
    """Law: the lists of the pieces, one behind the other, are the lists of the answer; with the prompt, too."""
    for echo in (False, True):
        whole = choice_of(talker, logprobs=1, echo=echo)["logprobs"]
        pieces = [
            one["choices"][0]["logprobs"]
            for one in chunks_of(talker, logprobs=1, echo=echo)
            if one["choices"][0]["logprobs"]
        ]
        for name in whole:
            assert [item for piece in pieces for item in piece[name]] == whole[name]


@pytest.mark.parametrize("prompt", ["Say: ", "a", [83, 97, 121, 58, 32], "Wörter 🌍"])
def test_an_echo_is_the_prompt_with_its_probabilities(dice: Running, prompt: Any) -> None:
    """Law: an echoed prompt stands in front, its tokens scored as the model scores them; the first by nothing."""
    text = VOCABULARY.decode(prompt).decode() if isinstance(prompt, list) else prompt
    ids = prompt if isinstance(prompt, list) else VOCABULARY.encode(prompt.encode())
    plain = choice_of(dice, prompt=prompt, max_tokens=3)
    choice = choice_of(dice, prompt=prompt, echo=True, logprobs=3, max_tokens=3)
    assert choice["text"] == text + plain["text"]
    assert choice_of(dice, prompt=prompt, echo=True, max_tokens=3)["text"] == choice["text"]
    told = choice["logprobs"]
    assert (told["token_logprobs"][0], told["top_logprobs"][0]) == (None, None)
    model = dice.model
    for at in range(1, len(ids)):
        logits = model.logits(tuple(ids[:at])).astype(np.float64)
        total = math.log(np.exp(logits).sum())
        assert told["token_logprobs"][at] == pytest.approx(logits[ids[at]] - total, abs=1e-4)
        best = max(told["top_logprobs"][at].values())
        assert best == pytest.approx(logits.max() - total, abs=1e-4)
    # As many tokens as ids, so that what scores a continuation finds it by counting.
    assert len(told["tokens"]) == len(ids) + 3


@pytest.mark.parametrize("prompt", ["Say: ", [83, 97, 121]])
def test_a_prompt_can_be_scored_alone(dice: Running, prompt: Any) -> None:
    """Law: with no token to write, the prompt is read and told as it is in front of a text; streamed, too."""
    longer = choice_of(dice, prompt=prompt, echo=True, logprobs=2, max_tokens=1)
    choice = choice_of(dice, prompt=prompt, echo=True, logprobs=2, max_tokens=0)
    count = len(prompt)
    assert choice["finish_reason"] == "length"
    assert longer["text"].startswith(choice["text"])
    assert choice["text"] == (prompt if isinstance(prompt, str) else "Say")
    assert choice["logprobs"] == {name: told[:count] for name, told in longer["logprobs"].items()}
    (_, told), *rest = [
        (one["choices"][0]["text"], one["choices"][0]["logprobs"])
        for one in chunks_of(dice, prompt=prompt, echo=True, logprobs=2, max_tokens=0)
    ]
    assert told == choice["logprobs"]
    assert rest == [("", None)]
    assert choice_of(dice, prompt=prompt, echo=True, max_tokens=0)["text"] == choice["text"]


def test_nothing_is_written_where_nothing_is_asked_for(dice: Running) -> None:
    """Law: no token costs no pass; the prompts are counted; a constraint changes nothing."""
    feeds = dice.model.counter.feeds
    body = {
        "model": "talker",
        "prompt": ["Say", "a"],
        "n": 2,
        "max_tokens": 0,
        "guided_choice": ["b"],
    }
    found = dice.post("/v1/completions", body).json()
    assert [(one["text"], one["finish_reason"]) for one in found["choices"]] == [("", "length")] * 4
    usage = found["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (4, 0, 4)
    assert dice.model.counter.feeds == feeds


@pytest.mark.parametrize(
    "hints",
    [
        {"best_of": 1},
        {"n": 2, "best_of": 2},
        {"guided_choice": ["b"], "guided_decoding_backend": "xgrammar"},
        {"structured_outputs": {"choice": ["b"], "disable_fallback": True}},
    ],
)
def test_what_changes_nothing_is_taken(dice: Running, hints: dict[str, Any]) -> None:
    """Law: as many candidates as choices, and which engine holds the constraint, are no difference."""
    found = dice.post(
        "/v1/completions", {"model": "talker", "prompt": "a", "max_tokens": 3, **hints}
    )
    assert found.status_code == 200, found.text
    assert len(found.json()["choices"]) == hints.get("n", 1)


# -- constraints ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("spelling", "fits"), SPELLINGS)
def test_every_spelling_constrains(
    dice: Running, spelling: dict[str, Any], fits: Callable[[str], bool]
) -> None:
    """Law: whatever the model would say, what it says is of the constraint; streamed and in a chat, too."""
    body = {**spelling, "temperature": 1, "seed": 5, "max_tokens": 400}
    # Noise seldom ends an object of any size by itself.
    ends = {"stop", "length"} if fits is is_object else {"stop"}
    choice = choice_of(dice, **body)
    assert choice["finish_reason"] in ends
    assert fits(choice["text"])
    assert "".join(one["choices"][0]["text"] for one in chunks_of(dice, **body)) == choice["text"]
    said = dice.chat(**body).json()["choices"][0]
    assert said["finish_reason"] in ends
    assert fits(said["message"]["content"])


@given(
    spelling=some.sampled_from(SPELLINGS),
    most=some.integers(1, 60),
    seed=some.integers(0, 2**40),
    temperature=some.sampled_from([0, 0.7, 1.5]),
)
@settings(
    max_examples=250, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
def test_every_budget_closes(
    dice: Running, spelling: Any, most: int, seed: int, temperature: float
) -> None:
    """Law: for every budget, what ends with "stop" is valid; what the budget closed is valid or nothing."""
    constraint, fits = spelling
    found = complete(dice, **constraint, max_tokens=most, seed=seed, temperature=temperature)
    (choice,) = found["choices"]
    assert found["usage"]["completion_tokens"] <= most
    assert fits(choice["text"]) or (choice["text"], choice["finish_reason"]) == ("", "length")


@pytest.mark.parametrize("text", ["red", "green-ish"])
def test_the_smallest_budget_that_holds_a_text(text: str) -> None:
    """Law: a text of n tokens fits into n, finished; into fewer nothing does."""
    plain = vocabulary(CHATML, ("<|im_end|>",), more=())
    server = server_of(ScriptedModel(plain.size, 1), vocabulary=plain)
    try:
        size = len(text)
        for most in range(1, size + 3):
            choice = choice_of(server, guided_choice=[text], max_tokens=most)
            expected = (text, "stop") if most >= size else ("", "length")
            assert (choice["text"], choice["finish_reason"]) == expected
    finally:
        server.close()


# -- refusals -------------------------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"prompt": None}, "prompt", "a list of texts"),
    ({"prompt": []}, "prompt", "a list of texts"),
    ({"prompt": {}}, "prompt", "a list of texts"),
    ({"prompt": ""}, "prompt", "no token"),
    ({"prompt": [1, "a"]}, "prompt[1]", "integer"),
    ({"prompt": ["a", 1]}, "prompt[1]", "string"),
    ({"prompt": [[1], []]}, "prompt[1]", "at least 1"),
    ({"prompt": [1, 99999]}, "prompt[1]", "no token 99999"),
    ({"prompt": [[1], [2, 99999]]}, "prompt[1][1]", "no token 99999"),
    ({"prompt": [-1]}, "prompt[0]", "greater"),
    ({"prompt": ["a"] * 200}, "prompt", "at most 136"),
    ({"n": 17}, "n", "at most 16"),
    ({"max_tokens": -1}, "max_tokens", "greater"),
    ({"max_tokens": 0, "prompt": ""}, "prompt", "no token"),
    ({"max_tokens": 0, "guided_json": {"type": "blob"}}, "guided_json/type", "is no type"),
    ({"logprobs": 21}, "logprobs", "20"),
    ({"logprobs": True}, "logprobs", "integer"),
    ({"temperature": 3}, "temperature", "2"),
    ({"logit_bias": {"5000": 1}}, "logit_bias", "no token 5000"),
    ({"suffix": "end"}, "suffix", "does not support 'suffix'"),
    ({"best_of": 2}, "best_of", "as many texts as it returns"),
    ({"best_of": 1, "n": 2}, "best_of", "as many texts as it returns"),
    ({"guided_decoding_backend": "mine"}, "guided_decoding_backend", "does not support"),
    ({"prompt_logprobs": 1}, "prompt_logprobs", "does not support"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "streaming"),
    ({"tools": []}, "tools", "Unknown parameter"),
    ({"guided_json": "{"}, "guided_json", "not valid JSON"),
    ({"guided_json": "[]"}, "guided_json", "is an object"),
    ({"guided_json": {"type": "blob"}}, "guided_json/type", "is no type"),
    ({"json_schema": {"minLength": 10**9}}, "json_schema", "no answer is that long"),
    ({"json_schema": {"anyOf": [{}] * 50_001}}, "json_schema", "more than 50,000 parts"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {
        "properties": {"a": {"type": "blob"}}}}}},
     "response_format.json_schema.schema/properties/a/type", "is no type"),
    ({"response_format": {"type": "structural_tag"}}, "response_format", "structural_tag"),
    ({"guided_regex": "[a-z"}, "guided_regex", "unexpected end"),
    ({"guided_regex": ""}, "guided_regex", "at least 1"),
    ({"guided_choice": []}, "guided_choice", "at least 1"),
    ({"guided_choice": ["a", 1]}, "guided_choice[1]", "string"),
    ({"guided_grammar": "start: missing"}, "guided_grammar", "not defined"),
    ({"grammar": 'root ::= "a'}, "grammar", "line 1"),
    ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex", "character"),
    ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag", "not support"),
    ({"structured_outputs": {"json_object": True, "regex": "a"}}, "structured_outputs.json_object", "both"),
    ({"guided_choice": ["a"], "grammar": SUM}, "grammar", "'guided_choice' and 'grammar' both"),
    ({"response_format": FORM, "guided_regex": "a"}, "guided_regex", "both"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "param", "said"), WRONG)
def test_what_is_wrong_is_one_sentence(
    talker: Running, body: dict[str, Any], param: str, said: str
) -> None:
    """Law: each wrong value is a 400 that names its place and says what is wrong."""
    where, message = refused(talker, **body)
    assert where == param
    assert said in message
    assert "\n" not in message


def test_a_format_of_text_beside_a_constraint_is_one_constraint(dice: Running) -> None:
    """Law: the format "text", and a false "json_object", constrain nothing."""
    body: dict[str, Any] = {"response_format": {"type": "text"}}
    body["structured_outputs"] = {"json_object": False}
    assert choice_of(dice, **body, guided_choice=["red"])["text"] == "red"


def test_a_prompt_that_is_too_long(start: Start) -> None:
    """Law: a prompt that leaves no room in the model's context is a 400 about the prompt."""
    server = start((SAID,), ask=ASK, context=20)
    for most in ({}, {"max_tokens": 0}, {"max_tokens": 0, "echo": True, "logprobs": 1}):
        answer = server.post("/v1/completions", {"model": "talker", "prompt": "x" * 30, **most})
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, "prompt")
    # One that fills it leaves no room to write, and can be scored.
    choice = choice_of(server, prompt="x" * 20, max_tokens=0, echo=True, logprobs=1)
    assert len(choice["logprobs"]["tokens"]) == 20
    assert error["code"] == "context_length_exceeded"
    assert "the context of 'talker' holds" in error["message"]
    # What room there is, is used.
    assert choice_of(server, prompt="x" * 12, max_tokens=100)["finish_reason"] == "length"


def test_it_is_counted_logged_and_guarded(start: Start) -> None:
    """Law: keys, the queue, metrics and the log hold for completions as for chats."""
    server = start((SAID,), ask=ASK, keys=("sesame",))
    body = {"model": "talker", "prompt": "Say: "}
    assert server.post("/v1/completions", body).status_code == 401
    key = {"Authorization": "Bearer sesame"}
    assert server.post("/v1/completions", body, headers=key).status_code == 200
    wrong = server.post("/v1/completions", {**body, "model": "gpt"}, headers=key)
    assert wrong.json()["error"]["code"] == "model_not_found"
    server.wait_until(lambda: len(server.seen.over) == 3)
    summary = server.seen.over[1]
    assert (summary.route, summary.finish) == ("/v1/completions", ("stop",))
    assert summary.tokens == len(VOCABULARY.encode(SAID.encode())) + 1
    metrics = server.client.get("/metrics", headers=key).text
    assert 'route="/v1/completions"' in metrics


def test_a_closed_stream_frees_the_slot(start: Start) -> None:
    """Law: a client that goes away ends its completion."""
    server = start(("One two. " * 60,), ask=ASK, slow=0.02)
    body = {"model": "talker", "prompt": "Say: ", "stream": True}
    with server.client.stream("POST", "/v1/completions", json=body) as answer:
        next(answer.iter_lines())
    assert server.wait_until(lambda: server.scheduler().running == 0) < 1.0


# -- clients and models ----------------------------------------------------------------------------


def test_openais_client(talker: Running) -> None:
    """Law: its types take every answer, whole and streamed, with log-probabilities and usage."""
    openai = pytest.importorskip("openai", reason="the extra clients is not installed")
    with openai.OpenAI(base_url=f"{talker.url}/v1", api_key="none", max_retries=0) as client:
        found = client.completions.create(
            model="talker", prompt="Say: ", max_tokens=50, logprobs=1, echo=True
        )
        assert found.choices[0].text == "Say: " + SAID
        assert found.choices[0].logprobs.token_logprobs[0] is None
        assert found.usage.total_tokens > 0
        stream = client.completions.create(
            model="talker", prompt=["Say: ", "Say: Gr"], stream=True,
            stream_options={"include_usage": True},
        )  # fmt: skip
        texts = ["", ""]
        usage = None
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                texts[choice.index] += choice.text
        assert texts == [SAID, SAID[2:]]
        assert usage.completion_tokens > 0
        chosen = client.completions.create(
            model="talker", prompt="Say: ", extra_body={"guided_choice": ["Gr", "Hi"]}
        )
        assert chosen.choices[0].text == "Gr"
        with pytest.raises(openai.BadRequestError) as wrong:
            client.completions.create(model="talker", prompt="Say: ", suffix="end")
        assert wrong.value.param == "suffix"


@pytest.mark.parametrize("kind", ["onnx", "torch"])
def test_networks_continue_texts(kind: str, tiny: Maker, tmp_path: Path) -> None:  # noqa: F811
    """Law: a network with random weights obeys every constraint, several prompts at a time."""
    if kind == "torch":
        pytest.importorskip("torch", reason="the extra 'torch' is not installed")
        pytest.importorskip("transformers", reason="the extra 'torch' is not installed")
        from tests.models.test_transformers import tiny_config, written

        folder = written(tmp_path, tiny_config(vocab_size=VOCABULARY.size))
    else:
        folder = tiny("genai", vocab_size=VOCABULARY.size)
    server = server_of(models.load(folder))
    try:
        for spelling, fits in SPELLINGS[-7:]:
            found = complete(server, prompt=["One", "Two three"], **spelling, max_tokens=300,
                             temperature=1, seed=1)  # fmt: skip
            assert all(fits(one["text"]) for one in found["choices"])
        told = choice_of(server, prompt="x" * 70, echo=True, logprobs=1, max_tokens=1)["logprobs"]
        assert len(told["tokens"]) == 71
        assert all(logprob <= 0 for logprob in told["token_logprobs"][1:])
    finally:
        server.close()


def test_a_function_caller_says_what_to_use_instead() -> None:
    """Law: nano, which cannot continue a text, answers 400 and names the interface that it has."""
    server = server_of(models.load("nano"), format=None, vocabulary=None)
    try:
        where, message = refused(server, guided_json=PERSON)
        assert where == "prompt"
        assert "/v1/chat/completions" in message
        # What it can do with the same schema is said by the same parameter there.
        said = server.chat(guided_json=PERSON, messages=USER).json()["choices"][0]["message"]
        assert is_person(said["content"])
    finally:
        server.close()
