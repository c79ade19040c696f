"""Cases through real Callers, with models that say what the test wants."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from callmemaybe.caller import Caller
from callmemaybe.errors import InputError
from callmemaybe.evals import runner
from callmemaybe.evals.case import Case
from callmemaybe.evals.record import EvalRecord
from callmemaybe.evals.runner import EvalRunner, EvalSettings
from callmemaybe.evals.unconstrained import RETRIES, UnconstrainedGenerator
from callmemaybe.models.remote import RemoteModel
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.tools import ToolCall, ToolSpec
from tests.decoding.helpers import CHATML, NANO, vocabulary
from tests.settings import prefix_ids, prompt_ids

HERMES = vocabulary(CHATML, ("<|im_end|>",))
MARKED = vocabulary(NANO, ("<|end|>",))
TOOL = {"name": "add", "parameters": {"a": {"type": "integer"}}}


def case(identity: str, *names: str, expected: Any = None) -> Case:
    functions = [{"name": name, "parameters": {"a": {"type": "integer"}}} for name in names]
    return Case.from_json(
        {"id": identity, "functions": functions, "prompt": "p", "expected": expected}
    )


def bench(most: int = 2, **options: Any) -> EvalRunner:
    settings = {"format": "nano", "vocabulary": MARKED, "max_tokens": 60}
    model = ScriptedModel(MARKED.size, 1)
    return EvalRunner(model, EvalSettings(settings=settings, **options), cache_size=most)


def test_one_caller_for_each_list_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal lists share a Caller; only the last few are kept; every case has its record."""
    made: list[int] = []

    class Counted(Caller):
        def __init__(self, *given: Any, **options: Any) -> None:
            made.append(1)
            super().__init__(*given, **options)

    monkeypatch.setattr(runner, "Caller", Counted)
    lists = ["a", "b", "a", "b", "c", "b", "a"]
    cases = [case(str(place), name) for place, name in enumerate(lists)]
    records = list(bench().records(cases))
    assert [record.id for record in records] == [one.id for one in cases]
    assert all(record.failure is None for record in records)
    assert len(made) == 4  # a, b, c, and a again


def test_a_failure_stays_with_its_case() -> None:
    """What one list of functions cannot do does not stop the others."""
    bad = Case("bad", (ToolSpec("f", "", {"$ref": "#/nowhere"}),), "p", (None,))
    good = case("good", "a")
    first, second = bench().records([bad, good])
    assert first.failure
    assert second.failure is None


def test_kept_answers_are_not_asked_again() -> None:
    """A kept answer counts if its case is still the same, by functions and prompt."""
    (record,) = bench().records([case("x", "a")])
    changed = case("x", "b")
    again = list(bench().records([case("x", "a"), changed], {"x": record}))
    assert again[0] is record
    assert again[1].key == changed.key


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("probability", float("nan")),
        ("seconds", float("inf")),
        ("forced", float("inf")),
        ("call", {"name": "a", "arguments": '{"a": "Os'}),
        ("call", {"name": "a", "arguments": "[]"}),
        ("attempts", [{"call": None, "problem": None, "tokens": 1, "seconds": float("nan")}]),
    ],
)
def test_a_record_is_read_whole_or_refused(key: str, value: Any) -> None:
    """What ``as_json`` cannot have written is an InputError at once, and no surprise later on."""
    good = EvalRecord("x", "k", ToolCall("a", '{"a": 1}'), probability=0.5).as_json()
    assert EvalRecord.from_json(good).as_json() == good
    with pytest.raises(InputError):
        EvalRecord.from_json({**good, key: value})


def test_a_server_cannot_run_unconstrained() -> None:
    """A model on a server is refused before anything is asked."""
    with pytest.raises(InputError, match="unconstrained"):
        EvalRunner(RemoteModel("http://localhost:1/v1#m"), EvalSettings(unconstrained=True))


Script = Callable[[tuple[int, ...]], np.ndarray]


def saying(ids: list[int], size: int, after: int) -> Script:
    """A script that writes these ids behind a prompt of ``after`` ids, whatever it holds."""

    def script(seen: tuple[int, ...]) -> np.ndarray:
        logits = np.zeros(size, np.float32)
        if 0 <= len(seen) - after < len(ids):
            logits[ids[len(seen) - after]] = 100.0
        return logits

    return script


