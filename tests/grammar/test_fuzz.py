"""Random schemas and random logits, judged by makers of validators and engines who know nothing of us.

Long, hence slow: `pytest -m slow tests/grammar/test_fuzz.py`. `FUZZ=2000` asks for more examples. The
engine llguidance is no dependency; where it is not installed its test is skipped.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema
from callmemaybe.grammar.json_schema.entry import in_schema_order
from callmemaybe.matching import Matcher
from callmemaybe.testing.vocabularies import ByteVocabulary
from tests.grammar.oracle import sample
from tests.grammar.schemas import NAMES, NUMBERS, STRINGS, schemas, values
from tests.grammar.test_schema_laws import Oracle, _exact, _is_long, is_in

EXAMPLES = int(os.environ.get("FUZZ", "150"))
PIECES = [
    '{"', '", "', '": ', '": "', '"}', '"]', "}]", ", ", "[[", "tru", "rue", "null", "12", "0.", "e-",
    "e+1", "\\u", "\\n", "aa", "ab", "ba", "b1", "é", "🙂", "x\"", "2024-", '"a": ', '"b": ', '{"a": {"',
]  # fmt: skip
VOCABULARY = ByteVocabulary(more=[piece.encode() for piece in PIECES], ends=["<end>"])
MOST = 150
#: A failing example is told as it is: making it smaller takes longer than all the others.
many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    report_multiple_bugs=False,
    print_blob=True,
)


def value_of(text: str) -> Any:
    """Return the exact value of a text; skips an example with a number no validator could hold."""
    return json.loads(text, parse_float=_bearable)


def _bearable(text: str) -> Any:
    # With a longer exponent it has more digits than are read (4,300).
    assume(len(text.lower().partition("e")[2].lstrip("+-")) < 4)
    return _exact(text)


def generated(schema: Any, dice: random.Random) -> str:
    """Let a model that knows nothing write a text, within a budget of tokens."""
    matcher = Matcher(compile_grammar(json_schema(schema)), VOCABULARY)
    logits = np.random.default_rng(dice.randrange(2**32))
    budget = matcher.remaining + dice.randrange(MOST)
    ids: list[int] = []
    while not matcher.is_terminated:
        chosen = matcher.forced() if dice.random() < 0.5 else []
        if not chosen or len(chosen) >= budget:
            scores = logits.normal(size=VOCABULARY.size).astype(np.float32)
            chosen = [matcher.argmax_allowed(scores, budget)]
        assert matcher.try_accept(chosen) == len(chosen)
        ids += chosen
        budget -= len(chosen)
    return b"".join(VOCABULARY.token(index) for index in ids).decode()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@many
@given(schemas(), st.integers(0, 2**32))
def test_random_logits_give_valid_values(schema: Any, seed: int) -> None:
    """Law: whatever the logits, the text that comes out in the budget is JSON and valid for both."""
    oracle = Oracle(schema)
    dice = random.Random(seed)
    try:
        oracle.is_valid(1)
        texts = [generated(schema, dice) for _ in range(3)]
    except (RecursionError, UnsupportedSchema):
        assume(False)
    for text in texts:
        value = value_of(text)
        assert oracle.is_valid(value) is not False, text


def _plain(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return schemas of keywords that llguidance, too, says it follows exactly."""
    properties = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    objects = st.tuples(properties, st.booleans(), st.randoms(use_true_random=False)).map(
        lambda made: {
            "type": "object", "properties": made[0], "additionalProperties": made[1],
            "required": [name for name in made[0] if made[2].random() < 0.5],
        }
    )  # fmt: skip
    arrays = st.tuples(inner, st.integers(0, 2), st.integers(2, 3)).map(
        lambda made: {"type": "array", "items": made[0], "minItems": made[1], "maxItems": made[2]}
    )
    choices = st.lists(inner, min_size=1, max_size=2).map(lambda several: {"anyOf": several})
    return st.one_of(objects, arrays, choices)


_limits = st.tuples(st.integers(0, 2), st.integers(2, 4))
plain = st.recursive(
    st.one_of(
        st.sampled_from(
            [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]
        ),
        st.lists(st.sampled_from(STRINGS), min_size=1, max_size=3, unique=True).map(
            lambda several: {"enum": several}
        ),
        _limits.map(lambda two: {"type": "string", "minLength": two[0], "maxLength": two[1]}),
        _limits.map(lambda two: {"type": "integer", "minimum": -two[0], "maximum": 30 * two[1]}),
    ),
    _plain,
    max_leaves=5,
)


def sampled(engine: Any, tokenizer: Any, compiled: Any, dice: random.Random) -> str | None:
    """Return a random text of llguidance's language; None if it finds no end."""
    matcher = engine.LLMatcher(tokenizer, compiled)
    text = bytearray()
    while len(text) < 300:
        allowed = [byte for byte, bias in enumerate(matcher.compute_logit_bias()[:256]) if bias]
        if matcher.is_accepting() and (not allowed or dice.random() < 0.4):
            return text.decode()
        if not allowed:
            return None
        closing = [byte for byte in allowed if byte in b'"}]' or 48 <= byte < 58]
        byte = dice.choice(closing if closing and dice.random() < len(text) / 60 else allowed)
        assert matcher.consume_token(byte)
        text.append(byte)
    return None


@pytest.mark.slow
@pytest.mark.timeout(3600)
@many
@given(plain, st.lists(values, max_size=4), st.integers(0, 2**32))
def test_where_llguidance_differs_it_is_wrong(schema: Any, some: list[Any], seed: int) -> None:
    """Law: of two exact engines, ours has what is valid, canonically written; theirs has no more."""
    engine = pytest.importorskip("llguidance", reason="llguidance is not installed")
    spaced = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    compiled = engine.LLMatcher.grammar_from_json_schema(schema, overrides=spaced)
    tokenizer = engine.LLTokenizer("byte")
    try:
        automaton = compile_grammar(json_schema(schema))
    except UnsupportedSchema:
        assume(False)
    oracle, dice = Oracle(schema), random.Random(seed)

    def theirs(text: str) -> bool:
        matcher = engine.LLMatcher(tokenizer, compiled)
        assert not matcher.get_error(), matcher.get_error()
        data = list(text.encode())
        return matcher.validate_tokens(data) == len(data) and bool(
            (not data or matcher.consume_tokens(data)) and matcher.is_accepting()
        )

    texts = [sample(automaton, dice).decode() for _ in range(3)]
    texts += [made for _ in range(3) if (made := sampled(engine, tokenizer, compiled, dice))]
    texts += [json.dumps(value, ensure_ascii=False) for value in [*some, *NUMBERS[:3]]]
    for text in texts:
        ours = is_in(automaton, text)
        if ours is theirs(text):
            continue
        value = value_of(text)
        valid = oracle.is_valid(value)
        if ours:
            assert valid is not False, text
        else:
            ordered = in_schema_order(schema, value)
            is_canonical = not _is_long(value) and json.dumps(ordered, ensure_ascii=False) == text
            assert not is_canonical or valid is not True, text
