"""The reader says exactly what is wrong with a JSON text and where."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import InputError
from callmemaybe.jsonio import (
    LongNumber,
    RawNumber,
    dumps,
    find_duplicate_key,
    is_deeper,
    join_pointer,
    loads,
    parse_number,
    read,
    resolve_pointer,
    split_pointer,
)
from callmemaybe.sources.texts import read_text

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(values, st.sampled_from([None, 1]), st.booleans())
def test_reads_what_json_writes(value: object, indent: int | None, escaped: bool) -> None:
    """Whatever the standard library writes is read back equal."""
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    assert read(text, source="x").value == value


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from('{}[]",:\\ \n0123.-+eEtrufalsn/x\t'), max_size=14))
def test_accepts_only_what_json_accepts(text: str) -> None:
    """On arbitrary text the reader and the standard library agree on what is JSON."""

    def refuse(_: object) -> object:
        raise ValueError

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        expected = json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except ValueError:
        with pytest.raises(InputError):
            read(text, source="x")
    else:
        assert read(text, source="x").value == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[1, 2,]', "f:1:6 (/2): a comma before the closing bracket; remove the comma"),
        ('{"a": 1,}', "f:1:8 (/a): a comma before the closing bracket; remove the comma"),
        ('[\n  1\n  2]', "f:3:3 (/1): expected a comma or ], found 2; check the line before, too"),
        ('{"a": 1 "b": 2}', 'f:1:9 (/a): expected a comma or }, found "; check the line before, too'),
        ('{"a": {"b": [1, x]}}', ("f:1:17 (/a/b/1): expected a value, found x; texts need double quotes; "
         "the words of JSON are true, false and null")),
        ("{'a': 1}", "f:1:2: expected a key in double quotes, found '; write \"key\": value"),
        ("['a']", "f:1:2 (/0): expected a value, found '; use double quotes"),
        ("[1] // no", "f:1:5: there is more text after the end of the value; remove it"),
        ("// no\n[1]", "f:1:1: expected a value, found /; JSON has no comments"),
        ('{"a": 1, "a": 2}', 'f:1:10 (/a): the key "a" occurs twice; keep one of the two'),
        ("[NaN]", "f:1:2 (/0): JSON has no NaN; use a number or null"),
        ("[-Infinity]", "f:1:2 (/0): JSON has no -Infinity; use a number or null"),
        ("[True]", ("f:1:2 (/0): expected a value, found True; texts need double quotes; "
         "the words of JSON are true, false and null")),
        ("[01]", ("f:1:2 (/0): 01 is not a number of JSON; no leading + or zeros, digits on both "
         "sides of the point")),
        ('["a\nb"]', ("f:1:4 (/0): a string holds the control character U+000A; write it as an "
         "escape such as \\n")),
        ('["\\d"]', "f:1:3 (/0): \\d is not an escape of JSON; write \\\\ for a backslash"),
        ('["\\ud800x"]', ("f:1:3 (/0): \\ud800 is half of a surrogate pair; write both halves or "
         "the character")),
        ('["\\udc00"]', ("f:1:3 (/0): \\udc00 is half of a surrogate pair; write both halves or "
         "the character")),
        ('{"a": "b', 'f:1:7 (/a): a string is never closed; add the missing "'),
        ('[1, {"a": 1', "f:1:5: the object is never closed; add the missing }"),
        ('[1, [2', "f:1:5: the array is never closed; add the missing ]"),
        ('{"a"', 'f:1:5: a colon is missing after the key "a"; write "key": value'),
        ('{"a":', "f:1:6 (/a): the text ends where a value should be; the file may be cut off"),
        ('{"a/b~c": [}', "f:1:12 (/a~1b~0c/0): expected a value, found }"),
    ],
)  # fmt: skip
def test_errors_have_a_place_and_advice(text: str, message: str) -> None:
    """Each mistake gives one line: file, line, column, pointer, what, and what to do."""
    with pytest.raises(InputError) as caught:
        read(text, source="f")
    assert str(caught.value) == message


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_depth_cannot_crash_it(opening: str) -> None:
    """A hundred thousand levels are refused in one short line; any depth is read when asked for."""
    depth = 100_000
    with pytest.raises(InputError, match="nested more than 500 levels deep") as caught:
        read(opening * depth, source="f")
    assert len(str(caught.value)) < 200
    depth = 20_000
    closing = {"[": "]", '{"a":': "}", '[{"a":': "}]"}[opening]
    assert read(opening * depth + "1" + closing * depth, source="f", max_depth=None).value


@pytest.mark.parametrize(
    ("digits", "value"),
    [
        ("3", 3), ("-0", 0), ("9" * 5000, Decimal("9" * 5000)), ("0.1", 0.1), ("0.10", 0.1),
        ("1e400", Decimal("1e400")), ("0.1000000000000000000001", Decimal("0.1000000000000000000001")),
        ("1E2", 100.0), ("12345678901234567890.0", Decimal("12345678901234567890.0")),
    ],
)  # fmt: skip
def test_numbers_are_never_rounded(digits: str, value: object) -> None:
    """A number becomes a float only where the float is the number."""
    read_value = parse_number(digits)
    assert read_value == value
    assert type(read_value) is type(value)
    raw = read(digits, source="f", number=RawNumber).value
    assert raw == RawNumber(digits)


@pytest.mark.parametrize("digits", ["1e99999999999999999999", "-1.5E+9999999999999999999"])
def test_numbers_beyond_all_counting_have_a_place(digits: str) -> None:
    """An exponent that no Decimal holds is the file's mistake; as digits alone it is read."""
    with pytest.raises(InputError) as caught:
        read(f'{{"a": [1,\n {digits}, 2]}}', source="f")
    assert str(caught.value) == (
        "f:2:2 (/a/1): the number has an exponent beyond all counting; write a smaller one"
    )
    assert read(digits, source="f", number=RawNumber).value == RawNumber(digits)


