"""Schemas that no grammar can say as a whole: masked as far as may be, and checked before a call counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import callmemaybe
from callmemaybe.agent.executors import PythonExecutor
from callmemaybe.caller import Caller
from callmemaybe.cli.batch import BatchJob, PromptRunner
from callmemaybe.cli.results import ResultFile, ResultSettings
from callmemaybe.decoding.beam import search
from callmemaybe.decoding.name_choice import NameChoices
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.decoding.strategy import DecodeRequest, DecodeResult, DecodingStrategy, decode
from callmemaybe.errors import (
    DecodingError,
    DuplicateKeyError,
    SchemaViolationError,
    UnsupportedSchema,
)
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.result import TurnResult
from callmemaybe.generation.validation import CHECKED_DEPTH, CallValidator
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import regex
from callmemaybe.integrations._constraint import ToolCallConstraint
from callmemaybe.matching import Matcher
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.tools import CallEnded, ToolCall, ToolResult, ToolSpec
from callmemaybe.wire import formats
from callmemaybe.wire.output_grammar import DeferredChecks, OutputSpec
from callmemaybe.wire.tool_choice import output_spec
from tests.decoding.helpers import CHATML, NANO, vocabulary
from tests.settings import configured
from tests.talking import speaks

VOCABULARIES = {
    "hermes": vocabulary(CHATML, ("<|im_end|>",)),
    "nano": vocabulary(NANO, ("<|end|>",)),
    "qwen3_coder": vocabulary(CHATML, ("<|im_end|>",)),
}
HERMES = VOCABULARIES["hermes"]
ASK = b"<|im_start|>assistant\n<think>\n\n</think>\n\n"
USER = [{"role": "user", "content": "Well?"}]
DIGITS = {"type": "array", "items": {"enum": [1, 2, 3, 4, 5, 6, 7, 8, 9]}, "uniqueItems": True}
ONES = {"type": "integer", "minimum": 0, "maximum": 3}
#: What no grammar of bearable size says.
LEFT: dict[str, Any] = {
    "items that differ": {**DIGITS, "maxItems": 3, "minItems": 2},
    "members in number": {
        "type": "object", "propertyNames": {"enum": ["a", "b", "c"]}, "minProperties": 2,
        "maxProperties": 3, "additionalProperties": ONES,
    },
    "look-behind": {"type": "string", "pattern": "^[ab]{2,3}(?<=ab)$", "maxLength": 3},
    "the same once more": {"type": "string", "pattern": r"^([ab])\1$", "maxLength": 3},
    "multiples": {
        "type": "integer", "multipleOf": 100_003, "not": {"multipleOf": 200_006}, "minimum": 0,
        "maximum": 10**6,
    },
}  # fmt: skip
#: Schemas that have one of these somewhere.
SCHEMAS = st.recursive(
    st.sampled_from(list(LEFT.values())),
    lambda inner: st.one_of(
        inner.map(lambda one: {"type": "array", "items": one, "maxItems": 2, "uniqueItems": True}),
        inner.map(lambda one: {"anyOf": [one, {"type": "null"}]}),
        inner.map(lambda one: {"oneOf": [one, {"type": ["integer", "string"], "maxLength": 2}]}),
        inner.map(lambda one: {"type": "object", "properties": {"x": one}, "required": ["x"]}),
    ),
    max_leaves=3,
)


def tool_of(value: Any) -> ToolSpec:
    """Return a function of one argument."""
    return ToolSpec("f", parameters={"type": "object", "properties": {"it": value},
                                     "required": ["it"], "additionalProperties": False})  # fmt: skip


DISTINCT = tool_of({**DIGITS, "maxItems": 4})
BAD, GOOD = ToolCall("f", '{"it": [1, 1]}'), ToolCall("f", '{"it": [1, 2]}')


def written(*calls: ToolCall) -> tuple[Any, ...]:
    return tuple(formats.get("hermes").render(calls))


def caller(*wishes: tuple[Any, ...], **options: Any) -> Caller:
    """Return a caller of DISTINCT, of a model that says one wish a turn."""
    model = speaks(HERMES, wishes, lambda said: said.count(b"<|im_start|>assistant\n"), ASK)
    return Caller(model, [DISTINCT], format="hermes", vocabulary=HERMES, **configured(options))


@pytest.mark.parametrize("form", sorted(VOCABULARIES))
@settings(max_examples=25, deadline=None)
@given(value=SCHEMAS, seed=st.integers(0, 10**6), temperature=st.sampled_from([0.0, 1.0]))
def test_a_call_is_valid_or_an_error(form: str, value: Any, seed: int, temperature: float) -> None:
    """Law: whatever a model says, what counts is valid by a validator of another make, and is remarked."""
    vocab, tool = VOCABULARIES[form], tool_of(value)
    made = Caller(ScriptedModel(vocab.size, seed), [tool], format=form, vocabulary=vocab, max_tokens=90, decoding=DecodingConfig(temperature=temperature, seed=seed))  # fmt: skip
    validator = jsonschema.Draft202012Validator(dict(tool.parameters))
    try:
        outcome = made.call("x")
    except SchemaViolationError as found:
        error = found
    except DuplicateKeyError:
        assert "minProperties" in str(value)
        return
    else:
        assert outcome.call is not None
        assert validator.is_valid(json.loads(outcome.call.arguments))
        assert "not masked: /properties/it/" in outcome.remarks[0]
        return
    assert error.function == "f"
    assert error.pointer.startswith("/it")
    assert error.keyword.startswith("/properties/it/")
    assert not validator.is_valid(json.loads(error.text))


def test_what_can_be_masked_is() -> None:
    """Law: where a grammar says all of a schema, leave to widen it changes nothing, also of hosts."""
    for value in (
        ONES,
        {"type": "string", "format": "hostname"},
        {**DIGITS, "items": {"enum": [1]}},
    ):
        left: DeferredChecks = {}
        form = formats.get("hermes")
        grammar = form.output_grammar([tool_of(value)], OutputSpec(), deferred=left)
        assert grammar == form.output_grammar([tool_of(value)], OutputSpec())
        assert not left


@pytest.mark.parametrize("name", formats.names())
def test_every_format_leaves_the_same(name: str) -> None:
    """Law: what is left of a function stands under its name, the second time as the first."""
    first, again = DeferredChecks(), DeferredChecks()
    tools = [ToolSpec("g"), DISTINCT]
    for left in (first, again):
        formats.get(name).output_grammar(tools, OutputSpec(), deferred=left)
    assert first == again
    assert [check.pointer for check in first["f"]] == ["/properties/it/uniqueItems"]
    assert [*first] == ["f"]


def test_who_does_not_see_the_end_is_refused() -> None:
    """Law: a grammar that stands alone, and hosts that only take masks, get no wider language."""
    for name in formats.names():
        with pytest.raises(UnsupportedSchema, match=r"function 'f', .*/it/uniqueItems"):
            formats.get(name).grammar([DISTINCT])
    with pytest.raises(UnsupportedSchema, match="uniqueItems is not supported here"):
        ToolCallConstraint([DISTINCT], Path(callmemaybe.__file__).parent / "data" / "nano")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {**DIGITS, "contains": {"minimum": 1, "exclusiveMinimum": True}},
            r"nor can it be checked afterwards: .*true is not of type \"number\"",
        ),
        ({**DIGITS, "uniqueItems": 1}, "uniqueItems: true or false is expected"),
        ({**DIGITS, "minItems": 2, "maxItems": 1}, "no value meets this schema"),
        ({"type": "string", "pattern": "(a"}, "missing \\)"),
    ],
)
def test_what_can_be_neither_is_refused(value: Any, message: str) -> None:
    """Law: what no validator reads, what is no schema, and what nothing meets, is refused at once."""
    model = ScriptedModel(HERMES.size, 0)
    with pytest.raises(UnsupportedSchema, match=message) as caught:
        Caller(model, [tool_of(value)], format="hermes", vocabulary=HERMES)
    assert str(caught.value).startswith("function 'f', parameters")
    with pytest.raises(UnsupportedSchema):
        LocalGenerator(model, format="hermes", vocabulary=HERMES).stream(
            USER, [], output_spec("none", answer=value)
        )


def test_what_nothing_was_said_for_is_not_left() -> None:
    """Law: where x-ground has no text to hold to, it is refused, for no validator knows it."""
    value = {"type": "object", "properties": {"a": DIGITS, "b": {"x-ground": "prompt"}}}
    with pytest.raises(UnsupportedSchema):
        formats.get("hermes").output_grammar([tool_of(value)], OutputSpec(), deferred={})


def test_a_value_that_nests_too_deep_to_be_checked_does_not_count() -> None:
    """Law: where something is left to be checked, nothing goes unchecked for its depth; else it may."""
    tree = {"type": "array", "items": {"$ref": "#/properties/it"}, "uniqueItems": True}
    for value, is_left in ((tree, True), (tree | {"uniqueItems": False}, False)):
        validators = CallValidator([tool_of(value)])
        validators.grammar(formats.get("hermes"), OutputSpec(), None)
        for depth in (CHECKED_DEPTH - 1, CHECKED_DEPTH, 1000):
            call = ToolCall("f", f'{{"it": {"[" * depth}{"]" * depth}}}')
            if is_left and depth >= CHECKED_DEPTH:
                with pytest.raises(SchemaViolationError, match="nests deeper than the 100 levels"):
                    validators.check(call)
            else:
                validators.check(call)
    schema: Any = DIGITS
    for _ in range(1000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(UnsupportedSchema):
        CallValidator([tool_of(schema)]).grammar(formats.get("hermes"), OutputSpec(), None)


@pytest.mark.parametrize(("host", "is_valid"), [("例え.example", True), ("xn--x", False)])
def test_names_of_hosts_in_unicode_are_validated_when_the_call_is_complete(
    host: str, is_valid: bool
) -> None:
    """Law: a call with a name that IDNA 2008 forbids is an error, and a valid one is remarked."""
    tool = tool_of({"type": "string", "format": "idn-hostname"})
    call = ToolCall("f", json.dumps({"it": host}, ensure_ascii=False))
    model = speaks(HERMES, [written(call)], lambda _: 0, ASK)
    made = Caller(model, [tool], format="hermes", vocabulary=HERMES)
    if is_valid:
        outcome = made.call("x")
        assert outcome.call == call
        assert "not masked: /properties/it/format" in outcome.remarks[0]
    else:
        with pytest.raises(SchemaViolationError, match="at /it") as caught:
            made.call("x")
        assert caught.value.keyword == "/properties/it/format"


def test_a_mistake_in_what_was_masked_is_ours() -> None:
    """Law: only where something was left is a mistake the model's; else it is a bug, and said to be."""
    validators = CallValidator([DISTINCT])
    with pytest.raises(DecodingError, match="a bug in this package"):
        validators.check(BAD)
    validators.grammar(formats.get("hermes"), OutputSpec(), None)
    with pytest.raises(
        SchemaViolationError, match=r"at /it: \[1,1\] has non-unique elements"
    ) as caught:
        validators.check(BAD)
    assert (caught.value.pointer, caught.value.text) == ("/it", BAD.arguments)
    assert caught.value.keyword == "/properties/it/uniqueItems"
    validators.check(GOOD)
    assert validators.remarks(GOOD) == (
        "checked in the finished call of 'f', and not masked: /properties/it/uniqueItems",
    )
    assert validators.remarks(None) == validators.remarks(ToolCall("g")) == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"type": "string", "pattern": r"\bfoo\b"}, "fooé"),
        ({"anyOf": [{"type": "string", "pattern": r"\bfoo\b"}, {"type": "null"}]}, "fooé"),
        ({"type": "string", "pattern": r"^\P{L}$"}, "\U00016d43"),
        ({"type": "string", "not": {"pattern": "^.$"}}, "\r"),
        ({"propertyNames": {"pattern": r"^a\b"}, "type": "object"}, {"aé": 1}),
        ({"patternProperties": {r"^a\b": {}}, "type": "object", "additionalProperties": False}, {"aé": 1}),
    ],
)  # fmt: skip
def test_what_the_validator_reads_otherwise_is_no_mistake(value: Any, text: Any) -> None:
    """Law: a pattern is read as ECMA-262 has it; where the validator does not, nothing is reported."""
    tool = tool_of(value)
    call = ToolCall("f", json.dumps({"it": text}, ensure_ascii=False))
    validators, form = CallValidator([tool]), formats.get("llama3_json")
    automaton = compile_grammar(validators.grammar(form, OutputSpec(), frozenset()))
    (written,) = form.render([call], controls=frozenset())
    assert isinstance(written, str)
    assert automaton.is_accepting(automaton.walk(automaton.start, written.encode()))
    validators.check(call)


