"""The ledger: a store with one writer thread, group commit, and the hash chain of this process.

Operations that wait in the queue together share one transaction (group commit). A future is resolved only
after the commit, so nobody learns of an outcome before it is durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import json
import logging
import os
import queue
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from callmemaybe.errors import InputError, StoreError, StoreFull, StoreTransient
from callmemaybe.gateway.apply import Applier
from callmemaybe.gateway.audit.chain import ChainHead, record_hash
from callmemaybe.gateway.keys import Mac
from callmemaybe.gateway.ledger_key import ENVIRONMENT_VARIABLE, check_value, read_key
from callmemaybe.gateway.limits import DEFAULT_LIMITS, GatewayLimits
from callmemaybe.gateway.locks import LockTable
from callmemaybe.gateway.store import (
    AdmitCalls,
    ClaimKey,
    ConfirmOwnership,
    DecideApproval,
    LedgerOperation,
    OpenTurn,
    OperationBatch,
    ReconcileCall,
    RenewLease,
    RequestApproval,
    RunInTransaction,
    StoreBackend,
    UpdateCall,
    open_backend,
)
from callmemaybe.tools import Effect

_LOG = logging.getLogger("callmemaybe.gateway")
_MAX_BATCH = 512
#: Seconds until an unavailable store is tried again.
_RETRY_PAUSE = 0.05
_T = TypeVar("_T")


def _no_probe(_point: str) -> None:
    return None


_FORKED = "this ledger was opened before a fork and belongs to the parent: open one after the fork"


class _ForkedStore:
    """What a forked child has in place of its parent's store: every use is refused."""

    def __init__(self, owner: str) -> None:
        self.owner = owner

    def __getattr__(self, name: str) -> Any:
        raise StoreError(_FORKED)


class _QueuedOperation:
    """An operation in the writer's queue, with the future or waiter for its outcome."""

    __slots__ = ("deadline", "future", "loop", "operation", "outcome")

    def __init__(self, operation: LedgerOperation, patience: float) -> None:
        self.operation = operation
        self.deadline = time.monotonic() + patience
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: Any = None
        self.outcome: Any = None