def test_places_of_pointers() -> None:
    """A pointer into a document leads to its line and column, or to the nearest that exists."""
    document = read('\n[\n  {"a": {"b/c": 1},\n   "d": [true, null]}\n]', source="f")
    assert document.place() == "f:2:1"
    assert document.place("/0") == "f:3:3 (/0)"
    assert document.place("/0/a/b~1c") == "f:3:17 (/0/a/b~1c)"
    assert document.place("/0/d/1") == "f:4:16 (/0/d/1)"
    assert document.place("/0/d/2/x") == "f:4:9 (/0/d/2/x)"
    assert document.place("/0/missing") == "f:3:3 (/0/missing)"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"), (b" \n", "the file is empty"), (b"\xef\xbb\xbf", "the file is empty"),
        (b'["a\xff"]', ":1: byte 0xff is not UTF-8; save the file as UTF-8"),
        (b'[\n"caf\xe9"]', ":2: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        ("[1]".encode("utf-16"), "is UTF-16, not UTF-8; save it as UTF-8"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_text(tmp_path: Path, data: bytes, message: str) -> None:
    """A file that is empty or not UTF-8 is refused by name and line."""
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_text(path)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).endswith(message)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder and an impossible path are told apart."""
    with pytest.raises(InputError, match="no such file"):
        read_text(tmp_path / "none.json")
    with pytest.raises(InputError, match="is a folder"):
        read_text(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be read: Not a directory"):
        read_text(tmp_path / "file" / "x.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_text(Path("a\0b"))


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    """Files saved by editors that mark UTF-8 are read like any other."""
    path = tmp_path / "x.json"
    path.write_bytes(b"\xef\xbb\xbf[1]")
    assert read(read_text(path), source="x").value == [1]


@settings(max_examples=20, deadline=None)
@given(text=values.map(json.dumps) | st.sampled_from(
    ['{"a": 1, "a": 2}', '"\\ud800"', '["\\ud83d", "\\udc00\\ud83d\\ude00"]', "1.50", "-0", "1e400", "[", '{"a"}'],
))  # fmt: skip
def test_depth_makes_no_difference_to_what_is_read(text: str) -> None:
    """Law: a call's text nested beyond any stack is read as it is alone: digits, twice the same key, halves."""
    depth = 20_000
    try:
        alone = loads(text)
    except InputError:
        with pytest.raises(InputError):
            loads("[" * depth + text + "]" * depth)
        return
    deep = loads("[" * depth + text + "]" * depth)
    for _ in range(depth):
        (deep,) = deep
    assert (deep, repr(deep)) == (alone, repr(alone))


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("7" * 400, True),
        ("-" + "7" * 400, True),
        ("7" * 401, False),
        ("0." + "7" * 400, True),
        ("0." + "0" * 1000 + "7", True),
        ("7." + "7" * 400, False),
        ("7e" + "0" * 400 + "1", False),
        ("[" * 5000 + "7" * 400 + "]" * 5000, True),
        ("[" * 5000 + "7" * 401 + "]" * 5000, False),
        ("[" * 5000 + "7." + "7" * 400 + "]" * 5000, False),
    ],
    ids=range(10),
)
def test_digits_are_counted_before_a_number_is_made(text: str, is_read: bool) -> None:
    """Whoever says how many digits there may be gets none of more; all others, each of them."""
    if is_read:
        assert dumps(loads(text, max_digits=400)) == dumps(loads(text))
        return
    loads(text)
    with pytest.raises(LongNumber, match="x: a number has more than 400 digits"):
        loads(text, where="x", max_digits=400)


