"""Limits of sizes and times, and the schedule of retries. Pure: random numbers are arguments."""

from __future__ import annotations

from dataclasses import dataclass

from callmemaybe.errors import InputError


@dataclass(frozen=True)
class GatewayLimits:
    """Every limit of a gateway. Times are seconds, sizes are bytes."""

    turn: float = 60.0
    """Time for all calls of a turn."""
    queue: float = 10.0
    """Time that a call waits for its locks."""
    attempt: float = 30.0
    """Time for one attempt of a tool that declares no timeout of its own."""
    reserve: float = 0.5
    """Part of the turn's time that is reserved for recording the result."""
    approval: float = 24 * 3600.0
    """Time until an approval expires."""
    calls: int = 32
    """Calls per turn."""
    arguments: int = 64 * 1024
    """Size of a call's arguments."""
    depth: int = 64
    """Nesting of arguments and results, in levels."""
    result: int = 256 * 1024
    """Size of a result in the ledger."""
    answer: int = 16 * 1024
    """Size of a result in the answer for the model."""
    attempts: int = 3
    """Attempts per call."""
    retention: float = 30 * 24 * 3600.0
    """Time until :meth:`Gateway.expire` drops a result."""
    lease: float = 30.0
    """Time after the last heartbeat until a process counts as dead."""
    heartbeat: float = 5.0
    """Time between two renewals of the lease."""
    anchor: float = 10.0
    """Time between two anchors of the audit chain."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise InputError("a limit must be positive", where=f"limits.{name}")
        if self.heartbeat * 2 > self.lease:
            raise InputError(
                "a lease must outlast two heartbeats",
                where="limits.heartbeat",
                hint="raise lease or lower heartbeat",
            )


DEFAULT_LIMITS = GatewayLimits()


def backoff(attempt: int, draw: float, *, base: float = 0.25, most: float = 8.0) -> float:
    """Return the seconds to wait after failed attempt number ``attempt`` (from 1).

    Full jitter: ``draw``, uniform in [0, 1), times min(most, base * 2**attempt). After M. Brooker,
    "Exponential Backoff And Jitter", 2015.
    """
    return float(draw * min(most, base * 2**attempt))
