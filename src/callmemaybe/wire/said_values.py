"""Parameters limited to what a request says: dates, times, addresses, and numbers that are not written as JSON has them.

A small model copies well and computes badly: it cannot know what day tomorrow is, nor that two dozen are 24. So the
values are read from the request without the model (:mod:`callmemaybe.values`), and a parameter that takes a date may only be
one of those. Numbers that stand in the request as digits are left to the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.tools import ToolSpec
from callmemaybe.tools.schemas import validator_for
from callmemaybe.values import ADDRESSES, Now, Reading, Readings
from callmemaybe.wire.named_values import is_named, lacks_a_name, named_values

#: The key of a narrowed schema that holds, for each value of its enum, the words that say it.
SAID = "x-said"
#: How the sentence ends that says why a function is not called.
NOT_SAID = "and the request has none"
#: The most values of one parameter.
MOST_VALUES = 6
#: What a value of a format is called in messages.
_CALLED = {"date": "a date", "date-time": "a date or a time", "time": "a time", "duration": "a length of time",
           "email": "an e-mail address", "idn-email": "an e-mail address", "uri": "an address of the web", "ipv4": "an IP address",
           "uuid": "a UUID", "number": "a number that it may be"}  # fmt: skip
#: How a description says in what form a text holds a date or a time, and that form; the longest first.
_FORMS = (
    ("yyyy-mm-ddthh:mm:ss", "%Y-%m-%dT%H:%M:%S"), ("yyyy-mm-dd hh:mm:ss", "%Y-%m-%d %H:%M:%S"), ("yyyy-mm-ddthh:mm", "%Y-%m-%dT%H:%M"),
    ("yyyy-mm-dd hh:mm", "%Y-%m-%d %H:%M"), ("yyyy-mm-dd", "%Y-%m-%d"), ("mm/dd/yyyy", "%m/%d/%Y"), ("dd/mm/yyyy", "%d/%m/%Y"),
    ("dd.mm.yyyy", "%d.%m.%Y"), ("dd-mm-yyyy", "%d-%m-%Y"), ("yyyy/mm/dd", "%Y/%m/%d"), ("hh:mm:ss", "%H:%M:%S"), ("hh:mm", "%H:%M"),
)  # fmt: skip
_UNIT = re.compile(r"(?:^|[^a-z])(?:in |of )?(second|minute|hour|day|week)s?(?:$|[^a-z])")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
#: Numbers in words below this are left to the model.
MOST_IN_WORDS = 20
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


@dataclass(frozen=True)
class SaidValues:
    """The values that a request says, as values of parameters."""

    readings: Readings
    request: str = ""

    @classmethod
    def of(cls, request: str, now: Now) -> SaidValues:
        """Read the values of a request; days and times count from ``now``."""
        return cls(Readings.of(request, now), request)

    def narrow(self, tool: ToolSpec, *, may_refuse: bool = True) -> tuple[ToolSpec, str | None]:
        """Return the tool with its parameters limited to what the request says; and why it cannot be called.

        A date, time, length of time or address that the request does not say is left out, or takes its default.
        If it is required the tool cannot be called, and may only say null; where a call must be made
        (``may_refuse`` False), it is left as it is. A tool that loses and gains nothing is returned as it is.
        """
        properties = tool.parameters.get("properties")
        if not isinstance(properties, Mapping) or "$defs" in tool.parameters:
            return tool, None
        required = tool.parameters.get("required") or ()
        named = named_values(properties, self.request)
        narrowed: dict[str, Any] = {}
        missing: list[str] = []
        for name, schema in properties.items():
            if not isinstance(schema, Mapping):
                narrowed[name] = schema
                continue
            kind = kind_of(name, schema)
            found = None if kind is None else self._narrowed(name, schema, kind)
            if name in named:
                found = _listed(schema, named[name])
            if found is None:
                narrowed[name] = schema
            elif found or "default" in schema:
                narrowed[name] = found or {"enum": [schema["default"]]}
            elif name in required and not may_refuse:
                narrowed[name] = schema
            elif name in required:
                narrowed[name] = {"enum": [None]}
                missing.append(
                    f"{_CALLED.get(kind or '', 'a value')} for {name!r}{self._beside(kind, schema)}"
                )
        if all(narrowed.get(name) is schema for name, schema in properties.items()):
            return tool, None
        changed = replace(tool, parameters={**tool.parameters, "properties": narrowed})
        if not missing:
            return changed, None
        return changed, f"{tool.name} needs {' and '.join(missing)}, {NOT_SAID}"

    def _beside(self, kind: str | None, schema: Mapping[str, Any]) -> str:
        """Say which numbers the request has, where none of them may be the value."""
        if kind != "number":
            return ""
        said = ", ".join(
            dict.fromkeys(
                one.text for one in self.readings.of_kind("number", "percent", "duration")
            )
        )
        limits = [
            f"{word} {schema[key]}"
            for key, word in (("minimum", "at least"), ("maximum", "at most"))
            if key in schema
        ]
        return f" ({'; '.join([' and '.join(limits), f'it says {said}']).lstrip('; ')})"

    def _narrowed(self, name: str, schema: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
        """Return the schema with the values that the request says; {} if there is none; None to leave it alone."""
        inner = schema
        if schema.get("type") == "array":
            inner = schema["items"]
        if kind == "number":
            values = self._numbers(name, inner) if inner is schema else None
            if values is None:
                return None
        else:
            values = list(self.readings.written(kind))
        known: dict[Any, str] = {}
        for value, text in values:
            if value not in known and _allows(inner, value):
                known[value] = text
        if not known and (kind not in _CALLED or inner is not schema):
            return None
        if not known:
            return {}
        listed = {"enum": list(known)[:MOST_VALUES], SAID: list(known.values())[:MOST_VALUES]}
        if "description" in schema:
            listed["description"] = schema["description"]
        return listed if inner is schema else {**schema, "items": listed}

    # -- numbers ----------------------------------------------------------------------------------------

    def _numbers(self, name: str, schema: Mapping[str, Any]) -> list[tuple[Any, str]] | None:
        """Return the numbers; None where all of them stand in the request as JSON has them."""
        is_share = schema.get("maximum") in (1, 1.0)
        unit = _unit_of(name, schema)
        lengths = (
            [one for one in self.readings.of_kind("duration") if one.seconds is not None]
            if unit
            else []
        )
        found: list[tuple[Decimal, str]] = []
        is_plain, has_plain = True, False
        for one in lengths:
            value = Decimal(one.seconds or 0) / _SECONDS[unit or "second"]
            found.append((value, one.text))
            is_plain &= one.text.startswith(f"{value} ")
        for one in self.readings.of_kind("number", "percent"):
            if any(other.start <= one.start and one.end <= other.end for other in lengths):
                continue
            is_percent = one.kind == "percent" and is_share
            found.append((one.value / 100 if is_percent else one.value, one.text))
            is_plain &= _is_plain(one) and not is_percent
            has_plain |= _is_plain(one) and not is_percent
        values = [(_json_number(value), text) for value, text in found]
        allowed = {value for value, _ in values if _allows(schema, value)}
        # Among several a model chooses better by copying, if it can copy any of them.
        if not found or (allowed and (is_plain or (len(allowed) > 1 and has_plain))):
            return None
        return values


def _listed(schema: Mapping[str, Any], values: list[str]) -> dict[str, Any] | None:
    """Return the schema with the values of its list that are named; {} if none is, or None where any will do then."""
    if values:
        return {**schema, "enum": values}
    return None if schema["x-ground"] == "prompt-or-free" else {}


@lru_cache(maxsize=4096)
def _form_of(description: str) -> str | None:
    lowered = description.lower()
    return next((form for written, form in _FORMS if written in lowered), None)


def kind_of(name: str, schema: Mapping[str, Any]) -> str | None:
    """Return what kind of value a parameter takes, if it is one that can be read: a format, a form of dates, "number"."""
    if "enum" in schema or "const" in schema or "$ref" in schema or "pattern" in schema:
        return None
    kind = schema.get("type")
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        inner = schema["items"]
        return (
            None
            if inner.get("type") == "array"
            else kind_of(name, {"description": schema.get("description"), **inner})
        )
    if kind in ("integer", "number"):
        return "number"
    if kind != "string":
        return None
    known = schema.get("format")
    if known in ADDRESSES or known in ("date", "time", "date-time", "duration"):
        return str(known)
    about = schema.get("description")
    return _form_of(about) if known is None and isinstance(about, str) else None


def _unit_of(name: str, schema: Mapping[str, Any]) -> str | None:
    """Return the unit of time in which a number is: by its name, or by what its description says first."""
    for text in (
        name.lower().replace("_", " "),
        str(schema.get("description") or "")[:200].lower(),
    ):
        units = set(_UNIT.findall(text))
        if len(units) == 1:
            return str(units.pop())
    return None


def _is_plain(number: Reading) -> bool:
    """Whether a small model writes this number well by itself: as digits or a word, or as "a dozen"."""
    digits = _PLAIN.search(number.text)
    if digits is not None:
        return bool(Decimal(digits[0]) == number.value)
    return bool(0 <= number.value < MOST_IN_WORDS)


def _json_number(value: Decimal) -> int | float:
    return (
        int(value) if value == value.to_integral_value() and abs(value) < 10**18 else float(value)
    )


def _allows(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a schema allows a value, formats aside: what is written here has them."""
    try:
        valid: bool = validator_for(dict(schema)).is_valid(value)
    except InputError:
        return False
    return valid


