"""Numbers: intervals and multiples are exact, in every way a number can be written."""

from __future__ import annotations

import math
import random
import re
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from callmemaybe.errors import GrammarError, UnsupportedSchema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema
from callmemaybe.grammar.automata.divisible import Divisible
from callmemaybe.grammar.automata.tree import machine_of
from callmemaybe.grammar.json_schema.intervals import Interval, decimals, integers
from callmemaybe.grammar.json_schema.numbers import MAX_STATES, multiples, number_node
from callmemaybe.grammar.json_schema.shapes import FRACTION, INTEGER, NUMBER, NumberFacet
from callmemaybe.grammar.nodes import INFINITE, NOTHING, Intersection, Node
from tests.grammar.oracle import sample

JSON_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\Z")

patient = partial(settings, deadline=None, suppress_health_check=list(HealthCheck))
small = st.builds(Fraction, st.integers(-120, 120), st.sampled_from([1, 2, 4, 10, 100, 1000]))
large = st.builds(
    lambda digits, places: Fraction(digits) / Fraction(10) ** places,
    st.integers(-(10**6), 10**6),
    st.integers(-25, 25),
)
decimals_of_any_size = st.one_of(small, large)


def is_in(node: Node, text: str) -> bool:
    """Whether a text is in the language of a regular node."""
    if node is NOTHING:
        return False
    machine = machine_of(node)
    state = machine.walk(machine.start, text.encode())
    return state >= 0 and machine.is_accepting(state)


def spellings(number: Fraction) -> set[str]:
    """Return ways to write a finite decimal: plain, padded, and as Python writes the float."""
    places = next(n for n in range(400) if (number * 10**n).denominator == 1)
    digits = str(abs(number * 10**places)).rjust(places + 1, "0")
    plain = digits[: len(digits) - places] + (
        "." + digits[len(digits) - places :] if places else ""
    )
    plain = ("-" if number < 0 else "") + plain
    found = {plain, plain + ("0" if places else ".0")}
    if math.isfinite(float(number)) and Fraction(repr(float(number))) == number:
        found.add(repr(float(number)))
    return found | ({"-0", "-0.0"} if number == 0 else set())


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    """Return an interval; half of the time its ends are close together."""
    low = draw(st.none() | decimals_of_any_size)
    high = draw(st.none() | decimals_of_any_size)
    if low is not None and draw(st.booleans()):
        high = low + draw(st.sampled_from([Fraction(n) for n in (0, 1, 10)] + [Fraction("1e-5")]))
    return Interval(low, high, draw(st.booleans()), draw(st.booleans()))


@patient(max_examples=150)
@given(intervals(), st.lists(decimals_of_any_size, min_size=4), st.integers(0, 2**32))
def test_intervals_are_exact(interval: Interval, numbers: list[Fraction], seed: int) -> None:
    """Law: a numeral is in the language of an interval iff its number is in the interval."""
    for end in (interval.low, interval.high):
        if end is not None:
            numbers += [end, *(end + step for step in map(Fraction, (1, -1, "0.001", "-1e-7")))]
    node, whole = decimals(interval), integers(interval)
    for number in numbers:
        for text in spellings(number):
            assert is_in(node, text) is (number in interval), text
            if "." not in text and "e" not in text:
                assert is_in(whole, text) is (number in interval), text
    dice = random.Random(seed)
    for language in (node, whole):
        if language is not NOTHING and machine_of(language).min_length < INFINITE:
            text = sample(machine_of(language), dice, length=40).decode()
            assert JSON_NUMBER.match(text)
            assert Fraction(text) in interval, text


MULTIPLES = ["1", "2", "7", "10", "77", "1000", "0.01", "2.5", "0.3", "1e-7", "1e30"]


