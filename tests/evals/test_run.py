"""Cases through real Callers, with models that say what the test wants."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from callmemaybe.caller import Caller
from callmemaybe.calls import ToolSpec
from callmemaybe.errors import InputError
from callmemaybe.evals import run as room
from callmemaybe.evals.case import Case
from callmemaybe.evals.free import RETRIES, Free
from callmemaybe.evals.run import Bench, Options
from callmemaybe.models.remote import Remote
from callmemaybe.models.scripted import ScriptedModel
from tests.decoding.helpers import CHATML, NANO, vocabulary

HERMES = vocabulary(CHATML, ("<|im_end|>",))
MARKED = vocabulary(NANO, ("<|end|>",))
TOOL = {"name": "add", "parameters": {"a": {"type": "integer"}}}


def case(identity: str, *names: str, expected: Any = None) -> Case:
    functions = [{"name": name, "parameters": {"a": {"type": "integer"}}} for name in names]
    return Case.from_json(
        {"id": identity, "functions": functions, "prompt": "p", "expected": expected}
    )


def bench(most: int = 2, **options: Any) -> Bench:
    settings = {"format": "nano", "vocabulary": MARKED, "max_tokens": 60}
    model = ScriptedModel(MARKED.size, 1)
    return Bench(model, Options(settings=settings, **options), most=most)


def test_one_caller_for_each_list_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal lists share a Caller; only the last few are kept; every case has its record."""
    made: list[int] = []

    class Counted(Caller):
        def __init__(self, *given: Any, **options: Any) -> None:
            made.append(1)
            super().__init__(*given, **options)

    monkeypatch.setattr(room, "Caller", Counted)
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


def test_a_server_cannot_run_unconstrained() -> None:
    """A model on a server is refused before anything is asked."""
    with pytest.raises(InputError, match="unconstrained"):
        Bench(Remote("http://localhost:1/v1#m"), Options(unconstrained=True))


def saying(texts: list[str], vocab: Any, after: int) -> Callable[[tuple[int, ...]], np.ndarray]:
    """A script that writes these texts behind a prompt of ``after`` ids, whatever it holds."""
    ids = [i for text in texts for i in (
        [vocab.controls[text]] if text in vocab.controls else vocab.encode(text.encode()))]  # fmt: skip

    def script(seen: tuple[int, ...]) -> np.ndarray:
        logits = np.zeros(vocab.size, np.float32)
        if 0 <= len(seen) - after < len(ids):
            logits[ids[len(seen) - after]] = 100.0
        return logits

    return script


def attempts(form: str, vocab: Any, texts: list[str], no_call: bool = False) -> Any:
    model = ScriptedModel(vocab.size, 0)
    caller = Caller(
        model, [TOOL], format=form, vocabulary=vocab, no_call=no_call, max_tokens=80
    )  # fmt: skip
    controls = frozenset(vocab.controls)
    parts = caller.format.prompt([{"role": "user", "content": "p"}], caller.tools, controls)
    length = len(Free(caller, model, no_call=no_call)._encode(parts))
    model = ScriptedModel(vocab.size, saying(texts, vocab, length))
    return Free(caller, model, no_call=no_call).attempts("p")


def hermes(name: str, arguments: str) -> list[str]:
    body = f'\n{{"name": "{name}", "arguments": {arguments}}}\n'
    return ["<tool_call>", body, "</tool_call>", "<|im_end|>"]


@pytest.mark.parametrize(
    ("form", "vocab", "texts", "problem"),
    [
        ("hermes", HERMES, hermes("add", '{"a": 1}'), None),
        ("hermes", HERMES, ["<think>", "hm", "</think>", "\n", *hermes("add", '{"a": 1}')], None),
        ("nano", MARKED, ["add", "<|args|>", '{"a":1}', "<|end|>"], None),
        ("hermes", HERMES, hermes("sub", '{"a": 1}'), "no such function"),
        ("hermes", HERMES, hermes("add", '{"a": "1"}'), "the arguments do not fit the schema"),
        ("hermes", HERMES, hermes("add", '{"a": 1, "b": 2}'), "the arguments do not fit the schema"),
        ("hermes", HERMES, ["I would rather not.", "<|im_end|>"], "no call"),
        ("nano", MARKED, ["<|none|>", "<|end|>"], "no call"),
        ("nano", MARKED, ["add", "<|end|>"], "not in the format"),
    ],
)  # fmt: skip
def test_an_unconstrained_answer_is_looked_at(
    form: str, vocab: Any, texts: list[str], problem: str | None
) -> None:
    """A valid call is taken; whatever is wrong is named and tried again, as often as allowed."""
    found = attempts(form, vocab, texts)
    assert found[0].problem == problem
    if problem is None:
        assert len(found) == 1
        assert json.loads(found[0].call.arguments) == {"a": 1}
        assert found[0].tokens > 3
    else:
        assert len(found) == RETRIES + 1


def test_calling_nothing_may_be_an_answer() -> None:
    """Where no call is allowed as an answer, it is valid and needs no retry."""
    (found,) = attempts("nano", MARKED, ["<|none|>", "<|end|>"], no_call=True)
    assert (found.call, found.problem) == (None, None)


def test_an_answer_that_never_ends_is_cut() -> None:
    """The budget holds without a constraint, too."""
    found = attempts("nano", MARKED, ["x" * 200])
    assert found[0].tokens == 80
    assert found[0].problem == "not ended within the budget"


def test_a_run_records_both() -> None:
    """With the option, each record has its unconstrained attempts; they can be repeated."""
    (one,) = bench(unconstrained=True).records([case("x", "a", "b")])
    (two,) = bench(unconstrained=True).records([case("x", "a", "b")])
    assert 1 <= len(one.attempts) <= RETRIES + 1
    assert [a.tokens for a in one.attempts] == [a.tokens for a in two.attempts]
