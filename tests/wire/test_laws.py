"""Laws of every wire format in the registry: what is rendered is read back, however it arrives."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import cache
from itertools import groupby, pairwise

import jsonschema_rs
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from callmemaybe.errors import InputError
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.nodes import Control, bytes_of
from callmemaybe.jsonio import dumps
from callmemaybe.tools import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolSpec,
)
from callmemaybe.tools.schemas import normalize_dialect
from callmemaybe.wire import Format, PromptPart, formats
from callmemaybe.wire.format_nodes import ArgumentsNode, leaves

FORMATS = [formats.get(name) for name in formats.names()]
every_format = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
#: A vocabulary with all control tokens of the tree, and one without any.
CONTROLS = {"all": None, "none": frozenset[str]()}

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ['"', "\\", '"}\n</tool_call>', "<tool_call>", "<|args|>", "<|end|>", "\x00\x1f", "é😀\u2028"]
)
NUMBERS = st.integers(-(10**30), 10**30) | st.decimals(
    allow_nan=False, allow_infinity=False, places=6
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(TEXT, VALUES, max_size=3).map(dumps)
ANYTHING = {"type": "object"}
NAMES = st.sampled_from([
    "a", "ab", "abc", "get weather", 'say "hi"', "back\\slash", "\\", "naïve/日本", "<tool_call>", "\n",
]) | TEXT.filter(bool)  # fmt: skip


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[ToolSpec], list[ToolCall]]:
    """Some tools with hostile names, and calls of them."""
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    called = draw(st.lists(st.tuples(st.sampled_from(names), ARGUMENTS), min_size=1, max_size=3))
    return [ToolSpec(name, parameters=ANYTHING) for name in names], [
        ToolCall(*one) for one in called
    ]


def symbols(parts: tuple[PromptPart, ...]) -> list[int | Control]:
    found: list[int | Control] = []
    for part in parts:
        found += [part] if isinstance(part, Control) else part.encode()
    return found


def parts_of(path: list[int | Control]) -> list[PromptPart | bytes]:
    """Return symbols as parts: control tokens alone, bytes together."""
    return [
        one
        for is_control, run in groupby(path, lambda one: isinstance(one, Control))
        for one in (run if is_control else [bytes(run)])
    ]


def joined(events: list[StreamEvent]) -> list[StreamEvent]:
    """Join neighbouring deltas: where a stream was cut is not an event."""
    out: list[StreamEvent] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, TextDelta | ArgumentsDelta) and type(event) is type(last):
            out[-1] = replace(event, data=last.data + event.data)
        else:
            out.append(event)
    return out


#: Formats that cannot do without their control tokens.
BOUND = {"nano", "functiongemma", "gemma4"}
#: Formats that echo the called function's parameters in the call.
ECHOING = {"nano"}
#: Formats whose arguments are JSON, byte for byte as they will be told.
VERBATIM = {
    form.name
    for form in FORMATS
    for leaf in leaves(form.tree)
    if isinstance(leaf, ArgumentsNode) and leaf.syntax.top is None
}


def controls_of(form: Format, kind: str) -> frozenset[str] | None:
    if kind == "none" and form.name in BOUND:
        pytest.skip("its control tokens have no spelling")
    return CONTROLS[kind]


def written(form: Format, calls: list[ToolCall], **more: object) -> tuple[PromptPart, ...]:
    """Render as many of the calls as the format takes at once; what it cannot write is no example."""
    some = calls if form.is_parallel else calls[:1]
    if form.name in ECHOING and "tools" not in more:
        more["tools"] = [ToolSpec(call.name, parameters=ANYTHING) for call in calls]
    try:
        return form.render(some, **more)  # type: ignore[arg-type]
    except InputError as error:
        if "cannot write" not in str(error):
            raise
        reject()


def taken(form: Format, calls: list[ToolCall]) -> list[ToolCall]:
    return calls if form.is_parallel else calls[:1]


@every_format
@pytest.mark.parametrize("kind", CONTROLS)
@settings(max_examples=25, deadline=None)
@given(scene=scenes(), data=st.data())
def test_what_is_rendered_is_allowed_and_read_back_however_it_is_cut(
    form: Format, kind: str, scene, data: st.DataObject
) -> None:
    """read(render(calls)) gives the same names and the same values, digit for digit.

    Every rendered turn is a string of the grammar for these tools, with matching captures. Any split of the stream gives the same events as the whole, once deltas are joined; a turn that is
    cut off inside its first call is refused, and ends no call.
    """
    tools, calls = scene
    controls = controls_of(form, kind)
    check_grammar(form, tools, taken(form, calls), controls)
    parts = written(form, calls, controls=controls)
    whole = form.reader(controls=controls)
    expected = joined([*(e for part in parts for e in whole.feed(part)), *whole.end()])
    found = [event.call for event in expected if isinstance(event, CallEnded)]
    assert [(c.name, c.parsed) for c in found] == [(c.name, c.parsed) for c in taken(form, calls)]
    path = symbols(parts)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(path)), max_size=6)) | {0, len(path)})
    reader = form.reader(controls=controls)
    events: list[StreamEvent] = []
    for start, end in pairwise(cuts):
        for part in parts_of(path[start:end]):
            events += reader.feed(part)
    assert joined([*events, *reader.end()]) == expected
    if kind == "none":  # the characters of a token that is cut off may be free text
        return
    path = symbols(written(form, calls[:1], controls=controls))
    while path[-1] in {*b"\n "}:  # a call that lacks but the white space behind it is whole
        path.pop()
    path = path[: data.draw(st.integers(1, len(path) - 1))]
    if not any(isinstance(one, Control) for one in path) and form.has_free_text:
        return  # so far it may be free text
    reader = form.reader(controls=controls)
    for part in parts_of(path):
        events = reader.feed(part)
        assert form.name != "hermes" or not any(isinstance(one, CallEnded) for one in events)
    with pytest.raises(InputError, match="cut off"):
        reader.end()


def check_grammar(
    form: Format, tools: list[ToolSpec], calls: list[ToolCall], controls: frozenset[str] | None
) -> None:
    """Assert that these calls, and none, are rendered as strings of the grammar with their captures."""
    grammar = form.grammar(tools, parallel=True, no_call=True, controls=controls)
    automaton = compile_grammar(grammar)
    for some in (calls, []):
        parts = written(form, some, controls=controls)
        assert accepts(automaton, parts)
        path = [s.text if isinstance(s, Control) else s for s in symbols(parts)]
        captured = automaton.captures(path)
        whole = [c.name for c in captured if c.end is not None]
        assert whole.count("name") == whole.count("arguments") == len(some)
        assert [c.name for c in captured].count("no_call") == (not some)


@every_format
def test_events_come_as_soon_as_they_are_certain(form: Format) -> None:
    """The name is told before the arguments' first byte, the arguments byte by byte."""
    reader = form.reader()
    log = [
        reader.feed(symbol if isinstance(symbol, Control) else bytes([symbol]))
        for symbol in symbols(written(form, [ToolCall("a", '{"x": 1}')]))
    ]
    kinds = [type(event) for events in log for event in events]
    deltas = kinds[1:-1]
    assert kinds == [CallStarted, *[ArgumentsDelta] * len(deltas), CallEnded]
    if form.name in VERBATIM:
        assert len(deltas) == len('{"x":1}' if form.name == "nano" else '{"x": 1}')
    else:
        assert len(deltas) > 2


