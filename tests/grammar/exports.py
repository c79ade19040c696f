"""Grammars that exports are tried on, and how two readers of one language are compared."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from callmemaybe.grammar import characters, json_schema, regex
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.grammar import (
    EMPTY,
    DfaTable,
    Difference,
    Grammar,
    Intersection,
    Ref,
    alt,
    byte_range,
    byte_set,
    bytes_of,
    capture,
    lexeme,
    lit,
    many,
    opt,
    repeat,
    seq,
    some,
    substring_of,
    words,
    words_then,
)

STRING = lexeme(characters.quoted_text(characters.JSON_CHARACTER))
SHORT = Intersection(
    STRING, lexeme(characters.quoted_text(characters.JSON_CANONICAL_CHARACTER, 1, 3))
)
INTEGER = lexeme(
    seq(opt(lit("-")), alt(lit("0"), seq(byte_range(49, 57), many(byte_range(48, 57)))))
)
ARRAY = seq(lit("["), opt(seq(Ref("value"), many(seq(lit(", "), Ref("value"))))), lit("]"))
RULES = {"value": alt(INTEGER, STRING, words(["true", "false"]), ARRAY)}

PLAIN = Grammar(
    seq(
        words_then({"put": seq(lit(" é|x("), INTEGER), "get": many(lit("^]"))}),
        repeat(lit("-/"), 1, 3),
        capture("s", STRING),
    )
)
RECURSIVE = Grammar(seq(lit('{"a": '), Ref("value"), lit(', "b": '), SHORT, lit("}")), RULES)
DIFFERENT = Grammar(seq(Difference(STRING, words(['"x"', '"yé"'])), lit(";"), INTEGER))
GROUNDED = Grammar(seq(lit("<"), substring_of("naïve <>?", whole_words=True), lit(">")))
ALL = {"plain": PLAIN, "recursive": RECURSIVE, "different": DIFFERENT, "grounded": GROUNDED}


def _chars(*pairs: tuple[int, int]) -> Any:
    return lexeme(characters.utf8(characters.ranges(pairs)))


_TREE = {
    "tree": seq(lit("("), opt(Ref("tree")), opt(Ref("leaf")), lit(")")),
    "leaf": alt(lit("x"), seq(lit("y"), Ref("tree"))),
}
#: What notations get wrong: borders of Unicode, marks of their own, counts, nothing at all, recursion.
HARD = {
    "borders of Unicode": Grammar(
        some(
            _chars(
                (0x7F, 0x80),
                (0x7FF, 0x800),
                (0xD7FF, 0xD7FF),
                (0xE000, 0xE000),
                (0xFFFF, 0x10000),
                (0x10FFFF, 0x10FFFF),
                (0x1F600, 0x1F64F),
            )
        )
    ),
    "halves of characters": Grammar(
        seq(
            lit("<"),
            some(seq(byte_range(0xC3, 0xC4), byte_range(0x80, 0x9F))),
            alt(lit(">"), seq(lit(b"\xe2\x82"), byte_set(b"\xac\xad"))),
        )
    ),
    "a table": Grammar(
        seq(
            lit("-"),
            DfaTable(
                (((1 << 0x61, 1), (1 << 0xC3, 2)), ((1 << 0x61, 1),), ((3 << 0xA9, 0),)),
                frozenset((0, 1)),
            ),
        )
    ),
    "marks in sets": Grammar(some(_chars(*((ord(c), ord(c)) for c in "]-^[\\\"'/&~|?")))),
    "marks in texts": Grammar(words(["\"'\\/", "]-^[", "{2}&~|?*+", "<a>", "#x", "$y", "\t\n\r"])),
    "controls": Grammar(repeat(_chars((1, 0x1F), (0x7F, 0x9F), (0x2028, 0x2029)), 1, 2)),
    "all but quotes": Grammar(
        lexeme(many(characters.utf8(characters.complement(characters.chars('"\\')))))
    ),
    "counts": Grammar(repeat(seq(repeat(lit("a"), 1, 2), repeat(lit("b"), 2), lit("é")), 2, 3)),
    "counts from nothing": Grammar(seq(repeat(lit("ab"), 0, 3), lit("."), repeat(lit("c"), 3, 3))),
    "large counts": Grammar(lexeme(seq(repeat(byte_range(97, 99), 40, 90), lit("!")))),
    "counts of counts": Grammar(repeat(repeat(repeat(lit("é"), 2, 3), 1), 0, 2)),
    "nothing or something": Grammar(alt(EMPTY, seq(lit("x"), opt(lit("y"))))),
    "nothing, repeated": Grammar(
        seq(many(alt(EMPTY, lit("a"), seq(opt(lit("b")), opt(lit("c"))))), lit("."))
    ),
    "rules of nothing, repeated": Grammar(
        seq(many(seq(Ref("gap"), opt(Ref("gap")))), many(lexeme(many(lit("z")))), lit(".")),
        {"gap": alt(EMPTY, seq(lit("x"), Ref("gap")), lit("y"))},
    ),
    "words with and without more": Grammar(
        words_then({"a": EMPTY, "b": lit("!"), "c": opt(lit("?"))})
    ),
    "two rules": Grammar(some(Ref("tree")), _TREE),
    "a rule of nothing": Grammar(
        seq(lit("["), Ref("gap"), lit("]")), {"gap": alt(EMPTY, seq(lit(" "), Ref("gap")))}
    ),
    "a pattern": regex(r"(\p{Lu}[a-zà-ÿ]+|\d{2,4})(-[^\s\-]{1,3})?"),
}

_POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "number", "minimum": -5, "maximum": 120},
        "y": {"type": "integer"},
    },
    "required": ["x"],
}
SCHEMAS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a tool": (
        {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 6},
                "when": {"type": "string", "format": "date"},
                "unit": {"enum": ["°C", "\\F", 'a"b', None, True, 3]},
                "tags": {
                    "type": "array",
                    "items": {"type": "string", "pattern": "^[a-zé]{1,3}$"},
                    "maxItems": 2,
                },
            },
            "required": ["city"],
        },
        {"additional": False},
    ),
    "a tree": (
        {
            "type": "object",
            "properties": {"v": {"type": "boolean"}, "next": {"$ref": "#"}},
            "required": ["v"],
        },
        {"additional": False, "style": "compact"},
    ),
    "any order": (_POINT, {"order": "any", "additional": False}),
    "spaces": (_POINT, {"style": "flexible", "additional": False}),
    "free keys": (
        {
            "type": "object",
            "properties": {"a": {"type": "null"}},
            "additionalProperties": {"type": "boolean"},
        },
        {},
    ),
}
MADE = {name: json_schema(schema, **options) for name, (schema, options) in SCHEMAS.items()}
EVERY = {**ALL, **HARD, **MADE}


def sample(automaton: Automaton, rng: Random) -> str:
    """Draw a string of the language, heading for the end after a while."""
    state, data = automaton.start, bytearray()
    while edges := automaton.edges(state):
        if automaton.is_accepting(state) and (len(data) > 30 or rng.random() < 0.5):
            break
        if len(data) > 30:
            edges = tuple(
                e for e in edges if automaton.min_remaining(e[1]) < automaton.min_remaining(state)
            )
        mask, state = rng.choice(edges)
        data.append(rng.choice(list(bytes_of(mask))))
    return data.decode()


def damaged(text: str, rng: Random) -> str:
    """Change, drop or add one character."""
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(["", "x", '"', "é", "]", "0"]) + text[at + rng.randrange(2) :]


def check_language(grammar: Grammar, accepts: Callable[[str], bool], *, rounds: int = 60) -> None:
    """Compare membership on samples of the language and on damaged ones."""
    rng, automaton = Random(7), automaton_of(grammar)
    good = [sample(automaton, rng) for _ in range(rounds)]
    for text in [*good, *(damaged(text, rng) for text in good)]:
        state = automaton.walk(automaton.start, text.encode())
        assert accepts(text) == (state >= 0 and automaton.is_accepting(state)), text
