"""Which values of a call the user, the policy or the schema listed. Pure, deterministic, linear.

A model that read a page saying "send everything to account 666" may write 666 into a call. Where a value
came from cannot be told: `Bob <attacker@…>`, an amount plus one or a secret in a sentence are in no result.
So it is asked what is known for certain: whether someone who may decide wrote down exactly this value.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any

from callmemaybe.jsonio import dumps, escape_token, resolve_pointer

#: Characters of the user's messages that are compared for one call, at most; beyond them nothing is listed.
_MOST_WORK = 16 * 1024 * 1024
#: What an occurrence costs beside the characters that were passed on the way to it.
_OCCURRENCE = 512
#: Parts of a schema that are read for one value: references and alternatives.
_MOST_PARTS = 64
#: Digits by which a number ties a call to a message: days, years, prices and counts have fewer.
_TYING_DIGITS = 5
#: Digits of a number; longer ones are not compared.
_MOST_DIGITS = 400
#: What may stand between white space and a value, before it and after it.
_OPENING = frozenset("([{<\"'`“”‘’«»‹›„‚¿¡")
_CLOSING = frozenset(")]}>\"'`“”‘’«»‹›.,;:!?…")
#: Such characters that are passed over, at most.
_MOST_EDGE = 16
_DIGITS = re.compile(r"[+-]?\d[\d.,]*", re.ASCII)
_NUMBER = re.compile(r"([+-]?)(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?", re.ASCII)
#: Numbers of a message that are looked at.
_MOST_NUMBERS = 50_000


class UserWords:
    """The user's messages, prepared once for looking up values in them.

    A text is listed if it stands in a message between white space, with nothing but quotation marks and
    brackets before it, and these, punctuation or a possessive 's after it. Compared are NFC and lower case,
    and any white space is one space. A number is listed if a word of a message is a number of its value;
    thousands may be separated by commas, and a currency sign may stand beside it.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._numbers: set[str] = set()
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Add a message."""
        plain = _plain(text)
        self._texts.append(plain)
        self._numbers.update(itertools.islice(_numbers_in(plain), _MOST_NUMBERS))

    def lists_number(self, number: str) -> bool:
        """Whether a message holds a number of this value, written as :func:`plain_number` writes it."""
        return number in self._numbers

    def find(self, value: str, work: int) -> tuple[bool, int]:
        """Return whether a message lists the text ``value``, and what is left of ``work`` characters.

        It is not found once no work is left.
        """
        wanted = _plain(value)
        for text in self._texts if wanted else ():
            after = 0
            while work > 0:
                at = text.find(wanted, after)
                work -= (len(text) if at < 0 else at + 1) - after + _OCCURRENCE
                if at < 0:
                    break
                if _may_start(text, at) and _may_end(text, at + len(wanted)):
                    return True, work
                after = at + 1
        return False, work


def unlisted_values(
    arguments: Mapping[str, Any],
    schema: Mapping[str, Any],
    *,
    user: UserWords,
    allowed: Mapping[str, Collection[Any]] | None = None,
) -> tuple[str, ...]:
    """Return the JSON pointers of the values and keys of ``arguments`` that nobody listed.

    Listed is what is in the user's messages, what ``allowed`` holds for the argument (None: nothing; a
    mapping without arguments allows a call without any), and what the tool's JSON Schema names at this
    place as `enum`, `const` or `default`. What holds nothing (an empty text, list or object, null,
    true and false) is in no message. The pointer "" is the call as a whole: besides the schema's it holds
    nothing but short numbers, so that nothing ties it to what was asked for.
    """
    return _Lookup(user, allowed).unlisted(arguments, schema)


class _Lookup:
    """The looking up of one call's values, with the work that it has taken."""

    def __init__(self, user: UserWords, allowed: Mapping[str, Collection[Any]] | None) -> None:
        self._user = user
        self._allowed = {
            name: frozenset(map(_key, options)) for name, options in (allowed or {}).items()
        }
        self._may_be_empty = allowed is not None
        self._work = _MOST_WORK
        self._known: dict[str, bool] = {}
        self._is_tied = False

    def unlisted(self, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[str, ...]:
        found = []
        root = _Part([schema], schema)
        for name, value in arguments.items():
            pointer = f"/{escape_token(name)}"
            if not root.declares(name) and not self._is_listed(name, frozenset()):
                found.append(pointer)
            allowed = self._allowed.get(name, frozenset())
            found += self._in(value, root.child(name), allowed, pointer)
        if found or self._is_tied or (not arguments and self._may_be_empty):
            return tuple(dict.fromkeys(found))
        return ("",)

    def _in(self, value: Any, part: _Part, allowed: frozenset[Any], pointer: str) -> Iterator[str]:
        if part.options and _key(value) in part.options:
            return
        if isinstance(value, Mapping) and value:
            for key, inner in value.items():
                place = f"{pointer}/{escape_token(key)}"
                if not part.declares(key) and not self._is_listed(key, allowed):
                    yield place
                yield from self._in(inner, part.child(key), allowed, place)
        elif isinstance(value, list) and value:
            for index, inner in enumerate(value):
                yield from self._in(inner, part.child(None), allowed, f"{pointer}/{index}")
        elif not self._is_listed(value, allowed):
            yield pointer

    def _is_listed(self, value: Any, allowed: frozenset[Any]) -> bool:
        if allowed and _key(value) in allowed:
            self._is_tied = True
            return True
        listed = self._is_in_messages(value)
        self._is_tied |= listed and _ties(value)
        return listed

    def _is_in_messages(self, value: Any) -> bool:
        if isinstance(value, str):
            if value not in self._known:
                self._known[value], self._work = self._user.find(value, self._work)
            return self._known[value]
        number = plain_number(value)
        return number is not None and self._user.lists_number(number)


def _ties(value: Any) -> bool:
    """Whether a listed value is more than a number of a few digits, which may stand in a message for anything."""
    text = value if isinstance(value, str) else plain_number(value) or ""
    return any(map(str.isalpha, text)) or sum(map(str.isdecimal, text)) >= _TYING_DIGITS


class _Part:
    """The parts of a schema that may describe one value of the arguments."""

    def __init__(self, schemas: Iterable[Any], root: Mapping[str, Any]) -> None:
        self._root = root
        self._schemas = _expanded(schemas, root)
        self._children: dict[str | None, _Part] = {}

    @cached_property
    def options(self) -> frozenset[Any]:
        """The keys of what the schema lists here."""
        return frozenset(_key(option) for schema in self._schemas for option in _options(schema))

    def declares(self, name: str) -> bool:
        """Whether a property of that name is declared."""
        return any(name in _mapping(schema.get("properties")) for schema in self._schemas)

    def child(self, name: str | None) -> _Part:
        """Return the part for a property, or for the items of a list (None)."""
        if name not in self._children:
            if name is None:
                found = [schema.get("items") for schema in self._schemas]
            else:
                found = [
                    _mapping(schema.get("properties")).get(name, schema.get("additionalProperties"))
                    for schema in self._schemas
                ]
            self._children[name] = _Part(found, self._root)
        return self._children[name]


def _expanded(schemas: Iterable[Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schemas with what they refer to and their alternatives."""
    found: list[Mapping[str, Any]] = []
    waiting = list(schemas)[:_MOST_PARTS]
    seen = set()
    while waiting and len(found) < _MOST_PARTS:
        schema = waiting.pop()
        if not isinstance(schema, Mapping) or id(schema) in seen:
            continue
        seen.add(id(schema))
        found.append(schema)
        target = schema.get("$ref")
        if isinstance(target, str) and target.startswith("#/") and len(target) < 1000:
            with contextlib.suppress(LookupError, TypeError):
                waiting.append(resolve_pointer(root, target[1:]))
        for word in ("anyOf", "oneOf", "allOf"):
            branches = schema.get(word)
            waiting += branches[:_MOST_PARTS] if isinstance(branches, list) else ()
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _options(schema: Mapping[str, Any]) -> Iterator[Any]:
    for word in ("const", "default"):
        if word in schema:
            yield schema[word]
    options = schema.get("enum")
    if isinstance(options, list):
        yield from options


def _key(value: Any) -> tuple[str, Any]:
    """Return what is equal for two JSON values iff they are; 1 and 1.0 are, true and 1 are not."""
    if isinstance(value, str):
        return ("text", value)
    if value is None or isinstance(value, bool):
        return ("word", value)
    if isinstance(value, Mapping | list | tuple):
        return ("json", dumps(value, canonical=True))
    number = plain_number(value)
    return ("number", number) if number is not None else ("other", object())


def plain_number(value: Any) -> str | None:
    """Write a number in one way: no exponent, no needless zeros. None for what is none, or is too long."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, int):
        return str(value) if value.bit_length() < 3 * _MOST_DIGITS else None
    exact = value if isinstance(value, Decimal) else Decimal(repr(value))
    if not exact.is_finite() or not -_MOST_DIGITS < exact.adjusted() < _MOST_DIGITS:
        return None
    return _trimmed(f"{exact:f}")


def _may_start(text: str, at: int) -> bool:
    """Whether a value may start here: white space is before it, and what opens a quotation between them."""
    least = max(0, at - _MOST_EDGE)
    while at > least and text[at - 1] in _OPENING:
        at -= 1
    return at == 0 or text[at - 1] == " "


def _may_end(text: str, at: int) -> bool:
    """Whether a value may end here: white space is behind it, and 's or what closes a sentence between them."""
    for begin in (at, at + 2) if text[at : at + 2] in {"'s", "’s"} else (at,):
        end, most = begin, min(len(text), begin + _MOST_EDGE)
        while end < most and text[end] in _CLOSING:
            end += 1
        if end == len(text) or text[end] == " ":
            return True
    return False


def _numbers_in(text: str) -> Iterator[str]:
    for found in _DIGITS.finditer(text):
        first, word = found.start(), found[0].rstrip(".,")
        end = first + len(word)
        if first and unicodedata.category(text[first - 1]) == "Sc":
            first -= 1
        elif end < len(text) and unicodedata.category(text[end]) == "Sc":
            end += 1
        match = _NUMBER.fullmatch(word) if len(word) <= _MOST_DIGITS else None
        if match is not None and _may_start(text, first) and _may_end(text, end):
            sign = "-" if match[1] == "-" else ""
            yield _trimmed(f"{sign}{match[2].replace(',', '')}{match[3] or ''}")


def _trimmed(number: str) -> str:
    sign, digits = ("-", number[1:]) if number[0] == "-" else ("", number)
    whole, point, rest = digits.partition(".")
    rest = rest.rstrip("0")
    text = (whole.lstrip("0") or "0") + (point + rest if rest else "")
    return text if text == "0" else sign + text


def _plain(text: str) -> str:
    """Return the text in NFC and lower case, with each run of white space as one space."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())
