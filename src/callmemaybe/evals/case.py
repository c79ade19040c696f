"""One question to a model: the functions offered, the request, and the answers that are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.evals.compare import RULES
from callmemaybe.jsonio import dumps, escape_token
from callmemaybe.tools import ToolSpec, check_distinct

_KEYS = ("id", "functions", "prompt", "expected", "tags", "compare", "all")
_CASE_IS = '{"id", "functions", "prompt", "expected": {"name", "arguments"} or null}'


@dataclass(frozen=True)
class ExpectedCall:
    """A call that is right; what ``arguments`` holds is up to the rule of the case."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A request with the functions offered for it.

    ``expected`` lists everything that is right, None standing for no call. ``compare`` names the
    rule that compares arguments (see :mod:`evals.compare`). ``wants_all``: every call in ``expected`` is wanted, in any order, and
    no other.
    """

    id: str
    tools: tuple[ToolSpec, ...]
    prompt: str
    expected: tuple[ExpectedCall | None, ...]
    tags: tuple[str, ...] = ()
    compare: str = "exact"
    wants_all: bool = False

    @property
    def wants_call(self) -> bool:
        """Whether calling nothing would be wrong."""
        return None not in self.expected

    @property
    def wants_none(self) -> bool:
        """Whether calling anything would be wrong."""
        return self.expected == (None,)

    def tool(self, name: str) -> ToolSpec:
        """Return the function of that name; StopIteration if none is offered."""
        return next(tool for tool in self.tools if tool.name == name)

    @cached_property
    def offered(self) -> str:
        """The functions as one text: equal for cases that offer the same."""
        return dumps([tool.as_openai() for tool in self.tools])

    @cached_property
    def key(self) -> str:
        """What an answer to this case depends on, apart from the model: functions and request."""
        return sha256(f"{self.offered}\0{self.prompt}".encode(errors="surrogatepass")).hexdigest()[
            :16
        ]

    @classmethod
    def from_json(cls, value: object) -> Case:
        """Read one case: ``{"id", "functions", "prompt", "expected", "tags"?, "compare"?, "all"?}``.

        ``expected`` is ``{"name", "arguments"}``, null for no call, or a list of what is right; with ``"all": true`` a list
        of calls that are all wanted.
        Raises InputError with a JSON pointer.
        """
        if not isinstance(value, Mapping):
            raise InputError("a case must be an object", where="", hint=_CASE_IS)
        for key in ("functions", "prompt", "expected"):
            if key not in value:
                raise InputError(f'the case has no "{key}"', where="", hint=_CASE_IS)
        unknown = [key for key in value if key not in _KEYS]
        if unknown:
            hint = f"a case has {', '.join(_KEYS)}"
            raise InputError("no such key of a case", where=f"/{unknown[0]}", hint=hint)
        compare = value.get("compare", "exact")
        if compare not in RULES:
            hint = f"use one of {', '.join(RULES)}"
            raise InputError("no such rule to compare by", where="/compare", hint=hint)
        tools = _tools(value["functions"])
        expected = value["expected"]
        listed = compare == "bfcl"
        answers = (
            [
                _expected(one, f"/expected/{index}", tools, listed=listed)
                for index, one in enumerate(expected)
            ]
            if isinstance(expected, list)
            else [_expected(expected, "/expected", tools, listed=listed)]
        )
        if not answers:
            hint = "null means that no function fits"
            raise InputError("nothing is right here", where="/expected", hint=hint)
        wants_all = value.get("all", False)
        if not isinstance(wants_all, bool) or (wants_all and None in answers):
            hint = "true says that all of a list of calls are wanted"
            raise InputError("must be true or false", where="/all", hint=hint)
        return cls(
            id=_text(value.get("id", ""), "/id"),
            tools=tools,
            prompt=_text(value["prompt"], "/prompt"),
            expected=tuple(answers),
            tags=_tags(value.get("tags", [])),
            compare=str(compare),
            wants_all=wants_all,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the case as ``from_json`` reads it."""
        answers = [
            None if one is None else {"name": one.name, "arguments": dict(one.arguments)}
            for one in self.expected
        ]
        return {
            "id": self.id,
            "functions": [tool.as_openai() for tool in self.tools],
            "prompt": self.prompt,
            "expected": answers[0] if len(answers) == 1 and not self.wants_all else answers,
            "tags": list(self.tags),
            "compare": self.compare,
            **({"all": True} if self.wants_all else {}),
        }


def _tools(value: object) -> tuple[ToolSpec, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise InputError("at least one function must be offered", where="/functions")
    tools = tuple(
        ToolSpec.from_json(definition, f"/functions/{index}")
        for index, definition in enumerate(value)
    )
    check_distinct(tools, "/functions")
    return tools


def _expected(
    value: object, where: str, tools: Sequence[ToolSpec], *, listed: bool
) -> ExpectedCall | None:
    """Read one answer that is right; where ``listed``, each argument is a list of possible values."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or "name" not in value:
        hint = '{"name", "arguments"}, or null for no call'
        raise InputError("this is no call", where=where, hint=hint)
    name = _text(value["name"], f"{where}/name")
    if all(tool.name != name for tool in tools):
        hint = f"offered are {', '.join(tool.name for tool in tools[:5])}"
        raise InputError(f"no function {name!r} is offered", where=f"{where}/name", hint=hint)
    key = "parameters" if "arguments" not in value and "parameters" in value else "arguments"
    arguments = value.get(key, {})
    if not isinstance(arguments, Mapping):
        raise InputError("the arguments must be an object", where=f"{where}/{key}")
    for argument, possible in arguments.items():
        if listed and not isinstance(possible, list):
            raise InputError(
                "must be a list of possible values",
                where=f"{where}/{key}/{escape_token(argument)}",
                hint='put it in [], or compare by "exact"',
            )
    return ExpectedCall(name, arguments)


def _tags(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InputError("the tags must be a list of strings", where="/tags")
    return tuple(_text(tag, f"/tags/{index}") for index, tag in enumerate(value))


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InputError("must be a string", where=where)
    return value
