"""The learning rates of a run: constant, then falling linearly to zero at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WARM_UP = 40  # steps: the momenta of a resumed run may begin at zero
LOWEST = 0.02  # share of the full rate


@dataclass(frozen=True)
class Schedule:
    """A schedule over requests if the recipe counts them, else over the clock.

    Over the clock the rates reach zero at the deadline whatever the speed of the machine.
    """

    table: Mapping[str, Any]  # `[training]` of a recipe
    first_step: int = 0  # of this process; later than 0 in a resumed run

    def done(self, pairs: int, seconds: float) -> float:
        """The share of the run that is over."""
        if most := self.table.get("requests"):
            return pairs / float(most)
        return seconds / float(60 * self.table["minutes"])

    def rate(self, step: int, pairs: int, seconds: float) -> float:
        """The share of the full learning rates at this moment."""
        done = min(1.0, self.done(pairs, seconds))
        warm = min(1.0, (step - self.first_step + 1) / WARM_UP)
        return warm * min(1.0, max(LOWEST, (1 - done) / (1 - self.table["decay_from"])))