class _BlockingWaiter:
    """A blocking wait for one outcome, for callers without an event loop."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def wait(self) -> None:
        self._event.wait()


class Ledger:
    """A store with its writer thread, its lease, and the locks of this process.

    ``lease`` and ``heartbeat`` are seconds. ``anchor`` is called with the end of the audit chain every
    ``anchor_every`` seconds and on close; with ``anchor_effects`` also when a call of such an effect class is
    admitted and when it ends, before anybody hears of it: if the anchor fails then, the call does not run. ``probe`` is called with the name of each write point (see
    ``callmemaybe.testing.effects.WRITE_POINTS``): tests kill the process there.
    """

    def __init__(
        self,
        backend: StoreBackend,
        *,
        lease: float = 30.0,
        heartbeat: float = 5.0,
        anchor: Callable[[ChainHead], None] | None = None,
        anchor_every: float = 10.0,
        anchor_effects: Collection[Effect] = (),
        probe: Callable[[str], None] = _no_probe,
        key: Path | None = None,
    ) -> None:
        self.backend = backend
        self.owner = backend.owner
        self.probe = probe
        self._key = key
        self.locks = LockTable()
        self.lease = lease
        self._leased_at = self._held_since = lease_clock()
        #: How often a lapsed lease was renewed.
        self.lapses = 0
        self._heartbeat = heartbeat
        self._anchor = anchor
        self._anchor_every = anchor_every
        self._anchored = ChainHead(self.owner)
        self._anchor_effects = frozenset(effect.value for effect in anchor_effects)
        self._anchored_calls: set[str] = set()
        self._anchoring = threading.Lock()
        self._head = ChainHead(self.owner)
        #: Whether the last transaction failed, perhaps after its commit: the end of the chain is read again.
        self._commit_in_doubt = False
        self._queue: queue.SimpleQueue[_QueuedOperation | None] = queue.SimpleQueue()
        self._closed = False
        self.commits = 0
        #: Keys that this process admitted or took over and has not recorded the end of.
        self.active: set[str] = set()
        self._writer = threading.Thread(target=self._write, name="ledger writer", daemon=True)
        self._stop = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="ledger lease", daemon=True)
        # A thread of its own: an anchor that hangs must not delay the renewal of the lease.
        self._anchorer = threading.Thread(
            target=self._anchor_regularly, name="ledger anchors", daemon=True
        )
        with backend.transaction():
            backend.renew_lease(lease)
        _open_ledgers.add(self)
        self._writer.start()
        self._heart.start()
        if anchor is not None:
            self._anchorer.start()

    @property
    def head(self) -> ChainHead:
        """The end of this process's audit chain, as far as it is durable."""
        return self._head

    @functools.cached_property
    def mac(self) -> Mac:
        """The HMAC over arguments, with the key that this ledger was begun with.

        Raises InputError if the key cannot be read or is another one, StoreError if the ledger cannot be written.
        """
        if self.backend.is_private:  # nobody else will ever read it
            return Mac(secrets.token_bytes(32))
        key = read_key(self._key)
        check = check_value(key)
        known = self.send_and_wait(ClaimKey(check))
        if known != check:
            raise InputError(
                f"the ledger was begun with another key (check value {known}) than this process has ({check})",
                where="the ledger's key",
                hint=f"name the file of the other with {ENVIRONMENT_VARIABLE}; if it is lost, `callmemaybe"
                " audit rekey` goes on with this one",
            )
        return Mac(key)

    def replace_key(self) -> str:
        """Go on with the key that this process has; return its check value.

        Calls that were recorded under the other key are not recognised when they are delivered again: they are a
        ``key_conflict``, and approvals that wait are asked for anew.
        """
        check = check_value(read_key(self._key))
        record = json.dumps({"event": "replace key", "t": self.backend.now(), "check": check})
        self.send_and_wait(ClaimKey(check, replace=True, record=record))
        return check

    def has_held_lease(self, since: float) -> bool:
        """Whether no other process can have considered this one lost since ``since`` (see :func:`lease_clock`).

        So long the lease never lapsed, and now less than half of it is used.
        """
        return self._held_since <= since and lease_clock() - self._leased_at < self.lease / 2

    async def send(self, operation: LedgerOperation, patience: float = 10.0) -> Any:
        """Apply an operation; return its outcome once it is durable.

        While the store is unavailable the operation is retried for ``patience`` seconds. Raises StoreError.
        """
        entry = _QueuedOperation(operation, patience)
        entry.loop = asyncio.get_running_loop()
        entry.future = entry.loop.create_future()
        self._put(entry)
        return await entry.future

    async def read(self, read: Callable[[], _T], patience: float = 10.0) -> _T:
        """Return ``read()``, a function that reads from the store.

        While the store is unavailable it is called again for ``patience`` seconds. Raises StoreError.
        """
        until = time.monotonic() + patience
        while True:
            try:
                return read()
            except StoreTransient:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(_RETRY_PAUSE)

    def send_and_wait(self, operation: LedgerOperation, patience: float = 10.0) -> Any:
        """As :meth:`send`, blocking; not for use in an event loop."""
        entry = _QueuedOperation(operation, patience)
        entry.future = waiting = _BlockingWaiter()
        self._put(entry)
        waiting.wait()
        if isinstance(entry.outcome, BaseException):
            raise entry.outcome
        return entry.outcome

    def close(self) -> None:
        """Apply what is queued, write the last anchor, release the store.

        Raises what the anchor raises, after the store is released.
        """
        if self._closed or isinstance(self.backend, _ForkedStore):
            return
        self._closed = True
        self._queue.put(None)
        self._stop.set()
        self._writer.join()
        self._heart.join()
        if self._anchor is not None:
            self._anchorer.join()
        _open_ledgers.discard(self)
        try:
            self._write_anchor()
        finally:
            self.backend.close()

    def abandon(self) -> None:
        """Forget the store in a forked child: the writer stayed in the parent, and so do the connections."""
        # Nothing may close them here, not even the end of the interpreter.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.backend))
        alive, self.backend = self.backend.alive, cast("StoreBackend", _ForkedStore(self.owner))
        if alive is not None:
            os.close(alive)  # the child is no sign that its parent lives

    def _put(self, entry: _QueuedOperation) -> None:
        if isinstance(self.backend, _ForkedStore):
            raise StoreError(_FORKED)
        if self._closed:
            raise StoreError("the ledger is closed")
        self._queue.put(entry)

    # --- leases and anchors -------------------------------------------------------------------

    def _beat(self) -> None:
        while not self._stop.wait(self._heartbeat):
            # If this fails, the lease lapses; the fences make that safe.
            self._queue.put(_QueuedOperation(RenewLease(), 0.0))

    def _anchor_regularly(self) -> None:
        while not self._stop.wait(self._anchor_every):
            # A failure is tried again; the last one is raised by close().
            with contextlib.suppress(Exception):
                self._write_anchor()

    def _write_anchor(self) -> None:
        with self._anchoring:
            head = self._head
            if self._anchor is not None and head.length > self._anchored.length:
                self._anchor(head)
                self._anchored = head

    def _anchor_calls(self, queued: Sequence[_QueuedOperation]) -> None:
        """Write an anchor if the batch admitted or ended a call that matters; refuse what it admitted if that fails."""
        admits, matters = [], False
        for entry in queued:
            operation = entry.operation
            if isinstance(operation, AdmitCalls):
                rows = [p.row for p in operation.proposals if p.row.effect in self._anchor_effects]
                self._anchored_calls |= {row.key for row in rows}
                if rows:
                    admits.append(entry)
            elif isinstance(operation, RunInTransaction):
                matters |= Effect.TRANSACTIONAL.value in self._anchor_effects
            elif isinstance(operation, UpdateCall):
                matters |= operation.key in self._anchored_calls
                if operation.ended is not None:
                    self._anchored_calls.discard(operation.key)
            else:
                matters |= isinstance(operation, ReconcileCall | DecideApproval)
        if not (admits or matters):
            return
        try:
            self._write_anchor()
        except Exception as error:
            _LOG.exception("an anchor of the audit cannot be written")
            for entry in admits:
                entry.outcome = StoreError(f"the anchor of the audit cannot be written: {error}")

    # --- the writer ---------------------------------------------------------------------------

    def _write(self) -> None:
        stop = False
        # Operations that an unavailable store puts back into the queue are applied before the end, too.
        while not (stop and self._queue.empty()):
            queued: list[_QueuedOperation] = []
            item = self._queue.get()
            while True:
                if item is None:
                    stop = True
                    break
                queued.append(item)
                if len(queued) >= _MAX_BATCH or self._queue.empty():
                    break
                item = self._queue.get()
            if queued:
                self._run_batch(queued)

    def _run_batch(self, queued: Sequence[_QueuedOperation]) -> None:
        try:
            self._commit(queued)
        except StoreFull as error:
            self._make_room(queued, error)
        except StoreTransient as error:
            self._retry(queued, error)
        except BaseException as error:
            if len(queued) > 1:
                for entry in queued:
                    self._run_batch([entry])
            else:
                queued[0].outcome = error
                _deliver(queued)
        else:
            if self._anchor_effects and self._anchor is not None:
                self._anchor_calls(queued)
            _deliver(queued)

    def _commit(self, queued: Sequence[_QueuedOperation]) -> None:
        batch = OperationBatch([entry.operation for entry in queued])
        kinds = sorted({_write_point(operation) for operation in batch.operations})
        head, began = self._head, lease_clock()
        # Nothing starts without a lease: whoever reads the row of a start finds the owner alive.
        renews = not self.has_held_lease(began) or any(
            isinstance(operation, RenewLease | ConfirmOwnership) for operation in batch.operations
        )
        with self._transaction():
            written: set[tuple[str, str]] = set()
            if self._commit_in_doubt:
                for _, length, key, record, digest in self.backend.chain_after(
                    head.chain, head.length
                ):
                    head = ChainHead(head.chain, length, digest)
                    written.add((key, record))
            lease = self.lease if renews else None
            applier = Applier(self.backend, batch, self.active, lease, written)
            applier.apply()
            self._point(kinds, "half written")
            head = self._append(head, batch.audit)
            self._point(kinds, "written")
        self._head, self._commit_in_doubt = head, False
        if renews:
            self._leased_at = began
        if applier.lapsed:
            self._held_since = began
            self.lapses += 1
        self.active |= applier.taken
        self.commits += 1
        self._point(kinds, "durable")
        for index, entry in enumerate(queued):
            entry.outcome = batch.outcomes.get(index)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Open a transaction of the store; after any failure it is in doubt what was committed."""
        try:
            with self.backend.transaction():
                yield
        except BaseException:
            self._commit_in_doubt = True
            raise

    def _append(self, head: ChainHead, records: Sequence[tuple[str, str]]) -> ChainHead:
        if not records:
            return head
        previous, number = head.hash, head.length
        rows = []
        for key, record in records:
            number += 1
            previous = record_hash(previous, head.chain, number, key, record)
            rows.append((head.chain, number, key, record, previous))
        self.backend.append_audit(rows)
        return ChainHead(head.chain, number, previous)

    def _point(self, kinds: Iterable[str], where: str) -> None:
        if self.probe is not _no_probe:
            for kind in kinds:
                self.probe(f"{kind} {where}")

    def _make_room(self, queued: Sequence[_QueuedOperation], error: StoreFull) -> None:
        """Handle a full disk: refuse new intents, free the reserve for results."""
        intents = AdmitCalls | OpenTurn | RequestApproval
        results = [entry for entry in queued if not isinstance(entry.operation, intents)]
        refused = [entry for entry in queued if isinstance(entry.operation, intents)]
        for entry in refused:
            entry.outcome = error
        _deliver(refused)
        if not results:
            return
        if refused or self.backend.release_reserve():
            self._run_batch(results)
        else:
            self._retry(results, StoreTransient(str(error)))

    def _retry(self, queued: Sequence[_QueuedOperation], error: StoreError) -> None:
        at = time.monotonic()
        expired = [entry for entry in queued if entry.deadline <= at]
        for entry in expired:
            entry.outcome = error
        _deliver(expired)
        remaining = [entry for entry in queued if entry.deadline > at]
        if remaining:
            time.sleep(_RETRY_PAUSE)
            for entry in remaining:
                self._queue.put(entry)


_open_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _abandon_all() -> None:
    for ledger in list(_open_ledgers):
        ledger.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


def lease_clock() -> float:
    """Return seconds of a clock that counts while the machine sleeps, as a lease must."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _write_point(operation: LedgerOperation) -> str:
    if isinstance(operation, AdmitCalls):
        return "T1"
    if isinstance(operation, UpdateCall):
        return "T2" if operation.starts else "T3"
    if isinstance(operation, RunInTransaction):
        return "T3"
    return "T0" if isinstance(operation, OpenTurn | RequestApproval) else "other"


