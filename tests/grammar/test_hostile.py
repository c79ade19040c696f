"""Schemas and patterns made to take for ever end soon: in an automaton, or in a clear error.

What is counted is work (states, steps), never seconds.
"""

from __future__ import annotations

import gc
import importlib
import random
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from weakref import ref

import pytest

from callmemaybe.errors import GrammarError, UnsupportedSchema
from callmemaybe.grammar import Automaton, json_schema, regex
from callmemaybe.grammar import automaton as automaton_module
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.automata.tree import TreeAutomaton, machine_of
from callmemaybe.grammar.automaton import progress_reported_to
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.json_schema import DeferredCheck
from callmemaybe.grammar.json_schema.entry import MAX_STEPS
from callmemaybe.grammar.json_schema.normalise import MAX_BRANCHES
from callmemaybe.grammar.nodes import Lexeme
from callmemaybe.matching import Matcher
from callmemaybe.tools import ToolSpec
from callmemaybe.wire import formats
from callmemaybe.wire.output_grammar import OutputSpec
from tests.decoding.test_decoder import PIECED

FAR = [Decimal("1e999999999"), Decimal("-1e-999999999"), 10**100_000, Decimal("7" * 5000)]


def is_in(schema: Any, text: str) -> bool:
    """Whether a text is in the language of a schema."""
    automaton = compile_grammar(json_schema(schema))
    state = automaton.walk(automaton.start, text.encode())
    return state >= 0 and automaton.is_accepting(state)


@pytest.mark.parametrize(
    "keyword", ["minimum", "exclusiveMaximum", "multipleOf", "const", "minItems"]
)
@pytest.mark.parametrize("number", FAR, ids=["huge", "tiny", "integer", "long"])
def test_numbers_that_nobody_could_write_out_are_refused(keyword: str, number: Any) -> None:
    """Law: a number of more digits than Python reads is refused, with the pointer of its keyword."""
    with pytest.raises(UnsupportedSchema, match="digits") as caught:
        json_schema({"properties": {"a": {keyword: number}}})
    assert caught.value.pointer == f"/properties/a/{keyword}"


def test_such_a_number_in_an_enumeration_is_refused() -> None:
    """Law: the same holds for the values of an enumeration."""
    for number in FAR:
        with pytest.raises(UnsupportedSchema, match="digits") as caught:
            json_schema({"enum": [1, {"a": [number]}]})
        assert caught.value.pointer == "/enum"


def test_zero_is_zero_with_any_exponent() -> None:
    """Law: what is refused is the length of a number; 0e999999999 is 0."""
    zero = {
        "type": "integer",
        "minimum": Decimal("0e999999999"),
        "maximum": Decimal("0e-999999999"),
    }
    assert is_in(zero, "0")
    assert not is_in(zero, "1")


def test_long_numbers_are_kept_to_the_last_digit() -> None:
    """Law: a constant is written with all the digits it has in the schema."""
    number = Decimal("0.1234567890123456789012345678901234567")
    assert is_in({"const": number}, str(number))
    assert not is_in({"const": number}, "0.1234567890123456789012345679")
    assert is_in({"const": -(10**4000)}, f"-1{'0' * 4000}")


def letters(pattern: str) -> TreeAutomaton:
    """Return a new automaton of a pattern, which shares nothing with other tests."""
    return automaton_of(regex(pattern))


def test_a_state_holds_the_places_of_its_text_not_all_of_them() -> None:
    """Law: a pattern with 2**21 states is walked in steps proportional to the text."""
    automaton = letters("(a|b)*a(a|b){20}")
    text = b"abbab" * 40
    before = machine_of(automaton_leaf(automaton)).steps
    assert automaton.walk(automaton.start, text) >= 0
    spent = machine_of(automaton_leaf(automaton)).steps - before
    assert spent <= 2 * 30 * len(text)


