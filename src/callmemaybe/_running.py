"""Drives the loop of an agent: a local model speaks, tools run, until the model has answered.

The loop itself is :func:`callmemaybe.conversation.loop.dialogue`; here it meets a model and whoever
runs the calls. Waiting for tools is the only difference between the two faces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypedDict

from callmemaybe._json import dumps
from callmemaybe._speaking import Speaker
from callmemaybe._speech import Spoken
from callmemaybe.calls import ToolCall, ToolResult, ToolSpec
from callmemaybe.conversation import Conversation, Ended, Said
from callmemaybe.conversation.loop import (
    Ask,
    Execute,
    Heard,
    Need,
    Reason,
    Reply,
    Rules,
    correction,
    dialogue,
)
from callmemaybe.errors import InputError
from callmemaybe.gateway.provenance import Origin, label
from callmemaybe.wire.choice import wanted
from callmemaybe.wire.writer import Wanted

#: Runs the calls of a turn and returns one result for each.
Execute_ = Callable[[Sequence[ToolCall]], Sequence[ToolResult]]
AsyncExecute = Callable[[Sequence[ToolCall]], Awaitable[Sequence[ToolResult]]]


class Shelf(Protocol):
    """Where tools for a turn come from."""

    def choose(self, conversation: Conversation) -> Sequence[ToolSpec]:
        """Return the tools to offer now."""


@dataclass(frozen=True)
class Ran:
    """What a run came to: the conversation, the last text, why it ended, and each turn.

    ``reason`` is "answered", "asked" (a question back), "steps" (the limit), "repeated" (only calls
    that were made before were left), "length" or "stopped".
    """

    conversation: Conversation
    text: str
    reason: Reason
    turns: tuple[Spoken, ...] = ()


class RunSettings(TypedDict, total=False):
    """The settings of a run, as keywords; see ``Settings``."""

    steps: int
    repeats: int
    clarify: Literal["off", "ask", "model"]
    tool_choice: str | Mapping[str, Any] | None
    parallel: bool
    most_calls: int | None
    plan: bool
    thinking: int
    text: int
    answer: Any


@dataclass(frozen=True)
class Settings:
    """How a run goes: see ``Caller.run``."""

    steps: int = 8
    repeats: int = 1
    clarify: Literal["off", "ask", "model"] = "off"
    tool_choice: str | Mapping[str, Any] | None = None
    parallel: bool = False
    most_calls: int | None = None
    plan: bool = False
    thinking: int = 0
    text: int = 0
    answer: Any = None


@dataclass
class Runner:
    """One run of one conversation."""

    speaker: Speaker
    shelf: Shelf | Sequence[ToolSpec]
    conversation: Conversation
    settings: Settings
    turns: list[Spoken] = field(default_factory=list)
    _offered: Sequence[ToolSpec] = ()

    def run(self, execute: Execute_) -> Ran:
        """Run to the end."""
        loop = self._loop()
        reply: Reply | None = None
        while True:
            try:
                need = loop.send(reply)
            except StopIteration as stopped:
                return self._ran(stopped.value)
            reply = execute(need.calls) if isinstance(need, Execute) else self._heard(need)

    async def arun(self, execute: AsyncExecute) -> Ran:
        """Run to the end; the model computes in a thread, tools are awaited."""
        loop = self._loop()
        reply: Reply | None = None
        while True:
            try:
                need = loop.send(reply)
            except StopIteration as stopped:
                return self._ran(stopped.value)
            if isinstance(need, Execute):
                reply = await execute(need.calls)
            else:
                reply = await asyncio.to_thread(self._heard, need)

    def _loop(self) -> Generator[Need, Reply | None, Reason]:
        own = self.speaker.format.has_ids or self.settings.plan
        rules = Rules(
            self.settings.steps, self.settings.repeats, self.settings.clarify, self._missing
        )
        return dialogue(self.conversation, rules, own_ids=own)

    def _ran(self, reason: Reason) -> Ran:
        last = self.conversation.entries[-1]
        return Ran(self.conversation, getattr(last, "text", ""), reason, tuple(self.turns))

    # -- the model's turns ------------------------------------------------------------------------

    def _heard(self, ask: Ask) -> Heard:
        messages = self.conversation.messages()
        if ask.hint:
            messages.append({"role": "user", "content": ask.hint})
        shelf = self.shelf
        self._offered = shelf if isinstance(shelf, Sequence) else shelf.choose(self.conversation)
        wish = self._wish(ask)
        if self.settings.plan and wish.calls:
            spoken = self.speaker.plan(messages, self._offered, no_call=wish.no_call)
        else:
            spoken = self.speaker.speak(messages, self._offered, wish)
        self.turns.append(spoken)
        ended = Ended.LENGTH if spoken.ended == "length" else Ended.STOP
        return Heard(spoken.text, spoken.calls, ended)

    def _wish(self, ask: Ask) -> Wanted:
        settings = self.settings
        wish = wanted(
            settings.tool_choice,
            has_tools=bool(self._offered),
            parallel=settings.parallel,
            most=settings.most_calls,
            answer=settings.answer,
            thinking=settings.thinking,
            text=settings.text,
        )
        if not ask.may_call:
            return replace(wish, calls=False, no_call=True, only=None, text=0)
        # A call that was required has been made once there is any: then an answer may come.
        return replace(wish, no_call=wish.no_call or bool(self.conversation.ids))

    def _missing(self, call: ToolCall, conversation: Conversation) -> Sequence[str]:
        """Return the required arguments whose values are nowhere in what was said or returned."""
        tool = next(one for one in self._offered if one.name == call.name)
        said = [entry.text for entry in conversation.entries if isinstance(entry, Said)]
        results = [one.content for one in conversation.entries if isinstance(one, ToolResult)]
        arguments = {name: value for name, value in call.parsed.items() if _can_be_said(value)}
        labels = label(arguments, tool.parameters, user=said, untrusted=results)
        invented = {one.pointer for one in labels if one.origin is Origin.UNGROUNDED}
        required = tool.parameters.get("required") or ()
        return [
            name
            for name in arguments
            if name in required
            and any(place == f"/{name}" or place.startswith(f"/{name}/") for place in invented)
        ]


def _can_be_said(value: Any) -> bool:
    """Whether a value would be found in words; true and false are not, nor references."""
    return not isinstance(value, bool) and not (isinstance(value, dict) and "$ref" in value)


def functions(**named: Callable[..., Any]) -> Execute_:
    """Return what runs calls by plain Python functions, one after the other.

    A result that is no text is written as JSON. What a function raises becomes an error that the
    model can correct from. For effects that must not happen twice, use a ``Gateway`` instead.
    """

    def execute(calls: Sequence[ToolCall]) -> list[ToolResult]:
        return [_executed(named, call) for call in calls]

    return execute


def _executed(named: Mapping[str, Callable[..., Any]], call: ToolCall) -> ToolResult:
    function = named.get(call.name)
    if function is None:
        raise InputError(f"there is no function to run {call.name!r}")
    try:
        value = function(**call.parsed)
        content = value if isinstance(value, str) else dumps(value)
    except Exception as error:
        return ToolResult(call.id, correction(error), is_error=True)
    return ToolResult(call.id, content)
