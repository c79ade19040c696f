"""Texts to tokens and back: as the tokenizer's own library does it, and as the model reads them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

import callmemaybe
from callmemaybe import models
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.vocabulary import Vocabulary
from tests.models.conftest import Maker, tiny  # noqa: F401 - a fixture
from tests.server.conftest import PATIENCE, USER, VOCABULARY, WEATHER, Running, Start
from tests.server.test_completions import server_of

NANO = Path(callmemaybe.__file__).parent / "data" / "nano"
#: Texts in which control tokens, spaces and characters of several bytes meet.
TEXTS = some.lists(
    some.one_of(
        some.text(max_size=20),
        some.sampled_from(["<|user|>", "<|call|>", "<|end|>", " ", "\n\n", "word", "🌍", "<|", "|>"]),
    ),
    max_size=8,
).map("".join)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return nano's tokenizer, made to begin every text with a token of its own, as Llama's does."""
    path = tmp_path_factory.mktemp("tokens")
    data = json.loads((NANO / "tokenizer.json").read_text())
    begin = {"SpecialToken": {"id": "<|tools|>", "type_id": 0}}
    data["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [begin, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|tools|>": {"id": "<|tools|>", "ids": [1], "tokens": ["<|tools|>"]}},
    }  # fmt: skip
    (path / "tokenizer.json").write_text(json.dumps(data))
    (path / "generation_config.json").write_text((NANO / "generation_config.json").read_text())
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    """A model with a real vocabulary."""
    words = Vocabulary.from_file(folder)
    model = ScriptedModel(words.size, 3, context=500, folder=folder)
    found = server_of(model, format="json_list", vocabulary=None)
    yield found
    found.close()


@pytest.fixture(scope="module")
def library(folder: Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def answer(server: Running, path: str, **body: Any) -> Any:
    found = server.post(path, body)
    assert found.status_code == 200, found.text
    return found.json()


def refused(server: Running, path: str, **body: Any) -> tuple[str, str]:
    found = server.post(path, body)
    assert found.status_code == 400, found.text
    return found.json()["error"]["param"], found.json()["error"]["message"]


@given(text=TEXTS, special=some.booleans())
@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))  # fmt: skip
def test_there_and_back(
    server: Running, library: tokenizers.Tokenizer, text: str, special: bool
) -> None:
    """Law: the ids are those of the tokenizer's own library, and their text is the text."""
    found = answer(server, "/tokenize", prompt=text, add_special_tokens=special)
    assert found["tokens"] == library.encode(text, add_special_tokens=special).ids
    assert (found["count"], found["max_model_len"]) == (len(found["tokens"]), 500)
    assert found["token_strs"] is None
    back = answer(server, "/detokenize", tokens=found["tokens"])
    assert back == dict.fromkeys(("prompt", "content"), ("<|tools|>" if special else "") + text)


@given(text=TEXTS)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_llama_cpps_form(server: Running, text: str) -> None:
    """Law: the same ids under llama.cpp's names; its pieces make the text; it can leave control tokens text."""
    ids = answer(server, "/tokenize", prompt=text, add_special_tokens=False)["tokens"]
    assert answer(server, "/tokenize", content=text) == {"tokens": ids}
    assert answer(server, "/tokenize", content=text, add_special=True)["tokens"][:1] == [1]
    pieces = answer(server, "/tokenize", content=text, with_pieces=True)["tokens"]
    assert [one["id"] for one in pieces] == ids
    parts = [one["piece"] for one in pieces]
    assert b"".join(bytes(p) if isinstance(p, list) else p.encode() for p in parts).decode() == text
    plain = answer(server, "/tokenize", content=text, parse_special=False)["tokens"]
    assert min(plain, default=17) >= 17  # no control token
    assert answer(server, "/detokenize", tokens=plain)["content"] == text


def test_strings_of_tokens(server: Running) -> None:
    """Law: the strings stand beside the tokens where they are asked for, a part of a character replaced."""
    found = answer(server, "/tokenize", prompt="<|user|>Hello 🌍", return_token_strs=True)
    assert found["token_strs"][:3] == ["<|tools|>", "<|user|>", "Hello"]
    assert len(found["token_strs"]) == found["count"]


