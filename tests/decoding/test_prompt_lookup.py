"""Guessing ahead from the request: cheaper, and never another answer."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe import DecodingConfig, models
from callmemaybe.caller import Caller
from callmemaybe.decoding.prompt_lookup import PromptLookupDrafter
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.tools import ToolCall
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import formats
from tests.decoding.helpers import CHATML, vocabulary
from tests.models.conftest import Maker, tiny  # noqa: F401 - a fixture

HERMES = vocabulary(CHATML, ("<|im_end|>",), more=())
PIECED = vocabulary(CHATML, ("<|im_end|>",))
TOOLS = [
    {"name": "add", "parameters": {"a": {"type": "number"}, "b": {"type": "number"}}},
    {"name": "say", "parameters": {"text": {"type": "string"}, "to": {"type": "string"}}},
    {"name": "note", "parameters": {"ns": {"type": "array", "items": {"type": "integer"}}}},
]
REQUESTS = [
    "add 12.5 and -3, then 12",
    'say "good morning" to Anna-Lena',
    "note 7, 77 and 777!",
    "tell 'Bo' that “it is \\ late”\n",
    "",
    "é \U0001f600 'x",
]
requests = st.one_of(st.sampled_from(REQUESTS), st.text(max_size=30))


def calls(model: object, vocab: Vocabulary, request: str, **options: object) -> list[object]:
    caller = Caller(
        model,
        TOOLS,
        format="hermes",
        vocabulary=vocab,
        max_tokens=90,
        decoding=DecodingConfig(**options),  # type: ignore[arg-type]
    )
    outcome = caller.call(request)
    return [outcome.text, outcome.forced + outcome.chosen]


def truthful(call: ToolCall, vocab: Vocabulary) -> ScriptedModel:
    """Return a model that writes this call, whatever it is asked."""
    said = vocab.encode(b"".join(_spelled(part) for part in formats.get("hermes").render([call])))
    assistant = vocab.encode(b"assistant\n")
    answer = [
        HERMES.controls["<tool_call>"], *said, HERMES.controls["</tool_call>"]
    ]  # fmt: skip

    def script(ids: tuple[int, ...]) -> np.ndarray:
        logits = np.zeros(vocab.size, np.float32)
        begins = [at for at in range(len(ids)) if ids[at : at + len(assistant)] == tuple(assistant)]
        behind = [one for one in ids[begins[-1] :] if one < 256][len(assistant) + 4 :]
        if HERMES.controls["<tool_call>"] not in ids[begins[-1] :]:
            logits[answer[0]] = 50
        elif len(behind) < len(said):
            logits[said[len(behind)]] = 50
        return logits

    return ScriptedModel(vocab.size, script)


def _spelled(part: object) -> bytes:
    return part.encode() if isinstance(part, str) else b""


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    request=requests,
    pieced=st.booleans(),
    temperature=st.sampled_from([0.0, 0.7]),
    choose=st.sampled_from(["exact", "greedy"]),
)
def test_the_answer_is_the_same(
    seed: int, request: str, pieced: bool, temperature: float, choose: str
) -> None:
    """With and without guesses, whatever the model says, every answer is the same, dice included."""
    vocab = PIECED if pieced else HERMES
    found = [
        calls(
            ScriptedModel(vocab.size, seed),
            vocab,
            request,
            speculate=speculate,
            temperature=temperature,
            seed=seed,
            choose=choose,
        )
        for speculate in (False, True)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("layout", ["genai", "optimum"])
def test_the_answer_is_the_same_with_a_real_network(tiny: Maker, layout: str) -> None:  # noqa: F811
    """A float32 network answers the same with and without guesses, on either kind of cache."""
    folder = tiny(layout, "fp32", vocab_size=HERMES.size, max_position_embeddings=2000)
    model = models.load(folder)
    for request in REQUESTS[:4]:
        for options in ({}, {"temperature": 1.0, "seed": 3}):
            found = [
                calls(model, HERMES, request, speculate=speculate, **options)
                for speculate in (False, True)
            ]
            assert found[0] == found[1]


@pytest.mark.parametrize(
    ("request_", "call", "most"),
    [
        (REQUESTS[0], ToolCall("add", '{"a": 12.5, "b": -3}'), 6),
        (REQUESTS[1], ToolCall("say", '{"text": "good morning", "to": "Anna-Lena"}'), 9),
    ],
)
def test_what_the_request_says_costs_few_passes(request_: str, call: ToolCall, most: int) -> None:
    """Values that stand in the request take a few passes instead of one for each token."""
    model = truthful(call, HERMES)
    outcomes = [
        Caller(
            model,
            TOOLS,
            format="hermes",
            vocabulary=HERMES,
            decoding=DecodingConfig(choose="greedy", speculate=speculate),
        ).call(request_)
        for speculate in (False, True)
    ]
    for outcome in outcomes:
        assert outcome.call is not None
        assert outcome.call.parsed == call.parsed
    assert outcomes[1].passes <= most < outcomes[0].passes


@settings(max_examples=100, deadline=None)
@given(request=requests, value=st.data())
def test_guesses_are_in_the_language(request: str, value: st.DataObject) -> None:
    """What is guessed behind any beginning of any sentence goes on in the language."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "number"}, "t": {"type": "string"}, "e": {"enum": ["x", "y"]}},
        "required": ["a", "t", "e"],
        "additionalProperties": False,
    }
    automaton = compile_grammar(json_schema(schema))
    text = json.dumps({"a": 12, "t": request[:9], "e": "x"}, ensure_ascii=False).encode(
        errors="replace"
    )
    at = value.draw(st.integers(0, len(text)))
    state = automaton.walk(automaton.start, text[:at])
    if state >= 0:
        guess = PromptLookupDrafter(request).guess(automaton, state, text[:at])
        assert automaton.walk(state, guess) >= 0


