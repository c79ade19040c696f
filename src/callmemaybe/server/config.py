"""The configuration of the server, validated once."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from callmemaybe.errors import InputError

if TYPE_CHECKING:
    from callmemaybe.generation.config import DecodingConfig
    from callmemaybe.server.observability import RequestObserver
    from callmemaybe.wire.grounding import GroundingConfig


@dataclass(frozen=True)
class ServerConfig:
    """Address, access and limits of a server.

    Raises InputError for an address that other machines can reach without a key, and for limits that
    are not positive.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    keys: tuple[str, ...] = ()
    #: Origins whose web pages may use the server.
    origins: tuple[str, ...] = ()
    #: Turns decoded at once, turns that may wait, and how many of these one client may have.
    slots: int = 8
    queue: int = 128
    queue_per_client: int = 128
    #: The most tokens of an answer where a request sets no limit, and the largest limit.
    default_tokens: int = 1024
    most_tokens: int = 8192
    most_tools: int = 512
    most_choices: int = 16
    #: The steps (``grammar.automaton.WORK_BUDGET``) that the schemas and patterns of one turn may take together: about two
    #: seconds of one core. The 713 functions of Okta's management take 755,000 at their first request, a schema of MaskBench 34 in the median.
    turn_steps: int = 140_000
    body_bytes: int = 4 << 20
    #: Bytes of cached prompt prefixes, which requests share.
    cache_bytes: int = 256 << 20
    #: Seconds: to receive the head or the body of a request, to wait for a slot, to answer, and to
    #: finish running turns after a signal.
    read_seconds: float = 10.0
    queue_seconds: float = 60.0
    run_seconds: float = 300.0
    grace_seconds: float = 10.0
    #: Whether a conversation is refused that a model of single requests would not read whole.
    refuse_unread: bool = False
    #: Seconds after which a cancelled turn that still runs makes /healthz fail.
    stuck_seconds: float = 5.0

    def __post_init__(self) -> None:
        if not self.keys and not self.is_local:
            raise InputError(
                f"{self.host} can be reached from other machines, and no key is required",
                where="--host",
                hint="give an --api-key, or listen on 127.0.0.1",
            )
        for key in self.keys:
            # Spaces around the value of a header are not part of it, so no client could send such a key.
            if not key or not key.isascii() or not key.isprintable() or key != key.strip():
                raise InputError(
                    "a key must be printable ASCII, at least one character, without spaces around",
                    where="--api-key",
                )
        for name in ("slots", "queue", "queue_per_client", "default_tokens", "most_tokens",
                     "most_tools", "most_choices", "turn_steps", "body_bytes", "cache_bytes", "read_seconds",
                     "queue_seconds", "run_seconds", "grace_seconds", "stuck_seconds"):  # fmt: skip
            if getattr(self, name) <= 0:
                raise InputError("must be more than 0", where=name)

    @property
    def allowed_origins(self) -> frozenset[str]:
        """The origins in lower case, as browsers send them."""
        return frozenset(origin.lower() for origin in self.origins)

    @property
    def max_turns(self) -> int:
        """How many turns one request may take; more would never fit, even into an idle server."""
        return self.slots + min(self.queue, self.queue_per_client)

    @property
    def max_choices(self) -> int:
        """How many choices of one prompt a request may ask for."""
        return min(self.most_choices, self.max_turns)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True)
class ServeOptions:
    """What is served, and how; it can be pickled, so that processes may be started with it.

    ``upstream_key`` is for a model on a server: what that asks for. ``decoding`` and ``grounding`` hold
    for all turns. ``quiet`` logs failed requests only; ``make_observers`` returns what observes requests
    besides the log and the metrics.
    """

    model: str
    config: ServerConfig
    name: str | None = None
    format: str | None = None
    quiet: bool = False
    upstream_key: str = field(default="", repr=False)
    decoding: DecodingConfig | None = None
    grounding: GroundingConfig | None = None
    make_observers: Callable[[], Sequence[RequestObserver]] = tuple