def test_many_tokens_are_told_as_few_are(server: Running, library: tokenizers.Tokenizer) -> None:
    """Law: an answer of more tokens than are written at once is the same JSON."""
    text = "7 🌍 kitchen " * 8_000
    ids = library.encode(text, add_special_tokens=False).ids
    assert len(ids) > 20_000
    found = answer(
        server, "/tokenize", prompt=text, add_special_tokens=False, return_token_strs=True
    )
    assert (found["count"], found["tokens"]) == (len(ids), ids)
    assert len(found["token_strs"]) == len(ids)
    pieces = answer(server, "/tokenize", content=text, with_pieces=True)["tokens"]
    assert [one["id"] for one in pieces] == ids
    few = answer(server, "/tokenize", content=text[:13], with_pieces=True)["tokens"]
    assert pieces[: len(few) - 1] == few[:-1]
    assert answer(server, "/detokenize", tokens=ids)["content"] == text
    assert answer(server, "/tokenize", content="") == {"tokens": []}


def test_what_is_counted_is_what_a_completion_reads(server: Running) -> None:
    """Law: a prompt takes as many tokens as are told here, with and without the token in front."""
    for special in (True, False):
        body = {"prompt": "The weather in", "add_special_tokens": special}
        told = answer(server, "/tokenize", **body)
        done = answer(server, "/v1/completions", model="talker", max_tokens=1, **body)
        assert done["usage"]["prompt_tokens"] == told["count"]
    # A prompt that has the token already does not get it twice.
    assert answer(server, "/tokenize", prompt="<|tools|>a") == answer(server, "/tokenize", prompt="a")  # fmt: skip
    asked = {"model": "talker", "prompt": "a b", "echo": True, "logprobs": 0, "max_tokens": 1}
    told = answer(server, "/v1/completions", **asked)["choices"][0]["logprobs"]
    assert told["text_offset"][0] == 0
    assert told["token_logprobs"][0] < 0  # something stands in front of the first token


@pytest.mark.parametrize("tools", [None, [WEATHER]])
def test_messages_as_the_model_gets_them(start: Start, tools: Any) -> None:
    """Law: the tokens of a conversation are those that a chat with it reads, control tokens included."""
    server = start()
    body = {"messages": [{"role": "system", "content": "Be brief."}, *USER], "tools": tools}
    found = answer(server, "/tokenize", **body, return_token_strs=True, add_generation_prompt=True)
    chat = server.chat(**body).json()
    assert chat["usage"]["prompt_tokens"] == found["count"]
    assert "<|im_start|>" in found["token_strs"]
    text = answer(server, "/detokenize", tokens=found["tokens"])["prompt"]
    assert "Be brief." in text
    assert ("get_weather" in text) == bool(tools)
    # The same tokens are a prompt of a completion.
    done = answer(server, "/v1/completions", model="talker", prompt=found["tokens"], max_tokens=3)
    assert done["usage"]["prompt_tokens"] == found["count"]


def called_weather(result: str) -> list[dict[str, Any]]:
    """Return the messages of a call that was made."""
    made = {"name": "get_weather", "arguments": json.dumps({"city": "Paris"})}
    call = {"id": "call_1", "type": "function", "function": made}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": result},
    ]


@pytest.mark.parametrize("tools", [None, [WEATHER]])
def test_histories_with_calls_are_counted_as_chats_are(start: Start, tools: Any) -> None:
    """Law: calls, their results, and parts of a content take the tokens that a chat reads."""
    server = start(("It rains.",))
    parts = [{"type": "text", "text": "Weather"}, {"type": "text", "text": "in Oslo?"}]
    body = {"messages": [*USER, *called_weather("sunny"), {"role": "user", "content": parts}]}
    body |= {"tools": tools} if tools else {}
    chat = server.chat(**body)
    assert chat.status_code == 200, chat.text
    assert answer(server, "/tokenize", **body)["count"] == chat.json()["usage"]["prompt_tokens"]


