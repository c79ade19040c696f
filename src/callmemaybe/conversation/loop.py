"""The loop of an agent, without a model and without a tool: it says what has to happen next.

``conversation_loop`` is a generator. It yields an :class:`GenerateTurn` (let the model speak) and wants a
:class:`ModelReply`; it yields an :class:`ExecuteCalls` (run these calls) and wants their results; it returns why
it ended. Who drives it may wait in any way it likes, so there is one loop for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from callmemaybe.conversation.conversation import Conversation
from callmemaybe.conversation.events import (
    CallClosed,
    CallOpened,
    FinishReason,
    ResultGiven,
    TextAdded,
    TurnEnded,
    TurnStarted,
)
from callmemaybe.conversation.state import ConversationState
from callmemaybe.errors import ConversationError, InputError
from callmemaybe.jsonio.writer import dumps
from callmemaybe.tools import ToolCall, ToolResult, resolved


@dataclass(frozen=True)
class GenerateTurn:
    """Let the model speak; ``may_call`` False: in text only.

    ``hint`` is for the model's eyes in this turn and is not part of the conversation.
    """

    may_call: bool = True
    hint: str = ""


@dataclass(frozen=True)
class ModelReply:
    """What the model said: text, and calls that are whole and valid.

    With a ``problem`` they are not: none of them is made, and the model is told that in place of results.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    ended: FinishReason = FinishReason.STOP
    problem: str = ""


@dataclass(frozen=True)
class ExecuteCalls:
    """Run these calls and bring one result for each, in any order."""

    calls: tuple[ToolCall, ...]


Need = GenerateTurn | ExecuteCalls
Reply = ModelReply | Sequence[ToolResult]
#: Why a dialogue ended.
Reason = Literal["answered", "asked", "steps", "repeated", "length", "stopped"]


@dataclass(frozen=True)
class LoopConfig:
    """When the loop ends, and what it does about guesses.

    ``steps``: turns of the model at most. ``repeats``: how often the same call may be made with the
    same arguments. ``missing`` returns the required arguments of a call that are nowhere in the
    conversation; ``clarify`` says what follows: "model" (the model asks for them), "ask" (a question is
    asked in its place), "off" (nothing). ``check`` raises InputError for a call whose references were
    replaced by results that do not fit. ``spell_id`` writes an id of ours as the model's family does.
    ``is_whole``: whoever runs the calls of a turn wants them all at once, references and all.
    """

    steps: int = 8
    repeats: int = 1
    clarify: Literal["off", "ask", "model"] = "off"
    missing: Callable[[ToolCall, Conversation], Sequence[str]] = lambda _call, _said: ()
    check: Callable[[ToolCall], None] = lambda _call: None
    spell_id: Callable[[str], str] = lambda call_id: call_id
    is_whole: bool = False


def conversation_loop(
    conversation: Conversation, rules: LoopConfig, *, own_ids: bool = False
) -> Generator[Need, Any, Reason]:
    """Go on with a conversation until the model has answered, or a rule ends it.

    ``own_ids``: the calls that are heard carry ids of the model's. A conversation that waits for
    results goes on with them. Raises ConversationError where there is nothing to answer.
    """
    # Calls that wait are about to run: the same ones, heard again, are repetitions.
    counts = dict(Counter(call.meaning for call in conversation.pending))
    is_stuck = False
    if conversation.pending:
        yield from _executed(conversation, conversation.pending, {}, rules)
    for _ in range(rules.steps):
        if conversation.state is not ConversationState.ASKED:
            raise ConversationError("there is nothing to answer; say something first")
        heard: ModelReply = yield GenerateTurn(may_call=not is_stuck)
        if heard.ended is not FinishReason.STOP:
            _take(conversation, heard)
            return "length" if heard.ended is FinishReason.LENGTH else "stopped"
        if not heard.calls:
            _take(conversation, heard)
            return "repeated" if is_stuck else "answered"
        if rules.clarify != "off" and not heard.problem:
            question = _question(heard.calls, conversation, rules)
            if question:
                if rules.clarify == "model":
                    asked: ModelReply = yield GenerateTurn(
                        may_call=False, hint=f"{question} Ask for it."
                    )
                    question = asked.text.strip() or question
                _take(conversation, ModelReply(question))
                return "asked"
        calls = _take(conversation, _named(heard, conversation, rules, own_ids))
        refused = {call.id: heard.problem for call in calls if heard.problem}
        repeated = 0
        for call in calls:
            # What was wrong with a call may be gone once it is read as a value: a key that came twice.
            key = dumps([call.name, call.arguments]) if heard.problem else call.meaning
            counts[key] = counts.get(key, 0) + 1
            if counts[key] > rules.repeats:
                repeated += 1
                refused.setdefault(call.id, _REPEATED.format(name=call.name))
        # Once every call of a turn is a repetition, only an answer in text is left.
        is_stuck = repeated == len(calls)
        yield from _executed(conversation, calls, refused, rules)
    return "steps"


