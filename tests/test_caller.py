"""From a request to a checked call, with models that say anything at all."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import callmemaybe
from callmemaybe.caller import Caller, CallResult, load_model
from callmemaybe.decoding.prefix_cache import PrefixCache
from callmemaybe.errors import (
    BudgetError,
    DecodingError,
    DuplicateKeyError,
    InputError,
    ModelError,
    UnsupportedSchema,
    VocabularyError,
)
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.parameter_order import SortedTools, in_order_of
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.retrieval import CHOSEN_TOOLS, ToolIndex
from callmemaybe.tools import ToolCall, ToolSpec, tool
from callmemaybe.tools.schemas import validator_for
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import Format, formats
from callmemaybe.wire.format import leaves
from callmemaybe.wire.format_nodes import ArgumentsNode, PromptParts, TokenNode
from tests.decoding.helpers import CHATML, NANO, vocabulary
from tests.settings import configured, prefix_ids, prompt_ids, shortest_call

HERMES = vocabulary(CHATML, ("<|im_end|>",))
PLAIN = vocabulary(("<|im_start|>", "<|im_end|>"), ("<|im_end|>",))
MARKED = vocabulary(NANO, ("<|end|>",))
EMBEDDED = Vocabulary.from_file(Path(callmemaybe.__file__).parent / "data" / "nano")
SCENES = [("hermes", HERMES), ("hermes", PLAIN), ("nano", MARKED), ("nano", EMBEDDED)]
scenes = pytest.mark.parametrize(
    ("form", "vocab"),
    SCENES,
    ids=["hermes", "hermes without control tokens", "nano", "nano's own vocabulary"],
)

TOOLS: list[dict[str, Any]] = [
    {"name": "add", "parameters": {"a": {"type": "number"}, "b": {"type": "number"}}},
    {"name": "add_all", "parameters": {"ns": {"type": "array", "items": {"type": "integer"}}}},
    {"name": 'say "hi" é', "parameters": {"text": {"type": "string"}}},
    {"name": "ping"},
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "maxLength": 12},
                    "unit": {"enum": ["c", "f", None]},
                    "days": {"type": "integer", "minimum": 1, "maximum": 14},
                    "more": {"type": "object", "properties": {"x": {"type": "boolean"}}},
                },
                "required": ["city"],
            },
        },
    },
    {"name": "any", "parameters": {"type": "object"}},
]
SCHEMAS = {tool.name: tool.parameters for tool in map(ToolSpec.from_json, TOOLS)}
Script = Callable[[tuple[int, ...]], np.ndarray]


def caller(
    form: str, vocab: Vocabulary, script: int | Script = 0, tools: Any = TOOLS, **options: Any
) -> Caller:
    model = ScriptedModel(vocab.size, script)
    return Caller(
        model, tools, format=form, vocabulary=vocab, **configured({"max_tokens": 120} | options)
    )


def writing(
    vocab: Vocabulary, parts: PromptParts, chances: Mapping[str, float] | None = None
) -> Script:
    """Return a script that writes ``parts`` and ends; a character of ``chances`` with that probability only."""
    ids: list[int] = []
    for part in parts:
        ids += vocab.encode(part.encode()) if isinstance(part, str) else [vocab.controls[part.text]]
    ids.append(min(vocab.ends))
    sure = {ord(char): chance for char, chance in (chances or {}).items()}

    def script(seen: tuple[int, ...]) -> np.ndarray:
        begun = (at for at in range(len(ids), 0, -1) if seen[-at:] == tuple(ids[:at]))
        following = (*ids, ids[-1])[next(begun, 0)]
        chance = sure.get(following, 1 - 1e-9)
        logits = np.zeros(vocab.size, np.float32)
        logits[following] = math.log(chance / (1 - chance) * (vocab.size - 1))
        return logits

    return script


def of_bytes(form: Format) -> Vocabulary:
    """Return a vocabulary of single bytes and the control tokens of the format's answers."""
    named = {leaf.text for leaf in leaves(form.tree) if isinstance(leaf, TokenNode)}
    for leaf in leaves(form.tree):
        if isinstance(leaf, ArgumentsNode) and leaf.syntax is not None:
            named.update(leaf.syntax.tokens)
    return vocabulary((*sorted(named | form.controls), "<E>"), ("<E>",), ())