@pytest.mark.parametrize("quotes", ["''", '""', "``", "“”", "„“", "‘’", "«»"])
def test_what_is_quoted_is_guessed_to_its_end(quotes: str) -> None:
    """A string is guessed to be what the request quotes, as a whole, in whatever quotes."""
    automaton = compile_grammar(json_schema({"type": "string"}))
    copier = PromptLookupDrafter(f"title {quotes[0]}two more: words{quotes[1]} now")
    for begun in (b'"', b'"two'):
        state = automaton.walk(automaton.start, begun)
        assert begun + copier.guess(automaton, state, begun) == b'"two more: words"'


@pytest.mark.parametrize(
    ("request_", "guess"),
    [
        ("it‘s called ‘two words’", "two words"),
        ("‘don’t go’ it is", "don’t go"),
        ("„eins“ und „zwei“", "eins"),
        ("open „the «inner» one“", "the «inner» one"),
    ],
)
def test_a_quotation_begins_where_it_was_opened_last(request_: str, guess: str) -> None:
    """What opens and does not close is no quotation; an apostrophe inside of one does not end it."""
    automaton = compile_grammar(json_schema({"type": "string"}))
    state = automaton.walk(automaton.start, b'"')
    assert PromptLookupDrafter(request_).guess(automaton, state, b'"') == f'{guess}"'.encode()


@pytest.mark.parametrize(
    ("schema", "request_", "begun", "guess"),
    [
        ({"type": "string"}, "who climbed Mount Kenya first?", '"', 'Mount Kenya"'),
        ({"type": "string"}, "who climbed Mount Kenya first?", '"Mount', ' Kenya"'),
        ({"type": "string"}, "Delete it: INV-42.", '"', 'INV-42"'),
        ({"type": "string"}, "open (src/main.py) please", '"', 'src/main.py"'),
        ({"type": "string"}, "Hello there", '"', ""),
        ({"type": "number"}, "a debt of 22,214.50 euros", "", "22214.50"),
        ({"type": "number"}, "a debt of 22,214.50 euros", "222", "14.50"),
        ({"type": "array", "items": {"type": "integer"}}, "1,2,3", "[", "1, 2, 3]"),
        ({"enum": ["Off", "Dimmed"]}, "make it dimmed", '"', 'Dimmed"'),
        ({"enum": ["DARK", "LIGHT"]}, "a dark theme", '"', 'DARK"'),
        ({"enum": ["on_the_way", "at_home"]}, "is anybody home?", '"', 'at_home"'),
        ({"enum": ["on", "off"]}, "switch it", '"of', 'f"'),
        ({"enum": [f"choice {n}" for n in range(40)]}, "a dark theme", '"', "choice "),
        ({"type": "string"}, "wake me at 22:45", '"', '22:45"'),
        ({"type": "string"}, "wake me at 22:45", '"22', ':45"'),
        ({"type": "string"}, "wake me at 7 pm", '"', '7 pm"'),
        ({"type": "string"}, "on 2027-10-26 please", '"', '2027-10-26"'),
        ({"type": "integer"}, "at 22:45 call 3 friends", "", "3"),
        ({"type": "string"}, r"open 'E:\silent\new.png'", '"', r'E:\\silent\\new.png"'),
        ({"type": "string"}, r"what matches \d{3}x?", r'"\\d{', r'3}x"'),
    ],
)
def test_what_is_named_is_guessed(schema: object, request_: str, begun: str, guess: str) -> None:
    """Drafts are names, codes, numbers with separators, and one of few alternatives."""
    automaton = compile_grammar(json_schema(schema))
    state = automaton.walk(automaton.start, begun.encode())
    assert PromptLookupDrafter(request_).guess(automaton, state, begun.encode()) == guess.encode()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "unit", [".", "A ", "a.", "1,", "'", "É", "‘", "«", "„a", "‘a’b", "it‘s fine, "]
)
def test_long_requests_are_guessed_from_at_once(unit: str) -> None:
    """Whatever a request of megabytes repeats, looking for what to guess takes no square of its length."""
    automaton = compile_grammar(json_schema({"type": "string"}))
    state = automaton.walk(automaton.start, b'"')
    assert len(PromptLookupDrafter(unit * 1_000_000).guess(automaton, state, b'"')) < 100
