"""The decoder's promises: always in the language, always within the budget, no pass wasted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.decoding.decoder import Decoder, Step
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.errors import BudgetError, ModelError
from callmemaybe.grammar import Grammar
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.automata.tree import TreeAutomaton
from callmemaybe.grammar.nodes import (
    CaptureMark,
    Control,
    Node,
    alt,
    byte_range,
    capture,
    lexeme,
    lit,
    many,
    opt,
    repeat,
    seq,
    some,
    words_then,
)
from callmemaybe.matching import Matcher
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.vocabulary import Vocabulary
from tests.decoding.helpers import CHATML, vocabulary

PIECED = vocabulary(CHATML, ("<|im_end|>",))
BYTES = vocabulary(CHATML, ("<|im_end|>",), more=())
STRING = lexeme(seq(lit('"'), many(alt(byte_range(32, 33), byte_range(35, 91))), lit('"')))
NUMBER = lexeme(
    seq(opt(lit("-")), some(byte_range(48, 57)), opt(seq(lit("."), some(byte_range(48, 57)))))
)


def _tool(arguments: Node) -> Node:
    closing = seq(lit("}\n"), Control("</tool_call>"))
    return seq(
        CaptureMark("name", False),
        lit('", "arguments": '),
        capture("arguments", arguments),
        closing,
    )


CALL = seq(
    Control("<tool_call>"),
    lit('\n{"name": "'),
    CaptureMark("name", True),
    words_then(
        {
            "get_weather": _tool(seq(lit('{"city": '), STRING, lit("}"))),
            "get": _tool(seq(lit('{"n": '), NUMBER, opt(seq(lit(', "m": '), NUMBER)), lit("}"))),
            "ping": _tool(lit("{}")),
        }
    ),
)
TEXT = many(byte_range(32, 126))
LANGUAGE = compile_grammar(Grammar(CALL))
WITH_TEXT = compile_grammar(Grammar(alt(CALL, capture("no_call", lexeme(TEXT)))))


def decoder(
    vocab: Vocabulary, seed: object = 0, language=LANGUAGE, **options: object
) -> tuple[Decoder, ScriptedModel]:
    model = ScriptedModel(vocab.size, seed)  # type: ignore[arg-type]
    settings_ = {"sampler": Sampler(), "prompt": [65, 66, 67], "max_tokens": 300} | options
    return Decoder(model.open(), Matcher(language, vocab), **settings_), model  # type: ignore[arg-type]


def run(made: Decoder) -> list[Step]:
    return list(made.steps())


def accepts(language, symbols) -> bool:
    state = language.start
    for symbol in symbols:
        if state < 0:
            return False
        onward = language.controls(state).get(symbol, -1) if isinstance(symbol, str) else None
        state = language.step(state, symbol) if onward is None else onward
    return state >= 0 and language.is_accepting(state)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    pieced=st.booleans(),
    exact=st.booleans(),
    forcing=st.booleans(),
    extra=st.integers(0, 40),
    temperature=st.sampled_from([0.0, 1.0]),
)
def test_random_logits_give_a_sentence_within_the_budget(
    seed: int, pieced: bool, exact: bool, forcing: bool, extra: int, temperature: float
) -> None:
    """Whatever the model says, the answer is complete, in the language, and within max_tokens."""
    vocab = PIECED if pieced else BYTES
    least = Matcher(LANGUAGE, vocab).remaining
    made, _ = decoder(
        vocab,
        seed,
        sampler=Sampler(temperature, generator=np.random.default_rng(seed)),
        max_tokens=least + extra,
        choose="exact" if exact else "greedy",
        forcing=forcing,
    )
    steps = run(made)
    assert made.is_complete
    assert accepts(LANGUAGE, made.symbols)
    assert sum(len(step.ids) for step in steps) <= least + extra
    assert b"".join(step.data for step in steps).startswith(steps[-1].text)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), exact=st.booleans())
def test_forcing_changes_nothing_but_the_passes(seed: int, exact: bool) -> None:
    """Where tokenisation is unique, greedy output is the same with and without forcing."""
    choose = "exact" if exact else "greedy"
    fast, fast_model = decoder(BYTES, seed, choose=choose)
    slow, slow_model = decoder(BYTES, seed, choose=choose, forcing=False)
    run(fast)
    run(slow)
    assert fast.symbols == slow.symbols
    assert fast_model.counter.feeds < slow_model.counter.feeds


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), pieced=st.booleans())
def test_no_pass_is_wasted(seed: int, pieced: bool) -> None:
    """One pass per decision and one for the names; forced tokens at the end are never fed."""
    made, model = decoder(PIECED if pieced else BYTES, seed)
    steps = run(made)
    chosen = [step for step in steps if step.kind == "chosen"]
    extra = made.decisions[0][0].passes
    assert made.stats.passes == len(chosen) + extra
    unfed = 0
    for step in reversed(steps):
        unfed += len(step.ids)
        if step.kind == "chosen":
            break
    total = 3 + sum(len(step.ids) for step in steps)
    assert made.stats.fed == total - unfed
    assert model.counter.feeds >= made.stats.passes


def test_drafts_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is fed ahead is told apart from what must be fed: the logits that a pass keeps beyond the first."""

    class Sevens:
        def guess(self, *_: object) -> bytes:
            return b"77"

    digits = compile_grammar(Grammar(lexeme(repeat(byte_range(48, 57), 9, 9))))
    made, _ = decoder(BYTES, 5, digits, drafter=Sevens())
    kept = []
    feed = made.session.feed

    def spied(ids: list[int], *, keep: int = 1) -> object:
        kept.append(keep)
        return feed(ids, keep=keep)

    monkeypatch.setattr(made.session, "feed", spied)
    run(made)
    assert made.stats.passes == len(kept)
    assert made.stats.drafted == sum(keep - 1 for keep in kept) > 0