_REPEATED = (
    "this call of {name} was made before, with the same arguments; its result is above. "
    "Answer with what is known, or call with other arguments"
)


def _executed(
    conversation: Conversation,
    calls: Sequence[ToolCall],
    refused: dict[str, str],
    rules: LoopConfig,
) -> Generator[Need, Any, None]:
    """Have calls run, those that refer to others behind those, and give their results."""
    # A plan may be half answered: it was saved, and goes on.
    earlier = [one for one in conversation.entries if isinstance(one, ToolResult)]
    results = {one.call_id: one.content for one in earlier if not one.is_error}
    left = [call for call in calls if call.id not in refused]
    for call_id, message in refused.items():
        conversation.take(ResultGiven(ToolResult(call_id, message, is_error=True)))
    while left:
        waited = {call.id for call in left}
        waiting = [call for call in left if not rules.is_whole and _refers(call, waited)]
        ready = [call for call in left if call not in waiting] or left
        left = waiting if len(ready) < len(left) else []
        runnable: list[ToolCall] = []
        for call in ready:
            try:
                if not rules.is_whole:
                    call = _fitted(call, results, conversation.ids, rules)
                runnable.append(call)
            except InputError as error:
                failed = ToolResult(call.id, correction(error), is_error=True)
                conversation.take(ResultGiven(failed))
        if runnable:
            for result in _results((yield ExecuteCalls(tuple(runnable)))):
                conversation.take(ResultGiven(result))
                if not result.is_error:
                    results[result.call_id] = result.content
            lost = {call.id for call in runnable} & {call.id for call in conversation.pending}
            if lost:
                raise ConversationError(f"call {min(lost)!r} was run but has no result")


def _results(found: Any) -> Iterator[ToolResult]:
    """Yield the results that what runs the calls gave back; those in front of what is none count.

    Raises ConversationError for what is no result.
    """
    for one in found if isinstance(found, Iterable) else [found]:
        if not isinstance(one, ToolResult) or one is found:
            raise ConversationError(
                f"what runs the calls returned {found!r:.60}, where a list with a ToolResult for "
                "each call was wanted; functions(...) of plain functions returns one"
            )
        yield one


def _fitted(
    call: ToolCall, results: Mapping[str, str], ids: Collection[str], rules: LoopConfig
) -> ToolCall:
    """Return the call with results in place of its references to calls with these ids, and checked.

    What looks like a reference and names none of them is an argument as any other: of a tool that takes
    schemas, say. Raises InputError for a reference to a call without a result, and for what does not fit.
    """
    found = {name: value for name, value in call.parsed.items() if _source(value) in ids}
    if not found:
        return call
    told = resolved(ToolCall(call.name, dumps(found), call.id), results).parsed
    wrong: dict[str, InputError] = {}
    while True:
        filled = ToolCall(call.name, dumps({**call.parsed, **told}), call.id)
        try:
            rules.check(filled)
        except InputError as error:
            name = next(iter(_steps(error)), "").replace("~1", "/").replace("~0", "~")
            if name in wrong:
                raise wrong[name] from None
            if found.get(name, {}).get("$ref") not in ids:
                raise
            # What reads as JSON (4711) may be a text that a tool returned.
            wrong[name], told[name] = error, results[found[name]["$ref"]]
        else:
            return filled


def _refers(call: ToolCall, ids: Collection[str]) -> bool:
    return any(_source(value) in ids for value in call.parsed.values())


def _source(value: Any) -> str:
    """Return the id of the call that an argument would refer to, "" (which is no id) for none."""
    target = value["$ref"] if isinstance(value, dict) and value.keys() == {"$ref"} else None
    return target.split(".")[0] if isinstance(target, str) else ""


