"""Waiting for what others do: a call that runs elsewhere, a person's decision; and going on after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from callmemaybe.errors import InputError
from callmemaybe.gateway.answers import CallAnswer, failure_answer
from callmemaybe.gateway.keys import call_key
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.gateway.recorded import TurnRow, read_calls
from callmemaybe.gateway.services import GatewayServices
from callmemaybe.gateway.store import Approval
from callmemaybe.tools import Effect, ToolCall

_Found = TypeVar("_Found")
#: Seconds between the first two looks into the ledger, and the most between any two.
_FIRST_LOOK, _MAX_LOOK = 0.005, 0.5


async def answer_of(gateway: GatewayServices, key: str, seconds: float) -> CallAnswer:
    """Return the answer of a call once it has ended; ``in_flight`` if it has not after ``seconds``."""
    ledger = gateway.ledger

    def look() -> CallAnswer | None:
        row = ledger.backend.read_call(key)
        if row is None:
            raise InputError("no call with this key was admitted", where="key")
        return None if row.ended is None else gateway.answer_from_ledger(row.call_id, row)

    found = await _poll(gateway, lambda: ledger.read(look), seconds)
    if found is not None:
        return found
    row = await ledger.read(lambda: ledger.backend.read_call(key))
    assert row is not None, "rows are not deleted"
    return failure_answer(
        row.call_id, "in_flight", CallState(row.state), key=key, effect_class=Effect(row.effect),
        detail="it has not ended yet",
    )  # fmt: skip


async def decision_on(gateway: GatewayServices, approval: str, seconds: float | None) -> Approval:
    """Return an approval once it is decided or expired, or as it is after ``seconds``."""
    ledger = gateway.ledger

    def look() -> Approval:
        found = ledger.backend.read_approval(approval)
        if found is None:
            raise InputError(f"there is no approval {approval!r}", where="approval")
        return found

    async def decided() -> Approval | None:
        found = await ledger.read(look)
        is_over = found.decision is not None or found.expires <= ledger.backend.now()
        return found if is_over else None

    found = await _poll(gateway, decided, seconds)
    return await ledger.read(look) if found is None else found


async def _poll(
    gateway: GatewayServices, look: Callable[[], Awaitable[_Found | None]], seconds: float | None
) -> _Found | None:
    until = None if seconds is None else gateway.monotonic() + seconds
    pause = _FIRST_LOOK
    while (found := await look()) is None:
        left = _MAX_LOOK if until is None else until - gateway.monotonic()
        if left <= 0:
            return None
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, _MAX_LOOK)
    return found


def recorded_turn(gateway: GatewayServices, approval: str) -> tuple[Approval, int, list[ToolCall]]:
    """Return an approval, and the number and the calls of the turn that asked for it.

    Raises InputError if there is no such approval, or if the ledger does not have all of that turn.
    """
    backend = gateway.ledger.backend
    found = backend.read_approval(approval)
    if found is None:
        raise InputError(f"there is no approval {approval!r}", where="approval")
    for number in reversed(range(backend.next_turn(found.tenant, found.run))):
        row = backend.read_turn(found.tenant, found.run, number)
        if row is not None and found.key in _keys_of(row):
            return found, number, _calls_of(gateway, row)
    raise InputError(
        "the ledger does not have the turn that asked for it", where=f"approval {approval}",
        hint="deliver the calls again under the same run and turn",
    )  # fmt: skip


def _keys_of(row: TurnRow) -> list[str]:
    keys = []
    for ordinal, call in enumerate(read_calls(row)):
        _, _, named = call.mac.partition(" ")
        keys.append(named or call_key(row.tenant, row.run, row.turn, ordinal, call.tool))
    return keys


def _calls_of(gateway: GatewayServices, row: TurnRow) -> list[ToolCall]:
    calls = []
    for call in read_calls(row):
        entry = gateway.tools.get(call.tool)
        is_named = " " in call.mac and (entry is None or entry.tool.idempotency_key is None)
        if is_named or (call.arguments is None and not call.is_open):
            why = "a key of its own" if is_named else "arguments that the ledger does not keep"
            raise InputError(
                f"its turn calls {call.tool!r} with {why}",
                where=f"turn {row.turn} of run {row.run!r}",
                hint="deliver the calls again under the same run and turn",
            )
        # What was rejected as it was written, and could not be read, is rejected again.
        calls.append(ToolCall(call.tool, call.arguments or "", call.call_id))
    return calls