def check(outcome: CallResult) -> None:
    """A call names a listed tool, and its arguments are valid under an independent validator."""
    assert outcome.call is not None
    jsonschema.validate(
        outcome.call.parsed,
        SCHEMAS[outcome.call.name],
        cls=jsonschema.validators.extend(
            jsonschema.Draft202012Validator,
            type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
                "number",
                lambda _, value: (
                    isinstance(value, int | float | Decimal) and not isinstance(value, bool)
                ),
            ),
        ),
    )


@scenes
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    exact=st.booleans(),
    temperature=st.sampled_from([0.0, 1.0]),
    max_tokens=st.sampled_from([60, 90, 400]),
    no_call=st.booleans(),
)
def test_every_answer_is_a_valid_call(
    form: str,
    vocab: Vocabulary,
    seed: int,
    exact: bool,
    temperature: float,
    max_tokens: int,
    no_call: bool,
) -> None:
    """Random logits, any budget, greedy or not: a valid call, or none where that is allowed.

    One function's keys are free, and such a key may come twice: that is told, and no call.
    """
    made = caller(
        form,
        vocab,
        seed,
        choose="exact" if exact else "greedy",
        temperature=temperature,
        seed=seed,
        max_tokens=max_tokens,
        no_call=no_call,
    )
    try:
        outcome = made.call("What is <|im_end|> 2 plus 3? é\ud800")
    except DuplicateKeyError as error:
        if "the arguments of 'any' have" in str(error):
            return
        raise
    if outcome.call is None:
        assert no_call
    else:
        check(outcome)
    assert outcome.forced + outcome.chosen <= max_tokens


@scenes
def test_probabilities_add_up(form: str, vocab: Vocabulary) -> None:
    """The distribution names every tool, sums to one, and its best is what was called."""
    for seed in range(10):
        outcome = caller(form, vocab, seed).call("x")
        assert outcome.call is not None
        assert set(outcome.distribution) == set(SCHEMAS)
        assert sum(outcome.distribution.values()) == pytest.approx(1.0)
        chances = list(outcome.distribution.values())
        assert chances == sorted(chances, reverse=True)
        assert next(iter(outcome.distribution)) == outcome.call.name
        assert outcome.name_probability == chances[0]
        assert outcome.margin == pytest.approx(chances[0] - chances[1])


@scenes
def test_no_call_is_weighed_with_the_names(form: str, vocab: Vocabulary) -> None:
    """Where it is allowed, calling nothing has a probability, and wins where it is likeliest."""
    seen = set()
    for seed in range(40):
        outcome = caller(form, vocab, seed, no_call=True).call("x")
        assert outcome.distribution[None] > 0
        seen.add(outcome.call is None)
        if outcome.call is None:
            assert outcome.name_probability == outcome.distribution[None]
        else:
            assert sum(outcome.distribution.values()) == pytest.approx(1.0)
    assert True in seen
    if form == "nano":
        assert False in seen


@scenes
def test_forcing_does_not_change_the_answer(form: str, vocab: Vocabulary) -> None:
    """Where every text has one tokenisation, forcing only saves passes."""
    single = vocabulary(tuple(vocab.controls), tuple(vocab.names[end] for end in vocab.ends), ())
    for seed in range(6):
        fast = caller(form, single, seed, max_tokens=400).call("x")
        slow = caller(form, single, seed, max_tokens=400, forcing=False).call("x")
        assert (fast.call, fast.text) == (slow.call, slow.text)
        assert fast.passes < slow.passes
        assert fast.distribution == pytest.approx(slow.distribution)