def _named(
    heard: ModelReply, conversation: Conversation, rules: LoopConfig, own_ids: bool
) -> ModelReply:
    """Give each call an id of its own: the model's where it has a new one, else the next number."""
    used, calls = set(conversation.ids), []
    for call in heard.calls:
        call_id = call.id if own_ids and call.id and call.id not in used else ""
        number = len(used) + 1
        while not call_id or call_id in used:
            call_id, number = rules.spell_id(f"call_{number}"), number + 1
        used.add(call_id)
        calls.append(ToolCall(call.name, call.arguments, call_id))
    return ModelReply(heard.text, _renumbered(heard.calls, calls))


def _renumbered(before: Sequence[ToolCall], after: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Let references of a plan follow calls to their new ids."""
    ids = {old.id: new.id for old, new in zip(before, after, strict=True) if old.id}
    found = []
    for call in after:
        if _refers(call, ids):
            arguments = {name: _followed(value, ids) for name, value in call.parsed.items()}
            call = ToolCall(call.name, dumps(arguments), call.id)
        found.append(call)
    return tuple(found)


def _followed(value: Any, ids: Mapping[str, str]) -> Any:
    source = _source(value)
    if source not in ids:
        return value
    return {"$ref": ids[source] + value["$ref"].removeprefix(source)}


def _take(conversation: Conversation, heard: ModelReply) -> tuple[ToolCall, ...]:
    """Let a turn happen; its calls are committed with its end."""
    conversation.take(TurnStarted())
    if heard.text:
        conversation.take(TextAdded(heard.text))
    for call in heard.calls:
        conversation.take_all([CallOpened(call.id, call.name), CallClosed(call)])
    conversation.take(TurnEnded(heard.ended))
    return heard.calls


def _question(calls: Sequence[ToolCall], said: Conversation, rules: LoopConfig) -> str:
    """Return what has to be asked before these calls can be made; nothing where all is known."""
    wanted = [(call.name, name) for call in calls for name in rules.missing(call, said)]
    if not wanted:
        return ""
    names = ", ".join(dict.fromkeys(name for _, name in wanted))
    tools = ", ".join(dict.fromkeys(tool for tool, _ in wanted))
    return f"To call {tools}, I need to know: {names}."


def correction(error: Exception, arguments: Mapping[str, Any] | None = None) -> str:
    """Say what was wrong with a call so that a model can correct it, one line for each mistake.

    ``invalid value at /arguments/date: "tomorrow", expected a valid date``. Mistakes are those of a
    validation (pydantic's, or an InputError whose place is a JSON pointer into ``arguments``); of
    any other exception, its name and text.
    """
    problems = _problems(error)
    if problems:
        return "\n".join(
            _mistake([str(step) for step in one.get("loc", ())], one.get("input"), one.get("msg"))
            for one in problems
        )
    if isinstance(error, InputError) and (error.where or "/").startswith("/"):
        steps = _steps(error)
        told = error.message + (f", expected {error.hint}" if error.hint else "")
        value: Any = arguments
        for step in steps:
            value = value.get(step) if isinstance(value, Mapping) else None
        return _mistake(steps, value if steps else None, told)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _steps(error: InputError) -> list[str]:
    """Return the steps of an error's JSON pointer within the arguments."""
    steps = [step for step in (error.where or "").split("/")[1:] if step]
    if steps[:1] == ["arguments"]:
        del steps[0]
    return steps


def _problems(error: Exception) -> Sequence[Mapping[str, Any]]:
    """Return the mistakes that a validation found, in pydantic's form; nothing of any other error."""
    try:
        found = list(error.errors())  # type: ignore[attr-defined]
    except Exception:  # what others call `errors` may be anything
        return ()
    return found if all(isinstance(one, Mapping) for one in found) else ()


#: How pydantic begins to say what was expected.
_SHOULD = "Input should be "


def _mistake(steps: Sequence[str], given: Any, problem: Any) -> str:
    place = "".join(f"/{step}" for step in ("arguments", *steps))
    text = str(problem)
    told = f"expected {text.removeprefix(_SHOULD)}" if text.startswith(_SHOULD) else text
    shown = "" if given is None or not _is_json(given) else f"{dumps(given)}, "
    return f"invalid value at {place}: {shown}{told}"


def _is_json(value: Any) -> bool:
    try:
        dumps(value)
    except (TypeError, ValueError, InputError):
        return False
    return True
