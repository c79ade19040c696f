"""JSON in and out: one strict reader, one writer.

The problem: a call that a model wrote must reach a function with every digit, key and character that
was written, and :mod:`json` rounds numbers to floats, takes the last of equal keys without a word,
accepts ``NaN``, overflows its stack on deep nesting and refuses integers of more than 4,300 digits.

There are two parsers of one language. :func:`loads` is the C decoder of :mod:`json` with hooks: exact
numbers (int, Decimal), limits, and on demand no duplicate keys. :func:`read` is a pushdown parser in
Python whose stack of open arrays and objects replaces recursion; it keeps the offset of every value, so
an error names file, line, column and JSON pointer. It reads files that people write, and whatever nests
too deep for the C decoder. :func:`dumps` mirrors this: the C encoder first, and an encoder with a stack of
its own for what that one cannot write exactly. :func:`rewrite` changes spacing and escapes token by
token and makes no values at all.

This room knows no tool, no grammar and no file. Of JSON Schema it knows only which numbers of a value are
declared to be floats (``dumps(value, schema=...)``).
"""

from callmemaybe.errors import LongNumber
from callmemaybe.jsonio.pointer import (
    escape_token,
    join_pointer,
    resolve_pointer,
    split_pointer,
    unescape_token,
)
from callmemaybe.jsonio.reader import (
    MAX_INT_DIGITS,
    JsonDocument,
    RawNumber,
    check_syntax,
    find_duplicate_key,
    float_if_exact,
    has_lone_surrogate,
    is_deeper,
    loads,
    map_decimals,
    parse_number,
    read,
)
from callmemaybe.jsonio.writer import (
    dumps,
    dumps_result,
    dumps_string,
    escape_surrogates,
    rewrite,
    to_json_value,
)

__all__ = [
    "MAX_INT_DIGITS",
    "JsonDocument",
    "LongNumber",
    "RawNumber",
    "check_syntax",
    "dumps",
    "dumps_result",
    "dumps_string",
    "escape_surrogates",
    "escape_token",
    "find_duplicate_key",
    "float_if_exact",
    "has_lone_surrogate",
    "is_deeper",
    "join_pointer",
    "loads",
    "map_decimals",
    "parse_number",
    "read",
    "resolve_pointer",
    "rewrite",
    "split_pointer",
    "to_json_value",
    "unescape_token",
]
