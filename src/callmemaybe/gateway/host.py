"""What a turn, its runner and the recovery may ask of the gateway that drives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from callmemaybe.gateway.codes import Answer
from callmemaybe.gateway.executor import Executor
from callmemaybe.gateway.keys import Mac
from callmemaybe.gateway.ledger import Ledger
from callmemaybe.gateway.limits import Bucket, Limits
from callmemaybe.gateway.locks import LockTable
from callmemaybe.gateway.observe import Observer
from callmemaybe.gateway.registry import Registered, Secrets
from callmemaybe.gateway.run import Run
from callmemaybe.gateway.store import Approval, Move, Row
from callmemaybe.tools import ToolCall


class Host(Protocol):
    """The gateway, as its own parts see it."""

    limits: Limits
    ledger: Ledger
    mac: Mac
    locks: LockTable
    bucket: Bucket
    executor: Executor
    secrets: Secrets
    observer: Observer | None
    dice: Callable[[], float]
    new_id: Callable[[], str]
    monotonic: Callable[[], float]

    @property
    def tools(self) -> Mapping[str, Registered]:
        """The registered tools by name."""

    @property
    def asks(self) -> bool:
        """Whether somebody is there to decide on approvals."""

    def begin(
        self,
        run: str | None = None,
        *,
        tenant: str = "",
        user: Sequence[str] = (),
        tools: Iterable[str] | None = None,
    ) -> Run:
        """Begin or resume a run."""

    async def consult(self, approval: Approval, call: ToolCall) -> Approval:
        """Ask the approver, and record what it says."""

    def replayed(self, call_id: str, row: Row) -> Answer:
        """Build the answer that the ledger holds."""

    def remember(self, text: str, mac: str, answer: Answer) -> None:
        """Keep a finished answer at hand."""

    def keep_trying(self, move: Move) -> None:
        """Offer a result to the ledger until it takes it."""