@scenes
def test_what_requests_share_is_fed_once(form: str, vocab: Vocabulary) -> None:
    """The instructions and the tools go through the model once, however many requests come."""
    model = ScriptedModel(vocab.size, 4)
    cache = PrefixCache(model)
    made = Caller(model, TOOLS, format=form, vocabulary=vocab, max_tokens=120, prefix_cache=cache)
    first = made.call("one request")
    after_first = model.counter.tokens
    again = made.call("one request")
    assert (first.call, first.text, first.passes) == (again.call, again.text, again.passes)
    shared = prefix_ids(made)
    prefix = len(shared)
    assert prefix > 50
    assert model.counter.tokens - after_first == after_first - prefix
    other = made.call("another")
    assert other.call is not None
    assert cache.take(shared).session.length == prefix


@scenes
def test_a_single_function_needs_no_decision(form: str, vocab: Vocabulary) -> None:
    """With one function its probability is 1, or that of calling at all."""
    outcome = caller(form, vocab, 1, TOOLS[:1]).call("x")
    assert outcome.distribution == {"add": 1.0}
    assert outcome.name_probability == outcome.margin == 1.0
    outcome = caller(form, vocab, 1, TOOLS[:1], no_call=True).call("x")
    if outcome.call is not None:
        assert set(outcome.distribution) == {"add", None}


@scenes
def test_a_function_without_parameters_costs_at_most_the_choice(
    form: str, vocab: Vocabulary
) -> None:
    """Its arguments are {} without a look at the model."""
    outcome = caller(form, vocab, 0, [{"name": "ping"}]).call("x")
    assert outcome.call is not None
    assert outcome.call.arguments == "{}"
    assert outcome.passes == outcome.chosen == 0


def test_steps_are_seen_as_they_happen() -> None:
    """on_step gets each step; a watched outcome keeps them, with the likeliest tokens."""
    made = caller("hermes", HERMES, 2, trace=True)
    seen: list[bytes] = []
    outcome = made.call("x", on_step=lambda step: seen.append(step.text))
    assert [step.text for step in outcome.steps] == seen
    assert seen[-1] == outcome.text
    assert outcome.text.startswith(b"<tool_call>\n")
    assert any(step.before for step in outcome.steps)
    assert caller("hermes", HERMES, 2).call("x").steps == ()


def test_time_is_told_by_phase() -> None:
    """The phases of the handed-in clock add up to the total."""
    ticks = iter(range(10**6))
    outcome = caller("hermes", HERMES, 2, clock=lambda: float(next(ticks))).call("x")
    seconds = dict(outcome.seconds)
    assert seconds.pop("total") == sum(seconds.values())
    assert set(seconds) == {"prompt", "model", "engine", "check"}


@scenes
def test_long_and_empty_requests_work(form: str, vocab: Vocabulary) -> None:
    """An empty request and one of 20,000 characters give a call each."""
    made = caller(form, vocab, 3)
    check(made.call(""))
    check(made.call("<|im_start|>é\x00" * 1_500))


def test_many_functions_are_one_choice() -> None:
    """Hundreds of functions work in both formats; a model that tells fewer apart chooses among those that fit."""
    tools = [{"name": f"f{index}"} for index in range(300)]
    for form, vocab in SCENES:
        made = caller(form, vocab, 5, tools)
        outcome = made.call("x")
        assert outcome.call is not None
        is_limited = made.generator.format.most_tools is not None
        assert len(outcome.distribution) == (CHOSEN_TOOLS if is_limited else 300)
        assert outcome.call.name == next(iter(outcome.distribution))


