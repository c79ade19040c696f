"""Looks through what a model wrote once it is whole, with a validator of another make.

Of most schemas a grammar says everything, and what is found here would be a bug. Some say what no grammar
can (items that all differ, say): their grammar is wider, and this is where the rest is seen to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from callmemaybe.errors import (
    DecodingError,
    DuplicateKeyError,
    InputError,
    SchemaViolationError,
    UnsupportedSchema,
)
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.grammar.json_schema.document import DeferredCheck, escape_token
from callmemaybe.jsonio import find_duplicate_key, loads
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.tools.schemas import has_engine_dependent_pattern, validator_for
from callmemaybe.wire import Format
from callmemaybe.wire.format_nodes import Controls
from callmemaybe.wire.output_grammar import DeferredChecks, OutputSpec

#: Validators recurse; a value nested deeper is only checked by the grammar that generated it.
CHECKED_DEPTH = 100
#: Keywords that are named in a remark, and characters of what a validator says.
_MOST_NAMED, _MOST_SAID = 3, 300


class CallValidator:
    """The validators of some functions, and of an answer by a JSON Schema.

    Each is made when it is needed first. Several threads may use them.
    """

    def __init__(self, tools: Sequence[ToolSpec], answer: Any = None) -> None:
        self._tools = tools
        self._schemas: dict[str | None, Any] = {tool.name: tool.parameters for tool in tools}
        self._schemas[None] = answer
        self._made: dict[str | None, Any] = {}
        self._left: dict[str | None, tuple[DeferredCheck, ...]] = {}

    def language(self, form: Format, wish: OutputSpec, controls: Controls) -> Grammar:
        """Return what a model may write, and take over what that leaves to be checked.

        Raises what ``Format.language`` does, and UnsupportedSchema where the validator cannot read a
        schema that it would have to check.
        """
        left: DeferredChecks = {}
        grammar = form.output_grammar(self._tools, wish, controls=controls, deferred=left)
        self._take_over(left)
        return grammar

    def _take_over(self, left: DeferredChecks) -> None:
        for name, checks in left.items():
            if {*checks} <= {*self._left.get(name, ())}:
                continue
            # Left unsaid, the latest drafts take formats for annotations.
            formats = any(check.pointer.endswith("/format") for check in checks) or None
            try:
                self._made[name] = validator_for(self._schemas[name], formats=formats)
            except InputError as error:
                first = checks[0]
                of = "" if name is None else f"function {name!r}, parameters"
                raise UnsupportedSchema(
                    f"{first.reason}, nor can it be checked afterwards: the validator cannot read "
                    f"this schema ({_short(error.message)})",
                    pointer=first.pointer,
                    where=f"{of}{first.pointer}",
                ) from None
            self._left[name] = tuple(dict.fromkeys((*self._left.get(name, ()), *checks)))

    def check(self, call: ToolCall) -> None:
        """Check a call by the schema of its function.

        Raises DuplicateKeyError, see :func:`check_keys`; SchemaViolationError if the call is not what its schema
        wants, where the grammar left something to be checked; DecodingError where it did not.
        """
        check_keys(call.arguments, call.name)
        error = self._mistake(call.name, call.parsed, call.arguments)
        if error is not None:
            raise DecodingError(
                f"a bug in this package: the arguments {call.arguments} of {call.name!r} do "
                f"not fit its schema ({error}); please report it"
            )

    def check_answer(self, text: str) -> None:
        """Check an answer by a JSON Schema. Raises DuplicateKeyError and SchemaViolationError as :meth:`check` does."""
        check_keys(text)
        if None in self._left:
            self._mistake(None, loads(text), text)

    def remarks(self, call: ToolCall | None) -> tuple[str, ...]:
        """Say what of the schema of a call was checked in the call, and not masked, if anything."""
        left = None if call is None else self._left.get(call.name)
        if call is None or left is None:
            return ()
        named = ", ".join(check.pointer or "/" for check in left[:_MOST_NAMED])
        more = ", ..." if len(left) > _MOST_NAMED else ""
        return (f"checked in the finished call of {call.name!r}, and not masked: {named}{more}",)

    def _mistake(self, name: str | None, value: Any, text: str) -> str | None:
        """Return what is wrong with a value that the grammar alone should have made right.

        Raises SchemaViolationError where that was left to be checked.
        """
        is_left = name in self._left
        if depth_of(value) > CHECKED_DEPTH:
            if is_left:
                deep = f"it nests deeper than the {CHECKED_DEPTH} levels that can be checked"
                raise SchemaViolationError(name, text, pointer="", problem=deep)
            return None
        if name not in self._made:
            self._made[name] = _validator_or_none(self._schemas[name])
        validator = self._made[name]
        error = None if validator is None else next(iter(validator.iter_errors(value)), None)
        if error is None:
            return None
        if not is_left:
            # Of text beyond ASCII the validator may read a pattern differently: then the mask is right.
            is_apart = not _is_plain(text) and has_engine_dependent_pattern(self._schemas[name])
            return None if is_apart else str(error.message)
        raise SchemaViolationError(
            name,
            text,
            pointer=pointer_of(error.instance_path),
            problem=_short(error.message),
            keyword=pointer_of(error.schema_path),
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
    return text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]}..."


def pointer_of(path: Iterable[str | int]) -> str:
    """Return a path as a JSON pointer."""
    return "".join(f"/{escape_token(str(step))}" for step in path)


def check_keys(text: str, function: str | None = None) -> None:
    """Look through a finished JSON text for what no grammar can see to: a key that came twice.

    ``function`` is the one whose arguments it is; None: an answer. Raises DuplicateKeyError.
    """
    key = find_duplicate_key(text)
    if key is not None:
        raise DuplicateKeyError(function, text, key)


def depth_of(value: Any) -> int:
    """Return how deep arrays and objects nest, without recursion."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        value, depth = stack.pop()
        inner: Iterable[Any]
        if isinstance(value, dict):
            inner = value.values()
        elif isinstance(value, list):
            inner = value
        else:
            continue
        deepest = max(deepest, depth)
        stack.extend((one, depth + 1) for one in inner)
    return deepest
