"""The choice among names equals brute force, and costs no more passes than it must."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.decoding.name_choice import Candidate, NameChoice, NameChoices
from callmemaybe.decoding.scoring import score_call, score_names
from callmemaybe.grammar import Grammar
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.nodes import (
    EMPTY,
    CaptureMark,
    Control,
    Node,
    alt,
    byte_range,
    capture,
    lexeme,
    lit,
    many,
    seq,
    words_then,
)
from callmemaybe.models.scripted import ScriptedModel
from tests.decoding.helpers import CHATML, vocabulary

VOCABULARY = vocabulary(CHATML, ("<|im_end|>",))
SIZE = VOCABULARY.size
PROMPT = (65, 66)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    return wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())


def brute_force(model: ScriptedModel, branches: list[Candidate]) -> np.ndarray:
    """Score every branch token by token, each from the beginning."""
    scores = [
        sum(
            log_softmax(model.logits(PROMPT + branch.ids[:at]))[token]
            for at, token in enumerate(branch.ids)
        )
        for branch in branches
    ]
    weights = np.exp(np.array(scores) - max(scores))
    return weights / weights.sum()


def fork_of(root: Node, prefix: tuple[int | str, ...] = ()) -> NameChoice | None:
    automaton = compile_grammar(Grammar(root))
    state = automaton.start
    for symbol in prefix:
        if isinstance(symbol, str):
            state = automaton.controls(state)[symbol]
        else:
            state = automaton.step(state, symbol)
    return NameChoices(automaton, VOCABULARY).at(state, prefix)


def named(names: list[str], behind: bytes = b'", "arguments": {}') -> Node:
    then = seq(CaptureMark("name", False), lit(behind))
    return seq(CaptureMark("name", True), words_then(dict.fromkeys(names, then)))


NAMES = st.lists(st.text("abget_wi", min_size=1, max_size=6), min_size=2, max_size=8, unique=True)


@settings(max_examples=60, deadline=None)
@given(names=NAMES, seed=st.integers(0, 1000))
def test_it_equals_brute_force(names: list[str], seed: int) -> None:
    """The distribution is that of the products of all tokens' probabilities, normalised."""
    fork = fork_of(seq(lit('{"name": "'), named(names)))
    assert fork is not None
    assert not fork.decides_call
    model = ScriptedModel(SIZE, seed)
    session = model.open()
    logits = session.feed(PROMPT)[0]
    found = score_names(session, logits, fork.candidates)
    np.testing.assert_allclose(
        found.probabilities, brute_force(model, list(fork.candidates)), atol=1e-7
    )
    assert session.length == len(PROMPT)
    assert found.best == int(np.argmax(found.probabilities))


@settings(max_examples=60, deadline=None)
@given(names=NAMES)
def test_every_name_is_one_branch(names: list[str]) -> None:
    """All names are found, and each has just enough tokens to be told from all others."""
    fork = fork_of(seq(lit('{"name": "'), named(names)))
    assert fork is not None
    assert sorted(branch.name or b"" for branch in fork.candidates) == sorted(
        n.encode() for n in names
    )
    for branch in fork.candidates:
        spelled = VOCABULARY.decode(branch.ids)
        assert (b'{"name": "' + (branch.name or b"") + b'", "arguments": {}').startswith(spelled)
        others = [other.ids for other in fork.candidates if other is not branch]
        assert not any(ids[: len(branch.ids)] == branch.ids for ids in others)
        assert any(ids[: len(branch.ids) - 1] == branch.ids[:-1] for ids in others)


def test_tokens_are_those_of_the_tokenizer() -> None:
    """A branch is written as the tokenizer writes the text around it, boundaries included."""
    fork = fork_of(seq(lit('{"name": "'), named(["get", "get_weather"])))
    assert fork is not None
    ids = {
        branch.name: [VOCABULARY.token(token) for token in branch.ids] for branch in fork.candidates
    }
    assert ids[b"get_weather"] == [b'{"name": "', b"get", b"_weather"]
    assert ids[b"get"] == [b'{"name": "', b"get", b'", "arguments": ']


def test_the_text_before_counts() -> None:
    """Behind text that was already written, the tokens continue it."""
    fork = fork_of(seq(lit('{"name": "'), named(["get", "ti"])), tuple(b'{"name": "'))
    assert fork is not None
    assert {branch.name: VOCABULARY.decode(branch.ids) for branch in fork.candidates} == {
        b"get": b"get",
        b"ti": b"ti",
    }


def test_single_tokens_cost_nothing() -> None:
    """Where every branch is one token, the logits at hand decide without another pass."""
    markers = [
        seq(capture("name", Control(text)), lit("{}"))
        for text in ("<think>", "</think>", "<tool_call>")
    ]
    none = capture("no_call", Control("</tool_call>"))
    fork = fork_of(seq(alt(*markers, none), Control("<|im_end|>")))
    assert fork is not None
    model = ScriptedModel(SIZE, 5)
    session = model.open()
    found = score_names(session, session.feed(PROMPT)[0], fork.candidates)
    assert found.passes == 0
    assert model.counter.feeds == 1
    names = [branch.name for branch in fork.candidates]
    assert set(names) == {b"<think>", b"</think>", b"<tool_call>", None}
    assert all(len(branch.ids) == 1 for branch in fork.candidates)


