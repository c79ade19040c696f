"""The loop of an agent, without a model and without a tool: it says what has to happen next.

``conversation_loop`` is a generator. It yields a :class:`GenerateTurn` and wants a :class:`ModelReply`;
it yields an :class:`ExecuteCalls` and wants the results; it returns why it ended. These are requests to
whoever drives the loop, not events of a stream (:mod:`callmemaybe.tools.events`): they say what is to
be done, and events say what was written. The driver may wait in any way it likes, so there is one loop
for threads, event loops and tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from callmemaybe.conversation.conversation import Conversation
from callmemaybe.conversation.events import FinishReason, turn_events
from callmemaybe.conversation.state import ConversationState
from callmemaybe.errors import ConversationError, InputError
from callmemaybe.jsonio import dumps, split_pointer
from callmemaybe.tools import ToolCall, ToolResult, resolve_references


@dataclass(frozen=True)
class GenerateTurn:
    """Have the model generate a turn; ``may_call`` False: in text only.

    ``hint`` is a message for the model in this turn that does not become part of the conversation.
    """

    may_call: bool = True
    hint: str = ""


@dataclass(frozen=True)
class ModelReply:
    """A turn that the model generated: text, and calls that are complete and valid.

    With a ``problem`` they are not valid: none is executed, and each gets that text as its result.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    ended: FinishReason = FinishReason.STOP
    problem: str = ""


@dataclass(frozen=True)
class ExecuteCalls:
    """Execute these calls and return one result for each, in any order."""

    calls: tuple[ToolCall, ...]


LoopRequest = GenerateTurn | ExecuteCalls
LoopReply = ModelReply | Sequence[ToolResult]
#: Why the loop ended.
LoopEnd = Literal["answered", "asked", "steps", "repeated", "length", "stopped"]


@dataclass(frozen=True)
class LoopConfig:
    """When the loop ends, and what it does about invented arguments.

    ``steps``: the most turns of the model. ``repeats``: how often the same call may be made with the
    same arguments. ``missing`` returns the required arguments of a call whose values occur nowhere in
    the conversation; ``clarify`` says what follows: "model" (the model asks the user for them), "ask"
    (the loop asks), "off" (nothing). ``check`` raises InputError for a call that does not fit its schema
    once results have replaced its references. ``format_id`` writes an id in the form that the model's
    family uses. ``keep_references``: the calls of a turn are executed together, with their references.
    """

    steps: int = 8
    repeats: int = 1
    clarify: Literal["off", "ask", "model"] = "off"
    missing: Callable[[ToolCall, Conversation], Sequence[str]] = lambda _call, _conversation: ()
    check: Callable[[ToolCall], None] = lambda _call: None
    format_id: Callable[[str], str] = lambda call_id: call_id
    keep_references: bool = False


def conversation_loop(
    conversation: Conversation, config: LoopConfig, *, model_ids: bool = False
) -> Generator[LoopRequest, Any, LoopEnd]:
    """Continue a conversation until the model has answered or a limit ends it.

    ``model_ids``: the calls of a reply carry ids that the model wrote. Pending calls of the conversation
    are executed first. Raises ConversationError where there is nothing to answer.
    """
    # Pending calls are about to be executed: the same calls in a later turn are repetitions.
    counts = dict(Counter(call.canonical for call in conversation.pending))
    only_repeats = False
    if conversation.pending:
        yield from _execute(conversation, conversation.pending, {}, config)
    for _ in range(config.steps):
        if conversation.state is not ConversationState.AWAITING_MODEL:
            raise ConversationError("there is nothing to answer; say something first")
        reply: ModelReply = yield GenerateTurn(may_call=not only_repeats)
        if reply.ended is not FinishReason.STOP:
            _take(conversation, reply)
            return "length" if reply.ended is FinishReason.LENGTH else "stopped"
        if not reply.calls:
            _take(conversation, reply)
            return "repeated" if only_repeats else "answered"
        if config.clarify != "off" and not reply.problem:
            question = _question(reply.calls, conversation, config)
            if question:
                if config.clarify == "model":
                    asked: ModelReply = yield GenerateTurn(
                        may_call=False, hint=f"{question} Ask for it."
                    )
                    question = asked.text.strip() or question
                _take(conversation, ModelReply(question))
                return "asked"
        calls = _assign_ids(reply.calls, conversation, config, model_ids)
        _take(conversation, ModelReply(reply.text, calls))
        refused = {call.id: reply.problem for call in calls if reply.problem}
        repeated = 0
        for call in calls:
            # A duplicate key shows in the text of the arguments only, not in their values.
            key = dumps([call.name, call.arguments]) if reply.problem else call.canonical
            counts[key] = counts.get(key, 0) + 1
            if counts[key] > config.repeats:
                repeated += 1
                refused.setdefault(call.id, _REPEATED.format(name=call.name))
        # Once every call of a turn is a repetition, only an answer in text is left.
        only_repeats = repeated == len(calls)
        yield from _execute(conversation, calls, refused, config)
    return "steps"