def test_forced_tokens_ride_along() -> None:
    """The first pass holds the prompt and the forced beginning; the last one ends at a choice."""
    made, _ = decoder(PIECED, 3)
    steps = run(made)
    assert [step.kind for step in steps[:2]] == ["forced", "chosen"]
    assert steps[0].data == b'<tool_call>\n{"name": "'
    assert steps[1].data in (b"get", b"p")
    assert steps[-1].kind == "forced"
    assert steps[-1].data.endswith(b"}\n</tool_call>")
    assert steps[0].allowed is None
    assert steps[0].logprob is None


def test_exact_choice_beats_a_tempting_beginning() -> None:
    """The name that is likeliest as a whole wins over the one whose first token is likeliest."""
    start = PIECED.encode(b'{"name": "')
    get, weather, ping = (PIECED.encode(text) for text in (b"get", b"_weather", b"ping"))

    def script(ids: tuple[int, ...]) -> np.ndarray:
        logits = np.zeros(PIECED.size, np.float32)
        if list(ids[-len(start) :]) == start:
            logits[get[0]], logits[ping[0]] = 10.4, 10.0
        elif ids[-1] == get[0]:
            logits[0] = 20.0  # the model would say something else here
            logits[weather[0]] = 1.0
        elif ids[-1] in ping:
            logits[ping[(ping.index(ids[-1]) + 1) % len(ping)]] = 20.0
        logits[PIECED.encode(b'"}')[0]] = 5.0
        return logits

    made, _ = decoder(PIECED, script)
    greedy, _ = decoder(PIECED, script, choose="greedy")
    run(made)
    run(greedy)
    assert b'"ping"' in made.matcher.text
    assert b'"get' in greedy.matcher.text
    found, index = made.decisions[0]
    assert found.candidates[index].name == b"ping"
    assert found.probabilities[index] > 0.99


def test_a_budget_that_is_too_small_is_refused_at_once() -> None:
    """Below the shortest answer nothing is generated; the error names the minimum."""
    least = Matcher(LANGUAGE, PIECED).remaining
    with pytest.raises(BudgetError, match=f"takes {least} tokens"):
        decoder(PIECED, max_tokens=least - 1)
    made, _ = decoder(PIECED, max_tokens=least)
    run(made)
    assert made.is_complete


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_broken_logits_are_the_models_fault(bad: float) -> None:
    """NaN and infinity end in a ModelError, not in a call."""

    def script(ids: tuple[int, ...]) -> np.ndarray:
        logits = np.zeros(PIECED.size, np.float32)
        logits[-len(ids) % PIECED.size :] = bad
        return logits

    with pytest.raises(ModelError, match="NaN or infinite"):
        run(decoder(PIECED, script)[0])


