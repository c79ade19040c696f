"""Texts to tokens and back: as the tokenizer's own library does it, and as the model reads them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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


def test_nano_tells_its_tokens() -> None:
    """Law: the embedded model, which continues no text, tells the tokens of texts and requests."""
    server = server_of(models.load("nano"), format=None, vocabulary=None)
    try:
        ids = answer(server, "/tokenize", prompt="kitchen light on")["tokens"]
        assert answer(server, "/detokenize", tokens=ids)["prompt"] == "kitchen light on"
        found = answer(server, "/tokenize", messages=USER, tools=[WEATHER])
        chat = server.chat(tools=[WEATHER]).json()
        assert found["count"] == chat["usage"]["prompt_tokens"]
        assert found["max_model_len"] > 1000
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


def test_a_long_text_keeps_nobody_waiting(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: while the tokens of a text are computed, chats of others are answered; both are counted."""
    server = start(("It rains.",))
    begun, go_on = threading.Event(), threading.Event()
    encode = VOCABULARY.encode

    def slowly(_self: Vocabulary, data: bytes) -> list[int]:
        if data == b"long":
            begun.set()
            assert go_on.wait(PATIENCE)
        return encode(data)

    monkeypatch.setattr(Vocabulary, "encode", slowly)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(answer, server, "/tokenize", prompt="long")
        assert begun.wait(PATIENCE)
        assert server.chat().status_code == 200
        go_on.set()
        assert asked.result()["tokens"] == encode(b"long")
    assert {one.route for one in server.seen.over} == {"/tokenize", "/v1/chat/completions"}


def test_keys_are_asked_for(start: Start) -> None:
    """Law: both routes are guarded as all others, and refuse another model's name."""
    server = start(keys=("sesame",))
    key = {"Authorization": "Bearer sesame"}
    for path, body in (("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [97]})):
        assert server.post(path, body).status_code == 401
        assert server.post(path, body, headers=key).status_code == 200
        assert server.post(path, {**body, "model": "gpt"}, headers=key).status_code == 404
        assert server.client.get(path).status_code == 405