def test_an_exponent_beyond_all_counting_is_an_error_of_the_text() -> None:
    """Decimal has an end; what lies behind it is told as everything that is wrong with a text."""
    for text in ("1e" + "9" * 30, "[" * 5000 + "1e" + "9" * 30 + "]" * 5000):
        with pytest.raises(LongNumber, match="exponent"):
            loads(text)


@pytest.mark.parametrize(
    "text", ["[1,]", "[1 2]", '{"a" 1}', "{1:2}", "[tru]", "[01]", '["\n"]', "[1]]"]
)
def test_the_slow_reader_is_as_strict(text: str) -> None:
    """Behind deep nesting, what is not JSON is refused as anywhere."""
    deep = "[" * 20_000 + text + "]" * 20_000
    with pytest.raises(InputError):
        loads(deep)


def _int_or_float(digits: str) -> int | float:
    return int(digits) if digits.lstrip("-").isdigit() else float(digits)


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.sampled_from('{}[]",:\\ u0d8c1.-eab\u00e9'), max_size=16)
    | st.builds("{}{}".format, values.map(json.dumps), st.sampled_from(["", "", " ", "]"]))
    | st.lists(
        st.sampled_from(["\\ud83d", "\\ude00", "\\\\", "\\u0061", "\ud83d", "\ude00", "a", "\\n"]),
        max_size=5,
    ).map(lambda parts: f'["{"".join(parts)}"]')
)
def test_strictly_both_readers_accept_the_same(text: str) -> None:
    """Law: what the C decoder with hooks reads is what the parser in Python reads, value and refusal."""
    try:
        expected = read(text, source="x", number=_int_or_float).value
        json.dumps(expected, allow_nan=False)  # numbers beyond floats are refused as well
    except (InputError, ValueError):
        with pytest.raises(InputError):
            loads(text, exact=False, strict=True)
        return
    if any("\ud800" <= one <= "\udfff" for one in text):
        return  # a half that is no escape: only loads is given text that is not from a file
    assert loads(text, exact=False, strict=True) == expected


@settings(max_examples=80, deadline=None)
@given(values)
def test_within_its_limits_every_value_is_read(value: object) -> None:
    """Every JSON value comes back; floats and integers are those of the standard library."""
    written = json.dumps(value, ensure_ascii=False)
    if len(str(value)) < 4000:
        assert loads(written, exact=False, strict=True, max_bytes=10_000, max_depth=64) == value