def test_nano_tells_its_tokens() -> None:
    """Law: the embedded model, which continues no text, tells the tokens of texts and requests."""
    server = server_of(models.load("nano"), format=None, vocabulary=None)
    try:
        ids = answer(server, "/tokenize", prompt="kitchen light on")["tokens"]
        assert answer(server, "/detokenize", tokens=ids)["prompt"] == "kitchen light on"
        found = answer(server, "/tokenize", messages=USER, tools=[WEATHER])
        assert found["max_model_len"] > 1000
        assert found["count"] > 10
        # What it does not ask the model about takes no tokens: there is nothing to call, or left to call.
        called = called_weather("sunny")
        for body in (
            {"messages": USER, "tools": [WEATHER]},
            {"messages": [{"role": "system", "content": "Be brief."}, *USER, *called, *USER], "tools": [WEATHER]},
            {"messages": USER},
            {"messages": [*USER, *called], "tools": [WEATHER]},
            # It is asked here what else to call, and calls nothing.
            {"messages": [{"role": "user", "content": "weather in Paris and set a timer for 5 minutes"}, *called],
             "tools": [WEATHER]},
        ):  # fmt: skip
            told = answer(server, "/tokenize", **body)
            assert told["count"] == len(told["tokens"])
            chat = server.chat(**body).json()
            assert told["count"] == chat["usage"]["prompt_tokens"]
        assert told["count"] > 10
    finally:
        server.close()


def test_a_network_tells_its_tokens(tiny: Maker) -> None:  # noqa: F811
    """Law: so does a network in a folder."""
    server = server_of(models.load(tiny("genai", vocab_size=VOCABULARY.size)))
    try:
        ids = answer(server, "/tokenize", prompt="<think>weather")["tokens"]
        assert ids == [VOCABULARY.controls["<think>"], *VOCABULARY.encode(b"weather")]
        assert answer(server, "/detokenize", tokens=ids)["prompt"] == "<think>weather"
    finally:
        server.close()


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("/tokenize", {}, "prompt", "one of them"),
    ("/tokenize", {"prompt": "a", "content": "a"}, "content", "one of them"),
    ("/tokenize", {"prompt": 1}, "prompt", "string"),
    ("/tokenize", {"prompt": "a", "tools": []}, "tools", "not allowed beside 'prompt'"),
    ("/tokenize", {"content": "a", "return_token_strs": True}, "return_token_strs", "beside 'content'"),
    ("/tokenize", {"messages": []}, "messages", "at least 1"),
    ("/tokenize", {"messages": USER, "add_special_tokens": True}, "add_special_tokens", "template"),
    ("/tokenize", {"messages": USER, "add_generation_prompt": False}, "add_generation_prompt", "not support"),
    ("/tokenize", {"messages": USER, "media_io_kwargs": {"image": {}}}, "media_io_kwargs", "not support"),
    ("/tokenize", {"prompt": "a", "foo": 1}, "foo", "Unknown"),
    ("/detokenize", {}, "tokens", "Missing"),
    ("/detokenize", {"tokens": "a"}, "tokens", "list"),
    ("/detokenize", {"tokens": [1, "a"]}, "tokens[1]", "integer"),
    ("/detokenize", {"tokens": [1, -1]}, "tokens[1]", "greater"),
    ("/detokenize", {"tokens": [1, 10**6]}, "tokens[1]", "no token 1000000"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "param", "said"), WRONG)
def test_what_is_wrong_is_one_sentence(
    server: Running, path: str, body: dict[str, Any], param: str, said: str
) -> None:
    """Law: each wrong value is a 400 that names its place and says what is wrong."""
    where, message = refused(server, path, **body)
    assert where == param
    assert said in message
    assert "\n" not in message


LONG = "long " * 5000
#: Requests whose text takes long to encode.
LONG_REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("/tokenize", {"prompt": LONG}),
    ("/tokenize", {"messages": [{"role": "user", "content": LONG}]}),
    ("/v1/messages/count_tokens", {"model": "talker", "messages": [{"role": "user", "content": LONG}]}),
    ("/v1/chat/completions", {"model": "talker", "messages": [{"role": "user", "content": LONG}]}),
    ("/v1/responses", {"model": "talker", "input": LONG}),
    ("/v1/completions", {"model": "talker", "prompt": LONG}),
]  # fmt: skip


