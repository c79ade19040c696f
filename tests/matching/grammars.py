"""Grammars to try the laws on, and the slow, obvious oracle."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import assume
from hypothesis import strategies as st

from callmemaybe.errors import GrammarError
from callmemaybe.grammar import Automaton
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.grammar import (
    EMPTY,
    Control,
    Difference,
    Grammar,
    Lexeme,
    Node,
    Ref,
    alt,
    byte_range,
    byte_set,
    from_mask,
    lexeme,
    lit,
    many,
    opt,
    repeat,
    seq,
    some,
    words,
    words_then,
)
from callmemaybe.vocabulary import Vocabulary

PLAIN = from_mask(sum(1 << b for b in range(0x20, 0x7F) if b not in b'"\\'))
CONTINUED = byte_range(0x80, 0xBF)
CHARACTER = alt(
    PLAIN,
    seq(byte_range(0xC3, 0xDF), CONTINUED),
    seq(byte_range(0xE1, 0xEC), CONTINUED, CONTINUED),
    seq(lit(b"\xed"), byte_range(0x80, 0x9F), CONTINUED),
    seq(byte_range(0xEE, 0xEF), CONTINUED, CONTINUED),
    seq(lit(b"\xf0"), byte_range(0x90, 0xBF), CONTINUED, CONTINUED),
    seq(lit("\\"), byte_set(b'"\\nt')),
)
STRING = lexeme(seq(lit('"'), many(CHARACTER), lit('"')))
SHORT = lexeme(seq(lit('"'), repeat(CHARACTER, 1, 9), lit('"')))
LETTERS = lexeme(seq(lit('"'), repeat(byte_range(0x61, 0x7A), 3, 5), lit('"')))
NUMBER = lexeme(
    seq(
        opt(lit("-")),
        alt(lit("0"), seq(byte_range(0x31, 0x39), many(byte_range(0x30, 0x39)))),
        opt(seq(lit("."), some(byte_range(0x30, 0x39)))),
    )
)
LONG = lexeme(seq(lit('"'), repeat(CHARACTER, 2, 400), lit('"')))
COLOURS = words(['"red"', '"green"', '"blue"', '"bluegreen"', '"é"'])
OTHER_KEY = Difference(STRING, words(['"city"', '"days"']))


def tool(name: str, **arguments: Node) -> Node:
    """Return one call: a literal skeleton around the arguments' values."""
    pairs = [
        seq(lit(f'{", " if place else ""}"{key}": '), value)
        for place, (key, value) in enumerate(arguments.items())
    ]
    return seq(lit(f'{{"name": "{name}", "arguments": {{'), *pairs, lit("}}"))


TOOLS = alt(
    tool("get_weather", city=STRING, days=NUMBER),
    tool("get_time", zone=COLOURS),
    tool("send", to=LETTERS, text=SHORT, copies=NUMBER, red=alt(lit("true"), lit("false"))),
    tool("ping"),
)
VALUE = Ref("value")
ANY = {
    "value": alt(
        STRING,
        NUMBER,
        words(["true", "false", "null"]),
        seq(lit("["), opt(seq(VALUE, many(seq(lit(", "), VALUE)))), lit("]")),
        seq(
            lit("{"),
            opt(seq(STRING, lit(": "), VALUE, many(seq(lit(", "), STRING, lit(": "), VALUE)))),
            lit("}"),
        ),
    )
}
GRAMMARS = {
    "tools": Grammar(TOOLS),
    "open": Grammar(seq(lit("\n"), some(seq(TOOLS, lit("\n"))))),
    "marked": Grammar(seq(Control("<|end|>"), TOOLS, Control("<|end|>"))),
    "any": Grammar(VALUE, ANY),
    "keys": Grammar(
        seq(
            lit("{"),
            words_then({'"city"': seq(lit(": "), STRING), '"days"': seq(lit(": "), NUMBER)}),
            many(seq(lit(", "), OTHER_KEY, lit(": "), VALUE)),
            lit("}"),
        ),
        ANY,
    ),
    "identifiers": Grammar(
        seq(
            lexeme(some(byte_range(0x61, 0x7A))),
            many(seq(byte_set(b"+-*"), alt(NUMBER, lexeme(some(byte_range(0x61, 0x7A)))))),
        )
    ),
    "long": Grammar(seq(lit("["), LONG, many(seq(lit(", "), alt(NUMBER, LONG))), lit("]"))),
    "free": Grammar(many(CHARACTER)),
}


def automaton(name: str) -> Automaton:
    """Return a new automaton of a named grammar."""
    return automaton_of(GRAMMARS[name])


atoms = st.one_of(
    st.sampled_from(['"a"', "ab", "b", ", ", "é", '": "', "}}", "12", "    "]).map(lit),
    st.sampled_from([byte_set(b"ab1"), byte_set(b'"}'), byte_range(0x80, 0xBF), lit(b"\xc3")]),
    st.sampled_from([STRING, NUMBER, LETTERS, SHORT, LONG, OTHER_KEY, Lexeme(many(lit("a")))]),
    st.sampled_from([Control("<a>"), Control("<b>"), Control("<|end|>"), Ref("r"), EMPTY]),
    st.sets(st.sampled_from(["ab", "a", "abc", '"a', "ba", "1"]), min_size=1).map(words),
)


def _grow(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda n: seq(*n)),
        st.lists(inner, min_size=1, max_size=3).map(lambda n: alt(*n)),
        st.tuples(inner, st.integers(0, 1), st.sampled_from([None, 2])).map(
            lambda t: repeat(t[0], t[1], t[2])
        ),
    )


nodes = st.recursive(atoms, _grow, max_leaves=7)


@st.composite
def automata(draw: st.DrawFn) -> Automaton:
    """Draw an automaton of a random grammar, sometimes recursive and often ambiguous."""
    root, rule = draw(nodes), draw(nodes)
    try:
        return automaton_of(Grammar(root, {"r": seq(lit("["), opt(rule), lit("]"))}))
    except GrammarError:
        assume(False)
        raise


def slow_after(machine: Automaton, words: Vocabulary, state: int, index: int) -> int | None:
    """Return the state after a token, byte by byte; -1 for an accepted end, None if not allowed."""
    token = words.token(index)
    if token:
        for byte in token:
            state = machine.step(state, byte)
            if state < 0:
                return None
        return state
    for text, target in machine.controls(state).items():
        if words.controls[text] == index:
            return target
    return -1 if index in words.ends and machine.is_accepting(state) else None


def slow_allowed(machine: Automaton, words: Vocabulary, state: int) -> dict[int, int]:
    """Return every allowed id with the state it leads to, by trying all ids."""
    if state < 0:
        return {}
    alive = [any(mask >> byte & 1 for mask, _ in machine.edges(state)) for byte in range(256)]
    found = {}
    for index, token in enumerate(words.tokens):
        if token and not alive[token[0]]:
            continue
        after = slow_after(machine, words, state, index)
        if after is not None:
            found[index] = after
    return found


def random_walk(
    machine: Automaton, words: Vocabulary, seed: int, steps: int
) -> Iterator[tuple[list[int], int]]:
    """Yield (ids so far, state) along tokens of random texts of the language."""
    from callmemaybe.matching import Matcher

    chance = random.Random(seed)
    matcher = Matcher(machine, words)
    for _ in range(steps):
        yield list(matcher.ids), matcher.state
        if matcher.is_terminated:
            return
        allowed = matcher.allowed()
        if not len(allowed):
            return
        short = chance.sample(allowed.tolist(), min(8, len(allowed)))
        matcher.accept(max(short, key=lambda i: (len(words.token(i)), i)))
