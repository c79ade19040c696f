"""The language of some tools for hosts that run the model themselves, followed however rows come."""

from __future__ import annotations

import importlib
import sys
from importlib.resources import files
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import InputError
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.integrations._constraint import (
    SequenceMatchers,
    ToolCallConstraint,
    allowed_tokens,
)
from callmemaybe.integrations.ray import RayBatchCaller

NANO = Path(str(files("callmemaybe"))) / "data" / "nano"
NUMBER = {"type": "integer", "minimum": -99, "maximum": 999}
TOOLS: list[dict[str, Any]] = [
    {"name": "add", "parameters": {"a": NUMBER, "b": NUMBER}},
    {"name": "say", "parameters": {"text": {"type": "string", "maxLength": 12}}},
    {"name": "ping"},
]
LANGUAGE = ToolCallConstraint(TOOLS, NANO)


def written(seed: int, language: ToolCallConstraint = LANGUAGE) -> list[int]:
    """Return an answer drawn at random from what is allowed."""
    random = np.random.default_rng(seed)
    matcher = language.matcher.fork()
    while not matcher.is_terminated:
        mask = allowed_tokens(matcher, language.vocabulary.size)
        matcher.accept(int(random.choice(np.flatnonzero(mask))))
    return list(matcher.ids)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_whatever_the_mask_allows_is_read_as_a_call(seed: int) -> None:
    """An answer written under the masks makes one checked call; less of it, or other than it, none."""
    ids = written(seed)
    (call,) = LANGUAGE.read(ids)
    assert call.name in {"add", "say", "ping"}
    with pytest.raises(InputError, match="cut off"):
        LANGUAGE.read(ids[:-1] if LANGUAGE.matcher.fork().try_accept(ids[:-1]) else [])
    with pytest.raises(InputError, match="leaves the language at token 0"):
        LANGUAGE.read([LANGUAGE.vocabulary.size - 1, *ids])


@settings(max_examples=15, deadline=None)
@given(seeds=st.lists(st.integers(0, 99), min_size=1, max_size=4), data=st.data())
def test_rows_are_followed_in_any_order(seeds: list[int], data: st.DataObject) -> None:
    """Shuffled, repeated, dropped or new rows each get the matcher of what they have written."""
    answers = [written(seed) for seed in seeds]
    matchers = SequenceMatchers(LANGUAGE.matcher)
    for step in range(max(map(len, answers)) + 1):
        rows = data.draw(st.lists(st.sampled_from(answers), min_size=1, max_size=5))
        for row in rows:
            found = matchers.matcher(row[:step])
            assert found is not None
            assert list(found.ids) == row[:step]
        matchers.end_step()
    assert matchers.matcher([LANGUAGE.vocabulary.size - 1]) is None


def test_an_answer_that_is_over_may_only_end() -> None:
    """Behind the end the mask holds the end tokens; a wider row of logits has nothing more."""
    matcher = LANGUAGE.matcher.fork()
    matcher.try_accept(written(1))
    width = LANGUAGE.vocabulary.size + 40
    assert set(np.flatnonzero(allowed_tokens(matcher, width))) == set(LANGUAGE.vocabulary.ends)
    assert not allowed_tokens(LANGUAGE.matcher, width)[LANGUAGE.vocabulary.size :].any()


def test_a_batch_of_rows_gets_its_calls() -> None:
    """What Ray maps: columns in, columns out, a row that fails or has no text beside those that do not."""
    calls = RayBatchCaller(TOOLS, options={"decoding": DecodingConfig(overflow="refuse")})
    prompts = np.array(["add 2 and 3", "x " * 9000, "ping"], dtype=object)
    found = calls({"prompt": prompts, "id": np.arange(3)})
    assert list(found["id"]) == [0, 1, 2]
    assert [name is None for name in found["name"]] == [False, True, False]
    assert [error is None for error in found["error"]] == [True, False, True]
    assert "context" in found["error"][1]
    assert found["arguments"][0].startswith("{")
    assert calls({"prompt": np.array([])})["name"] == []
    missing = np.array(["ping", None, float("nan"), 3, "add 2 and 3"], dtype=object)
    found = calls({"prompt": missing})
    no_text = "the prompt is no text"
    assert found["error"] == [None, no_text, no_text, no_text, None]
    assert [name is None for name in found["name"]] == [False, True, True, True, False]
    assert found["arguments"][1:4] == [None] * 3


