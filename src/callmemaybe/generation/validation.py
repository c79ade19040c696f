"""Checks finished calls and answers by a JSON Schema validator that is independent of the grammar.

For most schemas the grammar is exact, and a mistake found here is a bug of ours. Some schemas demand what no
grammar can express (items that all differ, for example): their grammar is wider, and the rest is checked
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callmemaybe.errors import (
    DecodingError,
    DuplicateKeyError,
    InputError,
    SchemaViolationError,
    UnsupportedSchema,
)
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.grammar.json_schema.document import DeferredCheck
from callmemaybe.jsonio import find_duplicate_key, is_deeper, join_pointer, loads
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.tools.schemas import has_engine_dependent_pattern, validator_for
from callmemaybe.wire import Format
from callmemaybe.wire.format_nodes import Controls
from callmemaybe.wire.output_grammar import DeferredChecks, OutputSpec

#: Validators recurse; a value nested deeper is only checked by the grammar that generated it.
CHECKED_DEPTH = 100
#: Most keywords named in a remark, and most characters of a validator's message.
_MAX_KEYWORDS, _MAX_MESSAGE = 3, 300
#: Validators of the functions called last, by the id() of the function.
VALIDATOR_CACHE_SIZE = 8
_VALIDATORS: dict[int, tuple[ToolSpec, Any]] = {}


def validator_of_checks(schema: Any, checks: Sequence[DeferredCheck], of: str) -> Any:
    """Return the validator that makes the deferred checks of a schema; ``of`` says whose it is, in errors.

    Raises UnsupportedSchema where it cannot read the schema.
    """
    # Unless told otherwise, the latest drafts treat formats as annotations.
    formats = any(check.pointer.endswith("/format") for check in checks) or None
    try:
        return validator_for(schema, formats=formats)
    except InputError as error:
        first = checks[0]
        raise UnsupportedSchema(
            f"{first.reason}, nor can it be checked afterwards: the validator cannot read "
            f"this schema ({_short(error.message)})",
            pointer=first.pointer,
            where=f"{of}{first.pointer}",
        ) from None


class CallValidator:
    """Validates calls of some functions, and an answer by a JSON Schema.

    Each schema's validator is made when it is first needed. Several threads may share one object.
    """

    def __init__(self, tools: Sequence[ToolSpec], answer: Any = None) -> None:
        self._tools = tools
        self._schemas: dict[str | None, Any] = {tool.name: tool.parameters for tool in tools}
        self._schemas[None] = answer
        self._validators: dict[str | None, Any] = {}
        self._deferred: dict[str | None, tuple[DeferredCheck, ...]] = {}

    def grammar(self, form: Format, spec: OutputSpec, controls: Controls) -> Grammar:
        """Return the grammar of what a model may write, and record the checks that it defers.

        Raises what ``Format.output_grammar`` does, and UnsupportedSchema where the validator cannot read a
        schema that it would have to check.
        """
        deferred: DeferredChecks = {}
        grammar = form.output_grammar(self._tools, spec, controls=controls, deferred=deferred)
        self._record(deferred)
        return grammar

    def _record(self, deferred: DeferredChecks) -> None:
        for name, checks in deferred.items():
            if {*checks} <= {*self._deferred.get(name, ())}:
                continue
            of = "" if name is None else f"function {name!r}, parameters"
            self._validators[name] = validator_of_checks(self._schemas[name], checks, of)
            self._deferred[name] = tuple(dict.fromkeys((*self._deferred.get(name, ()), *checks)))

    def _validator(self, name: str | None) -> Any:
        """Return the validator of a function or the answer, from those made last if it is there; None if there is none.

        Each request of a model that reads values in it has a grammar of its own, and the same functions.
        """
        tool = next((one for one in self._tools if one.name == name), None)
        if tool is None:
            return _validator_or_none(self._schemas[name])
        known = _VALIDATORS.pop(id(tool), None)
        if known is None or known[0] is not tool:
            known = tool, _validator_or_none(tool.parameters)
        _VALIDATORS[id(tool)] = known
        while len(_VALIDATORS) > VALIDATOR_CACHE_SIZE:
            _VALIDATORS.pop(next(iter(_VALIDATORS)), None)
        return known[1]

    def check(self, call: ToolCall) -> None:
        """Check a call by the schema of its function.

        Raises DuplicateKeyError, see :func:`check_keys`; SchemaViolationError if the call violates its schema
        and the grammar deferred checks of it; DecodingError if it did not.
        """
        check_keys(call.arguments, call.name)
        error = self._violation(call.name, call.parsed, call.arguments)
        if error is not None:
            raise DecodingError(
                f"a bug in this package: the arguments {call.arguments} of {call.name!r} do "
                f"not fit its schema ({error}); please report it"
            )

    def check_answer(self, text: str) -> None:
        """Check an answer by a JSON Schema. Raises DuplicateKeyError and SchemaViolationError as :meth:`check` does."""
        check_keys(text)
        if None in self._deferred:
            self._violation(None, loads(text), text)

    def remarks(self, call: ToolCall | None) -> tuple[str, ...]:
        """Say which keywords were checked in a finished call instead of masked, if any."""
        deferred = None if call is None else self._deferred.get(call.name)
        if call is None or deferred is None:
            return ()
        named = ", ".join(check.pointer or "/" for check in deferred[:_MAX_KEYWORDS])
        more = ", ..." if len(deferred) > _MAX_KEYWORDS else ""
        return (f"checked in the finished call of {call.name!r}, and not masked: {named}{more}",)

    def _violation(self, name: str | None, value: Any, text: str) -> str | None:
        """Return how a value violates a schema whose grammar is exact; None if it does not.

        Raises SchemaViolationError where the grammar deferred checks.
        """
        has_deferred = name in self._deferred
        if is_deeper(text, CHECKED_DEPTH):
            if has_deferred:
                deep = f"it nests deeper than the {CHECKED_DEPTH} levels that can be checked"
                raise SchemaViolationError(name, text, pointer="", problem=deep)
            return None
        if name not in self._validators:
            self._validators[name] = self._validator(name)
        validator = self._validators[name]
        try:
            error = None if validator is None else validator.first_error(value)
        except InputError as refused:
            if has_deferred:
                raise SchemaViolationError(
                    name, text, pointer="", problem=refused.message
                ) from None
            return None
        if error is None:
            return None
        if not has_deferred:
            # The validator may read a pattern differently on text beyond ASCII; there the mask is right.
            is_excused = not _is_plain(text) and has_engine_dependent_pattern(self._schemas[name])
            return None if is_excused else str(error.message)
        raise SchemaViolationError(
            name,
            text,
            pointer=join_pointer(error.instance_path),
            problem=_short(error.message),
            keyword=join_pointer(error.schema_path),
        )


def validator_of(tool: ToolSpec) -> Any:
    """Return a validator of the schema as it was given; None if the validator cannot read it."""
    return _validator_or_none(tool.parameters)


def _validator_or_none(schema: Any) -> Any:
    try:
        return validator_for(schema)
    except InputError:
        # What the validator cannot read (an exotic pattern) the grammar alone vouches for.
        return None


def _is_plain(text: str) -> bool:
    """Whether a JSON text holds only what all engines read alike: ASCII, and no end of a line but LF."""
    return text.isascii() and "\\u" not in text and "\\r" not in text


def _short(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}..."


def check_keys(text: str, function: str | None = None) -> None:
    """Look through a finished JSON text for what no grammar can see to: a key that came twice.

    ``function`` is the one whose arguments it is; None: an answer. Raises DuplicateKeyError.
    """
    key = find_duplicate_key(text)
    if key is not None:
        raise DuplicateKeyError(function, text, key)
