"""What several commands may set about arguments: the order of their keys, and what must be said."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import typer


class Order(StrEnum):
    """In which order the keys of an object may come."""

    SCHEMA = "schema"
    ANY = "any"


class Ground(StrEnum):
    """Whether arguments must occur in what was said."""

    OFF = "off"
    PROMPT = "prompt"
    PROMPT_OR_FREE = "prompt-or-free"

    @property
    def setting(self) -> Literal["prompt", "prompt-or-free"] | None:
        """The setting of a ``Caller``."""
        if self is Ground.OFF:
            return None
        return "prompt" if self is Ground.PROMPT else "prompt-or-free"


class GroundIn(StrEnum):
    """Which text counts as said."""

    REQUEST = "request"
    CONVERSATION = "conversation"


OrderOption = Annotated[
    Order, typer.Option("--order", help="Keys as the schema has them, or in any order.")
]
GroundOption = Annotated[
    Ground,
    typer.Option(
        "--ground",
        help="Limit strings and numbers to what the prompt says; or-free: where anything fits.",
    ),
]
GroundInOption = Annotated[
    GroundIn,
    typer.Option(
        "--ground-in",
        help="What counts as said: the user's last message, or all of them and tools' results.",
    ),
]