_REPEATED = (
    "this call of {name} was made before, with the same arguments; its result is above. "
    "Answer with what is known, or call with other arguments"
)


def _execute(
    conversation: Conversation,
    calls: Sequence[ToolCall],
    refused: dict[str, str],
    config: LoopConfig,
) -> Generator[LoopRequest, Any, None]:
    """Have calls executed, each after those it refers to, and let the conversation take the results."""
    # Some calls of a saved plan may have results already.
    before = [entry for entry in conversation.entries if isinstance(entry, ToolResult)]
    results = {one.call_id: one.content for one in before if not one.is_error}
    left = [call for call in calls if call.id not in refused]
    for call_id, message in refused.items():
        conversation.take(ToolResult(call_id, message, is_error=True))
    while left:
        ids = {call.id for call in left}
        blocked = [call for call in left if not config.keep_references and _refers_to(call, ids)]
        ready = [call for call in left if call not in blocked] or left
        left = blocked if len(ready) < len(left) else []
        runnable: list[ToolCall] = []
        for call in ready:
            try:
                if not config.keep_references:
                    call = _fill_references(call, results, conversation.ids, config)
                runnable.append(call)
            except InputError as error:
                conversation.take(ToolResult(call.id, correction(error), is_error=True))
        if runnable:
            for result in _check_results((yield ExecuteCalls(tuple(runnable)))):
                conversation.take(result)
                if not result.is_error:
                    results[result.call_id] = result.content
            lost = {call.id for call in runnable} & {call.id for call in conversation.pending}
            if lost:
                raise ConversationError(f"call {min(lost)!r} was run but has no result")


def _check_results(returned: Any) -> Iterator[ToolResult]:
    """Yield the results that an executor returned, up to the first item that is none.

    Raises ConversationError for that item.
    """
    for one in returned if isinstance(returned, Iterable) else [returned]:
        if not isinstance(one, ToolResult) or one is returned:
            raise ConversationError(
                f"what runs the calls returned {returned!r:.60}, where a list with a ToolResult for "
                "each call was wanted; a PythonExecutor of plain functions returns one"
            )
        yield one


def _fill_references(
    call: ToolCall, results: Mapping[str, str], ids: Collection[str], config: LoopConfig
) -> ToolCall:
    """Return the call with results in place of its references to calls with these ids, checked.

    What looks like a reference and names none of them is an argument as any other: of a tool that takes
    schemas, say. Raises InputError for a reference to a call without a result, and for a value that
    does not fit.
    """
    references = {
        name: value for name, value in call.parsed.items() if _referenced_id(value) in ids
    }
    if not references:
        return call
    values = resolve_references(ToolCall(call.name, dumps(references), call.id), results).parsed
    errors: dict[str, InputError] = {}
    while True:
        filled = ToolCall(call.name, dumps({**call.parsed, **values}), call.id)
        try:
            config.check(filled)
        except InputError as error:
            name = next(iter(_pointer_steps(error)), "")
            if name in errors:
                raise errors[name] from None
            if references.get(name, {}).get("$ref") not in ids:
                raise
            # A result that reads as JSON (4711) may be meant as a string: try its text.
            errors[name], values[name] = error, results[references[name]["$ref"]]
        else:
            return filled


def _refers_to(call: ToolCall, ids: Collection[str]) -> bool:
    return any(_referenced_id(value) in ids for value in call.parsed.values())


def _referenced_id(value: Any) -> str:
    """Return the id of the call that an argument would refer to, "" (which is no id) for none."""
    target = value["$ref"] if isinstance(value, dict) and value.keys() == {"$ref"} else None
    return target.split(".")[0] if isinstance(target, str) else ""


