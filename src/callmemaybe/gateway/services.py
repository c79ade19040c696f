"""The interfaces around the gateway: what its parts may use of it, and what an observer sees."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol

from callmemaybe.gateway.answers import CallAnswer
from callmemaybe.gateway.execution.executor import ToolExecutor
from callmemaybe.gateway.keys import Mac
from callmemaybe.gateway.ledger import Ledger
from callmemaybe.gateway.limits import GatewayLimits
from callmemaybe.gateway.locks import LockTable
from callmemaybe.gateway.registry import RegisteredTool, SecretSource
from callmemaybe.gateway.run import Run
from callmemaybe.gateway.store import Approval, CallRow, UpdateCall
from callmemaybe.tools import ToolCall


class GatewayServices(Protocol):
    """The gateway as GatewayTurn, CallRunner and Recovery use it."""

    limits: GatewayLimits
    ledger: Ledger
    mac: Mac
    locks: LockTable
    executor: ToolExecutor
    secrets: SecretSource
    observer: GatewayObserver | None
    rng: Callable[[], float]
    new_id: Callable[[], str]
    monotonic: Callable[[], float]

    @property
    def tools(self) -> Mapping[str, RegisteredTool]:
        """The registered tools by name."""

    @property
    def has_approver(self) -> bool:
        """Whether an approver decides on approvals while the turn waits."""

    def begin(
        self,
        run: str | None = None,
        *,
        tenant: str = "",
        user: Sequence[str] = (),
        tools: Iterable[str] | None = None,
    ) -> Run:
        """Begin or resume a run."""

    async def ask_approver(self, approval: Approval, call: ToolCall) -> Approval:
        """Ask the approver; record and return its decision."""

    def answer_from_ledger(self, call_id: str, row: CallRow) -> CallAnswer:
        """Return the answer of a terminal row, or that of its reconciliation."""

    def cache_answer(self, text: str, mac: str, answer: CallAnswer) -> None:
        """Cache the answer of a call that ended; ``text`` and ``mac`` are of its arguments."""

    def record_in_background(self, update: UpdateCall) -> None:
        """Send a result to the ledger again until it is recorded."""

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` beside the turns; cancel it when the gateway has waited for it while closing."""


class GatewayObserver(Protocol):
    """Called when a call is admitted and when its answer is durable.

    Plain methods that return at once: what they raise is logged and changes nothing, and while one blocks, all wait.
    """

    def started(self, call: ToolCall, *, key: str, run: str, effect: str) -> None:
        """Observe that the call's intent is on disk; it runs now or once its locks are free."""

    def finished(self, call: ToolCall, answer: CallAnswer) -> None:
        """Observe that the call has its answer."""
