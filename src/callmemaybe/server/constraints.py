"""What a text is to be, in the spellings of OpenAI, vLLM and llama.cpp: at most one of them in a request.

Compiling a long pattern or grammar takes seconds and would block the event loop, so a turn does it in its own
task; what is wrong with one is told with the parameter that it came in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Literal, NamedTuple

from callmemaybe.agent.framing import told_schema
from callmemaybe.errors import GrammarError, InputError
from callmemaybe.grammar import Grammar, regex
from callmemaybe.grammar.ebnf import ebnf
from callmemaybe.grammar.nodes import words
from callmemaybe.jsonio import loads
from callmemaybe.server.common import check_sizes
from callmemaybe.server.http_errors import invalid_value
from callmemaybe.server.message_models import JsonFormat
from callmemaybe.server.request_models import (
    ChatSchemaFormat,
    ConstraintFields,
    GrammarFormat,
    JsonObjectFormat,
    RegexFormat,
    RequestObject,
    ResponsesSchemaFormat,
    TextFormat,
)

Kind = Literal["json", "regex", "choice", "grammar", "json_object", "format"]
#: A parameter, what it says, and its value.
Stated = tuple[str, Kind, Any]


class StatedAnswer(NamedTuple):
    """What the text of an answer is to be, as a turn takes it (None: any text), and what said so."""

    value: Any = None
    param: str = ""


#: vLLM's former parameters, and llama.cpp's.
_PARAMS: Mapping[str, Kind] = {
    "guided_json": "json",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
    "grammar": "grammar",
    "json_schema": "json",
}


def stated_answer(
    request: ConstraintFields, told: Sequence[Mapping[str, Any]] = ()
) -> StatedAnswer:
    """Return what the text of an answer is to be.

    ``told`` are messages whose instructions may tell the form of an answer in JSON. Raises ApiError where two
    parameters constrain the text, and for a value that is no constraint.
    """
    stated = list(_stated(request))
    if not stated:
        return StatedAnswer()
    if len(stated) > 1:
        raise invalid_value(
            stated[1][0],
            f"'{stated[0][0]}' and '{stated[1][0]}' both say what the text is; give one of them.",
        )
    ((param, kind, value),) = stated
    return format_answer(value, param, told) if kind == "format" else _answer(param, kind, value)


def format_answer(
    form: RequestObject | None, param: str, told: Sequence[Mapping[str, Any]] = ()
) -> StatedAnswer:
    """Return what the text of an answer in OpenAI's forms is to be; see :func:`stated_answer`."""
    match form:
        case RegexFormat():
            return _answer(f"{param}.regex", "regex", form.regex)
        case GrammarFormat():
            return _answer(f"{param}.grammar", "grammar", form.grammar)
        case ChatSchemaFormat():
            return _answer(f"{param}.json_schema.schema", "json", form.json_schema.schema_ or {})
        case ResponsesSchemaFormat() | JsonFormat():
            return _answer(f"{param}.schema", "json", form.schema_ or {})
        case JsonObjectFormat():
            schema = told_schema(told)
            if schema is not None:
                return _answer(param, "json", schema)
            return _answer(param, "json_object", True)
    return StatedAnswer()


def _answer(param: str, kind: Kind, value: Any) -> StatedAnswer:
    if kind in ("json", "json_object"):
        schema = {"type": "object"} if kind == "json_object" else _schema(param, value)
        check_sizes([schema], param)
        return StatedAnswer(schema, param)
    return StatedAnswer(cache(partial(_built, param, kind, value)), param)  # once for all choices


def _stated(request: ConstraintFields) -> Iterator[Stated]:
    """Yield each constraint of a request."""
    form = request.response_format
    if form is not None and not isinstance(form, TextFormat):
        yield "response_format", "format", form
    outputs = request.structured_outputs
    if outputs is not None:
        kinds: tuple[Kind, ...] = ("json", "regex", "choice", "grammar", "json_object")
        for kind in kinds:
            value = getattr(outputs, "json_" if kind == "json" else kind)
            if value is not None and value is not False:
                yield f"structured_outputs.{kind}", kind, value
    for param, kind in _PARAMS.items():
        value = getattr(request, param)
        if value is not None:
            yield param, kind, value


def _schema(param: str, value: Mapping[str, Any] | str) -> Any:
    """Return a JSON Schema, which vLLM also takes as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        schema = loads(value)
    except InputError as error:
        raise invalid_value(param, f"Invalid value for {param!r}: it is {error.message}.") from None
    if not isinstance(schema, dict):
        raise invalid_value(param, f"Invalid value for {param!r}: a JSON Schema is an object.")
    return schema


def _built(param: str, kind: Kind, value: Any) -> Grammar:
    try:
        match kind:
            case "regex":
                return regex(value)
            case "grammar":
                return ebnf(value)
        return Grammar(words(value))
    except GrammarError as error:
        raise invalid_value(param, f"Invalid value for {param!r}: {error}") from None