def test_what_was_said_limits_a_host_too() -> None:
    """Law: with the text of the request arguments are grounded; without it, grounding is refused."""
    for seed in range(5):
        language = ToolCallConstraint(
            TOOLS[:2], NANO, ground="prompt", order="any", said="from 17 to 170?"
        )
        (call,) = language.read(written(seed, language))
        for value in call.parsed.values():
            assert value in {17, 170} or value in "from 17 to 170?"
    with pytest.raises(InputError, match="said: grounding needs"):
        ToolCallConstraint(TOOLS, NANO, ground="prompt")
    marked = {"name": "f", "parameters": {"a": {"type": "number", "x-ground": "prompt"}}}
    with pytest.raises(InputError, match="x-ground"):
        ToolCallConstraint([marked], NANO)
    assert ToolCallConstraint([marked], NANO, said="7").matcher.remaining > 0


def test_digits_that_are_a_text_stay_one() -> None:
    """Law: where a format writes texts without quotes, the tools say what is one."""
    tool = {"name": "f", "parameters": {"code": {"type": "string", "enum": ["12"]}}}
    language = ToolCallConstraint([tool], NANO, format="qwen3_coder")
    (call,) = language.read(written(1, language))
    assert call.parsed == {"code": "12"}


class Row:
    """A row of logits, as far as vLLM's processors touch it: it keeps what was closed."""

    device = None

    def __init__(self, width: int) -> None:
        self.shape = (width,)
        self.closed = np.zeros(width, np.bool_)

    def masked_fill_(self, closed: Any, _value: float) -> None:
        self.closed = closed


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return our logits processor for vLLM, with the little that it needs of vLLM and torch."""
    base = type("AdapterLogitsProcessor", (), {"__init__": lambda *_: None})
    as_it_is = staticmethod(lambda array: SimpleNamespace(to=lambda _: array))
    needed: dict[str, dict[str, Any]] = {
        "torch": {"from_numpy": as_it_is, "inf": float("inf")},
        "vllm": {}, "vllm.v1": {}, "vllm.v1.sample": {},
        "vllm.v1.sample.logits_processor": {"AdapterLogitsProcessor": base},
    }  # fmt: skip
    for name, holds in needed.items():
        module = ModuleType(name)
        vars(module).update(holds)
        monkeypatch.setitem(sys.modules, name, module)
    # What is made of these must not outlive them.
    ours = "callmemaybe.integrations.vllm"
    monkeypatch.setitem(sys.modules, ours, ModuleType(ours))
    monkeypatch.setattr(sys.modules["callmemaybe.integrations"], "vllm", None, raising=False)
    del sys.modules[ours]
    return importlib.import_module(ours).VllmLogitsProcessor


def test_vllm_is_held_to_the_order_that_is_read(processor: Any) -> None:
    """Law: what the processor of a request allows, ``Constraint`` reads, whatever order parameters have."""
    tools = [{"name": "pay", "parameters": {"to": {"enum": ["ada", "bob"]}, "cents": NUMBER}}]
    language = ToolCallConstraint(tools, NANO)
    width = language.vocabulary.size
    model = SimpleNamespace(tokenizer=str(NANO), get_vocab_size=lambda: width)
    made = processor(SimpleNamespace(model_config=model), None, False)
    params = SimpleNamespace(extra_args={"callmemaybe": {"tools": tools}})
    constrain = made.new_req_logits_processor(params)
    random, ids = np.random.default_rng(0), list[int]()
    while not ids or ids[-1] not in language.vocabulary.ends:
        row = Row(width)
        constrain(ids, row)
        ids.append(int(random.choice(np.flatnonzero(~row.closed))))
    (call,) = language.read(ids)
    assert list(call.parsed) == ["to", "cents"]
