"""The automaton of a grammar: its language is the tree's, and it never meets a dead end."""

from __future__ import annotations

import pickle
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.automata.tree import TreeAutomaton, machine_of
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.compile import compile as compile_grammar
from callmemaybe.grammar.grammar import (
    EMPTY,
    INFINITE,
    NOTHING,
    Alternation,
    Bytes,
    CaptureMark,
    Concat,
    Control,
    Difference,
    Grammar,
    Intersection,
    Lexeme,
    Literal,
    Node,
    Ref,
    Repeat,
    WordTrie,
    _min_lengths,
    alt,
    byte_range,
    byte_set,
    capture,
    lexeme,
    lit,
    many,
    min_length_of,
    opt,
    repeat,
    seq,
    words,
    words_then,
)

ALPHABET = b"ab"
LONGEST = 5
EVERY_TEXT = [bytes(t) for n in range(LONGEST + 1) for t in product(ALPHABET, repeat=n)]


def language(node: Node) -> frozenset[bytes]:
    """Return the strings of a tree up to LONGEST, straight from the definitions (slow oracle)."""
    match node:
        case Literal():
            return _short({node.data})
        case Bytes():
            return frozenset(bytes([b]) for b in ALPHABET if node.mask >> b & 1)
        case CaptureMark():
            return frozenset({b""})
        case Concat():
            found = frozenset({b""})
            for part in node.parts:
                found = _joined(found, language(part))
            return found
        case Alternation():
            return frozenset().union(*map(language, node.options))
        case Repeat():
            return _repeated(node)
        case WordTrie():
            then = [language(n) for n in node.tails] or [frozenset({b""})] * len(node.words)
            return frozenset().union(
                *(_joined(frozenset({w}), t) for w, t in zip(node.words, then, strict=True))
            )
        case Lexeme():
            return language(node.body)
        case Intersection():
            return language(node.left) & language(node.right)
        case Difference():
            return language(node.left) - language(node.right)
    raise AssertionError(node)


def _repeated(node: Repeat) -> frozenset[bytes]:
    body, power, found = language(node.body), frozenset({b""}), set()
    most = node.at_most if node.at_most is not None else max(node.at_least, LONGEST) + 1
    for n in range(most + 1):
        if n >= node.at_least:
            found |= power
        power = _joined(power, body)
    return frozenset(found)


def _joined(left: frozenset[bytes], right: frozenset[bytes]) -> frozenset[bytes]:
    return _short({a + b for a in left for b in right})


def _short(texts: set[bytes]) -> frozenset[bytes]:
    return frozenset(t for t in texts if len(t) <= LONGEST)


short_words = st.binary(min_size=1, max_size=3).map(lambda raw: bytes(ALPHABET[b & 1] for b in raw))
leaves = st.one_of(
    short_words.map(lit),
    st.sampled_from([EMPTY, NOTHING, byte_set(b"ab"), byte_set(b"a")]),
    st.sets(short_words | st.just(b""), min_size=1, max_size=5).map(words),
)


def _grow(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.lists(inner, max_size=3).map(lambda n: seq(*n)),
        st.lists(inner, max_size=3).map(lambda n: alt(*n)),
        st.tuples(inner, st.integers(0, 2), st.none() | st.integers(0, 2)).map(
            lambda t: repeat(t[0], t[1], None if t[2] is None else t[1] + t[2])
        ),
        inner.map(lexeme),
        inner.map(lambda n: capture("c", n)).map(_without_marks),
        st.dictionaries(short_words, inner, min_size=1, max_size=3).map(words_then),
        st.tuples(inner, inner).map(lambda t: Intersection(*t)),
        st.tuples(inner, inner).map(lambda t: Difference(*t)),
    )


def _without_marks(node: Node) -> Node:
    return (
        seq(*(p for p in node.parts if not isinstance(p, CaptureMark)))
        if isinstance(node, Concat)
        else node
    )


regular = st.recursive(leaves, _grow, max_leaves=7)


