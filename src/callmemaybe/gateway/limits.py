"""How much, how long and how often: the limits, the retry schedule, the breaker, the token bucket.

Pure: the time and the random number are handed in.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from callmemaybe.errors import InputError


@dataclass(frozen=True)
class Limits:
    """Every limit of a gateway. Seconds and bytes."""

    turn: float = 60.0
    queue: float = 10.0
    attempt: float = 30.0
    reserve: float = 0.5
    """Kept of the turn's time for recording the result."""
    approval: float = 24 * 3600.0
    calls: int = 32
    arguments: int = 64 * 1024
    depth: int = 64
    result: int = 256 * 1024
    told: int = 16 * 1024
    attempts: int = 3
    retention: float = 30 * 24 * 3600.0
    lease: float = 30.0
    heartbeat: float = 5.0
    anchor: float = 10.0

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


DEFAULTS = Limits()


def backoff(attempt: int, dice: float, *, base: float = 0.25, most: float = 8.0) -> float:
    """Return the seconds to wait after failed attempt number ``attempt`` (from 1); ``dice`` in [0, 1).

    Full jitter: uniform in [0, min(most, base * 2**attempt)). After M. Brooker, "Exponential
    Backoff And Jitter", 2015.
    """
    return float(dice * min(most, base * 2**attempt))


@dataclass
class Bucket:
    """A token bucket for retries: ``size`` at once, refilled at ``rate`` per second."""

    size: float = 10.0
    rate: float = 1.0
    _level: float = field(default=-1.0, repr=False)
    _at: float = field(default=0.0, repr=False)

    def take(self, now: float) -> bool:
        """Take one token if there is one; ``now`` in seconds, never decreasing."""
        if self._level < 0:
            self._level, self._at = self.size, now
        self._level = min(self.size, self._level + (now - self._at) * self.rate)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True


@dataclass
class Breaker:
    """A circuit breaker for one tool; it only spares work, correctness never depends on it.

    It opens when at least ``share`` of at least ``least`` outcomes of the last ``window`` seconds
    are failures, and lets one probe through after ``rest`` seconds.
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
        """Whether a call may start now. While open, one probe per ``rest`` seconds may."""
        if self._opened is None:
            return True
        since = self._opened if self._probing is None else self._probing
        if now - since < self.rest:
            return False
        self._probing = now
        return True

    @property
    def is_open(self) -> bool:
        """Whether calls are being held back."""
        return self._opened is not None

    def record(self, now: float, ok: bool) -> None:
        """Note how a call ended. A probe's success closes the breaker, its failure opens it anew."""
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
