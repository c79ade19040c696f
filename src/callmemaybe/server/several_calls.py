"""All calls that one request wants, from a model that answers a request with one call.

- Of a compound request each part is asked about by itself (:mod:`callmemaybe.generation.compound`).
- Where a client takes one call at a time, and where some parts were called already, the next are called.
- Behind results one more function is called (:func:`follow_up`) if the request names it, in a word of its name that no
  function called so far has, and one of its values stands in a result only: "the weather where Anna lives".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

from callmemaybe.errors import BudgetError, GroundingError, ModelError
from callmemaybe.generation.compound import SURE, Asked, compound_calls, may_be_compound, name_words
from callmemaybe.generation.result import TurnResult
from callmemaybe.tools import ArgumentsDelta, CallStarted, StreamEvent, ToolSpec
from callmemaybe.wire.output_grammar import OutputSpec

#: The events of each step; the result of the turn comes last.
Turn = Generator[Sequence[StreamEvent], None, TurnResult]
#: Characters of results that are read for a further call.
MOST_READ = 2000
#: Asks the model for one call.
Call = Callable[[str, Sequence[ToolSpec], OutputSpec], Turn]


def call_parts(
    call: Call,
    text: str,
    tools: Sequence[ToolSpec],
    spec: OutputSpec,
    budget: int,
    made: Sequence[str] = (),
) -> Turn:
    """Call what a request wants, ``spec.most`` functions at most, without those that were ``made`` already.

    ``budget`` is the most tokens of all calls together; a turn that needs more is cut off, and calls nothing.
    With calls made, a request of one part wants no other.
    """
    if not may_be_compound(text):
        return TurnResult() if made else (yield from call(text, tools, spec))
    whole = yield from silent(call(text, tools, replace(spec, most=1)))
    parts = yield from _ask(call, text, tools, spec, whole)
    if made and len(parts) < 2:
        return TurnResult()
    wanted = _not_made(parts, made)[: spec.most] if made or len(parts) > 1 else parts
    result = joined(whole, wanted)
    if result.tokens > budget:
        result = replace(result, calls=(), ended="length")
    yield tuple(call_events(result))
    return result


def follow_up(
    call: Call,
    text: str,
    made: Sequence[str],
    found: str,
    tools: Sequence[ToolSpec],
    spec: OutputSpec,
) -> Turn:
    """Call one more function that the request names and that needs what was ``found``; or nothing.

    ``made`` are the functions that were called, ``found`` their results in words.
    """
    called = set().union(*map(name_words, made))
    open_tools = [
        tool for tool in tools if (name_words(tool.name) - called) & name_words(text)
    ]  # one that was called has no word of its own
    if not open_tools:
        return TurnResult()
    found = found[:MOST_READ]
    asked = call(f"{text} ({found})", open_tools, replace(spec, no_call=True, most=1))
    try:
        one = Asked(found, (yield from silent(asked)))
    except (BudgetError, GroundingError, ModelError):  # or there is no room for what was found
        return TurnResult()
    sure = one.call is not None and one.result.distribution.get(one.call.name, 1.0) >= SURE
    values = [value for _, value in one.values()]
    said, low = text.casefold(), found.casefold()
    if not sure or not any(value in low and value not in said for value in values):
        return TurnResult()
    if not all(value in low or value in said for value in values):
        return TurnResult()
    yield tuple(call_events(one.result))
    return one.result


def silent(turn: Turn) -> Turn:
    """Take a turn without its events."""
    while True:
        try:
            next(turn)
        except StopIteration as ended:
            result: TurnResult = ended.value
            return result
        yield ()


def joined(whole: TurnResult, parts: Sequence[Asked]) -> TurnResult:
    """Return one turn of the calls of all parts; the prompt counts once, other costs are summed up."""
    turns = [one.result for one in parts if one.result is not whole]
    calls = tuple(one.call for one in parts if one.call)
    if not turns:
        return replace(whole, calls=calls)
    return replace(
        whole,
        calls=calls,
        distribution={},
        tokens=sum(one.tokens for one in turns),
        forced=sum(one.forced for one in turns),
        passes=whole.passes + sum(one.passes for one in turns),
        remarks=tuple(dict.fromkeys(remark for one in turns for remark in one.remarks)),
    )


def call_events(result: TurnResult) -> Iterator[StreamEvent]:
    """Yield the events of calls that are known as a whole."""
    for index, one in enumerate(result.calls):
        yield CallStarted(index, one.name)
        yield ArgumentsDelta(index, one.arguments.encode())


def _ask(
    call: Call, text: str, tools: Sequence[ToolSpec], spec: OutputSpec, whole: TurnResult
) -> Generator[Sequence[StreamEvent], None, list[Asked]]:
    if not whole.calls or whole.ended != "stop":
        return [Asked(text, whole)]
    asking = compound_calls(text, tools, whole)
    part = replace(spec, no_call=True, most=1)
    try:
        asked = next(asking)
        while True:
            try:
                answer = yield from silent(call(asked, tools, part))
            except (BudgetError, GroundingError):  # nothing can be called with what the part says
                answer = TurnResult()
            asked = asking.send(answer if answer.ended == "stop" else TurnResult())
    except StopIteration as ended:
        found: list[Asked] = ended.value
        return found


def _not_made(parts: Sequence[Asked], made: Sequence[str]) -> list[Asked]:
    """Return the parts whose functions were not called yet, as often as the parts want them."""
    left = Counter(made)
    found = []
    for one in parts:
        if left[str(one.name)]:
            left[str(one.name)] -= 1
        else:
            found.append(one)
    return found
