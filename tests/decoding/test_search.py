"""Whole answers by their probability: scoring, and beam search."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.decoding.beam import search
from callmemaybe.decoding.decoder import Decoder
from callmemaybe.decoding.sampler import Sampler, logsumexp
from callmemaybe.decoding.scoring import logprobs
from callmemaybe.grammar import Grammar
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.nodes import alt, lexeme, lit, opt, seq
from callmemaybe.matching import Matcher
from callmemaybe.models.scripted import ScriptedModel
from tests.decoding.helpers import CHATML, vocabulary

VOCAB = vocabulary(CHATML, ("<|im_end|>",), more=())
WORDS = ["a", "ab", "b", "cc"]
SENTENCES = [f"<{first}{second}>" for first, second in itertools.product(WORDS, ["", *WORDS])]
LANGUAGE = compile_grammar(
    Grammar(
        seq(
            lit("<"),
            lexeme(alt(*map(lit, WORDS))),
            opt(lexeme(alt(*map(lit, WORDS)))),
            lit(">"),
        )
    )
)
PROMPT = [65, 66, 67]


def probability(model: ScriptedModel, ids: list[int]) -> float:
    """Return log P of these ids behind the prompt, one by one: slow and obvious."""
    total, held = 0.0, tuple(PROMPT)
    for index in ids:
        row = model.logits(held)
        total += float(row[index]) - logsumexp(row)
        held += (index,)
    return total


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), text=st.sampled_from(["", "a", "<ab>", "<abcc>" * 4]))
def test_scores_are_the_chain_rule(seed: int, text: str) -> None:
    """The log-probabilities of an answer add up to that of the whole; the session stays."""
    model = ScriptedModel(VOCAB.size, seed)
    session = model.open()
    session.feed(PROMPT)
    ids = VOCAB.encode(text.encode())
    found = logprobs(session, PROMPT[-1], ids)
    assert len(found) == len(ids)
    assert math.isclose(found.sum(), probability(model, ids), abs_tol=1e-4)
    assert session.ids == tuple(PROMPT)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_wide_beam_finds_the_likeliest_sentence(seed: int) -> None:
    """With room for every sentence the search is exhaustive, and its scores are exact."""
    model = ScriptedModel(VOCAB.size, seed)
    found = search(
        model.open(), Matcher(LANGUAGE, VOCAB), PROMPT, width=len(SENTENCES), max_tokens=20
    )
    texts = {one.matcher.text.decode(): one.logprob for one in found}
    scores = {text: probability(model, VOCAB.encode(text.encode())) for text in SENTENCES}
    assert set(texts) <= set(SENTENCES)
    best = max(scores, key=lambda text: scores[text])
    assert found[0].matcher.text.decode() == best
    for text, score in texts.items():
        assert math.isclose(score, scores[text], abs_tol=1e-4)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), width=st.integers(1, 4))
def test_any_beam_stays_in_the_language_and_the_budget(seed: int, width: int) -> None:
    """Every answer of a beam of any width is a sentence within the budget, likeliest first."""
    least = Matcher(LANGUAGE, VOCAB).remaining
    for budget in range(least, least + 4):
        model = ScriptedModel(VOCAB.size, seed)
        found = search(
            model.open(), Matcher(LANGUAGE, VOCAB), PROMPT, width=width, max_tokens=budget
        )
        assert found
        for one in found:
            assert one.matcher.text.decode() in SENTENCES
            assert len(one.matcher.ids) <= budget
        assert [one.logprob for one in found] == sorted((o.logprob for o in found), reverse=True)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_what_is_forced_can_count_as_certain(seed: int) -> None:
    """Then an answer scores what its choices do, and the likeliest by them is found."""
    model = ScriptedModel(VOCAB.size, seed)
    found = search(
        model.open(), Matcher(LANGUAGE, VOCAB), PROMPT, width=len(SENTENCES), max_tokens=20,
        forced_are_certain=True,
    )  # fmt: skip
    for one in found:
        session = model.open()
        session.feed(PROMPT, keep=0)
        scores = logprobs(session, PROMPT[-1], one.matcher.ids)
        scores[list(one.forced)] = 0.0
        assert math.isclose(one.logprob, float(scores.sum()), abs_tol=1e-4)
    assert any(one.forced for one in found)
    assert [one.logprob for one in found] == sorted((o.logprob for o in found), reverse=True)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_one_hypothesis_is_greedy(seed: int) -> None:
    """A beam of one takes the likeliest token each time, as the decoder does."""
    model = ScriptedModel(VOCAB.size, seed)
    (found, *_) = search(model.open(), Matcher(LANGUAGE, VOCAB), PROMPT, width=1, max_tokens=20)
    plain = Decoder(model.open(), Matcher(LANGUAGE, VOCAB), Sampler(), PROMPT, 20, choose="greedy")
    list(plain.steps())
    assert found.matcher.text == plain.matcher.text
    assert np.isfinite(found.logprob)