def _check_language(automaton: Automaton, texts: frozenset[bytes]) -> None:
    for text in EVERY_TEXT:
        state = automaton.walk(automaton.start, text)
        stepped = automaton.start
        for byte in text:
            stepped = automaton.step(stepped, byte) if stepped >= 0 else -1
        assert stepped == state, text
        assert (state >= 0 and automaton.is_accepting(state)) == (text in texts), text
        if state >= 0:
            completions = [len(t) - len(text) for t in texts if t.startswith(text)]
            if completions:
                assert automaton.min_remaining(state) == min(completions), text
            else:
                assert automaton.min_remaining(state) + len(text) > LONGEST, text


@settings(max_examples=150, deadline=None)
@given(regular)
def test_the_automaton_accepts_exactly_the_language_of_the_tree(node: Node) -> None:
    """L(automaton) = L(tree), distance is the shortest completion, and no live state is dead."""
    automaton = TreeAutomaton(node, {}, {})
    if not language(node):
        assert automaton.min_length > LONGEST
        return
    _check_language(automaton, language(node))


@settings(max_examples=60, deadline=None)
@given(regular)
def test_a_lexeme_changes_no_language_and_forced_bytes_have_no_alternative(node: Node) -> None:
    """machine_of(node) has node's language; a forced run is the only way on."""
    machine = machine_of(node)
    if machine.min_length == float("inf"):
        return
    _check_language(machine, language(node))
    run, target = machine.forced(machine.start)
    assert machine.walk(machine.start, run) == target
    longer = [t for t in language(node) if len(t) >= len(run)]
    assert all(t.startswith(run) for t in longer)
    assert all(len(t) >= len(run) for t in language(node))


def test_recursion_has_no_depth_limit() -> None:
    """A context-free rule nests as deep as the input does."""
    grammar = Grammar(Ref("v"), {"v": alt(seq(lit("["), opt(Ref("v")), lit("]")), lit("0"))})
    automaton = automaton_of(grammar)
    state = automaton.walk(automaton.start, b"[" * 3000)
    assert automaton.min_remaining(state) == 3000
    assert automaton.is_final(automaton.walk(state, b"0" + b"]" * 3000))
    assert automaton.walk(state, b"]" * 3001) == -1


def test_deep_trees_need_no_recursion() -> None:
    """A tree nested ten thousand levels deep compiles."""
    node = lit("x")
    for _ in range(10_000):
        node = seq(lit("["), alt(node, lit("y")), lit("]"))
    assert automaton_of(Grammar(node)).min_remaining(0) == 3


def test_equal_situations_are_one_state() -> None:
    """Interning: after different texts with the same future the state is the same int."""
    automaton = automaton_of(Grammar(seq(lexeme(many(byte_set(b"ab"))), lit("!"))))
    assert automaton.walk(0, b"a") == automaton.walk(0, b"ba") == automaton.walk(0, b"bbbb")


def test_inside_names_the_lexeme_and_what_follows_it() -> None:
    """inside() splits a state into the shared machine, its state, and the state behind it."""
    text = lexeme(seq(lit('"'), many(byte_range(97, 122)), lit('"')))
    automaton = automaton_of(Grammar(seq(lit("x"), text, lit("!"))))
    place = automaton.inside_lexeme(automaton.walk(0, b'x"abc'))
    assert place is not None
    machine, q, after = place
    assert machine is machine_of(text)
    assert machine.walk(machine.start, b'"zz') == q
    assert automaton.forced(after)[0] == b"!"
    assert automaton.inside_lexeme(automaton.start) is None


def test_control_tokens_are_no_bytes() -> None:
    """A control token is reached by its name only, never by the bytes of its text."""
    automaton = automaton_of(Grammar(seq(Control("<c>"), alt(lit("a"), Control("<d>")))))
    assert automaton.edges(0) == ()
    assert automaton.min_remaining(0) == 2
    assert automaton.walk(0, b"<c>") == -1
    after = automaton.controls(0)["<c>"]
    assert set(automaton.controls(after)) == {"<d>"}
    assert automaton.forced(after)[0] == b""


