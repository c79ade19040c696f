"""Turns the intent to call a tool into an effect, at most once, with evidence.

The problem: a process can die between any two instructions, so an effect outside the database cannot be
run "exactly once". What is possible is an order of writes. The intent is on disk before the effect
(T1, T2), the result is on disk before its answer is given (T3), and a call whose outcome was not seen is
known to be unknown: it runs again only if its effect class allows that.

The data structures:

- A table of transitions for one call (``lifecycle.TABLE``). It is data: the docs show it, and the tests
  search every state that it can reach. ``CallRecord`` is a cursor over it.
- An append-only audit log, one hash chain per writing process (``audit.chain``).
- Rows that are locks: a row in state ``running`` holds the resources that are written in it, so a lock
  cannot outlive its call and no second record can disagree (``locks``). A fence number in the row makes
  every later write a compare-and-set; a process that lost its lease cannot record a result.

The order of the files is the order of a call: ``gateway`` (front door) -> ``turn`` (validate, authorise, T1)
-> ``call_runner`` (T2, attempts, T3) -> ``execution`` (one attempt) -> ``answers`` (what the model reads).
``ledger`` owns the writer thread, ``apply`` decides what each operation does in its transaction,
``store`` holds the SQL, one file per database. ``policy``, ``plan``, ``listed``, ``keys``, ``limits`` and
``redact`` are pure functions and tables: no clock, no randomness, no thread.

The room knows no model, token, grammar or array. A tool's failure is a value (``CallAnswer``); a failure of
the ledger is an exception (``StoreError``).
"""

from __future__ import annotations

from callmemaybe.errors import StoreError, StoreFull, StoreTransient
from callmemaybe.gateway.answers import CODES, CallAnswer
from callmemaybe.gateway.gateway import Approver, Gateway
from callmemaybe.gateway.ledger import open_ledger
from callmemaybe.gateway.limits import GatewayLimits
from callmemaybe.gateway.policy import CAREFUL, OPEN, Policy, Verdict
from callmemaybe.gateway.run import Run
from callmemaybe.gateway.store import Approval

__all__ = [
    "CAREFUL",
    "CODES",
    "OPEN",
    "Approval",
    "Approver",
    "CallAnswer",
    "Gateway",
    "GatewayLimits",
    "Policy",
    "Run",
    "StoreError",
    "StoreFull",
    "StoreTransient",
    "Verdict",
    "open_ledger",
]
