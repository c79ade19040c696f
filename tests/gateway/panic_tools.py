"""Tools of a file, which end as badly as tools can."""

from __future__ import annotations

from callmemaybe.tools import tool


class Panic(BaseException):
    """What no `except Exception` catches."""


@tool(effect="once", writes="z", timeout=20, secrets={"key": "KEY"})
def panic(how: str, key: str) -> None:
    """End as badly as a tool can, with a secret in the message."""
    raise {"panic": Panic, "interrupt": KeyboardInterrupt, "exit": SystemExit}[how](
        f"no way with {key}"
    )