@patient(max_examples=80)
@example(Fraction(1000), [Fraction(3), Fraction("0.5")], [(1, 0)] * 10, 0)
@given(
    st.none() | st.sampled_from(MULTIPLES).map(Fraction),
    st.lists(st.sampled_from(["2", "3", "0.5", "10"]).map(Fraction), max_size=2, unique=True),
    st.lists(st.tuples(st.integers(0, 5000), st.integers(-8, 20)), min_size=10),
    st.integers(0, 2**32),
)
def test_multiples_are_exact(
    multiple: Fraction | None,
    others: list[Fraction],
    numbers: list[tuple[int, int]],
    seed: int,
) -> None:
    """Law: a numeral is in the language iff it is a multiple of one number and not of others."""

    def expected(number: Fraction) -> bool:
        return (multiple is None or (number / multiple).denominator == 1) and all(
            (number / other).denominator != 1 for other in others
        )

    counted = [*others] if multiple is None else [multiple, *others]
    try:
        node = multiples(multiple, tuple(others))
    except GrammarError:
        places = next(n for n in range(9) if all((x * 10**n).denominator == 1 for x in counted))
        remainders = math.lcm(*(int(x * 10**places) for x in counted))
        assert remainders * (places + 2) > MAX_STATES  # beyond counting
        return
    for factor, power in numbers:
        for number in (
            factor * (multiple or 1) * 10 ** max(power, 0),
            factor * Fraction(10) ** power,
        ):
            for text in spellings(Fraction(number)):
                if text not in {"-0", "-0.0"}:
                    assert is_in(node, text) is expected(Fraction(text)), text
    if machine_of(node).min_length < INFINITE:
        text = sample(machine_of(node), random.Random(seed), length=30).decode()
        assert expected(Fraction(text)), text


steps = st.sampled_from([2, 7, 10, 128, 360, 86_400, 10**6, 100_003, 2**64 + 13, 10**40])