@every_format
def test_a_control_token_is_never_its_text(form: Format) -> None:
    """Where a control token stands, its characters do not read as it, nor the other way round."""
    parts = written(form, [ToolCall("f", "{}")])
    spelled = ["".join(p.text if isinstance(p, Control) else p for p in parts)]
    if any(isinstance(part, Control) for part in parts):
        with suppress(InputError):
            assert form.read(spelled) == []
    with pytest.raises(InputError):
        form.read([Control("<|nonsense|>"), *parts])


def test_digits_survive() -> None:
    """A number is rendered and read with the digits it was written with."""
    text = '{"a": 1.50, "b": 1e400, "c": -0.0, "d": 12345678901234567890123}'
    form = formats.get("hermes")
    (call,) = form.read(form.render([ToolCall("f", text)]))
    assert call.arguments == text
    assert call.parsed["a"] == Decimal("1.50")
    assert str(call.parsed["b"]) == "1E+400"


def test_free_text_is_no_call() -> None:
    """Where a model answers in text, the text is told as it comes and no call is read."""
    form = formats.get("hermes")
    reader = form.reader(controls=frozenset())
    assert reader.feed(b"I think <tool_c") == [TextDelta(b"I think ")]
    assert reader.feed(b"hair> is") == [TextDelta(b"<tool_chair> is")]
    assert form.read(["hello"]) == form.read([""]) == []


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "zip code": {"type": ["string", "null"]},
        "unit": {"enum": ["c", 'f"', None, 3, True]},
        "when": {"type": "string", "format": "date"},
        "code": {"type": "string", "pattern": "^[a-z'\"]{2,4}$"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "maxItems": 3},
        "any": {},
        "more": {"type": "object", "additionalProperties": {"type": "string"}},
        "note": {"type": "string", "nullable": True},
        "some": {"type": "any"},
        "place": {"$ref": "#place"},
        "self": {"$ref": "#"},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {
        "place": {"$anchor": "place", "type": "string"},
        "item": {"type": "object", "properties": {"n": {"type": "number"}, "B": {"$ref": "#"}}},
    },
}
ITEMS = st.fixed_dictionaries({}, optional={"n": st.integers(-5, 5)})
FITTING = st.fixed_dictionaries(
    {"city": st.text(st.characters(exclude_categories=["Cs"]), max_size=12)},
    optional={
        "zip code": st.none() | TEXT | st.sampled_from(["null", "12", "[", "-", '"', "x", "nul"]),
        "unit": st.sampled_from(["c", 'f"', None, 3, True]),
        "when": st.just("2024-02-29"),
        "code": st.text("ab'\"", min_size=2, max_size=4),
        "items": st.lists(ITEMS | st.fixed_dictionaries({"B": st.just({"city": "x"})}), max_size=3),
        "any": VALUES,
        "more": st.dictionaries(TEXT, TEXT, max_size=2),
        "note": st.none() | TEXT | st.just("null"),
        "some": VALUES,
        "place": TEXT | st.sampled_from(["Paris", "null", "12"]),
        "self": st.just({"city": "x"}),
    },
)


