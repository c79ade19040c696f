"""What a server may be told, checked once."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from callmemaybe.errors import InputError


@dataclass(frozen=True)
class Settings:
    """Where to listen, whom to let in, and how much of everything one may have.

    Raises InputError for an address beyond this machine without a key, and for limits that are
    no limits.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    keys: tuple[str, ...] = ()
    #: Pages of these origins may call the server from a browser; nobody else may.
    origins: tuple[str, ...] = ()
    #: Turns decoded at once, turns that may wait, and how many of these one client may hold.
    slots: int = 8
    queue: int = 128
    queue_per_client: int = 128
    #: Tokens of an answer where a request names no limit, and the most it may name.
    default_tokens: int = 1024
    most_tokens: int = 8192
    most_tools: int = 512
    most_choices: int = 16
    body_bytes: int = 4 << 20
    #: Bytes of prompts kept, so that what requests have in common is fed once.
    cache_bytes: int = 256 << 20
    #: Seconds: to send a request's head or body, to wait for a slot, to be answered, to finish
    #: what runs when the server is told to stop.
    read_seconds: float = 10.0
    queue_seconds: float = 60.0
    run_seconds: float = 300.0
    grace_seconds: float = 10.0
    #: Seconds after which a turn that should have ended, and has not, makes the server unwell.
    stuck_seconds: float = 5.0

    def __post_init__(self) -> None:
        if not self.keys and not self.is_local:
            raise InputError(
                f"{self.host} can be reached from other machines, and no key is asked for",
                where="--host",
                hint="give an --api-key, or listen on 127.0.0.1",
            )
        for key in self.keys:
            # Spaces around a header's value are not part of it: nobody could send such a key.
            if not key or not key.isascii() or not key.isprintable() or key != key.strip():
                raise InputError(
                    "a key must be printable ASCII, at least one character, without spaces around",
                    where="--api-key",
                )
        for name in ("slots", "queue", "queue_per_client", "default_tokens", "most_tokens",
                     "most_tools", "most_choices", "body_bytes", "cache_bytes", "read_seconds",
                     "queue_seconds", "run_seconds", "grace_seconds", "stuck_seconds"):  # fmt: skip
            if getattr(self, name) <= 0:
                raise InputError("must be more than 0", where=name)

    @property
    def let_in(self) -> frozenset[str]:
        """The origins as browsers write them: in small letters."""
        return frozenset(origin.lower() for origin in self.origins)

    @property
    def choices(self) -> int:
        """How many turns one request may ask for: more would never find room, however idle it is."""
        return min(self.most_choices, self.slots + min(self.queue, self.queue_per_client))

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