def test_a_pattern_that_is_read_alike_is_no_excuse() -> None:
    """Law: only what engines read differently is left to the mask; what was left is always checked."""
    for pattern in ("^a+$", r"^[\w-]+\.\d\\b$", r"\bfoo\b", "^.o$", r"^\p{L}$"):
        with pytest.raises(DecodingError, match="a bug in this package"):
            CallValidator([tool_of({"type": "string", "pattern": pattern})]).check(
                ToolCall("f", '{"it": "!"}')
            )
    both = tool_of({"type": "object", "properties": {"s": {"pattern": r"\ba"}, "n": DIGITS}})
    validators = CallValidator([both])
    validators.grammar(formats.get("hermes"), OutputSpec(), None)
    with pytest.raises(SchemaViolationError, match="non-unique"):
        validators.check(ToolCall("f", '{"it": {"s": "a", "n": [1, 1]}}'))


NULL_OR_ONE = {"type": ["integer"], "nullable": True, "maximum": 1}


@pytest.mark.parametrize(
    ("value", "valid", "wrong"),
    [
        (NULL_OR_ONE, "null", "2"),
        ({"type": "dict", "properties": {"enum": {"type": "float"}}}, '{"enum": 1.5}', '{"enum": "a"}'),
        ({"type": "tuple", "items": NULL_OR_ONE}, "[null, 1]", "[true]"),
        ({"type": ["any", "string"], "maxLength": 1}, "[7]", '"ab"'),
        ({"enum": [{"type": "dict", "nullable": True}, 1]}, '{"type": "dict", "nullable": true}', "2"),
        ({"type": "float", "nullable": False}, "1.5", "null"),
        ({"properties": {"nullable": {"type": "string"}}}, '{"nullable": "a"}', '{"nullable": null}'),
    ],
)  # fmt: skip
def test_other_words_are_read_as_the_grammar_reads_them(value: Any, valid: str, wrong: str) -> None:
    """Law: OpenAPI's nullable and the leaderboard's types mean to the validator what they are masked by."""
    for schema in (value, {"type": "array", "items": value, "uniqueItems": True}):
        validators, form = CallValidator([tool_of(schema)]), formats.get("llama3_json")
        automaton = compile_grammar(validators.grammar(form, OutputSpec(), frozenset()))
        for text, is_valid in ((valid, True), (wrong, False)):
            call = ToolCall("f", f'{{"it": {text if schema is value else f"[{text}]"}}}')
            (written,) = form.render([call], controls=frozenset())
            assert isinstance(written, str)
            state = automaton.walk(automaton.start, written.encode())
            assert (state >= 0 and automaton.is_accepting(state)) is is_valid
            if is_valid:
                validators.check(call)
            else:
                with pytest.raises((DecodingError, SchemaViolationError)):
                    validators.check(call)


