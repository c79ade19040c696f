"""Arguments as elements inside of elements: what a text is depends on the schema, and all three readings agree on it."""

from __future__ import annotations

import json
from functools import cache
from itertools import groupby

import jsonschema_rs
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from callmemaybe.errors import InputError, UnsupportedSchema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.nodes import Control, bytes_of
from callmemaybe.jsonio import dumps
from callmemaybe.tools import ArgumentsDelta, CallEnded, ToolCall, ToolSpec
from callmemaybe.wire import formats
from callmemaybe.wire.element_args import ALL_KINDS, ValuePlaces
from callmemaybe.wire.output_grammar import OutputSpec

NS = "]<]minimax[>["
FORM = formats.get("minimax_m3")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["", " ", "null", "1", "[]", "{}", '"', "-", "<item>", "</a>", NS[:5], "😀", "\\"]
)
#: Each member leaves another choice: what is empty, what is a list, what is a number?
SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "either": {"type": ["string", "integer", "null"]},
        "list": {"type": "array", "items": {"type": ["string", "boolean"]}},
        "holder": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"$ref": "#/$defs/node"}]},
        "any": {},
        "texts": {"type": "object", "additionalProperties": {"type": "string"}},
        "tree": {"$ref": "#/$defs/node"},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        "some": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    },
    "additionalProperties": False,
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "nodes": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 3},
            },
            "additionalProperties": False,
        }
    },
}  # fmt: skip
NODES = st.recursive(
    st.fixed_dictionaries({}, optional={"value": st.integers(-9, 9)}),
    lambda inner: st.fixed_dictionaries(
        {}, optional={"value": st.integers(-9, 9), "nodes": st.lists(inner, max_size=3)}
    ),
    max_leaves=5,
)
KEYS = st.text("ab/<-é ", min_size=1, max_size=3).filter(lambda key: key[0] != "/")
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
FITTING = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXT,
        "either": TEXT | st.integers(-9, 9) | st.none(),
        "list": st.lists(TEXT | st.booleans(), max_size=3),
        "holder": st.lists(st.integers(-9, 9), max_size=3) | NODES,
        "any": ANY,
        "texts": st.dictionaries(KEYS, TEXT, max_size=3),
        "tree": NODES,
        "pair": st.tuples(TEXT, st.integers(-9, 9)).map(list),
        "some": TEXT | st.lists(TEXT, max_size=2),
    },
)
TOOL = ToolSpec("f", parameters=SCHEMA)
CONTROLS = {"token": None, "text": frozenset[str]()}
every_vocabulary = pytest.mark.parametrize("kind", CONTROLS)


def parts_of(path: list) -> list:
    return [
        one
        for is_control, run in groupby(path, lambda one: isinstance(one, Control))
        for one in (run if is_control else [bytes(run)])
    ]


@cache
def automaton_of(kind: str, order: str):
    spec = OutputSpec(order=order)
    return compile_grammar(FORM.output_grammar([TOOL], spec, controls=CONTROLS[kind]))


def accepts(automaton, path: list) -> bool:
    state = automaton.start
    for symbol in path:
        if state < 0:
            return False
        if isinstance(symbol, Control):
            state = automaton.controls(state).get(symbol.text, -1)
        else:
            state = automaton.step(state, symbol)
    return state >= 0 and automaton.is_accepting(state)


@every_vocabulary
@settings(max_examples=50, deadline=None)
@given(value=FITTING, data=st.data())
def test_what_fits_is_written_allowed_and_read_back_at_every_cut(kind: str, value, data) -> None:
    """A valid value is in the grammar in schema order and in any, and is read back, byte by byte or whole."""
    shuffled = {key: value[key] for key in data.draw(st.permutations(list(value)))}
    jsonschema_rs.validate(SCHEMA, value)
    for given_, order in ((value, "schema"), (shuffled, "any")):
        if order == "schema":
            given_ = {key: value[key] for key in SCHEMA["properties"] if key in value}
        call = ToolCall("f", dumps(given_))
        try:
            parts = FORM.render([call], tools=[TOOL], controls=CONTROLS[kind])
        except InputError as error:
            if "cannot write" not in str(error):
                raise
            reject()
        (found,) = FORM.read(parts, [TOOL], controls=CONTROLS[kind])
        assert found.parsed == call.parsed
        path: list = []
        for part in parts:
            path += [part] if isinstance(part, Control) else part.encode()
        if order == "any" or _in_order(given_):
            assert accepts(automaton_of(kind, order), path)
        reader = FORM.reader([TOOL], controls=CONTROLS[kind])
        events = []
        for symbol in path:
            events += reader.feed(symbol if isinstance(symbol, Control) else bytes([symbol]))
        events += reader.end()
        assert [e.call for e in events if isinstance(e, CallEnded)] == [found]
        told = b"".join(e.data for e in events if isinstance(e, ArgumentsDelta))
        assert told.decode() == found.arguments


def _in_order(value: object) -> bool:
    """Whether the members of all nodes stand in schema order."""
    if isinstance(value, list):
        return all(map(_in_order, value))
    if not isinstance(value, dict):
        return True
    known = [key for key in value if key in ("value", "nodes")]
    return known in ([], ["value"], ["nodes"], ["value", "nodes"]) and all(
        map(_in_order, value.values())
    )


