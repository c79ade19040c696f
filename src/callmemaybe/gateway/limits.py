"""Limits and flow control: sizes and times, the retry schedule, the circuit breaker, the token bucket.

Pure: time and random numbers are arguments.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

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


@dataclass
class TokenBucket:
    """A token bucket for retries: holds up to ``size`` tokens, refilled at ``rate`` per second."""

    size: float = 10.0
    rate: float = 1.0
    _level: float = field(default=-1.0, repr=False)
    _at: float = field(default=0.0, repr=False)

    def take(self, now: float) -> bool:
        """Take one token; False if there is none. ``now`` is in seconds and never decreases."""
        if self._level < 0:
            self._level, self._at = self.size, now
        self._level = min(self.size, self._level + (now - self._at) * self.rate)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True


@dataclass
class CircuitBreaker:
    """A circuit breaker for one tool. It saves work; correctness never depends on it.

    It opens when at least ``share`` of at least ``least`` outcomes of the last ``window`` seconds are
    failures. While it is open, one probe may start every ``rest`` seconds.
    """

    share: float = 0.5
    least: int = 20
    window: float = 30.0
    rest: float = 30.0
    _outcomes: deque[tuple[float, bool]] = field(default_factory=deque, repr=False)
    _failures: int = field(default=0, repr=False)
    _opened: float | None = field(default=None, repr=False)
    _probing: float | None = field(default=None, repr=False)

    def allows(self, now: float) -> bool:
        """Whether a call may start now; while the breaker is open, the call is its probe."""
        if self._opened is None:
            return True
        since = self._opened if self._probing is None else self._probing
        if now - since < self.rest:
            return False
        self._probing = now
        return True

    @property
    def is_open(self) -> bool:
        """Whether calls are refused."""
        return self._opened is not None

    def record(self, now: float, ok: bool) -> None:
        """Record how a call ended. A successful probe closes the breaker, a failed one restarts the wait."""
        if self._opened is not None:
            if ok and self._probing is not None:
                self._opened = self._probing = None
                self._outcomes.clear()
                self._failures = 0
            elif not ok:
                self._opened, self._probing = now, None
            return
        self._outcomes.append((now, ok))
        self._failures += not ok
        while self._outcomes and self._outcomes[0][0] < now - self.window:
            self._failures -= not self._outcomes.popleft()[1]
        if len(self._outcomes) >= self.least and self._failures >= self.share * len(self._outcomes):
            self._opened, self._probing = now, None