def _deliver(queued: Sequence[_QueuedOperation]) -> None:
    """Resolve the futures of these operations, waking each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[_QueuedOperation]] = {}
    for entry in queued:
        if entry.loop is not None:
            loops.setdefault(entry.loop, []).append(entry)
        elif entry.future is not None:
            entry.future.set()
    for loop, mine in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, mine)
        except RuntimeError:  # the loop is closed, so nobody waits any more
            continue


def _resolve(queued: Sequence[_QueuedOperation]) -> None:
    for entry in queued:
        if entry.future.done():
            continue
        if isinstance(entry.outcome, BaseException):
            entry.future.set_exception(entry.outcome)
        else:
            entry.future.set_result(entry.outcome)


def open_ledger(
    store: str,
    limits: GatewayLimits = DEFAULT_LIMITS,
    *,
    anchor: Callable[[ChainHead], None] | None = None,
    anchor_effects: Collection[Effect] = (),
    probe: Callable[[str], None] | None = None,
    key: Path | None = None,
    **options: Any,
) -> Ledger:
    """Open the ledger at ``store`` (see :func:`~callmemaybe.gateway.store.open_backend`) with its writer.

    ``anchor`` is called with the end of the audit chain every ``limits.anchor`` seconds and on close, and before
    and after each call of ``anchor_effects``, which does not run if the anchor fails.
    ``probe`` is called at each write point; ``key`` is a file with the key of the HMACs (see
    :func:`~callmemaybe.gateway.ledger_key.read_key`); ``options`` are those of the store. Raises StoreError.
    """
    more: dict[str, Any] = {} if probe is None else {"probe": probe}
    return Ledger(
        open_backend(store, **options),
        lease=limits.lease,
        heartbeat=limits.heartbeat,
        anchor=anchor,
        anchor_every=limits.anchor,
        anchor_effects=anchor_effects,
        key=key,
        **more,
    )
