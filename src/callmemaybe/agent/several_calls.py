"""All calls that one request wants, from a model that answers a request with one call.

- Of a compound request each part is asked about by itself (:mod:`callmemaybe.generation.compound`), unless the model makes
  as many calls of itself.
- Where a client takes one call at a time, and where some parts were called already, the next are called.
- Behind results one more function is called (:func:`follow_up`) if the request names it, in a word of its name that no
  function called so far has, and one of its values stands in a result only: "the weather where Anna lives". Where a part
  of the request refers to another ("then tell me the weather there"), the model is asked about that part.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace

from callmemaybe.agent.references import is_waiting
from callmemaybe.errors import BudgetError, GroundingError, ModelError
from callmemaybe.generation.compound import (
    SURE,
    Asked,
    answer_parts,
    may_be_compound,
    name_words,
    referring_part,
)
from callmemaybe.generation.result import TurnResult
from callmemaybe.tools import ArgumentsDelta, CallStarted, StreamEvent, ToolCall, ToolSpec
from callmemaybe.wire.output_grammar import MAX_CALLS, OutputSpec

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
    turns: list[TurnResult] = []

    def counted(text: str, tools: Sequence[ToolSpec], spec: OutputSpec) -> Turn:
        turns.append((yield from silent(call(text, tools, spec))))
        return turns[-1]

    whole = yield from counted(text, tools, replace(spec, most=MAX_CALLS))
    if whole.ended == "length" and spec.most == 1:
        whole = yield from counted(text, tools, spec)
    part = replace(spec, no_call=True, most=1)
    parts = yield from answer_parts(lambda said: counted(said, tools, part), text, tools, whole)
    result = replace(
        _joined(whole, parts, spec.most, made, text),
        passes=sum(one.passes for one in turns),
        seconds={
            phase: sum(one.seconds.get(phase, 0.0) for one in turns)
            for phase in dict.fromkeys(phase for one in turns for phase in one.seconds)
        },
    )
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
    asked = call(
        f"{referring_part(text)} ({found})", open_tools, replace(spec, no_call=True, most=1)
    )
    try:
        one = Asked(found, (yield from silent(asked)))
    except (BudgetError, GroundingError, ModelError):  # or there is no room for what was found
        return TurnResult()
    sure = one.call is not None and one.result.distribution.get(one.call.name, 1.0) >= SURE
    values = [value for _, value in one.values()]
    said, low = text.casefold(), found.casefold()
    if not sure or not any(value in low and value not in said for value in values):
        return cost_of(one.result)
    if not all(value in low or value in said for value in values):
        return cost_of(one.result)
    yield tuple(call_events(one.result))
    return one.result


def cost_of(result: TurnResult) -> TurnResult:
    """Return a turn that came to nothing: only what it took."""
    return TurnResult(
        prompt_tokens=result.prompt_tokens, cached_tokens=result.cached_tokens,
        tokens=result.tokens, forced=result.forced, passes=result.passes, seconds=result.seconds,
    )  # fmt: skip


def silent(turn: Turn) -> Turn:
    """Take a turn without its events."""
    while True:
        try:
            next(turn)
        except StopIteration as ended:
            result: TurnResult = ended.value
            return result
        yield ()


def _joined(
    whole: TurnResult, parts: Sequence[Asked], most: int, made: Sequence[str], text: str
) -> TurnResult:
    """Return one turn of ``most`` calls of the parts, without those ``made`` already and those that wait for a result.

    A request that wants a single call wants no other behind a result. The prompt counts once; tokens are those of the calls
    that are kept.
    """
    found = [(call, one.result) for one in parts for call in one.result.calls]
    if len(found) < 2 and not made:
        return whole
    left = Counter(made)
    kept: list[tuple[ToolCall, TurnResult]] = []
    for call, turn in found if len(found) > 1 else ():
        if left[call.name]:
            left[call.name] -= 1
        elif is_waiting(call, text):
            continue
        elif len(kept) < most:
            kept.append((call, turn))
    turns = {id(turn): turn for _, turn in kept}.values()
    return replace(
        whole,
        calls=tuple(call for call, _ in kept),
        ended="stop",
        distribution={},
        confidence=math.prod(chances) if (chances := _confidences(turns)) else None,
        tokens=sum(one.tokens for one in turns),
        forced=sum(one.forced for one in turns),
        remarks=tuple(dict.fromkeys(remark for one in turns for remark in one.remarks)),
    )


def _confidences(turns: Iterable[TurnResult]) -> list[float]:
    """Return the probabilities that turns are right; none of them unless all are known."""
    found = [one.confidence for one in turns]
    return [one for one in found if one is not None] if None not in found else []


def call_events(result: TurnResult) -> Iterator[StreamEvent]:
    """Yield the events of calls that are known as a whole."""
    for index, one in enumerate(result.calls):
        yield CallStarted(index, one.name)
        yield ArgumentsDelta(index, one.arguments.encode())