def test_formats_that_are_left_are_checked() -> None:
    """Law: a host that is masked widely beside what cannot be masked is checked as well."""
    both = {"type": "object", "properties": {"host": {"format": "hostname"}, "n": DIGITS}}
    validators = CallValidator([tool_of(both)])
    validators.grammar(formats.get("hermes"), OutputSpec(), None)
    validators.check(ToolCall("f", '{"it": {"host": "a.example"}}'))
    with pytest.raises(SchemaViolationError) as caught:
        validators.check(ToolCall("f", '{"it": {"host": "xn--X"}}'))
    assert caught.value.keyword == "/properties/it/properties/host/format"


# -- several candidates ---------------------------------------------------------------------------

WORDS = [f"{a}{b}" for a in "abc" for b in "abc"]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), beam=st.booleans(), good=st.sets(st.sampled_from(WORDS)))
def test_the_likeliest_candidate_that_counts_is_taken(
    seed: int, beam: bool, good: set[str]
) -> None:
    """Law: of several candidates it is the likeliest that counts; where none does, the likeliest."""
    matcher = Matcher(compile_grammar(regex("[abc]{2}")), HERMES)
    choices = NameChoices(matcher.automaton, HERMES)
    model = ScriptedModel(HERMES.size, seed)
    session = model.open()
    session.feed([65])
    seen: list[str] = []

    def text(found: DecodeResult) -> str:
        return bytes(one for one in found.symbols if isinstance(one, int)).decode()

    def counts(found: DecodeResult) -> bool:
        seen.append(text(found))
        return seen[-1] in good

    strategy = DecodingStrategy(beam=9) if beam else DecodingStrategy(best_of=6)
    sampler = Sampler(temperature=2.0, generator=np.random.default_rng(seed))
    found = decode(
        session, matcher, choices, strategy, sampler, DecodeRequest([66], "", 9), is_valid=counts
    )
    assert text(found) == (seen[-1] if seen[-1] in good else seen[0])
    assert not good & set(seen[:-1])
    if beam:
        fork = model.open()
        fork.feed([65])
        every = [bytes(one.matcher.symbols).decode()
                 for one in search(fork, matcher.fork(), [66], width=9, max_tokens=9)]  # fmt: skip
        assert text(found) == next((one for one in every if one in good), every[0])