def automaton_leaf(automaton: TreeAutomaton) -> Lexeme:
    """Return the one lexeme that an automaton consists of."""
    inside = automaton.inside_lexeme(automaton.start)
    assert inside is not None
    leaf = next(one for one in (automaton._root[0],) if isinstance(one, Lexeme))
    assert machine_of(leaf) is inside[0]
    return leaf


def test_repetitions_of_repetitions_are_one() -> None:
    """Law: nested counts multiply out where they leave no gap, and stay apart where they do."""
    automaton = letters("(a{1,100}){1,100}(b{1,100}){1,100}")
    state = automaton.walk(automaton.start, b"a" * 5000 + b"b" * 300)
    assert automaton.is_accepting(state)
    assert machine_of(automaton_leaf(automaton)).steps < 50_000
    for pattern in ("(?:a{3,4}){2,3}", "(?:a{5}){0,2}", "(?:a{2,}){0,}", "(?:a{0,2}){3}"):
        made, engine = letters(pattern), re.compile(pattern)
        for count in range(15):
            text = "a" * count
            state = made.walk(made.start, text.encode())
            is_in = state >= 0 and made.is_accepting(state)
            assert is_in is bool(engine.fullmatch(text)), (pattern, count)


def test_large_sets_of_characters_are_bounded_and_kept_once() -> None:
    """The same class hundreds of times is one set; a pattern of millions of ranges is refused, not read."""
    pattern = r"[\p{L}\p{N}]" * 300
    regex(r"[\p{L}\p{N}]")  # the properties are cached once for all patterns
    tracemalloc.start()
    try:
        regex(pattern)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20  # a set for each class took 20 MiB, and stayed
    with pytest.raises(GrammarError, match="more than 2,000,000 ranges"):
        regex(pattern * 10)


def test_a_pattern_of_millions_of_characters_is_refused_unread() -> None:
    """With its length, and not with its text."""
    with pytest.raises(GrammarError, match="it has 1,999,999 characters") as caught:
        regex("|".join("a" * 10**6))
    assert len(str(caught.value)) < 200


def test_alternatives_of_one_character_are_one_set() -> None:
    """Law: thousands of overlapping classes cost no more than one."""
    classes = "|".join(f"[{chr(0x4E00 + i)}-{chr(0x4E05 + 2 * i)}]" for i in range(2000))
    automaton = letters(f"(?:x+|{classes})*")
    assert automaton.is_accepting(automaton.walk(automaton.start, "中x国".encode()))
    assert machine_of(automaton_leaf(automaton)).steps < 1000


def read_all(pattern: str, texts: list[bytes]) -> None:
    """Compile a pattern and read texts."""
    automaton = letters(pattern)
    for text in texts:
        automaton.walk(automaton.start, text)


EXPONENTIAL = [
    "((a|b){1,90}c?){1,90}",
    "(a|b|ab)*a(a|b|ba){0,18}(ab|b)*b(a|b){15}",
    "(?=(a|b)*a(a|b){9}$)(?=(a|b)*b(a|b){11}$)(?=(a|b)*a(a|b){13}$)[ab]*",
]


