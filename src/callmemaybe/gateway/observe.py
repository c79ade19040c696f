"""Who may watch a gateway work: one seam, two methods. It sees no arguments unless it asks for them."""

from __future__ import annotations

from typing import Protocol

from callmemaybe.gateway.codes import Answer
from callmemaybe.tools import ToolCall


class Observer(Protocol):
    """Told when a call is admitted and when its answer is durable; must not raise or block."""

    def started(self, call: ToolCall, *, key: str, run: str, effect: str) -> None:
        """Note that the call's intent is on disk; it runs now or when its turn comes."""

    def finished(self, call: ToolCall, answer: Answer) -> None:
        """Note that the call has its answer."""
