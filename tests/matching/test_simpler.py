"""What the matcher uses instead of a state behaves as the state does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.grammar import Automaton
from callmemaybe.grammar.automata import product
from callmemaybe.grammar.automata.tree import machine_of
from callmemaybe.grammar.characters import JSON_CANONICAL_CHARACTER, json_canonical
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.grammar import (
    Control,
    Difference,
    Grammar,
    Intersection,
    Node,
    alt,
    lexeme,
    lit,
    opt,
    repeat,
    seq,
    substring_of,
    words,
)
from callmemaybe.grammar.json_schema.strings import strings_of_length
from callmemaybe.grammar.nodes import INFINITE
from callmemaybe.grammar.regex import matching
from callmemaybe.matching import budget, mask_bulk
from callmemaybe.matching.cache import VocabularyTables
from callmemaybe.matching.mask_fastpath import fast_entry
from callmemaybe.matching.mask_walk import walk_entry
from tests.matching.grammars import CHARACTER, OTHER_KEY, automata, random_walk, slow_allowed
from tests.vocabulary.samples import vocabulary


def same(one: tuple[Automaton, int], other: tuple[Automaton, int], depth: int) -> bool:
    """Whether two states allow the same next ``depth`` bytes, accept and lie as far from an end."""
    seen, level = set(), [(one[1], other[1])]
    for _ in range(depth + 1):
        following = []
        for left, right in level:
            if one[0].is_accepting(left) != other[0].is_accepting(right):
                return False
            if one[0].min_remaining(left) != other[0].min_remaining(right):
                return False
            for byte in range(256):
                pair = one[0].step(left, byte), other[0].step(right, byte)
                if (pair[0] < 0) != (pair[1] < 0):
                    return False
                if pair[0] >= 0 and pair not in seen:
                    seen.add(pair)
                    following.append(pair)
        level = following
    return True


def pattern_node(source: str) -> Node:
    """Return the JSON strings that match a pattern."""
    return lexeme(seq(lit('"'), matching(source, json_canonical, search=True), lit('"')))


counted = st.tuples(
    st.sampled_from([lit("ab"), words(["a", "bc"]), lexeme(repeat(lit("a"), 0, 3)), CHARACTER]),
    st.integers(0, 3),
    st.integers(0, 12),
).map(lambda t: lexeme(seq(lit("x"), repeat(t[0], t[1], t[1] + t[2]), lit("y"))))


@given(
    counted,
    st.integers(1, 4),
    st.binary(max_size=4).map(lambda raw: bytes(97 + b % 3 for b in raw)),
)
@settings(max_examples=80, deadline=None)
def test_near(node: object, depth: int, text: bytes) -> None:
    """Without limits that are too far away, the next bytes are the same."""
    machine = machine_of(node)  # type: ignore[arg-type]
    state = machine.walk(machine.start, b"x" + text)
    if state >= 0:
        assert same((machine, state), machine.relaxed(state, depth), depth)


PATTERNS = (
    "^([ab]+c){0,9}$",
    "^(a{3}|b)*$",
    "^a{2,}b?c{0,7}$",
    "^.*ab.*$",
    "^(abc){1,20}$",
    "^[ab]*$",
)


@given(
    st.sampled_from(PATTERNS),
    st.sampled_from(PATTERNS),
    st.tuples(st.integers(0, 4), st.integers(4, 24)),
    st.booleans(),
    st.binary(max_size=12).map(lambda raw: bytes(97 + b % 3 for b in raw)),
)
@settings(max_examples=60, deadline=None)
def test_near_a_product(
    one: str, other: str, lengths: tuple[int, int], subtract: bool, text: bytes
) -> None:
    """The same holds for a pattern and a length, and for one pattern without another."""
    limited = Intersection(pattern_node(one), strings_of_length(*lengths, JSON_CANONICAL_CHARACTER))
    node = (
        Difference(limited, pattern_node(other))
        if subtract
        else Intersection(limited, pattern_node(other))
    )
    machine = machine_of(node)
    state = machine.walk(machine.start, b'"' + text) if machine.min_length < INFINITE else -1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(product, "MAX_COMPLETION", 5)
        if state >= 0:
            assert same((machine, state), machine.relaxed(state, 2), 2)


def test_near_a_product_joins_lengths() -> None:
    """Far from the limit of a length a pattern is in one state, however long the text is so far."""
    machine = machine_of(
        Intersection(pattern_node("^[ab]+$"), strings_of_length(1, 600, JSON_CANONICAL_CHARACTER))
    )
    states = [machine.walk(machine.start, b'"' + b"a" * n) for n in (2, 100, 400, 590)]
    near = [machine.relaxed(state, 100) for state in states]
    assert near[0] == near[1] == near[2]
    assert near[0][0] is not machine
    assert near[3] == (machine, states[3])


@pytest.mark.parametrize("size", [0, 20, 8192])
def test_cached_tables_change_nothing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bulk walk finds the same tokens in the same states with a table that other walks have filled."""
    monkeypatch.setattr(mask_bulk, "TABLE_ROWS_CACHE_SIZE", size)
    trie = vocabulary("crossing").trie
    walker = mask_bulk.BulkWalker()
    machines = [machine_of(pattern_node(source)) for source in PATTERNS]
    for text in (b"", b"a", b"ab", b"abc", b"aa"):
        for machine in machines:
            state = machine.walk(machine.start, b'"' + text)
            if state < 0:
                continue
            found = []
            for walk in (walker.walk, mask_bulk.bulk_walk):
                bulk = walk(trie, machine, [0], [state])
                ids, rows = bulk.tokens(trie)
                found.append(sorted(zip(ids.tolist(), (bulk.states[r] for r in rows), strict=True)))
                accepting = [machine.is_accepting(bulk.states[row]) for row in bulk.rows]
                assert bulk.where(machine.is_accepting).tolist() == accepting
            assert found[0] == found[1]