@pytest.mark.parametrize("pattern", EXPONENTIAL)
def test_work_ends_while_decoding(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: states made while reading count too; at the limit an error names the pattern and a way out."""
    monkeypatch.setattr(automaton_module, "WORK_BUDGET", 20_000)
    dice = random.Random(7)
    texts = [bytes(dice.choices(b"ab", k=90)) for _ in range(2000)]
    with pytest.raises(GrammarError, match="more than 20,000 steps") as caught:
        read_all(pattern, texts)
    assert caught.value.where == pattern
    assert "repetitions" in (caught.value.hint or "")


def test_a_schema_over_the_limit_is_refused_or_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: a pattern that takes too much to combine is refused with its pointer, or left to a check."""
    monkeypatch.setattr(automaton_module, "WORK_BUDGET", 20_000)
    schema = {"properties": {"a": {"pattern": "^[a-z]*$", "minLength": 12_345}}}
    with pytest.raises(UnsupportedSchema, match="20,000 steps") as caught:
        json_schema(schema)
    assert caught.value.pointer == "/properties/a/pattern"
    checks: list[DeferredCheck] = []
    automaton = compile_grammar(json_schema(schema, checks=checks))
    assert [check.pointer for check in checks] == ["/properties/a/pattern"]
    assert automaton.walk(automaton.start, b'{"a": "') >= 0


def test_a_worn_automaton_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: recursion has no end of states, so a kept automaton is made anew when half is spent."""
    grammar = json_schema({"items": {"$ref": "#"}})
    first = compile_grammar(grammar)
    assert compile_grammar(grammar) is first
    monkeypatch.setattr(automaton_module, "WORK_BUDGET", 2 * first.steps + 200)
    state = first.start
    while not first.needs_renewal:
        assert compile_grammar(grammar) is first
        state = first.walk(state, b"[")
    second = compile_grammar(grammar)
    assert second is not first
    assert compile_grammar(grammar) is second


def test_what_is_worn_is_let_go() -> None:
    """Law: an automaton that has spent half of its work is not kept behind the next one's back."""
    worn = compile_grammar(regex("(a|b){1,40}spent"))
    worn.steps = automaton_module.WORK_BUDGET + 1
    gone = ref(worn)
    del worn
    compile_grammar(regex("another"))
    gc.collect()
    assert gone() is None


def test_what_is_kept_is_bounded_by_what_it_has_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: few large automata stay, or many small ones; the last one stays in any case."""
    room = importlib.import_module("callmemaybe.grammar.compile")
    monkeypatch.setattr(room, "_cache", {})
    monkeypatch.setattr(room, "CACHE_STEPS", 1000)
    monkeypatch.setattr(room, "TRIM_INTERVAL", 1)
    for number in range(room.CACHE_SIZE + 5):
        compile_grammar(regex(f"small{number}"))
    assert len(room._cache) == room.CACHE_SIZE
    large = [compile_grammar(regex(f"large{number}")) for number in range(3)]
    for one in large:
        one.steps = 400
    compile_grammar(regex("large2"))
    assert large[2] in room._cache.values()
    assert large[1] in room._cache.values()
    large[2].steps = 1001
    assert compile_grammar(regex("large2")) is large[2]
    assert list(room._cache.values()) == [large[2]]


def test_lexemes_count_and_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: what an automaton stands on is kept with it, and is one for all who stand on it."""
    room = importlib.import_module("callmemaybe.grammar.compile")
    monkeypatch.setattr(room, "_cache", {})
    monkeypatch.setattr(room, "CACHE_STEPS", 1500)
    pattern = {"type": "string", "pattern": "^(ab?){1,30}counted$"}
    both = [
        compile_grammar(json_schema({"properties": {name: pattern}, "required": [name]}))
        for name in "ab"
    ]
    for name, automaton in zip("ab", both, strict=True):
        assert automaton.walk(automaton.start, b'{"' + name.encode() + b'": "ab') >= 0
    shared = {*both[0].dependencies()} & {*both[1].dependencies()}
    assert shared
    next(iter(shared)).steps = 1000
    room.trim_cache()
    assert list(room._cache.values()) == both
    next(iter(shared)).steps = 1600
    room.trim_cache()
    assert list(room._cache.values()) == both[1:]


MANY = "^((a|b){1,40}c?){1,40}$"
#: A schema, and what comes before a text of its pattern.
WEARING: dict[str, tuple[Any, bytes]] = {
    "pattern": ({"pattern": MANY, "type": "string"}, b'"'),
    "two patterns": ({"allOf": [{"pattern": MANY}, {"pattern": "^[a-c]*$"}]}, b'"'),
    "without": ({"pattern": MANY, "type": "string", "not": {"const": "a" * 30}}, b'"'),
    "deep": ({"properties": {"x": {"items": {"pattern": MANY}}}, "required": ["x"]}, b'{"x": ["'),
}


def all_below(automaton: Automaton) -> list[Automaton]:
    """Return the automata that one stands on, and those that they stand on."""
    found = list(automaton.dependencies())
    for one in found:
        found += one.dependencies()
    return found


@pytest.mark.parametrize("name", WEARING)
def test_a_worn_lexeme_is_replaced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: a pattern may be read for ever, by requests that begin before half of its work is spent.

    Whoever is inside a worn one goes on there; what is read is the same.
    """
    monkeypatch.setattr(automaton_module, "WORK_BUDGET", 20_000)
    schema, before = WEARING[name]
    grammar = json_schema(schema)
    dice = random.Random(3)
    made: list[TreeAutomaton] = []
    below: dict[int, Automaton] = {}
    while sum(one.steps for one in below.values()) < 2 * automaton_module.WORK_BUDGET:
        automaton = compile_grammar(grammar)
        if not made or automaton is not made[-1]:
            made.append(automaton)
        text = before + b"c".join(b"a" * dice.randint(1, 12) for _ in range(3))
        assert automaton.walk(automaton.start, text) >= 0
        below |= {one.serial: one for one in all_below(automaton)}
    assert len(made) > 2
    for automaton in (made[0], made[-1]):
        for text, is_in in ((b"abcab", True), (b"abcc", False), (b"aba", True), (b"d", False)):
            whole = before + text + (b'"]}' if name == "deep" else b'"')
            state = automaton.walk(automaton.start, whole)
            assert (state >= 0 and automaton.is_accepting(state)) is is_in, text


VALUES = [f"v{i}" for i in range(100_000)]
LARGE: dict[str, tuple[Any, str]] = {
    "300 optional members": (
        {"properties": {f"m{i}": {"type": "string"} for i in range(300)}},
        '{"m7": "", "m299": "x", "other": 1}',
    ),
    "100,000 values": ({"enum": VALUES}, '"v77777"'),
    "100,000 values beside a pattern": ({"enum": VALUES, "pattern": "^v1"}, '"v17777"'),
    "100,000 values left out": ({"type": "string", "not": {"enum": VALUES}}, '"v100000"'),
    "10,000 functions": (
        {"anyOf": [
            {"type": "object", "properties": {"name": {"const": f"f{i}"}}, "required": ["name"]}
            for i in range(10_000)
        ]},
        '{"name": "f9777"}',
    ),
    "a million items": ({"minItems": 10**6, "items": {"const": 1}}, f"[{'1, ' * 999}1"),
    "definitions used twice each": (
        {"$defs": {f"d{i}": {"properties": {"a": {"$ref": f"#/$defs/d{i + 1}"},
                                            "b": {"$ref": f"#/$defs/d{i + 1}"}}} for i in range(60)}
                  | {"d60": {"type": "string"}},
         "$ref": "#/$defs/d0"},
        '{"a": ' * 60 + '"x"' + "}" * 60,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_large_is_not_hostile(name: str) -> None:
    """Law: what is only large compiles, and a value of it is read in a small part of the work."""
    schema, text = LARGE[name]
    automaton = automaton_of(json_schema(schema))
    assert automaton.walk(automaton.start, text.encode()) >= 0
    assert automaton.steps < 25_000


def test_ten_thousand_tools_are_one_language() -> None:
    """Law: a call of one of them is read, token by token, in steps that do not grow with their number."""
    form = formats.get("hermes")
    spent = {}
    for count in (100, 10_000):
        tools = [
            ToolSpec(f"tool_{i}", parameters={"type": "object", "required": [f"p{i}"],
                                              "properties": {f"p{i}": {"type": "string"}}})
            for i in range(count)
        ]  # fmt: skip
        controls = frozenset(PIECED.controls)
        automaton = automaton_of(
            form.output_grammar(tools, OutputSpec(no_call=True), controls=controls)
        )
        matcher = Matcher(automaton, PIECED)
        call = f'\n{{"name": "tool_{count - 1}", "arguments": {{"p{count - 1}": "x"}}}}\n'
        begin, end = (PIECED.controls[name] for name in ("<tool_call>", "</tool_call>"))
        for index in [begin, *PIECED.encode(call.encode()), end]:
            assert matcher.is_allowed(index)
            matcher.accept(index)
        assert matcher.is_accepting
        spent[count] = automaton.steps
    assert spent[10_000] < 2 * spent[100]


def nested(depth: int, wrap: Callable[[Any], Any]) -> Any:
    """Return a schema inside a schema inside a schema."""
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = wrap(schema)
    return schema


@pytest.mark.parametrize(
    ("wrap", "text"),
    [
        (lambda s: {"type": "object", "properties": {"a": s}, "required": ["a"]}, '{"a": '),
        (lambda s: {"type": "array", "prefixItems": [s], "items": False, "minItems": 1}, "["),
        (lambda s: {"allOf": [s]}, ""),
        (lambda s: {"anyOf": [s]}, ""),
        (lambda s: {"not": {"not": s}}, ""),
    ],
)
def test_nesting_has_no_limit(wrap: Callable[[Any], Any], text: str) -> None:
    """Law: a schema a thousand levels deep is read like any other."""
    closing = {"{": "}", "[": "]"}.get(text[:1], "")
    assert is_in(nested(1000, wrap), text * 1000 + '"x"' + closing * 1000)


CASES = {
    "ten choices twice": {"allOf": [
        {"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(40)
    ]},
    "definitions chosen twice": {
        "$defs": {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)}
                 | {"d60": {"type": "string"}},
        "$ref": "#/$defs/d0",
    },
    "conditions on thirty names": {"allOf": [
        {"if": {"properties": {f"k{i}": {"const": i}}}, "then": {"required": [f"x{i}"]}}
        for i in range(30)
    ]},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_exponential_combinations_end(name: str) -> None:
    """Law: combinations without end are cut off with an error that names the schema to change.

    Until then every case is told of, so that others need not wait for the last.
    """
    told: list[int] = []
    with (
        progress_reported_to(told.append),
        pytest.raises(UnsupportedSchema, match="too many") as caught,
    ):
        json_schema(CASES[name])
    assert "fewer" in (caught.value.hint or "")
    assert sum(told) > MAX_BRANCHES
    assert max(told) < 2000


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            {"$ref": "#/allOf/²", "allOf": [True]},
            "points at '#/allOf/²', which is not in the schema",
        ),
        ({"$ref": "#/allOf/٠", "allOf": [True]}, "which is not in the schema"),
        ({"$ref": "#/allOf/" + "1" * 5000, "allOf": [True]}, "which is not in the schema"),
        ({"type": 10**5000}, "a value of int is no type"),
        ({"type": ["string", 10**5000]}, "a value of int is no type"),
        ({"type": "strings"}, "'strings' is no type"),
    ],
    ids=["superscript", "Arabic", "long index", "long type", "long types", "word"],
)
def test_what_is_no_index_and_no_type_is_refused(schema: Any, message: str) -> None:
    """Law: whatever stands in the place of an index or a type, the error is UnsupportedSchema."""
    with pytest.raises(UnsupportedSchema, match=message):
        json_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}},
         "$ref": "#/$defs/a"},
        {"anyOf": [{"type": "string"}, {"$ref": "#"}]},
    ],
)  # fmt: skip
def test_references_without_progress_are_refused(schema: Any) -> None:
    """Law: a reference that leads back to itself with no value in between is an error."""
    with pytest.raises(UnsupportedSchema, match="leads back to itself"):
        json_schema(schema)


SCRIPT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (40, 40))
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from callmemaybe.errors import InputError
from callmemaybe.grammar import compile, json_schema
try:
    automaton = compile(json_schema(eval(sys.argv[1])))
    for text in (b"a", b"b", b"ab", b"aab"):
        automaton.walk(automaton.start, b'"' + text * 3000)
    print("ended")
except InputError as error:
    print("ended:", error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema",
    [
        "{'pattern': '((a|b){1,90}c?){1,90}', 'minLength': 100000}",
        "{'pattern': '(a|b)*a(a|b){16}', 'allOf': [{'pattern': '(a|c)*b(a|b|c){16}'}]}",
        "{'patternProperties': {'(a|b)*a(a|b){%d}' % i: {} for i in range(10, 16)}}",
        "{'pattern': ''.join('(?=.*a.{%d}b)' % i for i in range(1, 12))}",
    ],
)
def test_the_limit_holds_as_it_is(schema: str) -> None:
    """Law: with the limit that ships, the worst known ends within 2 GiB (and 40 s of CPU at most)."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, schema], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("ended"), done.stderr


def doubled(levels: int, definition: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a schema of definitions of which each refers to the next one, as ``definition`` says."""
    definitions = {f"d{n}": definition({"$ref": f"#/$defs/d{n + 1}"}) for n in range(levels)}
    definitions[f"d{levels}"] = {"type": "string"}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


@pytest.mark.parametrize(
    "definition",
    [
        lambda r: {"type": "object", "properties": {"a": r, "b": r}, "required": ["a", "b"]},
        lambda r: {"type": "array", "prefixItems": [r, r], "minItems": 2},
        lambda r: {"allOf": [r, r]},
        lambda r: {"if": r, "then": r, "else": r},
        lambda r: {"type": "object", "additionalProperties": r, "properties": {"a": r}},
    ],
    ids=["properties", "prefixItems", "allOf", "if", "additionalProperties"],
)
def test_definitions_used_twice_by_the_next_one_are_written_once(
    definition: Callable[[Any], Any],
) -> None:
    """Law: a grammar is as large as its schema: 2**32 copies of a definition are one node."""
    tracemalloc.start()
    try:
        compile_grammar(json_schema(doubled(32, definition)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


def test_dynamic_references_cost_a_schema_once_for_each_resource() -> None:
    """Law: of the resources on the path to a `$dynamicRef` only those that decide its meaning are told apart."""
    resources = {
        f"d{n}": {
            "$id": f"d{n}", "$dynamicAnchor": "node",
            "properties": {
                "a": {"$ref": f"d{(5 * n + 3) % 32}"}, "b": {"$ref": f"d{(7 * n + 1) % 32}"},
                "c": {"$dynamicRef": "#node"},
            },
        }
        for n in range(32)
    }  # fmt: skip
    steps = 0

    def count(more: int) -> None:
        nonlocal steps
        steps += more

    with progress_reported_to(count):
        json_schema({"$id": "http://e/r", "properties": {"x": {"$ref": "d0"}}, "$defs": resources})
    assert steps < 20_000


def test_compiling_one_schema_has_one_budget_of_steps() -> None:
    """Law: patterns that multiply, in two places, are refused after the steps of one schema, with the place."""
    first, second = (
        {
            "type": "string",
            "allOf": [{"pattern": f"^(.*{letter}.{{{gap}}})"} for letter in "abcdefghijklmnop"],
        }
        for gap in (8, 9)
    )
    steps = 0

    def count(more: int) -> None:
        nonlocal steps
        steps += more

    schema = {"properties": {"a": {"properties": {"x": first, "y": second}}}}
    with progress_reported_to(count), pytest.raises(UnsupportedSchema, match="steps") as caught:
        json_schema(schema, checks=[])
    assert steps <= MAX_STEPS
    assert caught.value.pointer == "/properties/a/properties/y"
