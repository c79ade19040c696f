"""One answer of a server, read as it comes: what of it may be given, and whether it is what was asked for.

Text is given as far as the automaton has accepted it. What may be a call, and what a server spells in its own
way, is held until it is whole: then it is written anew in our spelling, and checked by the automaton and the
validator, as everything else is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from callmemaybe.errors import InputError, UpstreamError
from callmemaybe.generation.result import TurnResult
from callmemaybe.generation.turn import TurnReader
from callmemaybe.generation.validation import CallValidator, check_keys, validator_of
from callmemaybe.grammar import Automaton
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.jsonio import dumps, loads
from callmemaybe.models.remote import (
    LOOSE,
    TOOLS_WAY,
    Completion,
    Fragment,
    RemoteModel,
    StructuredOutput,
)
from callmemaybe.tools import StreamEvent, ToolCall, ToolSpec
from callmemaybe.wire import Format
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.plain_json import CALL_FORMAT

_NO_CONTROLS: frozenset[str] = frozenset()
_CHOSE_SPELLING = "the server chose spaces or the order of keys itself"
#: How an answer may end; any other word means that it was broken off.
_ENDS = frozenset(("stop", "length", "tool_calls", "function_call", "eos", "eos_token", ""))


@dataclass(frozen=True)
class RemoteConstraint:
    """What a turn may be: to check it by, and in the server's notations (None: any text).

    ``answers`` is the language of an answer where that could not be told from a call: then ``automaton`` is that
    of the calls.
    """

    tools: Sequence[ToolSpec]
    validator: CallValidator
    automaton: Automaton
    notations: StructuredOutput | None
    answers: Automaton | None = None


class RemoteAnswer:
    """Reads one answer. ``spec`` is what it may be, ``stops`` are texts that end it."""

    def __init__(
        self,
        remote: RemoteModel,
        form: Format,
        constraint: RemoteConstraint,
        spec: OutputSpec,
        stops: Sequence[str],
    ) -> None:
        self.constraint = constraint
        self._remote = remote
        self._form = form
        self._spec = spec
        self._reader = self._new_reader(spec, stops)
        #: Reads text of which nothing can be a call.
        self._text_reader = self._new_reader(replace(spec, calls=False), stops)
        self._way = ""
        self._written = bytearray()
        self._completion: Completion | None = None
        self._state = constraint.automaton.start
        self._wrong: int | None = None
        self._symbols: list[int | str] = []
        self._is_text = False
        self._remarks: tuple[str, ...] = ()
        #: Whether any event was given, which nobody can take back.
        self.has_given = False
        #: What is wrong with the answer, for the model that wrote it.
        self.problem = ""

    def _new_reader(self, spec: OutputSpec, stops: Sequence[str]) -> TurnReader:
        return TurnReader(
            self._form, self.constraint.tools, self.constraint.validator, _NO_CONTROLS,
            spec=spec, stops=stops,
        )  # fmt: skip

    @property
    def is_over(self) -> bool:
        """Whether a text has ended the answer, though the server would write more."""
        return self._current.is_over

    @property
    def as_written(self) -> str:
        """What the server wrote, its own calls as we write them."""
        calls = self._completion.calls if self._completion else ()
        lines = [f'{{"name": {dumps(name)}, "arguments": {text or "{}"}}}' for name, text in calls]
        return "\n".join(filter(None, [self._written.decode(errors="replace"), *lines]))

    @property
    def only_called(self) -> str | None:
        """The name of the function that is called, if it is the only one."""
        calls = self._completion.calls if self._completion else ()
        if calls:
            return calls[0][0] if len(calls) == 1 else None
        found = _json_or_none(self._written.decode(errors="replace"))
        name = found.get("name") if isinstance(found, dict) else None
        return name if isinstance(name, str) else None

    @property
    def _is_native(self) -> bool:
        return self._way == TOOLS_WAY

    @property
    def _is_free(self) -> bool:
        """Whether any text will do."""
        spec = self._spec
        return spec.answer is None and spec.answer_length is None and (
            self._is_native or not spec.calls
        )  # fmt: skip

    @property
    def _answers(self) -> Automaton:
        return self.constraint.answers or self.constraint.automaton

    @property
    def _current(self) -> TurnReader:
        return self._text_reader if self._is_text else self._reader

    def take(self, fragment: Fragment) -> tuple[StreamEvent, ...]:
        """Take a fragment; return the events that are certain with it."""
        self._way = fragment.way
        data = fragment.text.encode(errors="replace")
        is_first = not self._written and bool(data)
        self._written += data
        if is_first:
            self._is_text = self._is_free
        may_be_call = self._written[:1] == b"{" and self._spec.calls
        is_needed = self._is_native and not self._spec.no_call  # text beside a call is none of it
        is_loose = self._spec.answer is not None and (self._is_native or self._way in LOOSE)
        if self._form is CALL_FORMAT or may_be_call or is_needed or is_loose:
            return ()
        self._symbols += self._accepted(data)
        return self._given(self._current.read(self._symbols))

    def rest_of_text(self) -> tuple[StreamEvent, ...]:
        """Return what was held back of a text that the budget cut off."""
        if self._symbols:
            return self._given(self._current.end(self._symbols))
        return ()

    def end(self, completion: Completion | None, budget: int) -> tuple[StreamEvent, ...]:
        """Take the end of the answer; return the events that were held. None: a text has ended it.

        Raises UpstreamError for an answer that is not what was asked for; DuplicateKeyError and
        SchemaViolationError as :meth:`TurnReader.check` does.
        """
        if completion is None:
            return ()
        self._completion = completion
        self._way = completion.way
        if completion.finish not in _ENDS:
            raise self._unusable(f"ended its answer early ({completion.finish[:40]})")
        if (self._is_native or completion.calls) and self._spec.calls:
            # Some servers leave a call that the model wrote in the text.
            written = self._native_calls(completion) or self._call_in_text()
            if written:
                before = self._text_reader.end(self._symbols) if self._symbols else ()
                return self._given(chain(before, self._reader.end(list(written.encode()))))
            if not self._spec.no_call:
                self.problem = "it calls no function, and one has to be called"
                raise self._unusable("called no function, though one had to be called")
        if self._is_free:
            self._is_text = True
            return self._given(self._text_reader.end(list(self._written)))
        text = self._written.decode(errors="replace")
        wrong = self._wrong if self._wrong is not None else first_wrong(self._answers, text)
        if wrong is not None:
            again = None if self.has_given else self._rewritten(text)
            if again is None or first_wrong(self._answers, again) is not None:
                raise self._complaint(completion, wrong, budget)
            text = again
            self._remarks = (f"asked by {completion.way}, {_CHOSE_SPELLING}",)
        reader = self._reader if self.constraint.answers is None else self._text_reader
        events = self._given(reader.end(list(text.encode(errors="replace"))))
        reader.check()
        return events

    def result(
        self, *, is_cut_off: bool, completion: Completion | None, seconds: Mapping[str, float]
    ) -> TurnResult:
        """Return the turn."""
        reader = self._reader
        calls = () if is_cut_off else tuple(reader.calls)
        text = bytes(self._text_reader.text + reader.text).decode(errors="replace")
        if is_cut_off and not self._symbols:
            text = "" if self._spec.calls else self._written.decode(errors="replace")
        return TurnResult(
            text=text, calls=calls,
            ended="length" if is_cut_off else "repeated" if reader.is_repeated else "stop",
            stop=self._text_reader.stopped or reader.stopped,
            prompt_tokens=completion.prompt_tokens if completion else 0,
            cached_tokens=completion.cached_tokens if completion else 0,
            tokens=completion.tokens if completion else 0,
            seconds=seconds, raw=self.as_written.encode(errors="replace"),
            remarks=(*self._remarks, *reader.remarks(calls)),
        )  # fmt: skip

    # -- text as it comes -------------------------------------------------------------------------

    def _accepted(self, data: bytes) -> bytes:
        """Return the bytes in front of the first that the language does not allow."""
        if self._is_free:
            return data
        if self._wrong is not None:
            return b""
        step = self.constraint.automaton.step
        done = len(self._written) - len(data)
        for at, byte in enumerate(data):
            state = step(self._state, byte)
            if state < 0:
                self._wrong = done + at
                return data[:at]
            self._state = state
        return data

    def _given(self, events: Iterable[StreamEvent]) -> tuple[StreamEvent, ...]:
        found = tuple(events)
        self.has_given = self.has_given or bool(found)
        return found

    # -- calls that a server makes itself ---------------------------------------------------------

    def _native_calls(self, completion: Completion) -> str:
        """Return the calls that a server made by itself, each checked, in our spelling."""
        written = []
        for name, arguments in completion.calls[: self._spec.most]:
            line = self._valid_call(f'{{"name": {dumps(name)}, "arguments": {arguments or "{}"}}}')
            if line is None:
                self.problem = _problem_of(name, arguments, self._callable)
                raise self._unusable("called a function in a way that its schema does not allow")
            written.append(line)
        return "\n".join(written)

    def _call_in_text(self) -> str:
        text = self._written.decode(errors="replace").strip()
        return (self._valid_call(text) or "") if text.startswith("{") else ""

    def _valid_call(self, text: str) -> str | None:
        line = rewritten(text, self._callable)
        valid = line is not None and first_wrong(self.constraint.automaton, line) is None
        return line if valid else None

    @property
    def _callable(self) -> list[ToolSpec]:
        only = self._spec.only
        return [tool for tool in self.constraint.tools if only is None or tool.name in only]

    # -- what is wrong ----------------------------------------------------------------------------

    def _rewritten(self, text: str) -> str | None:
        """Return an answer in our own spelling, if it is JSON of the right shape."""
        answer = self._spec.answer
        if isinstance(answer, Mapping) and not isinstance(answer, Grammar):
            found = rewritten_answer(text, answer)
            if found is not None and first_wrong(self._answers, found) is None:
                return found
        return rewritten(text, self.constraint.tools)

    def _unusable(self, problem: str, quoted: str = "") -> UpstreamError:
        self.problem = self.problem or problem
        return UpstreamError("answer", problem, address=self._remote.name, quoted=quoted)

    def _complaint(self, completion: Completion, wrong: int, budget: int) -> UpstreamError:
        shown = completion.text.encode(errors="replace")[max(0, wrong - 30) : wrong + 10]
        given = f"was given the grammar by {completion.way}"
        if completion.finish == "length":
            return self._unusable(f"{given}; its answer was cut off at {budget} tokens")
        self.problem = f"it is not what is asked for, from byte {wrong} on, near {shown!r}"
        return self._unusable(
            f"{given} and did not hold to it", f": byte {wrong} of its answer, near {shown!r}"
        )


def _problem_of(name: str, arguments: str, tools: Sequence[ToolSpec]) -> str:
    """Say what is wrong with a call."""
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        return f"there is no function {name!r}; there are {', '.join(one.name for one in tools)}"
    value = _json_or_none(arguments or "{}")
    if not isinstance(value, dict):
        return f"the arguments of {name!r} are not a JSON object"
    validator = validator_of(tool)
    error = None if validator is None else validator.first_error(value)
    return f"the arguments of {name!r} do not fit its schema" + (
        f": {str(error.message)[:300]}" if error is not None else ""
    )


def _json_or_none(text: str) -> Any:
    try:
        return loads(text)
    except (ValueError, InputError, RecursionError):
        return None


def first_wrong(automaton: Automaton, text: str) -> int | None:
    """Return how many bytes are right before the first that is not; None if all are."""
    data = text.encode(errors="replace")
    state = automaton.start
    for at, byte in enumerate(data):
        state = automaton.step(state, byte)
        if state < 0:
            return at
    return None if automaton.is_accepting(state) else len(data)


def rewritten_answer(text: str, schema: Mapping[str, Any]) -> str | None:
    """Return an answer by a schema in our own spelling, if it is JSON. Raises DuplicateKeyError."""
    try:
        value = loads(text)
    except (ValueError, InputError, RecursionError):
        return None
    check_keys(text)
    return dumps(_ordered(value, schema))


def rewritten(text: str, tools: Sequence[ToolSpec]) -> str | None:
    """Return a call in our own spelling, if it is JSON of the right shape.

    Raises DuplicateKeyError: to read it as a value would lose one of the two.
    """
    try:
        found = loads(text)
    except (ValueError, InputError, RecursionError):
        return None
    if found is None:
        return "null"
    if not isinstance(found, dict) or found.keys() != {"name", "arguments"}:
        return None
    check_keys(text)
    tool = next((tool for tool in tools if tool.name == found["name"]), None)
    if tool is None or not isinstance(found["arguments"], dict):
        return None
    arguments = dumps(_ordered(found["arguments"], tool.parameters))
    call = ToolCall(tool.name, arguments)
    parts = CALL_FORMAT.render([call], tools=[tool], controls=_NO_CONTROLS)
    return "".join(part for part in parts if isinstance(part, str))


def _ordered(value: Any, schema: Any) -> Any:
    """Return the value with its keys in the order of the schema's properties."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(value, dict) or not isinstance(properties, Mapping):
        return value
    known = [key for key in properties if key in value]
    others = [key for key in value if key not in properties]
    return {key: _ordered(value[key], properties.get(key)) for key in [*known, *others]}