def test_a_search_finds_a_call_that_counts() -> None:
    """Law: a model that prefers a wrong call is searched for the likeliest right one."""
    with pytest.raises(SchemaViolationError):
        caller(written(BAD)).call("x")
    outcome = caller(written(BAD), beam=4).call("x")
    assert outcome.call is not None
    items = outcome.call.parsed["it"]
    assert len(items) == len(set(items))


# -- turns of a conversation -----------------------------------------------------------------------


def test_a_model_is_told_what_was_wrong_and_may_try_again() -> None:
    """Law: in a run a call that does not count is never made; the model gets to know, and corrects it."""
    made: list[Any] = []
    execute = PythonExecutor(f=lambda it: made.append(it) or "done")
    ran = caller(written(BAD), written(GOOD), ("There.",)).run("x", execute)
    assert (made, ran.text, ran.reason) == ([[1, 2]], "There.", "answered")
    told = [one for one in ran.conversation.entries if isinstance(one, ToolResult)]
    assert [one.is_error for one in told] == [True, False]
    assert (
        told[0].content == "invalid value at /arguments/it: [1, 1], [1,1] has non-unique elements"
    )


def test_a_model_that_does_not_learn_ends_in_text() -> None:
    """Law: the same wrong call over and over ends as any repeated call does, and is never made."""
    ran = caller(*[written(BAD)] * 8).run("x", PythonExecutor(f=lambda **_: pytest.fail("made")))
    assert ran.reason == "repeated"