def test_bad_tools_are_refused_before_the_model_is_asked() -> None:
    """Tools, budgets and formats are checked when the caller is made."""
    with pytest.raises(InputError, match="no function"):
        caller("hermes", HERMES, 0, [])
    with pytest.raises(InputError, match="used twice"):
        caller("hermes", HERMES, 0, [{"name": "a"}, {"name": "a"}])
    with pytest.raises(UnsupportedSchema, match=r"'f'.*/properties/a") as caught:
        caller("hermes", HERMES, 0, [{"name": "f", "parameters": {"a": {"type": "nonsense"}}}])
    assert caught.value.pointer.startswith("/properties/a")
    with pytest.raises(BudgetError, match="shortest valid answer"):
        caller("hermes", HERMES, 0, max_tokens=3)
    with pytest.raises(InputError, match="temperature"):
        caller("hermes", HERMES, 0, temperature=-1.0)
    with pytest.raises(VocabularyError, match=r"'nano' needs the control token '<\|tools\|>'"):
        caller("nano", HERMES, 0)
    with pytest.raises(InputError, match="nonsense"):
        caller("nonsense", HERMES, 0)


def double(number: int) -> int:
    """Double a number.

    Args:
        number: What to double.
    """
    return 2 * number


def test_python_functions_are_tools() -> None:
    """Signature and docstring are the definition, of a function as of what `@tool` made of it."""
    for offered in (double, tool(double)):
        found = caller("hermes", HERMES, 0, [offered]).tools[0]
        assert (found.name, found.description) == ("double", "Double a number.")
        assert found.parameters["properties"]["number"]["description"] == "What to double."
    with pytest.raises(InputError, match="class Caller: a class is no function"):
        caller("hermes", HERMES, 0, [Caller])
    with pytest.raises(InputError, match="parameter a: it has no type hint"):
        caller("hermes", HERMES, 0, [unsaid])


@pytest.mark.parametrize(
    "prompt", [None, 42, b"add", ["add"], [{"role": "user", "content": "add"}], {"content": "add"}]
)
def test_only_a_text_is_asked_about(prompt: Any) -> None:
    """Anything else would be asked about as Python spells it: "None", or a list of messages."""
    made = caller("hermes", HERMES, 0)
    with pytest.raises(InputError, match=r"a request is a text.*from_messages"):
        made.call(prompt)
    with pytest.raises(InputError, match="a request is a text"):
        list(made.call_many(["add", prompt]))
    with pytest.raises(InputError, match="conversation: a request is a text"):
        made.run(prompt, lambda _calls: [])
    with pytest.raises(InputError, match="each letter would be a request"):
        made.call_many("add")


@pytest.mark.parametrize("tools", [None, double, "tools.json", {"name": "add"}, math])
def test_tools_stand_in_a_list(tools: Any) -> None:
    """What is no list of them is named; so is the place of one that is wrong."""
    for make in (lambda: caller("hermes", HERMES, 0, tools), lambda: ToolIndex(tools)):
        with pytest.raises(InputError, match="tools: it must be a list of tools, not a value of"):
            make()
    with pytest.raises(InputError, match="tools/1/parameters/a: the parameter has no type"):
        caller("hermes", HERMES, 0, [TOOLS[0], {"name": "f", "parameters": {"a": {}}}])


@pytest.mark.parametrize("model", ["nano", None, [double], Path("nano")])
def test_a_model_has_to_be_loaded(model: Any) -> None:
    """Its name is none, nor is what belongs into the other argument."""
    with pytest.raises(InputError, match=r"model: a loaded model is needed.*load_model\('nano'\)"):
        Caller(model, [double])


def test_a_model_is_loaded_from_a_path_too(tmp_path: Path) -> None:
    """A Path names a folder as its text does."""
    folder = Path(callmemaybe.__file__).parent / "data" / "nano"
    assert load_model(folder).name == load_model(str(folder)).name
    with pytest.raises(ModelError, match="holds no model"):
        load_model(tmp_path)
    with pytest.raises(ModelError, match="a model's name or folder is needed, not None"):
        load_model(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"choose": "best"}, "choose: there is no 'best' here; use exact or greedy"),
        ({"overflow": "drop"}, "overflow: there is no 'drop' here; use cut or refuse"),
        ({"forcing": 1}, "forcing: it must be True or False, not 1"),
        ({"max_tokens": 99.5}, "max_tokens: it must be a whole number, not 99.5"),
        ({"temperature": "hot"}, "temperature: it must be a number, not 'hot'"),
        ({"seed": "x"}, "seed: it must be a whole number, not 'x'"),
        ({"beam": "3"}, "beam: it must be a whole number, not '3'"),
    ],
)
def test_settings_of_another_kind_are_named(options: dict[str, Any], words: str) -> None:
    """Each error names the setting; None is the default."""
    with pytest.raises(InputError, match=words):
        caller("hermes", HERMES, 0, **options)
    made = caller("hermes", HERMES, 0, max_tokens=np.int64(200), temperature=np.float32(0))
    assert made.call("add").call is not None