def in_schema_order(value: dict) -> dict:
    return {key: value[key] for key in SCHEMA["properties"] if key in value}


@every_format
@settings(max_examples=25, deadline=None)
@given(arguments=FITTING.map(in_schema_order))
def test_a_schema_allows_the_same_in_every_syntax(form: Format, arguments: dict) -> None:
    """What is valid and can be written is in the grammar of that schema, and is read back."""
    tools = [ToolSpec("f", parameters=SCHEMA)]
    calls = [ToolCall("f", dumps(arguments))]
    parts = written(form, calls, tools=tools)
    (found,) = form.read(parts, tools)
    assert found.parsed == calls[0].parsed
    assert accepts(automaton_of(form.name), parts)


@cache
def automaton_of(name: str):
    return compile_grammar(formats.get(name).grammar([ToolSpec("f", parameters=SCHEMA)]))


def accepts(automaton, parts: tuple[PromptPart, ...]) -> bool:
    state = automaton.start
    for symbol in symbols(parts):
        if state < 0:
            return False
        if isinstance(symbol, Control):
            state = automaton.controls(state).get(symbol.text, -1)
        else:
            state = automaton.step(state, symbol)
    return state >= 0 and automaton.is_accepting(state)


@every_format
@settings(max_examples=20, deadline=None)
@given(choices=st.lists(st.integers(0, 10**6), min_size=400, max_size=400))
def test_whatever_the_grammar_allows_is_valid(form: Format, choices: list[int]) -> None:
    """A walk through the grammar, any walk, is read as a call that is valid under the schema."""
    automaton, state = automaton_of(form.name), 0
    state, path = automaton.start, []
    for choice in choices:
        ways = next_symbols(automaton, state, ending=len(path) > 150)
        if not ways:
            break
        symbol, state = ways[choice % len(ways)]
        path.append(Control(symbol) if isinstance(symbol, str) else bytes([symbol]))
        if automaton.is_accepting(state) and len(path) > 150:
            break
    if not automaton.is_accepting(state):
        reject()
    (call,) = form.read(path, [ToolSpec("f", parameters=SCHEMA)])
    jsonschema_rs.validate(
        normalize_dialect(SCHEMA), json.loads(call.arguments, parse_float=_finite)
    )


def _finite(digits: str) -> float:
    """Read a number; a float cannot hold 1e999, which JSON can, so take the nearest that it can."""
    return max(-1e308, min(float(digits), 1e308))


def next_symbols(automaton, state: int, *, ending: bool) -> list[tuple[int | str, int]]:
    """Some symbols that may come next; only those towards the end where it shall end."""
    ways: list[tuple[int | str, int]] = list(automaton.controls(state).items())
    for mask, target in automaton.edges(state):
        bytes_ = [byte for byte in bytes_of(mask) if byte < 0x80 or mask.bit_count() < 70]
        ways += [(byte, target) for byte in (bytes_ or list(bytes_of(mask)))[:40]]
    if ending:
        least = min((automaton.min_remaining(target) for _, target in ways), default=0)
        ways = [way for way in ways if automaton.min_remaining(way[1]) == least]
    return ways


def test_a_schema_echo_names_what_is_unknown() -> None:
    """A format that repeats the parameters cannot write a call of a function it was not told."""
    with pytest.raises(InputError, match="'f' is unknown; give it among the tools"):
        formats.get("nano").render([ToolCall("f", "{}")])


@every_format
def test_what_may_be_a_string_and_is_none_has_a_value(form: Format) -> None:
    """A parameter whose type says string, though its values are numbers, is written as a number."""
    schema = {"type": ["string", "integer"], "not": {"type": "string"}, "minimum": 7, "maximum": 7}
    tools = [ToolSpec("f", parameters={"type": "object", "properties": {"n": schema}})]
    calls = [ToolCall("f", '{"n": 7}')]
    parts = written(form, calls, tools=tools)
    assert accepts(compile_grammar(form.grammar(tools)), parts)
    (found,) = form.read(parts, tools)
    assert found.parsed == {"n": 7}