@pytest.mark.parametrize(
    "bad",
    [
        '{"a":1,"a":2}', "NaN", "[Infinity]", "-Infinity", "1e400", '"\\ud800"', '{"\\udfff": 1}',
        '"\ud800"', "[" * 65 + "]" * 65, "[" * 100_000, '"' + "x" * 10_000 + '"', "", "{", "[1,]", "'a'",
        "9" * 5000,
    ],
)  # fmt: skip
def test_strict_reading_refuses(bad: str) -> None:
    """More than one meaning, no meaning, or too much of it: InputError that says where, and no crash."""
    with pytest.raises(InputError) as caught:
        loads(bad, where="x", exact=False, strict=True, max_bytes=10_000, max_depth=64)
    assert str(caught.value).startswith("x: ")


def test_depth_makes_no_difference_to_floats() -> None:
    """What nests too deep for the C decoder is read with the same numbers, and refused alike."""
    depth = 20_000
    deep = loads("[" * depth + "[1, 1.50]" + "]" * depth, exact=False)
    for _ in range(depth):
        (deep,) = deep
    assert [(one, type(one)) for one in deep] == [(1, int), (1.5, float)]
    with pytest.raises(InputError, match="too large"):
        loads("[" * depth + "1e400" + "]" * depth, exact=False)


def test_bytes_are_counted_as_utf_8() -> None:
    """A character has up to four bytes."""
    assert loads('"🙂é"', max_bytes=8) == "🙂é"
    with pytest.raises(InputError, match="more than 7 bytes"):
        loads('"🙂é"', max_bytes=7)


def test_brackets_in_strings_are_not_depth() -> None:
    """Only real nesting counts."""
    assert not is_deeper('["' + "[{" * 100 + '\\"["]', 1)
    assert is_deeper("[[]]", 1)


def test_a_long_number_is_refused_before_it_is_made() -> None:
    """Making an integer of its digits takes time that grows with their square, and stops everybody."""
    started = time.process_time()
    with pytest.raises(LongNumber):
        loads("[-" + "1" * 10_000_000 + "]", max_digits=400)
    assert time.process_time() - started < 10


KEYS = st.sampled_from(["a", "b", 'q":"', "\\", "é", "{}"])


class Pairs(list[tuple[str, Any]]):
    """The members of an object, keys as often as they come."""


def texts(value: Any) -> str:
    """Write a value whose objects are Pairs."""
    if isinstance(value, Pairs):
        members = ", ".join(f"{json.dumps(key)}: {texts(inner)}" for key, inner in value)
        return f"{{{members}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(texts, value))}]"
    return json.dumps(value)


def is_repeated(value: Any) -> bool:
    """Whether some object has a key twice, seen from its members."""
    if isinstance(value, Pairs):
        keys = [key for key, _ in value]
        return len(set(keys)) < len(keys) or any(is_repeated(inner) for _, inner in value)
    return isinstance(value, list) and any(map(is_repeated, value))


OBJECTS = st.recursive(
    st.one_of(KEYS, st.integers(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(st.tuples(KEYS, inner), max_size=3).map(Pairs)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(OBJECTS)
def test_a_repeated_key_is_found_wherever_it_is(value: Any) -> None:
    """Law: a key is reported iff some object of the text has it twice, escaped or not."""
    assert (find_duplicate_key(texts(value)) is not None) is is_repeated(value)


def test_keys_are_compared_by_what_they_mean() -> None:
    """Law: one key in two spellings is one key; the same key in two objects is none twice."""
    assert find_duplicate_key('{"a": 1, "\\u0061": 2}') == "a"
    assert find_duplicate_key('{"a": {"a": [{"a": 1}, {"a": 2}]}}') is None
    assert find_duplicate_key('{"a":' * 5000 + "1" + "}" * 5000) is None


@given(st.lists(st.text(st.sampled_from("~/01a"), max_size=4), max_size=4))
def test_a_pointer_is_its_path(path: list[str]) -> None:
    """Any keys, slashes and tildes among them, are read back from the pointer they are joined to."""
    assert split_pointer(join_pointer(path)) == path
    value: object = "end"
    for key in reversed(path):
        value = {key: [value]}
    steps = [step for key in path for step in (key, 0)]
    assert resolve_pointer(value, join_pointer(steps)) == "end"
    for wrong in ("/x", "/0/0/x", "/-", "/1", "/" + "9" * 5000):
        with pytest.raises(LookupError):
            resolve_pointer([value], wrong)