def unsaid(a):  # type: ignore[no-untyped-def]
    """Nothing says what it takes."""
    return a


def test_a_request_that_does_not_fit_loses_its_middle() -> None:
    """Its beginning and its end stay, the outcome says how much is missing, and a call comes out."""
    fed: list[tuple[int, ...]] = []

    def script(ids: tuple[int, ...]) -> np.ndarray:
        fed.append(ids)
        return np.zeros(HERMES.size, np.float32)

    model = ScriptedModel(HERMES.size, script, context=1_500)
    made = Caller(model, TOOLS[:1], format="hermes", vocabulary=HERMES)
    outcome = made.call("begin" + "x" * 2_000 + "end")
    assert outcome.call is not None
    assert outcome.omitted > 1_000
    text = HERMES.decode(fed[0])
    assert b"user\nbeginxxx" in text
    assert "x … x".encode() in text
    assert b"xxxend\nassistant\n" in text
    assert max(map(len, fed)) <= 1_500
    assert made.call("x").omitted == 0


@pytest.mark.parametrize("seed", range(4))
def test_names_for_which_there_is_no_room_are_weighed_in_part(seed: int) -> None:
    """A call that fits is made, though the longest names would fill the context if they were looked at."""
    longest = "get_the_current_weather_forecast_for_the_next_week_in_"
    tools = [{"name": f"{longest}{place}"} for place in ("africa", "europe")] + [{"name": "a"}]
    wide = caller("hermes", HERMES, seed, tools)
    context = len(prefix_ids(wide)) + 100 + shortest_call(wide)
    model = ScriptedModel(HERMES.size, seed, context=context)
    tight = Caller(model, tools, format="hermes", vocabulary=HERMES, max_tokens=shortest_call(wide))
    outcome = tight.call("word " * 300)
    assert outcome.call == ToolCall("a", "{}")
    assert outcome.omitted
    assert outcome.distribution["a"] > 0


def test_a_request_that_does_not_fit_may_be_refused() -> None:
    """The error says what takes how much; so do tools that leave no room for any request."""
    model = ScriptedModel(HERMES.size, 0, context=1_500)
    made = Caller(
        model,
        TOOLS[:1],
        format="hermes",
        vocabulary=HERMES,
        decoding=DecodingConfig(overflow="refuse"),
    )
    with pytest.raises(ModelError, match=r"the request takes 20\d\d tokens and the tools"):
        made.call("x" * 2_000)
    assert made.call("x").call is not None
    small = ScriptedModel(HERMES.size, 0, context=len(prefix_ids(made)) + 60)
    with pytest.raises(ModelError, match="shorten them"):
        Caller(small, TOOLS[:1], format="hermes", vocabulary=HERMES).call("x" * 100)


@scenes
def test_the_budget_must_hold_a_call_even_where_none_is_allowed(
    form: str, vocab: Vocabulary
) -> None:
    """That calling nothing is shorter does not make a budget big enough."""
    made = caller(form, vocab, 0)
    least = shortest_call(made)
    for no_call in (False, True):
        assert caller(form, vocab, 0, no_call=no_call, max_tokens=least).call("x")
        with pytest.raises(BudgetError, match=f"takes {least} tokens"):
            caller(form, vocab, 0, no_call=no_call, max_tokens=least - 1)


