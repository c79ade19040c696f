"""The ledger: one writer thread, group commit, the hash chain.

Operations that
wait together share one transaction; nobody hears of an outcome before it is durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from callmemaybe.gateway.apply import Applier
from callmemaybe.gateway.chain import GENESIS, Head, link
from callmemaybe.gateway.locks import LockTable
from callmemaybe.gateway.store import (
    Admit,
    Ask,
    Backend,
    Batch,
    Beat,
    Confirm,
    Move,
    Operation,
    StoreError,
    StoreFull,
    StoreTransient,
)

_MOST_IN_BATCH = 512
#: Seconds before a store that was away is tried again.
_PAUSE = 0.05
_T = TypeVar("_T")


def _no_probe(_point: str) -> None:
    return None


class _Ticket:
    """One operation on its way, and whoever waits for its outcome."""

    __slots__ = ("deadline", "future", "loop", "operation", "outcome")

    def __init__(self, operation: Operation, patience: float) -> None:
        self.operation = operation
        self.deadline = time.monotonic() + patience
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: Any = None
        self.outcome: Any = None


class _Waiting:
    """A blocking wait for one outcome, for callers without an event loop."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def wait(self) -> None:
        self._event.wait()


class Ledger:
    """A store with its writer. ``probe`` is called at each write point (tests kill there)."""

    def __init__(
        self,
        backend: Backend,
        *,
        lease: float = 30.0,
        heartbeat: float = 5.0,
        anchor: Callable[[Head], None] | None = None,
        anchor_every: float = 10.0,
        probe: Callable[[str], None] = _no_probe,
    ) -> None:
        self.backend = backend
        self.owner = backend.owner
        self.probe = probe
        self.locks = LockTable()
        self.lease = lease
        self._leased_at = _now()
        self._heartbeat = heartbeat
        self._anchor = anchor
        self._anchor_every = anchor_every
        self._anchored = Head(self.owner)
        self._head = Head(self.owner)
        #: Whether a commit may have gone through although its answer did not come.
        self._unsure = False
        self._queue: queue.SimpleQueue[_Ticket | None] = queue.SimpleQueue()
        self._closed = False
        self.commits = 0
        #: Keys that this process admitted or took over and has not recorded yet.
        self.active: set[str] = set()
        self._writer = threading.Thread(target=self._write, name="ledger writer", daemon=True)
        self._keeper_stop = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="ledger keeper", daemon=True)
        # On its own: an anchor lies elsewhere, and what hangs there must not hold up the lease.
        self._noter = threading.Thread(target=self._note, name="ledger anchors", daemon=True)
        with backend.transaction():
            backend.beat(lease)
        self._writer.start()
        self._keeper.start()
        if anchor is not None:
            self._noter.start()

    @property
    def head(self) -> Head:
        """The end of this process's audit chain, as far as it is durable."""
        return self._head

    @property
    def in_lease(self) -> bool:
        """Whether no other process can hold this one for dead, with a margin for what comes next."""
        return _now() - self._leased_at < self.lease / 2

    async def send(self, operation: Operation, patience: float = 10.0) -> Any:
        """Apply an operation; return its outcome once it is durable.

        While the store is away it is sent again for ``patience`` seconds. Raises StoreError.
        """
        ticket = _Ticket(operation, patience)
        ticket.loop = asyncio.get_running_loop()
        ticket.future = ticket.loop.create_future()
        self._put(ticket)
        return await ticket.future

    async def read(self, read: Callable[[], _T], patience: float = 10.0) -> _T:
        """Return what ``read`` finds in the store, which may have to be asked again from the start.

        While the store is away that is done for ``patience`` seconds. Raises StoreError.
        """
        until = time.monotonic() + patience
        while True:
            try:
                return read()
            except StoreTransient:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(_PAUSE)

    def send_and_wait(self, operation: Operation, patience: float = 10.0) -> Any:
        """As :meth:`send`, blocking; not for use inside an event loop."""
        ticket = _Ticket(operation, patience)
        ticket.future = waiting = _Waiting()
        self._put(ticket)
        waiting.wait()
        if isinstance(ticket.outcome, BaseException):
            raise ticket.outcome
        return ticket.outcome

    def send_later(self, operation: Operation) -> None:
        """Apply an operation some time; nobody waits for it."""
        self._put(_Ticket(operation, 10.0))

    def close(self) -> None:
        """Finish what is queued, note the last anchor, release the store.

        Raises what noting the anchor raises, once the store is released.
        """
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        self._keeper_stop.set()
        self._writer.join()
        self._keeper.join()
        if self._anchor is not None:
            self._noter.join()
        try:
            self._note_anchor()
        finally:
            self.backend.close()

    def _put(self, ticket: _Ticket) -> None:
        if self._closed:
            raise StoreError("the ledger is closed")
        self._queue.put(ticket)

    # --- the keeper: leases and anchors -------------------------------------------------------

    def _keep(self) -> None:
        while not self._keeper_stop.wait(self._heartbeat):
            # If this does not get through, the lease lapses; fences keep that safe.
            self._queue.put(_Ticket(Beat(self.lease), 0.0))

    def _note(self) -> None:
        while not self._keeper_stop.wait(self._anchor_every):
            # What fails now is tried again, and told at the end.
            with contextlib.suppress(Exception):
                self._note_anchor()

    def _note_anchor(self) -> None:
        head = self._head
        if self._anchor is not None and head.length > self._anchored.length:
            self._anchor(head)
            self._anchored = head

    # --- the writer ---------------------------------------------------------------------------

    def _write(self) -> None:
        stop = False
        # What a store that is away puts back into the queue is finished, too, before the end.
        while not (stop and self._queue.empty()):
            tickets: list[_Ticket] = []
            item = self._queue.get()
            while True:
                if item is None:
                    stop = True
                    break
                tickets.append(item)
                if len(tickets) >= _MOST_IN_BATCH or self._queue.empty():
                    break
                item = self._queue.get()
            if tickets:
                self._run_batch(tickets)

    def _run_batch(self, tickets: Sequence[_Ticket]) -> None:
        try:
            self._commit(tickets)
        except StoreFull as error:
            self._make_room(tickets, error)
        except StoreTransient as error:
            self._try_again(tickets, error)
        except BaseException as error:
            if len(tickets) > 1:
                for ticket in tickets:
                    self._run_batch([ticket])
            else:
                tickets[0].outcome = error
                _deliver(tickets)
        else:
            _deliver(tickets)

    def _commit(self, tickets: Sequence[_Ticket]) -> None:
        batch = Batch([ticket.operation for ticket in tickets])
        kinds = sorted({_kind(operation) for operation in batch.operations})
        head, began = self._head, _now()
        with self._transaction():
            if self._unsure:
                head = Head(head.chain, *(self.backend.end_of(head.chain) or (0, GENESIS)))
            applier = Applier(self.backend, batch, self.active)
            applier.apply()
            self._point(kinds, "half written")
            head = self._append(head, batch.audit)
            self._point(kinds, "written")
        self._head, self._unsure = head, False
        if any(isinstance(operation, Beat | Confirm) for operation in batch.operations):
            self._leased_at = began
        self.active |= applier.taken
        self.commits += 1
        self._point(kinds, "durable")
        for index, ticket in enumerate(tickets):
            ticket.outcome = batch.outcomes.get(index)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Open a transaction of the store; note if nobody can tell what became of it."""
        try:
            with self.backend.transaction():
                yield
        except StoreTransient:
            self._unsure = True
            raise

    def _append(self, head: Head, records: Sequence[tuple[str, str]]) -> Head:
        if not records:
            return head
        previous, number = head.hash, head.length
        rows = []
        for key, record in records:
            number += 1
            previous = link(previous, head.chain, number, key, record)
            rows.append((head.chain, number, key, record, previous))
        self.backend.append(rows)
        return Head(head.chain, number, previous)

    def _point(self, kinds: Iterable[str], where: str) -> None:
        if self.probe is not _no_probe:
            for kind in kinds:
                self.probe(f"{kind} {where}")

    def _make_room(self, tickets: Sequence[_Ticket], error: StoreFull) -> None:
        """No room: new intents are refused, results get the reserve."""
        results = [ticket for ticket in tickets if not isinstance(ticket.operation, Admit | Ask)]
        refused = [ticket for ticket in tickets if isinstance(ticket.operation, Admit | Ask)]
        for ticket in refused:
            ticket.outcome = error
        _deliver(refused)
        if not results:
            return
        if refused or self.backend.recover_space():
            self._run_batch(results)
        else:
            self._try_again(results, StoreTransient(str(error)))

    def _try_again(self, tickets: Sequence[_Ticket], error: StoreError) -> None:
        now = time.monotonic()
        tired = [ticket for ticket in tickets if ticket.deadline <= now]
        for ticket in tired:
            ticket.outcome = error
        _deliver(tired)
        patient = [ticket for ticket in tickets if ticket.deadline > now]
        if patient:
            time.sleep(_PAUSE)
            for ticket in patient:
                self._queue.put(ticket)


def _now() -> float:
    """Seconds that go on counting while the machine sleeps, as a lease does."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _kind(operation: Operation) -> str:
    if isinstance(operation, Admit):
        return "T1"
    if isinstance(operation, Move):
        return "T2" if operation.starts else "T3"
    return {"Transact": "T3", "Ask": "T0"}.get(type(operation).__name__, "other")


def _deliver(tickets: Sequence[_Ticket]) -> None:
    """Hand the outcomes to those who wait, waking each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[_Ticket]] = {}
    for ticket in tickets:
        if ticket.loop is not None:
            loops.setdefault(ticket.loop, []).append(ticket)
        elif ticket.future is not None:
            ticket.future.set()
    for loop, mine in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, mine)
        except RuntimeError:  # the loop is closed: whoever waited is gone
            continue


def _resolve(tickets: Sequence[_Ticket]) -> None:
    for ticket in tickets:
        if ticket.future.done():
            continue
        if isinstance(ticket.outcome, BaseException):
            ticket.future.set_exception(ticket.outcome)
        else:
            ticket.future.set_result(ticket.outcome)
