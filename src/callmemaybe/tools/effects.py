"""What running a tool does to the world; the one fact every promise of the gateway rests on."""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """The class of a tool's effect, declared per tool; undeclared means ``once``."""

    PURE = "pure"
    """Nothing is read from the world and nothing changed."""
    READ = "read"
    """The world is read; nothing in it changes."""
    IDEMPOTENT = "idempotent"
    """Doing it again with the same arguments changes nothing more."""
    KEYED = "keyed"
    """The service behind it does each key once; it is given our key."""
    TRANSACTIONAL = "transactional"
    """Effect and record share one transaction of the store."""
    ONCE = "once"
    """It must not happen twice, and nothing but the gateway prevents it."""

    @property
    def writes(self) -> bool:
        """Whether the world is different afterwards."""
        return self not in {Effect.PURE, Effect.READ}