def test_captures_are_found_at_every_point_of_the_text() -> None:
    """Names that are prefixes of each other, repetition and nesting; open captures have no end."""
    name = words_then({"get": CaptureMark("name", False), "get_all": CaptureMark("name", False)})
    call = seq(
        CaptureMark("name", True),
        name,
        lit("("),
        capture("args", lexeme(many(byte_set(b"xy")))),
        lit(")"),
    )
    automaton = automaton_of(Grammar(seq(many(capture("call", call)), Control("<end>"))))
    text = [*b"get_all(xy)get()", "<end>"]
    found = automaton.captures(text)
    spans = [(c.name, c.start, c.end) for c in found]
    assert spans == [
        ("call", 0, 11), ("name", 0, 7), ("args", 8, 10),
        ("call", 11, 16), ("name", 11, 14), ("args", 15, 15),
    ]  # fmt: skip
    for length in range(len(text)):
        for capture_ in automaton.captures(text[:length]):
            if capture_.start == length:
                continue  # opens here if the first option is taken
            whole = next(c for c in found if (c.name, c.start) == (capture_.name, capture_.start))
            assert capture_.end in (None, whole.end)
    with pytest.raises(GrammarError):
        automaton.captures(b"put")


def test_a_hundred_thousand_words_are_one_small_trie() -> None:
    """Words are found by bisection: only what is visited is expanded."""
    automaton = automaton_of(Grammar(words(f"word{i:06}" for i in range(100_000))))
    state = automaton.walk(0, b"word04242")
    assert [automaton.is_final(automaton.step(state, b)) for b in b"0123456789"] == [True] * 10
    assert automaton.min_remaining(0) == 10


def test_grammars_that_make_no_sense_are_refused() -> None:
    """Missing rules, left recursion (also through nullable parts) and empty languages."""
    with pytest.raises(GrammarError, match="not defined"):
        Grammar(Ref("nowhere"))
    with pytest.raises(GrammarError, match="left recursion"):
        Grammar(
            Ref("a"),
            {"a": seq(many(lit("x")), Ref("b")), "b": alt(seq(Ref("a"), lit("y")), lit("z"))},
        )
    with pytest.raises(GrammarError, match="no finite string"):
        Grammar(Ref("a"), {"a": seq(lit("x"), Ref("a"))})
    with pytest.raises(GrammarError, match="no finite string"):
        Grammar(Intersection(lit("a"), lit("b")))


def test_impossible_options_are_never_entered() -> None:
    """An option without a finite string is dropped when it is met, not when it is too late."""
    grammar = Grammar(alt(seq(lit("a"), Intersection(lit("x"), lit("y"))), seq(lit("a"), lit("z"))))
    automaton = automaton_of(grammar)
    assert automaton.forced(0)[0] == b"az"


def test_nodes_are_hash_consed_and_survive_pickling() -> None:
    """Equal content is one object, also after a round trip; nodes cannot be changed."""
    node = seq(lit("a"), alt(lit("bc"), many(byte_set(b"xy"))))
    assert node is seq(lit("a"), alt(lit("bc"), many(byte_set(b"xy"))))
    assert pickle.loads(pickle.dumps(node)) is node
    with pytest.raises(AttributeError):
        node.machine = None  # type: ignore[misc]


def test_equal_grammars_are_compiled_once() -> None:
    """compile() is cached by content."""
    make = lambda: Grammar(Ref("r"), {"r": seq(lit("once"), opt(Ref("r")))})  # noqa: E731
    assert compile_grammar(make()) is compile_grammar(make())


NAMES = "abcd"
referring = st.recursive(
    st.one_of(short_words.map(lit), st.sampled_from(NAMES).map(Ref), st.just(EMPTY)),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda n: seq(*n)),
        st.lists(inner, min_size=1, max_size=3).map(lambda n: alt(*n)),
        st.tuples(inner, st.integers(0, 3)).map(lambda t: repeat(t[0], t[1])),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(referring, min_size=len(NAMES), max_size=len(NAMES)))
def test_lengths_of_rules_are_the_least_that_fit_each_other(nodes: list[Node]) -> None:
    """However rules refer to each other, their lengths are what going through all of them again and
    again comes to."""
    rules = dict(zip(NAMES, nodes, strict=True))
    slow = dict.fromkeys(rules, INFINITE)
    for _ in range(len(rules) + 1):
        slow = {name: min(slow[name], min_length_of(node, slow)) for name, node in rules.items()}
    assert _min_lengths(rules) == slow
