"""The one seam for whoever watches: logs, metrics, spans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass
class Facts:
    """What became of one request. Nothing that a user wrote is in it.

    Times are in seconds: ``waited`` for a slot, ``first`` until the first piece, ``seconds`` in all.
    """

    id: str
    method: str
    route: str
    client: str
    status: int = 0
    #: The status of the error that a stream told after it had begun; ``status`` is 200 then.
    failed: int | None = None
    code: str | None = None
    model: str | None = None
    is_stream: bool = False
    finish: tuple[str, ...] = ()
    prompt_tokens: int = 0
    tokens: int = 0
    passes: int = 0
    waited: float | None = None
    first: float | None = None
    seconds: float = 0.0
    #: Whether the client went away before the end.
    is_dropped: bool = False
    #: The error behind a 500, for the log.
    error: BaseException | None = field(default=None, repr=False)
    #: The W3C trace context that came with the request.
    trace: str | None = None

    @property
    def is_failure(self) -> bool:
        """Whether it failed through no fault of the client, be it in the middle of a stream."""
        return max(self.status, self.failed or 0) >= 500


class Observer(Protocol):
    """Sees requests come and go; must be quick and must not fail."""

    def started(self, facts: Facts) -> None:
        """See a request that was read."""
        ...

    def finished(self, facts: Facts) -> None:
        """See a request that was answered, refused or dropped."""
        ...
