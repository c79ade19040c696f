"""Unions of objects, member by member: the language of all cases, in a node that stays small."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.grammar import Automaton, json_schema
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.grammar.json_schema import objects as unions
from callmemaybe.grammar.json_schema.objects import (
    DeclaredMember,
    KeyClass,
    MemberStatus,
    any_member,
    object_body,
    union_body,
)
from callmemaybe.grammar.json_schema.values import STYLES
from callmemaybe.grammar.nodes import NOTHING, Node, alt, lit, seq, words

KEYS = ('"a"', '"b"', '"c"', '"d"')
VALUES = (lit("1"), words(["1", "22"]), words(["22", "3"]))
OTHERS = KeyClass(words(['"x"', '"y"']), lit("0"))
status = st.none() | st.tuples(st.sampled_from(VALUES), st.booleans())


def same_language(one: Automaton, other: Automaton) -> bool:
    """Whether two automata accept the same texts: side by side, byte by byte."""
    seen = {(one.start, other.start)}
    stack = list(seen)
    while stack:
        left, right = stack.pop()
        if one.is_accepting(left) != other.is_accepting(right):
            return False
        if one.first_bytes(left) != other.first_bytes(right):
            return False
        for mask, target in one.edges(left):
            for onward, reached in other.edges(right):
                if mask & onward and (target, reached) not in seen:
                    seen.add((target, reached))
                    stack.append((target, reached))
    return True


def case_by_case(style: str, cases: list[list[MemberStatus]], extras: list[KeyClass]) -> Node:
    """Return the union of one object for each case."""
    objects = []
    for case in cases:
        listed = zip(KEYS, case, strict=True)
        parts = [DeclaredMember(key, *one) for key, one in listed if one is not None]
        objects.append(object_body(STYLES[style], parts, extras, 0, None))
    return alt(*objects)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.lists(status, min_size=4, max_size=4), min_size=1, max_size=7),
    st.booleans(),
    st.sampled_from(sorted(STYLES)),
)
def test_a_union_has_the_objects_of_every_case(
    cases: list[list[MemberStatus]], is_open: bool, style: str
) -> None:
    """Law: member by member the language is that of all cases one by one."""
    extras = [OTHERS] if is_open else []
    node = union_body(STYLES[style], KEYS, cases, any_member(STYLES[style], extras))
    assert node is not None
    wanted = case_by_case(style, cases, extras)
    both = [automaton_of(Grammar(seq(one, lit(";")))) for one in (node, wanted)]
    assert same_language(*both)


def test_what_members_depend_on_takes_few_nodes() -> None:
    """Law: n members that need their neighbour (2^n cases) take a node that grows with n alone."""
    sizes = []
    for count in (6, 12):
        cases: list[list[MemberStatus]] = [[]]
        for _ in range(count):
            cases = [[*c, *pair] for c in cases for pair in ([None, None], [(VALUES[0], True)] * 2)]
        keys = [f'"{number}"' for number in range(2 * count)]
        node = union_body(STYLES["compact"], keys, cases, NOTHING)
        seen: set[Node] = set()
        stack = [node]
        while stack:
            current = stack.pop()
            if current is not None and current not in seen:
                seen.add(current)
                stack += current.children
        sizes.append(len(seen))
    assert sizes[1] < 3 * sizes[0]


@pytest.mark.parametrize(
    ("limit", "value"), [("MIN_UNION_CASES", 10**9), ("MAX_SETS_PER_CASE", -(10**9))]
)
def test_few_cases_and_many_sets_are_written_one_by_one(limit: str, value: int) -> None:
    """Law: a schema has the same language where cases are too few, or their sets too many, to merge."""
    names = [f"m{number}" for number in range(6)]
    options: list[dict[str, Any]] = [
        {"properties": {a: {"const": number}, b: {"const": number}}, "required": [a, b]}
        for number, (a, b) in enumerate((a, b) for a in names for b in names if a < b)
    ]
    schema = {
        "type": "object",
        "properties": {name: {"enum": list(range(15))} for name in names},
        "additionalProperties": False,
        "anyOf": options,
    }
    merged = automaton_of(json_schema(schema))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unions, limit, value)
        assert same_language(merged, automaton_of(json_schema(schema)))