def _assign_ids(
    calls: Sequence[ToolCall], conversation: Conversation, config: LoopConfig, model_ids: bool
) -> tuple[ToolCall, ...]:
    """Give each call an unused id: the one the model wrote if it is unused, else the next number.

    References between the calls follow them to their new ids.
    """
    used, new_ids = set(conversation.ids), []
    for call in calls:
        call_id = call.id if model_ids and call.id and call.id not in used else ""
        number = len(used) + 1
        while not call_id or call_id in used:
            call_id, number = config.format_id(f"call_{number}"), number + 1
        used.add(call_id)
        new_ids.append(call_id)
    renamed = {call.id: new for call, new in zip(calls, new_ids, strict=True) if call.id}
    assigned = []
    for call, new in zip(calls, new_ids, strict=True):
        arguments = call.arguments
        if _refers_to(call, renamed):
            arguments = dumps({
                name: _rename_reference(value, renamed) for name, value in call.parsed.items()
            })  # fmt: skip
        assigned.append(ToolCall(call.name, arguments, new))
    return tuple(assigned)


def _rename_reference(value: Any, renamed: Mapping[str, str]) -> Any:
    old = _referenced_id(value)
    return {"$ref": renamed[old] + value["$ref"].removeprefix(old)} if old in renamed else value


def _take(conversation: Conversation, reply: ModelReply) -> None:
    """Let a whole turn happen; its calls are committed with its end."""
    conversation.take_all(turn_events(reply.text, reply.calls, reply.ended))


def _question(calls: Sequence[ToolCall], conversation: Conversation, config: LoopConfig) -> str:
    """Return what to ask the user before these calls can be made; "" where nothing is missing."""
    missing = [(call.name, name) for call in calls for name in config.missing(call, conversation)]
    if not missing:
        return ""
    names = ", ".join(dict.fromkeys(name for _, name in missing))
    tools = ", ".join(dict.fromkeys(tool for tool, _ in missing))
    return f"To call {tools}, I need to know: {names}."


def correction(error: Exception, arguments: Mapping[str, Any] | None = None) -> str:
    """Return what is wrong with a call so that a model can correct it, one line for each mistake.

    ``invalid value at /arguments/date: "tomorrow", expected a valid date``. Mistakes are those of a
    validation (pydantic's, or an InputError whose place is a JSON pointer into ``arguments``); of
    any other exception, its name and text.
    """
    mistakes = _validation_errors(error)
    if mistakes:
        return "\n".join(
            _correction_line(
                [str(step) for step in one.get("loc", ())], one.get("input"), one.get("msg")
            )
            for one in mistakes
        )
    if isinstance(error, InputError) and (error.where or "/").startswith("/"):
        steps = _pointer_steps(error)
        problem = error.message + (f", expected {error.hint}" if error.hint else "")
        value: Any = arguments
        for step in steps:
            value = value.get(step) if isinstance(value, Mapping) else None
        return _correction_line(steps, value if steps else None, problem)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _pointer_steps(error: InputError) -> list[str]:
    """Return the steps of an error's JSON pointer within the arguments."""
    steps = [step for step in split_pointer(error.where or "") if step]
    if steps[:1] == ["arguments"]:
        del steps[0]
    return steps


def _validation_errors(error: Exception) -> Sequence[Mapping[str, Any]]:
    """Return the mistakes that a validation found, in pydantic's form; none of any other error."""
    try:
        errors = list(error.errors())  # type: ignore[attr-defined]
    except Exception:  # other libraries' `errors` may be anything
        return ()
    return errors if all(isinstance(one, Mapping) for one in errors) else ()


#: The beginning of pydantic's messages about what was expected.
_SHOULD_BE = "Input should be "


def _correction_line(steps: Sequence[str], value: Any, problem: Any) -> str:
    place = "".join(f"/{step}" for step in ("arguments", *steps))
    text = str(problem)
    if text.startswith(_SHOULD_BE):
        text = f"expected {text.removeprefix(_SHOULD_BE)}"
    shown = "" if value is None or not _is_json(value) else f"{dumps(value)}, "
    return f"invalid value at {place}: {shown}{text}"


def _is_json(value: Any) -> bool:
    try:
        dumps(value)
    except (TypeError, ValueError, InputError):
        return False
    return True
