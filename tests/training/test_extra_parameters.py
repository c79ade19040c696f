"""Written functions get one parameter more that is not theirs."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.generators import extra_parameters
from training.data.generators.extra_parameters import with_addition, with_extra_parameter
from training.data.requests import draw_request
from training.data.tasks import check, read_tasks
from training.data.variants import BlockStyle, draw_variant

FUNCTIONS = read_tasks()


@given(st.randoms(use_true_random=False))
def test_one_optional_parameter_is_added_and_nothing_else(rng: Random) -> None:
    """All others stay as they are and in their order, and the requests say what they said, with or without more."""
    function = rng.choice(FUNCTIONS)
    made = with_extra_parameter(function, rng)
    more = [p for p in made.parameters if p not in function.parameters]
    assert len(more) == (made is not function)
    assert [p for p in made.parameters if p not in more] == function.parameters
    assert all(p.optional and p.type in ("boolean", "enum") for p in more)
    for before, after in zip(function.requests, made.requests, strict=True):
        body = before.rstrip("?.! ")
        more_said = f"{re.escape(body)} \\[, [^]]+\\]{re.escape(before[len(body) :])}"
        assert after == before or re.fullmatch(more_said, after)
    check(made)


def test_nothing_is_added_that_the_function_knows() -> None:
    """No longer word of the new parameter stands in the function or its requests."""
    rng = Random(2)
    for _ in range(300):
        function = rng.choice(FUNCTIONS)
        for parameter in with_extra_parameter(function, rng).parameters:
            if parameter not in function.parameters:
                texts = (*parameter.names, *parameter.abouts)
                assert not extra_parameters.words(" ".join(texts)) & extra_parameters.known(
                    function
                )


def test_it_is_asked_for_in_part_of_the_requests() -> None:
    """Where it is not said, it is not among the arguments; both are frequent."""
    rng = Random(4)
    told = []
    while len(told) < 400:
        function = rng.choice(FUNCTIONS)
        made = with_extra_parameter(function, rng)
        (more,) = [p for p in made.parameters if p not in function.parameters] or [None]
        if more is not None:
            variant = draw_variant(made, rng, BlockStyle.draw(rng))
            _, arguments = draw_request(made, variant, rng, plain=0.0)
            usual = {name for p in function.parameters for name in p.names}
            told.append(any(name in arguments for name in set(more.names) - usual))
    assert 0.25 < sum(told) / len(told) < 0.75


@pytest.mark.parametrize(
    ("request_", "more"),
    [
        ("what is in {folder}?", "what is in {folder} [, {deep:all}]?"),
        ("show {folder}.", "show {folder} [, {deep:all}]."),
        ("note {text}", "note {text}"),
        ("note {text}!", "note {text}!"),
        ('note "{text}"', 'note "{text}" [, {deep:all}]'),
        ("show {folder} [in {place}]", "show {folder} [in {place}]"),
    ],
)
def test_nothing_follows_free_words(request_: str, more: str) -> None:
    """What ends with free words, or with an option, stays as it is; a question mark stays at the end."""
    assert with_addition(request_, "{deep:all}", {"text"}) == more