def test_a_turn_tells_nothing_of_the_call_that_would_end_it() -> None:
    """Law: the end of a call is not told before it is checked, and one that was made before counts."""
    speech = caller(written(GOOD, BAD)).generator.stream(
        USER, [DISTINCT], output_spec(parallel=True)
    )
    told: list[Any] = []
    with pytest.raises(SchemaViolationError):
        told.extend(event for events in speech for event in events)
    ended = [one.index for one in told if isinstance(one, CallEnded)]
    assert ended == [0]
    with pytest.raises(RuntimeError):
        _ = speech.result


def test_what_a_budget_made_of_a_call_is_no_mistake_of_the_model() -> None:
    """Law: a call that the budget ended is a turn cut short, whatever it came to; nothing of it counts."""

    def speak(items: str, most: int) -> TurnResult:
        speaker = caller(written(ToolCall("f", f'{{"it": [{items}]}}'))).generator
        return speaker.generate(
            USER, [DISTINCT], output_spec("required"), DecodingConfig(max_tokens=most)
        )

    whole, least = speak("1, 3, 2, 4", 99).tokens, speak("", 99).tokens
    for most in range(least, whole):
        spoken = speak("1, 1, 1, 1", most)
        assert (spoken.ended, spoken.calls) == ("length", ())
    with pytest.raises(SchemaViolationError):
        speak("1, 1, 1, 1", whole)


