"""Work on calls that no caller waits for: take over lost calls, reconcile unknown ones, expire results."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.gateway.answers import CallAnswer, answer_from_row
from callmemaybe.gateway.call_runner import CallRunner
from callmemaybe.gateway.ledger import lease_clock
from callmemaybe.gateway.lifecycle import CallRecord, CallState
from callmemaybe.gateway.services import GatewayServices
from callmemaybe.gateway.store import (
    Admission,
    CallRow,
    ClaimLostCalls,
    ExpireResults,
    ReconcileCall,
)
from callmemaybe.gateway.turn import GatewayTurn
from callmemaybe.jsonio import dumps_result
from callmemaybe.tools import ToolCall


class Recovery:
    """Takes over lost calls, reconciles calls of unknown outcome, expires results."""

    def __init__(self, gateway: GatewayServices) -> None:
        self._gateway = gateway

    async def recover(self) -> int:
        """Take over lost calls and run those that may run again; return how many.

        Calls that were admitted and never started are cancelled once the time of their turn is over.
        """
        gateway = self._gateway
        known = {
            name: entry.definition
            for name, entry in gateway.tools.items()
            # Sensitive arguments are not in the ledger: only a redelivery brings them back.
            if not entry.tool.sensitive
        }
        began = lease_clock()
        now = gateway.ledger.backend.now()
        claim = ClaimLostCalls(known, now, now - gateway.limits.turn)
        taken = await gateway.ledger.send(claim)
        reruns = [self._rerun(one, began) for one in taken]
        outcomes = await asyncio.gather(*reruns, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return len(taken)

    async def _rerun(self, taken: Admission, began: float) -> None:
        gateway, row = self._gateway, taken.row
        assert row is not None
        try:
            run = await gateway.ledger.read(lambda: gateway.begin(row.run, tenant=row.tenant))
        except BaseException:
            # Nothing ran here: a redelivery continues from the row.
            gateway.ledger.active.discard(row.key)
            raise
        call = ToolCall(row.tool, row.arguments, row.call_id)
        turn = GatewayTurn(gateway, run, row.turn, [call], stopped=True, keys=[row.key])
        turn.began = began
        item = turn.items[0]
        item.ordinal, item.row, item.token, item.may_have_run = row.ordinal, row, taken.token, True
        item.entry = gateway.tools[row.tool]
        item.arguments, item.mac = json.loads(row.arguments), row.mac
        item.locks = turn.locks_of(item, item.arguments)
        item.cursor = CallRecord(CallState.RUNNING, row.fence)
        await CallRunner(gateway, turn).one(item)

    async def reconcile(
        self, key: str, outcome: str | None, *, by: str, result: Any
    ) -> tuple[CallAnswer, CallRow]:
        """Record the outcome of an unknown call; return its answer from now on and its row."""
        gateway, backend = self._gateway, self._gateway.ledger.backend
        row = await gateway.ledger.read(lambda: backend.read_call(key))
        if row is None or row.state != CallState.UNKNOWN.value:
            raise InputError("there is no call of unknown outcome with this key", where="key")
        if outcome is None:
            outcome = await self._ask_tool(row)
        if outcome not in {"done", "not_done"}:
            raise InputError(f"{outcome!r} is neither done nor not_done", where="outcome")
        facts: dict[str, Any] = {"ok": outcome == "done"}
        if outcome == "done":
            facts["result"] = json.loads(dumps_result(result, max_depth=gateway.limits.depth))
            facts["detail"] = "found later to have happened"
        else:
            facts |= {"code": "refused", "effect": "none", "retry": "never"}
            facts["detail"] = "found later not to have happened"
        now = backend.now()
        content = json.dumps(facts, ensure_ascii=False)
        record = {"event": "reconcile", "t": now, "outcome": outcome, "by": by, "tool": row.tool}
        record["answer"] = hashlib.sha256(content.encode()).hexdigest()
        await gateway.ledger.send(
            ReconcileCall(key, outcome, by, now, content, json.dumps(record, ensure_ascii=False))
        )
        stored = await gateway.ledger.read(lambda: backend.read_reconciliation(key))
        assert stored is not None
        return answer_from_row(row.call_id, row, stored[1]), row

    async def _ask_tool(self, row: CallRow) -> str:
        entry = self._gateway.tools.get(row.tool)
        if entry is None or entry.tool.reconcile is None:
            raise InputError(
                "the tool cannot tell what became of it", where="key", hint="say done or not_done"
            )
        found = entry.tool.reconcile(row.key)
        if inspect.isawaitable(found):
            found = await found
        if not isinstance(found, bool):
            raise InputError("the tool does not know either", where="key", hint="ask a person")
        return "done" if found else "not_done"

    async def expire(self) -> int:
        """Drop results older than the retention; return how many."""
        now = self._gateway.ledger.backend.now()
        before = now - self._gateway.limits.retention
        record = json.dumps({"event": "expire", "t": now, "before": before})
        count = await self._gateway.ledger.send(ExpireResults(before, record))
        return int(count)
