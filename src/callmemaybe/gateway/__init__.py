"""Turns the intent to call a tool into an effect, at most once, with evidence.

Rules of this room: what a call may do next is a table (``lifecycle``); intent is on disk before the
effect and the result before anyone is told; an outcome that was not seen is never silently run
again; a tool's failure is a value (``Answer``), ours an exception. It knows no model, token, grammar
or array; ``gateway`` is the only module that waits.
"""

from __future__ import annotations

from callmemaybe.gateway.codes import CODES, Answer
from callmemaybe.gateway.gateway import Approver, Gateway
from callmemaybe.gateway.limits import Limits
from callmemaybe.gateway.policy import CAREFUL, OPEN, Policy, Verdict
from callmemaybe.gateway.run import Run
from callmemaybe.gateway.store import Approval, StoreError, StoreFull, StoreTransient

__all__ = [
    "CAREFUL",
    "CODES",
    "OPEN",
    "Answer",
    "Approval",
    "Approver",
    "Gateway",
    "Limits",
    "Policy",
    "Run",
    "StoreError",
    "StoreFull",
    "StoreTransient",
    "Verdict",
]