def test_a_seed_repeats_whatever_was_asked_before() -> None:
    """With a seed an answer depends on the request alone; without one, on chance."""
    options = {"temperature": 1.5, "seed": 7}
    first = caller("hermes", HERMES, 0, TOOLS[2:3], **options)
    second = caller("hermes", HERMES, 0, TOOLS[2:3], **options)
    second.call("another request")
    assert first.call("x").text == second.call("x").text
    assert first.call("x").text != first.call("y").text
    free = caller("hermes", HERMES, 0, TOOLS[2:3], temperature=1.5)
    assert len({free.call("x").text for _ in range(5)}) > 1


@scenes
def test_prompts_are_tokenised_as_the_tokenizer_does(form: str, vocab: Vocabulary) -> None:
    """Prefix and request, encoded apart, are the ids of the whole text between control tokens."""
    made = caller(form, vocab, 0)
    generator, controls = made.generator, frozenset(vocab.controls)
    assert isinstance(generator, LocalGenerator)
    tools = generator.as_read(made.tools)
    for text in ("", "\n x", "ünï  \n"):
        messages = [{"role": "user", "content": text}]
        whole = prompt_ids(made, generator.format.prompt(messages, tools, controls))
        request = prompt_ids(made, generator.format.request(messages, tools, controls))
        assert prefix_ids(made) + request == whole