@every_vocabulary
@pytest.mark.parametrize("order", ["schema", "any"])
@settings(max_examples=25, deadline=None)
@given(choices=st.lists(st.integers(0, 10**6), min_size=500, max_size=500))
def test_whatever_the_grammar_allows_is_valid(kind: str, order: str, choices: list[int]) -> None:
    """A walk through the grammar, any walk, is read as a call that is valid under the schema."""
    automaton = automaton_of(kind, order)
    state, path = automaton.start, []
    for at, choice in enumerate(choices):
        ways: list = [(Control(text), to) for text, to in automaton.controls(state).items()]
        for mask, target in automaton.edges(state):
            ways += [
                (byte, target) for byte in bytes_of(mask) if byte < 0x80 or mask >> 128 == mask
            ]
        if at > 150:
            least = min((automaton.min_remaining(to) for _, to in ways), default=0)
            ways = [way for way in ways if automaton.min_remaining(way[1]) == least]
        if not ways:
            break
        symbol, state = ways[choice % len(ways)]
        path.append(symbol)
        if automaton.is_accepting(state) and at > 150:
            break
    if not automaton.is_accepting(state):
        reject()
    (call,) = FORM.read(parts_of(path), [TOOL], controls=CONTROLS[kind])
    jsonschema_rs.validate(SCHEMA, json.loads(call.arguments))


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "array"}, [], ""),
        ({"type": "object"}, {}, ""),
        ({"type": ["array", "object"]}, {}, ""),
        ({"type": ["array", "object"]}, [], "[]"),
        ({"type": ["array", "string"]}, [], "[]"),
        ({"type": ["array", "string"]}, "", ""),
        ({"type": "string"}, "12", "12"),
        ({"type": ["string", "integer"]}, "12", '"12"'),
        ({"type": ["string", "integer"]}, 12, "12"),
        ({"type": "object", "properties": {"item": {"type": "integer"}}}, {"item": 1},
         f"{NS}<item>1{NS}</item>"),
        ({"type": "array", "items": {"type": "integer"}}, [1], f"{NS}<item>1{NS}</item>"),
        ({}, [True, "a"], f"{NS}<item>true{NS}</item>{NS}<item>a{NS}</item>"),
    ],
)  # fmt: skip
def test_the_schema_tells_what_a_text_is(schema: dict, value: object, text: str) -> None:
    """The same text is another value under another schema, and a value another text."""
    tool = ToolSpec("f", parameters={"type": "object", "properties": {"x": schema}})
    parts = FORM.render(
        [ToolCall("f", dumps({"x": value}))], tools=[tool], controls=frozenset[str]()
    )
    written = "".join(str(part) for part in parts)
    assert f"{NS}<x>{text}{NS}</x>" in written
    (found,) = FORM.read([written], [tool], controls=frozenset[str]())
    assert found.parsed == {"x": value}


@pytest.mark.parametrize("name", ["", "/a", "a>b"])
def test_what_no_tag_can_be_is_refused(name: str) -> None:
    """A name that no tag can have, and an object that reads as a list, are errors in a sentence."""
    with pytest.raises(InputError, match="cannot write a parameter's name"):
        FORM.render([ToolCall("f", dumps({name: 1}))])
    tool = ToolSpec("f", parameters={"type": "object", "properties": {name: {"type": "string"}}})
    with pytest.raises(UnsupportedSchema, match="cannot write the key"):
        FORM.grammar([tool])
    with pytest.raises(InputError, match="'item' where a list may stand"):
        FORM.render([ToolCall("f", '{"x": {"item": 1}}')])


@pytest.mark.parametrize(
    "broken",
    [
        "text", f"{NS}<x>a{NS}<y>", f"{NS}<>1{NS}</>", f"{NS}<x>", f"{NS}</x>", f"{NS}<x>1{NS}</x>text",
        f"{NS}x>", f"{NS}{NS}<x>1{NS}</x>",
    ],
)  # fmt: skip
def test_what_is_broken_is_refused(broken: str) -> None:
    """Elements that do not close, text beside elements and tags without a name are errors."""
    text = f'{NS}<tool_call>\n{NS}<invoke name="f">{broken}{NS}</invoke>\n{NS}</tool_call>'
    with pytest.raises(InputError):
        FORM.read([text], [ToolSpec("f")], controls=frozenset[str]())


def test_line_breaks_around_elements_are_none_of_the_values() -> None:
    """White space between tags, and in a tag's front, is read over where no string may stand."""
    body = f"\n{NS}<tree>\n  {NS} <value>1{NS}</value>\n{NS}</tree>\n"
    text = f'{NS}<tool_call>{NS}<invoke name="f">{body}{NS}</invoke>{NS}</tool_call>'
    (found,) = FORM.read([text], [TOOL], controls=frozenset[str]())
    assert found.parsed == {"tree": {"value": 1}}


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "text"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "scalar"


@settings(max_examples=100, deadline=None)
@given(value=FITTING)
def test_kinds_are_an_upper_bound(value: dict) -> None:
    """Whatever is valid has, at every depth, one of the kinds of its place."""
    places = ValuePlaces(SCHEMA)
    waiting: list = [(value, places.root)]
    while waiting:
        one, place = waiting.pop()
        assert _kind(one) in places.kinds(place)
        if isinstance(one, dict):
            waiting += [(inner, places.member(place, key)) for key, inner in one.items()]
        elif isinstance(one, list):
            waiting += [(inner, places.item(place)) for inner in one]


def test_references_without_end_are_any_value() -> None:
    """Schemas that refer to themselves, or to very many alternatives, are looked at for a bounded time."""
    doubling = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2} for n in range(1, 40)}
    schema = {
        "properties": {"x": {"$ref": "#/$defs/d39"}, "y": {"$ref": "#/$defs/loop"}},
        "$defs": {"d0": {"type": "string"}, "loop": {"$ref": "#/$defs/loop"}, **doubling},
    }
    places = ValuePlaces(schema)
    for key in ("x", "y"):
        place = places.member(places.root, key)
        assert places.kinds(place) == ALL_KINDS
        assert places.kinds(places.item(place)) == ALL_KINDS
        assert not places.declared(place)
