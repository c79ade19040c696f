"""Examples are read with the place of every mistake, and a call that its function refuses is one."""

from __future__ import annotations

import json

import pytest

from callmemaybe.errors import InputError
from callmemaybe.tools import ToolSpec
from callmemaybe.tuning import Example, ExampleCall, parse_examples
from callmemaybe.tuning.examples import check_examples

BOOK = ToolSpec(
    "book_table", "Book a table", {
        "type": "object",
        "properties": {"people": {"type": "integer", "minimum": 1, "maximum": 20}, "place": {"type": "string"}},
        "required": ["people"],
    },
)  # fmt: skip
CALL = ToolSpec("call_taxi", "Call a taxi")


def test_all_forms_of_what_is_expected_are_read() -> None:
    """One call, several calls and no call come back as they were written, blank lines aside."""
    examples = [
        Example("four at O'Neil's \"Bar\" 🍕", (ExampleCall("book_table", {"people": 4, "place": 'O\'Neil\'s "Bar" 🍕'}),)),
        Example("a table for two and a taxi", (ExampleCall("book_table", {"people": 2}), ExampleCall("call_taxi", {}))),
        Example("how are you"),
    ]  # fmt: skip
    text = "\n\n".join(json.dumps(one.as_json(), ensure_ascii=False) for one in examples) + "\r\n"
    assert parse_examples(text, "e.jsonl", [BOOK, CALL]) == examples


@pytest.mark.parametrize(
    ("line", "where", "problem"),
    [
        ("[]", "e.jsonl:2:1", "must be an object"),
        ('{"prompt": "x"}', "e.jsonl:2:1", 'no "expected"'),
        ('{"prompt": " ", "expected": null}', "e.jsonl:2:12 (/prompt)", "must be a text"),
        ('{"prompt": "x", "expected": null, "promt": 1}', "(/promt)", "no such key"),
        ('{"prompt": "x", "expected": {"name": "fly"}}', "(/expected/name)", "no function 'fly'"),
        ('{"prompt": "x", "expected": {"arguments": {}}}', "(/expected)", "no call"),
        ('{"prompt": "x", "expected": {"name": "call_taxi", "arguments": []}}', "(/expected/arguments)", "object"),
        ('{"prompt": "x", "expected": {"name": "book_table", "arguments": {"people": 40}}}', "(/expected/arguments/people)", "does not take this"),
        ('{"prompt": "x", "expected": [{"name": "call_taxi"}, {"name": "book_table", "arguments": {}}], "all": true}', "(/expected/1/arguments)", "required"),
        ('{"prompt": "x", "expected": {"name": "book_table", "arguments": {"people": 1, "plce": "A"}}}', "(/expected/0/arguments/plce)", "no parameter"),
        ('{"prompt": "x"', "e.jsonl:2:", ""),
        ('{"prompt": "x", "expected": [{"name": "call_taxi"}]}', "(/expected)", '"all": true'),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line_and_place(line: str, where: str, problem: str) -> None:
    """The error has file, line and JSON pointer of the value that is wrong."""
    first = '{"prompt": "a taxi", "expected": {"name": "call_taxi"}}\n'
    with pytest.raises(InputError) as found:
        parse_examples(first + line, "e.jsonl", [BOOK, CALL])
    assert where.replace("/expected/0", "/expected") in str(found.value)
    assert problem in str(found.value)


def test_examples_made_in_python_are_checked_alike() -> None:
    """A call that its function refuses is an error with the number of the example."""
    wrong = Example("x", (ExampleCall("book_table", {"people": "four"}),))
    with pytest.raises(InputError, match=r"examples\[1\]/expected/0/arguments/people"):
        check_examples([Example("hello"), wrong], [BOOK])