def attempts(form: str, vocab: Any, written: Any, no_call: bool = False, tool: Any = TOOL) -> Any:
    """Let a model answer with calls as its format writes them, or with a text; then it ends."""
    model = ScriptedModel(vocab.size, 0)
    options: dict[str, Any] = {"vocabulary": vocab, "no_call": no_call, "max_tokens": 80}
    caller = Caller(model, [tool], format=form, **options)
    controls, wire_format = frozenset(vocab.controls), caller.generator.format
    prompt = [{"role": "user", "content": "p"}]
    length = len(prefix_ids(caller))
    length += len(prompt_ids(caller, wire_format.request(prompt, caller.tools, controls)))
    parts = (
        [written]
        if isinstance(written, str)
        else wire_format.render(written, tools=caller.tools, controls=controls)
    )
    ids = prompt_ids(caller, parts)
    if not ids or ids[-1] not in vocab.ends:
        ids.append(min(vocab.ends))
    model = ScriptedModel(vocab.size, saying(ids, vocab.size, length))
    caller = Caller(model, [tool], format=form, **options)
    return UnconstrainedGenerator(caller, no_call=no_call).attempts("p")


@pytest.mark.parametrize(("form", "vocab"), [("hermes", HERMES), ("nano", MARKED)])
@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ([ToolCall("add", '{"a": 1}')], None),
        ([ToolCall("add", '{"a": "1"}')], "the arguments do not fit the schema"),
        ([ToolCall("add", '{"a": 1, "b": 2}')], "the arguments do not fit the schema"),
        ([ToolCall("add", "{}")], "the arguments do not fit the schema"),
        ([ToolCall("add", '{"a": 1}')] * 2, "more than one call"),
        ([], "no call"),
    ],
)  # fmt: skip
def test_an_unconstrained_answer_is_looked_at(
    form: str, vocab: Any, written: Any, problem: str | None
) -> None:
    """A valid call is taken; whatever is wrong is named and tried again, as often as allowed."""
    found = attempts(form, vocab, written)
    assert found[0].problem == problem
    if problem is None:
        assert len(found) == 1
        assert json.loads(found[0].call.arguments) == {"a": 1}
        assert found[0].tokens > 1
    else:
        assert len(found) == RETRIES + 1


def test_an_unconstrained_answer_is_held_to_the_words_of_the_grammar() -> None:
    """A null for what is nullable is valid, and types that JSON Schema lacks bind all the same."""
    parameters = {"a": {"type": "integer", "nullable": True}, "b": {"type": "tuple"}}
    tool = {"name": "add", "parameters": parameters}
    for arguments, problem in (
        ('{"a": null, "b": [1]}', None),
        ('{"a": null, "b": 1}', "the arguments do not fit the schema"),
    ):
        (first, *_) = attempts("nano", MARKED, [ToolCall("add", arguments)], tool=tool)
        assert first.problem == problem


def test_names_and_formats_are_looked_at() -> None:
    """A function that is not offered, and text in no format at all, are told apart."""
    (first, *_) = attempts("hermes", HERMES, [ToolCall("sub", '{"a": 1}')])
    assert first.problem == "no such function"
    (first, *_) = attempts("nano", MARKED, "???")
    assert first.problem == "not in the format"


def test_thinking_aloud_is_forgiven() -> None:
    """What a model thinks before its call does not make the call invalid."""
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
    (found,) = attempts("hermes", HERMES, f"<think>\nhm\n</think>\n\n{call}\n")
    assert found.problem is None


def test_calling_nothing_may_be_an_answer() -> None:
    """Where no call is allowed as an answer, it is valid and needs no retry."""
    (found,) = attempts("nano", MARKED, [], no_call=True)
    assert (found.call, found.problem) == (None, None)


def test_an_answer_that_never_ends_is_cut() -> None:
    """The budget holds without a constraint, too."""
    found = attempts("nano", MARKED, "x" * 200)
    assert found[0].tokens == 80
    assert found[0].problem == "not ended within the budget"


def test_a_run_records_both() -> None:
    """With the option, each record has its unconstrained attempts; they can be repeated."""
    (one,) = bench(unconstrained=True).records([case("x", "a", "b")])
    (two,) = bench(unconstrained=True).records([case("x", "a", "b")])
    assert 1 <= len(one.attempts) <= RETRIES + 1
    assert [a.tokens for a in one.attempts] == [a.tokens for a in two.attempts]


def test_a_prompt_that_does_not_fit_is_no_failure() -> None:
    """The constrained run cuts a long request; the other one says that it does not fit."""
    model = ScriptedModel(MARKED.size, 1, context=200)
    caller = Caller(model, [TOOL], format="nano", vocabulary=MARKED, no_call=False, max_tokens=40)
    assert caller.call("x" * 1000).omitted > 0
    (found,) = UnconstrainedGenerator(caller, no_call=False).attempts("x" * 1000)
    assert found.problem == "the prompt does not fit into the context"