def gate_model(vocab: Vocabulary, lift: float) -> object:
    token = vocab.controls["<tool_call>"]

    def script(ids: tuple[int, ...]) -> np.ndarray:
        logits = np.random.default_rng(len(ids)).normal(size=vocab.size).astype(np.float32)
        logits[token] += lift
        return logits

    return script


def test_no_call_is_all_that_is_not_a_call() -> None:
    """A call is made where it is likelier than all texts together, not than the likeliest one."""
    for lift in (3.0, 20.0):
        made, model = decoder(PIECED, gate_model(PIECED, lift), WITH_TEXT, writes_text=False)
        run(made)
        logits = model.logits((65, 66, 67)).astype(np.float64)
        call = np.exp(logits[PIECED.controls["<tool_call>"]]) / np.exp(logits).sum()
        found, index = made.decisions[0]
        assert found.probabilities[0] == pytest.approx(call, abs=1e-6)
        assert (index == 0) == (call > 0.5) == made.is_complete == (lift == 20.0)
    assert logits.argmax() == PIECED.controls["<tool_call>"]


def test_an_answer_in_text_may_follow() -> None:
    """Where the model declines, a free answer follows that does not begin with a call."""
    made, _ = decoder(PIECED, gate_model(PIECED, 3.0), WITH_TEXT, max_tokens=40)
    steps = run(made)
    assert made.is_complete
    assert steps[0].ids == ()
    assert accepts(WITH_TEXT, made.symbols)
    assert PIECED.controls["<tool_call>"] not in made.matcher.ids


def test_seeds_repeat_and_vary() -> None:
    """Equal seeds give equal answers; some different seeds give different ones."""

    def sample(seed: int) -> tuple[object, ...]:
        sampler = Sampler(1.5, generator=np.random.default_rng(seed))
        made, _ = decoder(PIECED, 7, sampler=sampler)
        run(made)
        return tuple(made.symbols)

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(8)}) > 3


def test_watching_shows_the_likeliest() -> None:
    """A watched step holds the five likeliest tokens before the mask and after it."""
    made, model = decoder(PIECED, 3, trace=True)
    steps = run(made)
    for step in steps:
        if step.kind == "forced":
            assert step.before == step.after == ()
            continue
        assert len(step.before) == 5
        assert list(step.before) == sorted(step.before, key=lambda item: -item[1])
        assert 1 <= len(step.after) <= 5
    ids = [65, 66, 67, *steps[0].ids]
    logits = model.logits(tuple(ids)).astype(np.float64)
    best = int(logits.argmax())
    chance = np.exp(logits[best]) / np.exp(logits).sum()
    token = PIECED.token(best) or PIECED.names[best].encode()
    assert steps[1].before[0] == (token, pytest.approx(chance, rel=1e-4))


@pytest.mark.parametrize(("language", "lift"), [(LANGUAGE, 0.0), (WITH_TEXT, 3.0)])
def test_watching_shows_as_allowed_what_is_allowed(language: TreeAutomaton, lift: float) -> None:
    """What is likeliest after the mask is in the language, where a name or a text is chosen, too."""
    made, _ = decoder(PIECED, gate_model(PIECED, lift), language, max_tokens=40, trace=True)
    check, has_declined = Matcher(language, PIECED), False
    for step in run(made):
        if step.kind == "chosen":
            tokens = {PIECED.token(int(one)) or PIECED.names[int(one)].encode(): int(one)
                      for one in check.allowed(40 - len(check.ids))}  # fmt: skip
            assert {token for token, _ in step.after} <= {*tokens}
            assert sum(chance for _, chance in step.after) <= 1 + 1e-5
            if has_declined:
                assert b"<tool_call>" not in dict(step.after)
        has_declined = step.kind == "chosen" and not step.ids
        assert check.try_accept(step.ids) == len(step.ids)


def test_parts_of_characters_are_told_apart() -> None:
    """Two tokens that end inside a character are two entries of a trace's lists."""
    step = Step((1,), b"\xe2", b"\xe2", "chosen", before=((b"\xe2", 0.5), (b"\xf0", 0.4)))
    written = step.as_json()["before"]
    assert written[0][0] != written[1][0]