def test_every_kind_of_bulk_walk_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node by node, level by level, or all levels whole: the same nodes in the same order and states."""
    trie = vocabulary("crossing").trie
    machines = [machine_of(pattern_node(source)) for source in PATTERNS]
    machines.append(machine_of(lexeme(seq(lit('"'), substring_of("ab aab ba"), lit('"')))))
    for machine in machines:
        for text in (b"", b"a", b"ab"):
            state = machine.walk(machine.start, b'"' + text)
            if state < 0:
                continue
            found = []
            for few, wide in ((0, 300), (10**9, 300), (0, 0)):
                monkeypatch.setattr(mask_bulk, "MAX_PYTHON_NODES", few)
                monkeypatch.setattr(mask_bulk, "WIDE_BYTES", wide)
                bulk = mask_bulk.bulk_walk(trie, machine, [0], [state])
                found.append((bulk.nodes.tolist(), [bulk.states[row] for row in bulk.rows]))
            assert found[0][0]
            assert found[0] == found[1] == found[2]


def test_near_joins_counts() -> None:
    """All counts beyond the depth are one state, those within it are not."""
    machine = machine_of(lexeme(seq(lit('"'), repeat(CHARACTER, 0, 500), lit('"'))))
    states = [machine.walk(machine.start, b'"' + b"a" * n) for n in (1, 7, 300, 480, 490)]
    near = [machine.relaxed(state, 100) for state in states]
    assert near[0] == near[1] == near[2]
    assert near[0][0] is not machine
    assert near[3:] == [(machine, states[3]), (machine, states[4])]


@given(automata(), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_alternatives(machine: Automaton, seed: int) -> None:
    """The alternatives of a state allow together what it allows."""
    for _, state in random_walk(machine, vocabulary("bytes"), seed, 6):
        if state < 0:
            continue
        parts = machine.alternatives(state)
        for byte in range(256):
            assert (machine.step(state, byte) >= 0) == any(
                machine.step(p, byte) >= 0 for p in parts
            )
        assert machine.min_remaining(state) == 0 or machine.min_remaining(state) == min(
            machine.min_remaining(part) for part in parts
        )


@pytest.mark.parametrize("text", [b'"', b'"c', b'"x', b'"city', b'"cityx', b'"da\\', b'"\xc3'])
def test_alias(text: bytes) -> None:
    """Where nothing can be subtracted any more, the difference is the string it began with."""
    machine = machine_of(OTHER_KEY)
    state = machine.walk(machine.start, text)
    alias = machine.alias(state)
    assert (alias[0] is machine) == (b'"city"'.startswith(text) or b'"days"'.startswith(text))
    assert same((machine, state), alias, 8)


def test_strings_of_all_keys_share_masks() -> None:
    """A key that differs from all known ones is an ordinary string, with the string's mask."""
    from callmemaybe.matching import Matcher
    from tests.matching.grammars import STRING

    words_ = vocabulary("toy")
    found = []
    for key in (STRING, OTHER_KEY):
        machine = automaton_of(Grammar(seq(lit("{"), key, lit("}"))))
        matcher = Matcher(machine, words_)
        matcher.try_accept(words_.encode(b'{"xyz'))
        found.append(matcher.mask())
    assert found[0] is found[1]