@patient(max_examples=100)
@given(steps, st.none() | st.integers(-3, 40), st.none() | st.integers(-3, 40), st.data())
def test_large_multiples_are_exact(
    step: int, first: int | None, last: int | None, data: st.DataObject
) -> None:
    """Law: of integers those are in the language that the step divides, within the bounds; no dead ends.

    The bounds are near multiples, on both sides of zero.
    """
    near = st.integers(-2, 2)
    low = (
        None
        if first is None
        else data.draw(st.sampled_from([-1, 1])) * first * step + data.draw(near)
    )
    high = (
        None
        if last is None
        else data.draw(st.sampled_from([-1, 1])) * last * step + data.draw(near)
    )
    node = Divisible(step, low, high)
    factors = data.draw(st.lists(st.integers(-50, 50), min_size=5))
    numbers = [f * step + off for f in factors for off in (0, 1)] + [
        bound // step * step + more
        for bound in (low or 0, high or 0)
        for more in (0, step, -step, 1)
    ]
    for number in numbers:
        inside = (low is None or number >= low) and (high is None or number <= high)
        assert is_in(node, str(number)) is (inside and number % step == 0), number
        assert not is_in(node, f"0{number}")
        assert not is_in(node, f"{number}.0")
    has_zero = (low is None or low <= 0) and (high is None or high >= 0)
    assert is_in(node, "-0") is has_zero
    machine = machine_of(node)
    is_empty = low is not None and high is not None and -(-low // step) * step > high
    assert (machine.min_length == INFINITE) is is_empty
    state, dice = machine.start, random.Random(step)
    for number in range(0 if is_empty else 60):
        if not (left := machine.min_remaining(state)):
            assert machine.is_accepting(state)
            break
        targets = [target for _, target in machine.edges(state)]
        assert min(map(machine.min_remaining, targets)) == left - 1
        state = dice.choice(targets) if number < 8 else min(targets, key=machine.min_remaining)


@patient(max_examples=30)
@given(
    st.sampled_from([2, 10, 12, 97, 101, 250, 1000]),
    intervals(),
    st.lists(st.integers(-30, 30), min_size=3),
)
def test_large_multiples_are_what_tables_say(
    step: int, interval: Interval, factors: list[int]
) -> None:
    """Law: multiples that are worked out one by one are those of the table of all remainders."""
    node = number_node(INTEGER, NumberFacet(interval, Fraction(step)), {})
    table = Intersection(integers(interval), multiples(Fraction(step)))
    assert (node is NOTHING or machine_of(node).min_length == INFINITE) is (
        machine_of(table).min_length == INFINITE
    )
    for factor in factors:
        for text in (str(factor * step), str(factor * step + 1), str(factor)):
            assert is_in(node, text) is is_in(table, text), text


def test_a_large_multiple_takes_the_states_that_are_visited() -> None:
    """Law: what no table could hold is made as far as it is read; values left out are left out."""
    schema = {"type": "integer", "multipleOf": 10**50, "minimum": 1, "not": {"const": 3 * 10**50}}
    automaton = compile_grammar(json_schema(schema))
    for text, expected in (("2", True), ("3", False), ("0", False), ("-1", False)):
        state = automaton.walk(automaton.start, (text + "0" * 50).encode() if text != "0" else b"0")
        assert (state >= 0 and automaton.is_accepting(state)) is expected
    assert automaton.steps < 1000


def test_shortest_multiples_that_begin_in_too_many_ways_are_refused() -> None:
    """Law: a bound far above a large step is refused with the reason; a small step, or no bound, never is."""
    far = {"type": "integer", "minimum": 10**12}
    for step in (2, 1000, 10**12, 10**13 - 1):
        compile_grammar(json_schema({**far, "multipleOf": step}))
    compile_grammar(json_schema({"type": "integer", "multipleOf": 86_400, "maximum": 10**12}))
    for schema in ({**far, "multipleOf": 86_400}, {"maximum": -(10**12), "multipleOf": 86_400}):
        with pytest.raises(UnsupportedSchema, match="multiples"):
            json_schema({"type": "integer", **schema})


@pytest.mark.parametrize(
    ("step", "low", "high"), [(12, 10**20 + 1, None), (7, 3, 10**30), (2, -(10**25), 10**25 + 7)]
)
def test_values_that_nothing_tells_apart_are_one_state(
    step: int, low: int, high: int | None
) -> None:
    """Law: after so many digits there are a few states for each remainder, whatever the bounds."""
    machine = machine_of(Divisible(step, low, high))
    level = {machine.start}
    for _ in range(35):
        assert len(level) <= 8 * step
        level = {target for state in level for _, target in machine.edges(state)}


@pytest.mark.parametrize(
    "value", [1e16, 1e-05, -0.0, 1.5e-07, 123456789.125, 1e308, 5e-324, -2.5e17]
)
@pytest.mark.parametrize("bounds", [(None, None), (-(10**400), 10**400), (-(10**17) * 3, None)])
def test_floats_may_be_written_as_python_does(
    value: float, bounds: tuple[int | None, int | None]
) -> None:
    """Law: the repr of a float within the bounds is in the language, exponent and all."""
    low, high = (None if end is None else Fraction(end) for end in bounds)
    assert is_in(decimals(Interval(low, high)), repr(value))


def test_integers_have_no_limit() -> None:
    """Law: bounds of any number of digits are exact."""
    bound = 10**6000 + 7
    node = integers(Interval(Fraction(bound)))
    text = "1" + "0" * 5999
    assert is_in(node, text + "7")
    assert not is_in(node, text + "6")


def test_kinds_of_numbers() -> None:
    """Law: integers are written as integers; a number that is no integer has a fraction."""
    half_open = NumberFacet(Interval(Fraction(0), Fraction(3)))
    cases = {INTEGER: {"2"}, FRACTION: {"2.5", "1e-05"}, NUMBER: {"2", "2.0", "2.5", "1e-05"}}
    for kinds, inside in cases.items():
        node = number_node(kinds, half_open, {2.25: 2.25})
        for text in ("2", "2.0", "2.5", "1e-05", "2.25", "7"):
            assert is_in(node, text) is (text in inside), (kinds, text)