@dataclass
class HeldEncoding:
    """Encoding of long texts that waits until it may go on."""

    begun: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    #: How many long texts were encoded at once, at most, and in all.
    at_once: int = 0
    most: int = 0
    count: int = 0


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldEncoding]:
    """Hold the encoding of long texts."""
    found = HeldEncoding()
    encode = Vocabulary.encode

    def slowly(self: Vocabulary, data: bytes) -> list[int]:
        if len(data) < len(LONG):
            return encode(self, data)
        found.at_once += 1
        found.count += 1
        found.most = max(found.most, found.at_once)
        found.begun.set()
        assert found.go_on.wait(PATIENCE)
        found.at_once -= 1
        return encode(self, data)

    monkeypatch.setattr(Vocabulary, "encode", slowly)
    yield found
    found.go_on.set()


@pytest.mark.parametrize(("path", "body"), LONG_REQUESTS)
def test_a_long_text_keeps_nobody_waiting(
    start: Start, held: HeldEncoding, path: str, body: dict[str, Any]
) -> None:
    """Law: while a text is encoded, chats of others are answered; both requests are counted."""
    server = start(("It rains.",), context=100_000)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.post, path, body)
        try:
            assert held.begun.wait(PATIENCE)
            chat = {"model": "talker", "messages": USER}
            assert server.post("/v1/chat/completions", chat, timeout=60).status_code == 200
            assert answer(server, "/tokenize", prompt="a")["count"] == 1
        finally:
            held.go_on.set()
        assert asked.result().status_code == 200, asked.result().text
    assert path in {one.route for one in server.seen.over}


def test_a_long_text_nobody_waits_for_blocks_no_one(start: Start, held: HeldEncoding) -> None:
    """Law: where its client has gone, the server is well; what it stood for is not gone on with."""
    server = start(("It rains.",), context=100_000, stuck_seconds=0.05)
    path, body = LONG_REQUESTS[3]
    with pytest.raises(httpx2.TimeoutException):
        server.client.post(path, json=body, timeout=0.5)
    assert held.begun.is_set()
    scheduler = server.scheduler()
    server.wait_until(lambda: any(turn.cancelled is not None for turn in scheduler._running))
    time.sleep(0.1)  # longer than a turn may be stuck
    assert server.client.get("/healthz").status_code == 200
    assert server.chat().status_code == 200
    feeds = server.model.counter.feeds
    held.go_on.set()
    server.wait_until(lambda: not scheduler.running)
    assert server.model.counter.feeds == feeds


def test_long_texts_are_encoded_one_at_a_time(start: Start, held: HeldEncoding) -> None:
    """Law: several take the memory of one at a time; those whose clients have gone are left out."""
    server = start(context=100_000, slots=4)
    scheduler = server.scheduler()
    with ThreadPoolExecutor(4) as pool:
        kept = pool.submit(server.post, *LONG_REQUESTS[0])
        assert held.begun.wait(PATIENCE)
        with pytest.raises(httpx2.TimeoutException):
            server.client.post("/tokenize", json={"prompt": LONG}, timeout=0.5)
        more = pool.submit(server.post, *LONG_REQUESTS[1])
        server.wait_until(lambda: scheduler.running == 3)
        held.go_on.set()
        assert kept.result().status_code == more.result().status_code == 200
    server.wait_until(lambda: not scheduler.running)
    assert (held.most, held.count) == (1, 2)


def test_keys_are_asked_for(start: Start) -> None:
    """Law: both routes are guarded as all others, and refuse another model's name."""
    server = start(keys=("sesame",))
    key = {"Authorization": "Bearer sesame"}
    for path, body in (("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [97]})):
        assert server.post(path, body).status_code == 401
        assert server.post(path, body, headers=key).status_code == 200
        assert server.post(path, {**body, "model": "gpt"}, headers=key).status_code == 404
        assert server.client.get(path).status_code == 405