@given(automata(), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_branches(machine: Automaton, seed: int) -> None:
    """The texts and lexemes that may come begin with the bytes which a state allows, and no others."""
    for _, state in random_walk(machine, vocabulary("bytes"), seed, 6):
        branches = machine.branches(state, 100) if state >= 0 else None
        if branches is None:
            continue
        allowed = 0
        for text, onward in branches:
            if text:
                end = machine.after_branch(onward)
                assert machine.walk(state, text) >= 0
                assert machine.min_remaining(end) + len(text) >= machine.min_remaining(state)
                allowed |= 1 << text[0]
            else:
                allowed |= machine.first_bytes(machine.after_branch(onward))
        assert allowed == sum(mask for mask, _ in machine.edges(state))


@given(automata(), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_what_a_state_says_without_being_expanded(machine: Automaton, seed: int) -> None:
    """First bytes, steps and forced runs are what the edges say, whichever is asked for first."""
    for _, state in random_walk(machine, vocabulary("bytes"), seed, 6):
        if state < 0:
            continue
        first, forced = machine.first_bytes(state), machine.forced(state)
        steps = [machine.step(state, byte) for byte in range(256)]
        controls = machine.controls(state)
        assert first == sum(mask for mask, _ in machine.edges(state))
        assert forced == Automaton.forced(machine, state)
        assert steps == [Automaton.step(machine, state, byte) for byte in range(256)]
        assert controls == machine.controls(state)
        if forced[0]:
            assert machine.walk(state, forced[0]) == forced[1]


@given(automata(), st.integers(0, 1000), st.sampled_from(["bytes", "crossing"]))
@settings(max_examples=100, deadline=None)
def test_the_fast_path_is_the_walk(machine: Automaton, seed: int, name: str) -> None:
    """The fast path allows what a walk allows, and bounds the distance to an end from above."""
    words = vocabulary(name)
    tables = VocabularyTables(words)
    for _, state in random_walk(machine, words, seed, 6):
        found = fast_entry(tables, machine, state) if state >= 0 else None
        if found is None:
            continue
        walked = walk_entry(tables, machine, state)
        assert found.allowed.to_ids().tolist() == walked.allowed.to_ids().tolist()
        after = [matched for index in found.allowed.to_ids().tolist() if words.tokens[index]
                 and (matched := machine.walk(state, words.tokens[index])) >= 0]  # fmt: skip
        for target in after:
            assert machine.min_remaining(target) + 1 <= budget.max_needed(words, machine, found)


@given(counted, st.binary(max_size=6).map(lambda raw: bytes(97 + b % 3 for b in raw)))
@settings(max_examples=100, deadline=None)
def test_counted(node: Node, text: bytes) -> None:
    """A limited lexeme allows what the unlimited one does, as far as its limits let it."""
    root = seq(node, lit("!"), lexeme(repeat(lit("a"), 0, 2)))
    machine = automaton_of(Grammar(root))
    state = machine.walk(machine.start, b"x" + text)
    if state < 0:
        return
    words = vocabulary("crossing")
    tables = VocabularyTables(words)
    found = fast_entry(tables, machine, state)
    walked = walk_entry(tables, machine, state)
    if found is not None:
        assert found.allowed.to_ids().tolist() == walked.allowed.to_ids().tolist()


@pytest.mark.parametrize("least", [0, 2, 7])
@pytest.mark.parametrize("name", ["crossing", "toy"])
def test_limits_of_strings(least: int, name: str) -> None:
    """Under every limit, in and between characters, a string allows what trying every token says."""
    words = vocabulary(name)
    tables = VocabularyTables(words)
    string = lexeme(seq(lit('"'), repeat(CHARACTER, least, 9), lit('"')))
    machine = automaton_of(Grammar(seq(string, lit(", "), string)))
    state = machine.start
    for byte in b'"ab\xc3\xa9\xf0\x9f\x99\x82c\\nde':
        state = machine.step(state, byte)
        if state < 0:
            break
        found = fast_entry(tables, machine, state)
        assert found is not None
        assert set(found.allowed.to_ids().tolist()) == set(slow_allowed(machine, words, state))


@pytest.mark.parametrize("name", ["crossing", "toy"])
@pytest.mark.parametrize("at_once", [True, False])
def test_strings_without_some(name: str, at_once: bool) -> None:
    """Where some texts are taken from the strings, a mask allows what trying every token says.

    Together or one after the other: what is left of the strings is one set of tokens without some.
    """
    words_, keys = vocabulary(name), [b'"ab"', b'"abc"', b'"a"', '"é"'.encode()]
    tables = VocabularyTables(words_)
    string: Node = lexeme(seq(lit('"'), repeat(CHARACTER), lit('"')))
    for some in [keys] if at_once else [[key] for key in keys]:
        string = Difference(string, lexeme(words(some)))
    inner = machine_of(string)
    here = inner.as_exclusion(inner.walk(inner.start, b'"a'), 100)
    assert here is not None
    assert sorted(here[2]) == [b'"', b'b"', b'bc"']
    machine = automaton_of(Grammar(seq(string, lit(": 1"))))
    for text in (b"", b'"', b'"a', b'"ab', b'"abc', b'"abcd', b'"\xc3', b'"\xc3\xa9', b'"x'):
        state = machine.walk(machine.start, text)
        found = fast_entry(tables, machine, state)
        assert found is not None
        assert set(found.allowed.to_ids().tolist()) == set(slow_allowed(machine, words_, state))


SHARED = VocabularyTables(vocabulary("crossing"))
AROUND = (b"", b"a", b" ", b'"', b"ab", b'", "', b"}", b"}}", b"}}}", b"1", b", ")
LEXEMES = (
    strings_of_length(0, None),
    strings_of_length(1, 4, JSON_CANONICAL_CHARACTER),
    lexeme(seq(lit("a"), repeat(words(["a", "1"]), 0, None))),
    Difference(strings_of_length(0, None), words(['"a"', '"ab"'])),
)


@given(
    st.sampled_from(AROUND),
    st.sampled_from(LEXEMES),
    st.lists(
        st.tuples(st.sampled_from(AROUND), st.sampled_from(["control", "choice", "end"])),
        min_size=1,
        max_size=3,
    ),
    st.integers(0, 1000),
)
@settings(max_examples=200, deadline=None)
def test_a_lexeme_between_texts(
    lead: bytes, node: Node, texts: list[tuple[bytes, str]], seed: int
) -> None:
    """What is cached for a lexeme by the texts around it holds in every grammar that has them."""
    ends = {"control": Control("<b>"), "choice": opt(lit("a")), "end": lit("")}
    behind = alt(*(seq(lit(text), ends[last]) for text, last in texts))
    machine = automaton_of(Grammar(seq(lit(lead), node, behind)))
    words = vocabulary("crossing")
    for _, state in random_walk(machine, words, seed, 6):
        found = fast_entry(SHARED, machine, state) if state >= 0 else None
        if found is None:
            continue
        allowed = found.allowed.to_ids().tolist()
        assert allowed == walk_entry(SHARED, machine, state).allowed.to_ids().tolist()
        bound = budget.max_needed(words, machine, found)
        for index in allowed:
            target = machine.walk(state, words.tokens[index]) if words.tokens[index] else -1
            assert target < 0 or machine.min_remaining(target) + 1 <= bound


def test_texts_behind_a_lexeme_share_what_is_allowed() -> None:
    """Two grammars whose texts behind a lexeme begin alike share one set, without another search."""
    words = vocabulary("crossing")
    tables = VocabularyTables(words)
    found = []
    for name in ("one", "other"):
        behind = alt(lit(f', "{name}": 1'), lit("}"), seq(lit(", ]"), lit(name)))
        machine = automaton_of(Grammar(seq(strings_of_length(0, None), behind, Control("<b>"))))
        state = machine.walk(machine.start, b'"a')
        assert len(machine.branches(machine.walk(state, b'"'), 9) or ()) == 3
        kept = sum(len(one.by_prefix) for one in tables.lead_ins.values())
        found.append(fast_entry(tables, machine, state))
        assert sum(len(one.by_prefix) for one in tables.lead_ins.values()) == max(kept, 1)
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].allowed is found[1].allowed
    assert set(found[1].allowed.to_ids().tolist()) == set(slow_allowed(machine, words, state))