def test_prefixes_go_through_the_model_once() -> None:
    """Every distinct prefix of several branches is fed once, all in one call."""
    branches = [
        Candidate(b"a", (1, 2, 3)),
        Candidate(b"b", (1, 2, 4)),
        Candidate(b"c", (1, 5)),
        Candidate(b"d", (6,)),
    ]
    model = ScriptedModel(SIZE, 3)
    session = model.open()
    found = score_names(session, session.feed(PROMPT)[0], branches)
    assert found.passes == 1
    assert model.counter.tokens - len(PROMPT) == 2
    np.testing.assert_allclose(found.probabilities, brute_force(model, branches), atol=1e-7)


def test_hopeless_branches_are_not_scored() -> None:
    """Branches that cannot matter are left out, and how much they could be is told."""

    def script(ids: tuple[int, ...]) -> np.ndarray:
        logits = np.zeros(SIZE, np.float32)
        logits[7 if len(ids) == len(PROMPT) else 8] = 60.0
        return logits

    branches = [Candidate(b"best", (7, 8))] + [
        Candidate(b"%d" % i, (9 + i, 8, 8)) for i in range(100)
    ]
    model = ScriptedModel(SIZE, script)
    session = model.open()
    found = score_names(session, session.feed(PROMPT)[0], branches, pass_bytes=8 * SIZE)
    assert found.passes == 1
    assert found.best == 0
    assert 0 < found.unscored < 1e-9


def test_bounded_passes_give_the_same_distribution() -> None:
    """Scoring in small portions changes nothing but the number of passes."""
    branches = [Candidate(b"%d" % i, (i, 255 - i, i + 1)) for i in range(50)]
    model = ScriptedModel(SIZE, 9)
    session = model.open()
    logits = session.feed(PROMPT)[0]
    whole = score_names(session, logits, branches)
    parts = score_names(session, logits, branches, pass_bytes=4 * SIZE * 10)
    assert whole.passes == 1
    assert parts.passes == 10
    np.testing.assert_allclose(whole.probabilities, parts.probabilities, atol=1e-12)


TEXT = many(byte_range(0, 127))


def test_a_gate_in_front_of_a_control_token() -> None:
    """Where free text or a control token may come, all that is not the token speaks for text."""
    call = seq(Control("<tool_call>"), named(["a", "b"]))
    fork = fork_of(alt(call, capture("no_call", lexeme(TEXT))))
    token = VOCABULARY.controls["<tool_call>"]
    assert fork == NameChoice((Candidate(b"", (token,)), Candidate(None, ())), decides_call=True)
    model = ScriptedModel(SIZE, 11)
    session = model.open()
    logits = session.feed(PROMPT)[0]
    found = score_call(session, logits, fork.candidates[0])
    expected = np.exp(log_softmax(logits)[token])
    np.testing.assert_allclose(found.probabilities, [expected, 1 - expected], atol=1e-7)
    assert found.passes == 0


def test_a_gate_in_front_of_text() -> None:
    """Where the call itself begins as text, it counts from where it is no other text's beginning."""
    from callmemaybe.grammar.nodes import Difference

    anything = many(byte_range(0, 255))
    free = Difference(TEXT, seq(anything, lit("<tool_call>"), anything))
    fork = fork_of(alt(seq(lit("<tool_call>\n"), named(["a", "b"])), capture("no_call", free)))
    assert fork is not None
    assert fork.decides_call
    assert VOCABULARY.decode(fork.candidates[0].ids) == b"<tool_call>"


@pytest.mark.parametrize(
    "root",
    [
        seq(lit("x"), many(byte_range(97, 99))),
        capture("name", lexeme(many(byte_range(97, 122)))),
        alt(seq(lit("a"), alt(lit("b"), lit("c"))), seq(lit("d"), named(["a", "b"]))),
        seq(alt(lit("x"), lit("y")), alt(lit("x"), lit("y")), named(["a", "b"])),
        alt(named(["a", "b"]), EMPTY),
        named(["a"]),
    ],
    ids=["no name", "endless names", "a way without", "two partings", "may end", "only one"],
)
def test_what_is_no_choice_of_names_is_none(root: Node) -> None:
    """Where not every way leads to a name, the choice is left to the decoder, token by token."""
    assert fork_of(root) is None


def test_inside_arguments_nothing_is_a_choice_of_names() -> None:
    """A capture that is open, and no name, keeps its choices to itself."""
    root = seq(capture("arguments", alt(lit("ab"), lit("cd"))), named(["a", "b"]))
    assert fork_of(root) is None


def test_thousands_of_names_are_listed_in_bounded_time() -> None:
    """A large catalogue is one trie: every name is found, with tokens of its own."""
    names = [f"tool_{index:05d}" for index in range(2_000)]
    fork = fork_of(seq(lit('{"name": "'), named(names)))
    assert fork is not None
    assert len(fork.candidates) == len({branch.ids for branch in fork.candidates}) == 2_000
