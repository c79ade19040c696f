"""A key that an object has twice: no automaton can see to it, so a call is checked before it is told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.agent.executors import PythonExecutor
from callmemaybe.caller import Caller
from callmemaybe.cli.batch import BatchJob, PromptRunner
from callmemaybe.cli.results import ResultFile, ResultSettings
from callmemaybe.conversation import Conversation, ModelTurn
from callmemaybe.errors import DuplicateKeyError
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.remote_answer import rewritten
from callmemaybe.generation.result import TurnResult
from callmemaybe.generation.validation import CallValidator
from callmemaybe.grammar import regex
from callmemaybe.grammar.json_schema.certificate import certificate
from callmemaybe.grammar.nodes import Control
from callmemaybe.tools import ToolCall, ToolResult, ToolSpec
from callmemaybe.wire import PromptPart, formats
from callmemaybe.wire.tool_choice import output_spec
from tests.decoding.helpers import CHATML, vocabulary
from tests.talking import speaks


def test_a_call_with_a_key_twice_is_never_told() -> None:
    """Law: a call whose arguments have a key twice is an error that names the key."""
    validators = CallValidator([ToolSpec("f", parameters={})])
    with pytest.raises(DuplicateKeyError, match="'x' twice") as caught:
        validators.check(ToolCall("f", '{"x": 1, "x": 2}', "1"))
    assert caught.value.key == "x"
    validators.check(ToolCall("f", '{"x": 1, "y": 2}', "1"))


VOCABULARY = vocabulary(CHATML, ("<|im_end|>",))
ASK = b"<|im_start|>assistant\n<think>\n\n</think>\n\n"
USER = [{"role": "user", "content": "Well?"}]
TWICE = '{"a": 1, "b": {"x": 1, "x": 2}}'


def speak(text: str, answer: Any, options: DecodingConfig | None = None, **wish: Any) -> TurnResult:
    """Return the turn of a model that wants to say a text."""
    model = speaks(VOCABULARY, [(text,)], lambda _: 0, ASK)
    made = LocalGenerator(model, format="hermes", vocabulary=VOCABULARY)
    tools = [ToolSpec("ping")] if wish.get("has_tools") else []
    return made.generate(USER, tools, output_spec("auto", answer=answer, **wish), options)


@pytest.mark.parametrize("has_tools", [False, True])
def test_an_answer_with_a_key_twice_does_not_count(has_tools: bool) -> None:
    """Law: an answer by a schema is looked through as a call is, with tools beside it or without."""
    for schema in ({"type": "object"}, {}, {"properties": {"a": {"const": 1}}, "required": ["a"]}):
        with pytest.raises(DuplicateKeyError, match="the answer has the key 'x' twice"):
            speak(TWICE, schema, has_tools=has_tools)
    once = TWICE.replace('"x": 2', '"y": 2')
    assert speak(once, {"type": "object"}, has_tools=has_tools).text == once


def test_what_is_no_json_is_not_looked_through() -> None:
    """Law: neither free text, nor a text by a grammar, nor what a stop or the budget cut off."""
    assert speak(TWICE, None, has_tools=False).text == TWICE
    assert speak(TWICE, regex("[^.]+"), has_tools=False).text == TWICE
    cut = speak(TWICE, {}, DecodingConfig(stop=(": 2",)), has_tools=False)
    assert (cut.text, cut.stop) == (TWICE.split(": 2", maxsplit=1)[0], ": 2")
    short = speak(TWICE.replace("2", "2" * 40), {}, DecodingConfig(max_tokens=36), has_tools=False)
    assert short.ended == "length"


def test_a_servers_spelling_loses_no_key() -> None:
    """Law: what is written anew in our spelling is read as a value, so a repeated key is told first."""
    tool = ToolSpec("f", parameters={"type": "object", "additionalProperties": True})
    with pytest.raises(DuplicateKeyError, match="'a' twice"):
        rewritten('{"name":"f","arguments":{"a":1,"a":2}}', [tool])
    once = '{"name": "f", "arguments": {"a": 1}}'
    assert rewritten(once.replace(" ", ""), [tool]) == once


def test_the_certificate_says_where_this_may_happen() -> None:
    """Law: what opens an object says that repeated keys are found in the complete value."""
    schema = {"properties": {
        "open": {"type": "object"},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "closed": {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
    }}  # fmt: skip
    told = {
        row.pointer for row in certificate(schema, additional=False).keywords if "twice" in row.why
    }
    assert told == {"/properties/open/type", "/properties/counts/additionalProperties"}


# -- turns of a conversation -----------------------------------------------------------------------

FREE = ToolSpec("f", parameters={"type": "object", "additionalProperties": True})
BAD, GOOD = ToolCall("f", '{"x": 1, "x": 2}'), ToolCall("f", '{"x": 2}')


BAD_CODER = """<tool_call>
<function=f>
<parameter=x>
1
</parameter>
<parameter=x>
2
</parameter>
</function>
</tool_call>"""


def written(text: str) -> tuple[PromptPart, ...]:
    """Return a text with its control tokens."""
    parts = re.split("(</?tool_call>)", text)
    return tuple(Control(one) if one in CHATML else one for one in parts if one)


def caller(*wishes: ToolCall | str, form: str = "hermes") -> Caller:
    """Return a caller of FREE, of a model that says one wish a turn."""
    controls = frozenset(VOCABULARY.controls)
    parts = [
        written(one) if isinstance(one, str) else formats.get(form).render([one], controls=controls)
        for one in wishes
    ]
    model = speaks(VOCABULARY, parts, lambda said: said.count(b"<|im_start|>assistant\n"), ASK)
    return Caller(model, [FREE], format=form, vocabulary=VOCABULARY)


@pytest.mark.parametrize(("form", "bad"), [("hermes", BAD), ("qwen3_coder", BAD_CODER)])
def test_a_model_is_told_of_its_key_and_may_try_again(form: str, bad: ToolCall | str) -> None:
    """Law: in a run such a call is never made; the model gets to know, and what it then means is made."""
    made: list[Any] = []
    execute = PythonExecutor(f=lambda **given: made.append(given) or "done")
    ran = caller(bad, GOOD, "There.", form=form).run("x", execute)
    assert (made, ran.text, ran.reason) == ([{"x": 2}], "There.", "answered")
    told = [one for one in ran.conversation.entries if isinstance(one, ToolResult)]
    assert [one.is_error for one in told] == [True, False]
    assert told[0].content == "invalid value at /arguments: the key 'x' is there twice"
    calls = [
        call for one in ran.conversation.entries if isinstance(one, ModelTurn) for call in one.calls
    ]
    assert [call.arguments for call in calls] == [BAD.arguments, GOOD.arguments]
    again = Conversation.from_json(ran.conversation.to_json())
    assert again.entries == ran.conversation.entries


def test_a_model_that_does_not_learn_ends_in_text() -> None:
    """Law: the same call over and over ends as any repeated call does, and is never made."""
    ran = caller(*[BAD] * 8).run("x", PythonExecutor(f=lambda **_: pytest.fail("made")))
    assert ran.reason == "repeated"


def test_nobody_is_told_of_an_answer() -> None:
    """Law: an answer has no call that an error could answer: in a run, too, it is the error."""
    with pytest.raises(DuplicateKeyError) as caught:
        caller(TWICE).run("x", PythonExecutor(), tool_choice="none", answer={"type": "object"})
    assert (caught.value.function, caught.value.text) == (None, TWICE)


@pytest.mark.parametrize("at_once", [1, 2])
def test_of_many_prompts_one_may_fail(at_once: int, tmp_path: Path) -> None:
    """Law: of a batch of the command line, such a call is the failure of its prompt, and of no other."""
    prompts = ["good", "bad", "good again"]
    parts = [formats.get("hermes").render([one]) for one in (BAD, GOOD)]
    model = speaks(VOCABULARY, parts, lambda said: b"good" in said, ASK)
    made = Caller(model, [FREE], format="hermes", vocabulary=VOCABULARY, no_call=False)
    file = ResultFile(tmp_path / "out.json", ResultSettings.of([FREE], "m"))
    batch = BatchJob(PromptRunner(made, [FREE], concurrency=at_once), prompts, file)
    failures = [row.record.failure for row in batch.rows()]
    batch.save()
    assert failures[::2] == [None, None]
    assert "'f' have the key 'x' twice" in str(failures[1])
    records = json.loads(file.path.read_text())
    assert [one["parameters"] for one in records] == [{"x": 2}, {}, {"x": 2}]
    assert set(file.resume(prompts, [FREE]).records) == {0, 2}