def test_a_broken_promise_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that the validator refuses is never handed out."""
    made = caller("hermes", HERMES, 0, TOOLS[:1])
    stricter = validator_for({"maxProperties": 0})
    monkeypatch.setattr("callmemaybe.generation.validation.validator_for", lambda _: stricter)
    with pytest.raises(DecodingError, match="a bug in this package"):
        made.call("x")


@scenes
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_answers_are_scored(form: str, vocab: Vocabulary, seed: int) -> None:
    """The log-probability of an answer is that of all its tokens; arguments get their parts of it."""
    outcome = caller(form, vocab, seed, call_logprobs=True).call("x")
    check(outcome)
    assert outcome.call is not None
    assert outcome.logprob is not None
    assert outcome.argument_logprobs.keys() == outcome.call.parsed.keys()
    assert all(outcome.logprob <= part <= 0 for part in outcome.argument_logprobs.values())
    plain = caller(form, vocab, seed).call("x")
    assert plain.call == outcome.call
    assert plain.logprob is None


@pytest.mark.parametrize("name", formats.names())
@pytest.mark.parametrize("options", [{}, {"beam": 2}], ids=["greedy", "beam"])
def test_arguments_are_scored_by_their_values(name: str, options: dict[str, Any]) -> None:
    """However a format writes a value, its tokens count for it, and those of no key or other value do."""
    form = formats.get(name)
    vocab = of_bytes(form)
    kinds = {"text": "string", "n": "integer", "on": "boolean", "some": "array"}
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in kinds.items()},
        "required": [*kinds],
    }
    schema["properties"]["some"]["items"] = {"type": "string"}  # type: ignore[index]
    tool = ToolSpec("f", parameters=schema)
    said = '{"text": "axb", "n": 77, "on": true, "some": ["x", "b"]}'
    call = ToolCall("f", said, id="c" * (form.id_length or 0))
    (read,) = SortedTools().of([tool]) if form.sorts_parameters else [tool]
    script = writing(
        vocab, form.render([in_order_of(call, read)], tools=[read]), {"x": 0.25, "7": 0.5}
    )
    outcome = caller(
        name, vocab, script, [tool], call_logprobs=True, max_tokens=400, **options
    ).call("?")
    assert outcome.call is not None
    assert outcome.call.parsed == call.parsed
    expected = {"text": math.log(0.25), "n": 2 * math.log(0.5), "on": 0.0, "some": math.log(0.25)}
    assert outcome.argument_logprobs == pytest.approx(expected, abs=1e-4)


@scenes
@pytest.mark.parametrize("options", [{"call_logprobs": True}, {"best_of": 2, "temperature": 1.0}])
def test_an_answer_that_nobody_had_to_choose_is_scored(
    form: str, vocab: Vocabulary, options: dict[str, Any]
) -> None:
    """One function without parameters is called without a pass; its tokens are as probable as the model has it."""
    made = caller(form, vocab, 3, [{"name": "ping"}], no_call=False, **options)
    outcome = made.call("x")
    check(outcome)
    assert outcome.chosen == 0
    assert outcome.logprob is not None
    assert -math.inf < outcome.logprob <= 0
    assert made.call("x").logprob == pytest.approx(outcome.logprob)


@scenes
def test_of_several_answers_the_most_probable_is_kept(form: str, vocab: Vocabulary) -> None:
    """More draws never give a less probable answer, and searching is as valid as drawing."""
    options = {"temperature": 1.0, "seed": 4, "call_logprobs": True}
    found = [caller(form, vocab, 5, best_of=n, **options).call("x") for n in (1, 2, 6)]
    scores = [outcome.logprob for outcome in found]
    assert scores == sorted(scores)  # type: ignore[type-var]
    check(found[-1])
    searched = caller(form, vocab, 5, beam=3, call_logprobs=True).call("x")
    check(searched)
    assert searched.name_probability is None


@pytest.mark.parametrize("chance", [0.1, 0.9])
def test_whether_to_call_is_decided_before_answers_are_compared(chance: float) -> None:
    """Where calling nothing may be any text, more draws make neither that nor a call likelier than it is."""
    begin = HERMES.controls["<tool_call>"]
    logits = np.zeros(HERMES.size, np.float32)
    logits[begin] = math.log(chance / (1 - chance) * (HERMES.size - 1))
    options = {"temperature": 1.0, "best_of": 8, "no_call": True, "speculate": False}
    for seed in range(12):
        made = caller("hermes", HERMES, lambda _: logits, [{"name": "ping"}], seed=seed, **options)
        outcome = made.call("x")
        assert (outcome.call is not None) is (chance > 0.5)
        if outcome.call is None:
            assert outcome.logprob == pytest.approx(math.log(1 - chance), abs=1e-4)


@pytest.mark.parametrize("chance", [0.1, 0.9])
def test_a_mark_that_calls_nothing_is_compared_with_names(chance: float) -> None:
    """A call is no less likely for being longer than the mark is; more draws do not change that."""
    logits = np.full(MARKED.size, -9.0, np.float32)
    logits[MARKED.controls["<|none|>"]] = 0.0
    logits[MARKED.encode(b"p")[0]] = math.log(chance / (1 - chance))
    tools = [{"name": "ping", "parameters": {"n": {"type": "integer"}}}]
    options = {"temperature": 1.0, "best_of": 8, "no_call": True, "speculate": False}
    for seed in range(12):
        made = caller("nano", MARKED, lambda _: logits, tools, seed=seed, **options)
        assert (made.call("x").call is not None) is (chance > 0.5)


@pytest.mark.parametrize("seed", [-1, -(10**30)])
def test_a_seed_that_is_none_is_named(seed: int) -> None:
    """No dice can be made of a negative number."""
    with pytest.raises(InputError, match="seed: it must not be negative"):
        caller("hermes", HERMES, temperature=1.0, seed=seed)


@pytest.mark.parametrize("name", ["functionary_v32", "muse"])
@pytest.mark.parametrize("called", [None, "alarm", "all_things", "user_data", "ping"])
@pytest.mark.parametrize("options", [{}, {"beam": 3}], ids=["greedy", "beam"])
def test_the_address_of_a_text_is_chosen_among_names(
    name: str, called: str | None, options: dict[str, Any]
) -> None:
    """Where a text has an address (all, user) as a call has a name, it is one candidate beside all names."""
    form = formats.get(name)
    vocab = of_bytes(form)
    tools = [ToolSpec(each) for each in ("alarm", "all_things", "user_data", "ping")]
    calls = [] if called is None else [ToolCall(called, "{}", id="c" * (form.id_length or 0))]
    parts = form.render(calls, answer="" if calls else "Hello.", tools=tools)
    made = caller(name, vocab, writing(vocab, parts), tools, no_call=True, **options)
    outcome = made.call("?")
    assert (outcome.call and outcome.call.name) == called
    if not options:
        assert outcome.distribution.keys() == {None, *(tool.name for tool in tools)}
        assert outcome.distribution[called] == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("name", formats.names())
@pytest.mark.parametrize("calls", [False, True], ids=["text", "call"])
@pytest.mark.parametrize("marked", [False, True], ids=["spelled", "marked"])
def test_a_search_may_call_nothing(name: str, calls: bool, marked: bool) -> None:
    """In every format a search calls where the model would, and writes no text where it would not."""
    form = formats.get(name)
    vocab = of_bytes(form) if marked else vocabulary(("<E>",), ("<E>",), ())
    controls = frozenset(vocab.controls)
    call = ToolCall("say", '{"text": "hi"}', id="c" * (form.id_length or 0))
    answer = "" if calls or not form.has_free_text else "Hello there, how are you today?"
    short = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 4}}}
    tools = [ToolSpec("ping"), ToolSpec("say", parameters=short)]
    options = {"beam": 3, "no_call": True, "call_logprobs": True, "max_tokens": 400}
    try:
        parts = form.render([call] if calls else [], answer=answer, tools=tools, controls=controls)
        made = caller(name, vocab, writing(vocab, parts), tools, **options)
    except VocabularyError:
        assert not marked, "it needs its control tokens"
        return
    outcome = made.call("?")
    assert (outcome.call is not None) is calls
    assert outcome.logprob == pytest.approx(0.0, abs=1e-4)
    if outcome.call is not None:
        assert outcome.call.parsed == call.parsed
    elif answer:
        assert outcome.passes <= 4


@pytest.mark.parametrize(
    "options",
    [{}, {"trace": True}, {"beam": 2}, {"best_of": 2, "temperature": 1.0}],
    ids=["plain", "watched", "beam", "best of two"],
)
def test_tokens_are_counted_however_an_answer_is_found(options: dict[str, Any]) -> None:
    """What was forced and what was chosen are all tokens of the answer, also of one that was searched for."""
    single = vocabulary(("<|im_start|>", "<|im_end|>"), ("<|im_end|>",), ())
    outcome = caller("hermes", single, 3, **options).call("x")
    assert outcome.forced + outcome.chosen == len(outcome.text)
    assert outcome.forced > 20


def test_long_answers_take_little_memory() -> None:
    """What an answer takes grows as its length: the steps to it are kept for those only who watch."""
    vocab = vocabulary(CHATML, ("<|im_end|>",), (b"abcd",))
    logits = np.zeros(vocab.size, np.float32)
    logits[vocab.encode(b"abcd")[0]] = 9
    tools = [{"name": "write", "parameters": {"text": {"type": "string"}}}]
    made = caller("hermes", vocab, lambda _: logits, tools, max_tokens=2_000, speculate=False)
    tracemalloc.start()
    try:
        outcome = made.call("x")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(outcome.text) > 7_000
    assert peak < 4 << 20


@pytest.mark.parametrize(
    "options",
    [
        {"best_of": 2},
        {"best_of": 0},
        {"beam": 0},
        {"best_of": 2, "beam": 2, "temperature": 1},
        {"beam": 1_001},
    ],
)
def test_strategies_that_contradict_themselves_are_refused(options: dict[str, Any]) -> None:
    """Several answers take chance, and either draws or a search, which is no wider than memory is."""
    with pytest.raises(InputError, match=r"best_of|at most 1,000"):
        caller("hermes", HERMES, **options)


@pytest.mark.parametrize("depth", [150, 500, 3000, 20_000])
def test_a_schema_that_nests_deeply_ends_in_one_sentence(depth: int) -> None:
    """No schema ends in a RecursionError, and a message does not repeat thousands of levels."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    deep = ToolSpec("f", "d", {"type": "object", "properties": {"x": schema}, "required": ["x"]})
    with pytest.raises(InputError) as caught:
        Caller(load_model("nano"), [deep], max_tokens=512)
    assert len(str(caught.value)) < 1000
