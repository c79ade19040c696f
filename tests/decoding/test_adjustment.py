"""A bias and penalties for repeating: what they add to the logits, and what they can never do."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.decoding.adjustment import LogitAdjuster
from callmemaybe.errors import InputError
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.tool_choice import output_spec
from tests.decoding.helpers import CHATML, vocabulary
from tests.talking import speaks

SIZE = 12
VOCABULARY = vocabulary(CHATML, ("<|im_end|>",))
USER = [{"role": "user", "content": "Well?"}]
ASK = b"<|im_start|>assistant\n<think>\n\n</think>\n\n"
TOOLS = [
    ToolSpec("say", parameters={"type": "object", "properties": {
        "it": {"type": "string", "maxLength": 6}, "times": {"type": "integer", "maximum": 99}},
        "required": ["it", "times"], "additionalProperties": False}),
    ToolSpec("ping"),
]  # fmt: skip
IDS = st.lists(st.integers(0, SIZE - 1), max_size=8)
BIAS = st.dictionaries(st.integers(0, SIZE - 1), st.floats(-100, 100, width=32), max_size=5)


def generator(model: ScriptedModel) -> LocalGenerator:
    return LocalGenerator(model, format="hermes", vocabulary=VOCABULARY)


@given(
    logits=st.lists(st.floats(-50, 50, width=32), min_size=SIZE, max_size=SIZE),
    written=IDS,
    prompt=IDS,
    bias=BIAS,
    penalties=st.tuples(st.floats(-2, 2), st.floats(-2, 2), st.floats(0.1, 3)),
)
def test_what_is_added_is_what_the_definitions_say(
    logits: list[float],
    written: list[int],
    prompt: list[int],
    bias: dict[int, float],
    penalties: tuple[float, float, float],
) -> None:
    """Token by token, as the interfaces' documentation has it."""
    frequency, presence, repetition = penalties
    adjuster = LogitAdjuster(
        SIZE,
        bias=bias,
        frequency=frequency,
        presence=presence,
        repetition=repetition,
        prompt=prompt,
    )
    given_ = np.array(logits, np.float32)
    adjuster.take(written)  # not in a text: not counted
    expected = [value + bias.get(index, 0) for index, value in enumerate(logits)]
    np.testing.assert_allclose(adjuster(given_), expected, atol=1e-3)
    adjuster.is_penalising = True
    adjuster.take(written)
    for index in range(SIZE):
        if index in written or (index in prompt and repetition != 1):
            positive = expected[index] > 0
            expected[index] *= 1 / repetition if positive else repetition
        times = written.count(index)
        expected[index] -= frequency * times + presence * (times > 0)
    np.testing.assert_allclose(adjuster(given_), expected, rtol=1e-4, atol=1e-2)
    assert given_.tolist() == np.array(logits, np.float32).tolist()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 5),
    bias=st.dictionaries(
        st.integers(0, VOCABULARY.size - 1), st.sampled_from([-100.0, 100.0]), max_size=40
    ),
    temperature=st.sampled_from([0.0, 1.5]),
)
def test_a_call_is_valid_whatever_is_added(
    seed: int, bias: dict[int, float], temperature: float
) -> None:
    """The mask comes last: a bias moves what is chosen among valid calls, and nothing else."""
    config = DecodingConfig(
        max_tokens=200, logit_bias=tuple(bias.items()), frequency_penalty=2.0, presence_penalty=2.0,
        repetition_penalty=1.8, temperature=temperature, seed=1,
    )  # fmt: skip
    model = ScriptedModel(VOCABULARY.size, seed)
    result = generator(model).generate(USER, TOOLS, output_spec("required"), config)
    for call in result.calls:
        found = json.loads(call.arguments)
        assert call.name == "ping" or (len(found["it"]) <= 6 and found["times"] <= 99)
    assert result.calls or result.ended == "length"


def test_a_token_may_be_forbidden_in_a_text() -> None:
    """A bias of -100 keeps a letter out; one for an id that the model lacks is named."""
    spoken = generator(speaks(VOCABULARY, [("banana",)], lambda _: 0, ASK))
    none = output_spec("none")
    letter = VOCABULARY.encode(b"n")[0]
    assert spoken.generate(USER, (), none).text == "banana"
    config = DecodingConfig(max_tokens=6, logit_bias=((letter, -100.0),))
    assert "n" not in spoken.generate(USER, (), none, config).text
    unknown = DecodingConfig(logit_bias=((VOCABULARY.size, 1.0),))
    with pytest.raises(InputError, match=f"no token {VOCABULARY.size}"):
        spoken.generate(USER, (), none, unknown)


def test_penalties_act_in_texts_and_not_in_calls() -> None:
    """A call repeats what it has to; a text that repeats itself is changed."""
    wish = [{"name": "say", "arguments": {"it": "aaaaaa", "times": 11}}]
    call = f"<tool_call>\n{json.dumps(wish[0])}\n</tool_call>"
    asked = generator(speaks(VOCABULARY, [(call,)], lambda _: 0, ASK))
    penalties = DecodingConfig(
        max_tokens=200, frequency_penalty=2.0, presence_penalty=2.0, repetition_penalty=100.0
    )
    plain = asked.generate(USER, TOOLS, output_spec("required"))
    assert asked.generate(USER, TOOLS, output_spec("required"), penalties).calls == plain.calls
    told = generator(speaks(VOCABULARY, [("aaaaaaaa",)], lambda _: 0, ASK))
    none = output_spec("none")
    config = DecodingConfig(max_tokens=8, repetition_penalty=1e5)
    assert told.generate(USER, (), none).text == "aaaaaaaa"
    assert told.generate(USER, (), none, config).text != "aaaaaaaa"


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"frequency_penalty": 2.5}, "frequency_penalty"),
        ({"presence_penalty": -3.0}, "presence_penalty"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"repetition_penalty": float("inf")}, "repetition_penalty"),
    ],
)
def test_penalties_out_of_range_are_named(wrong: dict[str, float], name: str) -> None:
    """A wrong number never gets as far as the model."""
    with pytest.raises(InputError) as error:
        DecodingConfig(**wrong)  # type: ignore[arg-type]
    assert error.value.where == name