def test_an_answer_by_a_schema_is_checked_as_a_call_is() -> None:
    """Law: an answer that its grammar could only widen is valid, or an error of nobody's function."""
    for has_tools in (False, True):
        tools = [ToolSpec("ping")] if has_tools else []
        wish = output_spec(answer=DISTINCT.parameters, has_tools=has_tools)
        spoken = caller((GOOD.arguments,)).generator.generate(USER, tools, wish)
        assert spoken.text == GOOD.arguments
        with pytest.raises(
            SchemaViolationError, match="the answer is not what the schema wants"
        ) as caught:
            caller((BAD.arguments,)).generator.generate(USER, tools, wish)
        assert (caught.value.function, caught.value.pointer) == (None, "/it")


def test_of_many_prompts_one_may_fail() -> None:
    """Law: a call that does not count is the failure of its prompt, and of no other."""
    model = speaks(HERMES, [written(BAD), written(GOOD)], lambda said: b"good" in said, ASK)
    made = Caller(model, [DISTINCT], format="hermes", vocabulary=HERMES)
    with made.submitting(2) as submit:
        futures = [submit(text) for text in ("good", "bad", "good")]
        found = [one.exception() or one.result() for one in futures]
    assert isinstance(found[1], SchemaViolationError)
    assert found[0].call == found[2].call == GOOD


@pytest.mark.parametrize("at_once", [1, 2])
def test_of_a_batch_one_prompt_may_fail(at_once: int, tmp_path: Path) -> None:
    """Law: of the command line's batch, too, and what failed is what a later run does again."""
    prompts = ["good", "bad", "good again"]
    model = speaks(HERMES, [written(BAD), written(GOOD)], lambda said: b"good" in said, ASK)
    made = Caller(model, [DISTINCT], format="hermes", vocabulary=HERMES, no_call=False)
    file = ResultFile(tmp_path / "out.json", ResultSettings.of([DISTINCT], "m"))
    batch = BatchJob(PromptRunner(made, [DISTINCT], concurrency=at_once), prompts, file)
    failures = [row.record.failure for row in batch.rows()]
    batch.save()
    assert failures[::2] == [None, None]
    assert "at /it: [1,1] has non-unique elements" in str(failures[1])
    assert set(file.resume(prompts, [DISTINCT]).records) == {0, 2}