def narrowed_tools(
    tools: Sequence[ToolSpec], request: str, now: Now, *, may_refuse: bool = True
) -> tuple[Sequence[ToolSpec], dict[str, str]]:
    """Return the tools limited to what a request says, and why some cannot be called, by name.

    Returns ``tools`` itself where nothing is limited. ``may_refuse``: see :meth:`SaidValues.narrow`.
    """
    if not any(map(has_readable, tools)):
        return tools, {}
    said = SaidValues.of(request, now)
    # Of functions that must name something, those that the request gives nothing to name are no choice beside others.
    offered = [tool for tool in tools if not lacks_a_name(tool.parameters, request)] or tools
    found = [said.narrow(tool, may_refuse=may_refuse) for tool in offered]
    if len(found) == len(tools) and all(
        new is old for (new, _), old in zip(found, tools, strict=True)
    ):
        return tools, {}
    return [new for new, _ in found], {new.name: why for new, why in found if why}


@lru_cache(maxsize=4096)
def has_readable(tool: ToolSpec) -> bool:
    """Whether a tool has a parameter whose values can be read from a request."""
    properties = tool.parameters.get("properties")
    return isinstance(properties, Mapping) and any(
        isinstance(schema, Mapping) and (kind_of(name, schema) is not None or is_named(schema))
        for name, schema in properties.items()
    )
