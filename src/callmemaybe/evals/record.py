"""The recorded answers to cases, apart from whether they are right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from callmemaybe.errors import InputError
from callmemaybe.tools import ToolCall

if TYPE_CHECKING:
    from callmemaybe.caller import CallResult


@dataclass(frozen=True)
class UnconstrainedAttempt:
    """One unconstrained answer: a call, no call, or the ``problem`` that makes it invalid."""

    call: ToolCall | None
    problem: str | None
    tokens: int
    seconds: float

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what ``as_json`` wrote."""
        return cls(
            _call(value["call"]),
            value["problem"],
            int(value["tokens"]),
            _finite(value["seconds"]),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the attempt as a JSON value."""
        return {
            "call": _plain(self.call),
            "problem": self.problem,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 6),
        }


@dataclass(frozen=True)
class EvalRecord:
    """One answer. ``failure`` is the reason if there is none; ``attempts`` are unconstrained answers."""

    id: str
    key: str
    call: ToolCall | None = None
    failure: str | None = None
    #: Probability of the chosen name (or of no call), where names are chosen exactly.
    probability: float | None = None
    forced: int = 0
    chosen: int = 0
    passes: int = 0
    omitted: int = 0
    seconds: float = 0.0
    attempts: tuple[UnconstrainedAttempt, ...] = field(default=())
    #: Probability that the whole answer is right, where the model's files tell it.
    confidence: float | None = None
    #: The calls behind the first, of a case that wants several.
    more_calls: tuple[ToolCall, ...] = field(default=())

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """All calls that were made."""
        return () if self.call is None else (self.call, *self.more_calls)

    @classmethod
    def of(cls, identity: str, key: str, outcome: CallResult) -> Self:
        """Return the record of the result of a ``Caller``."""
        return cls(
            identity,
            key,
            outcome.call,
            None,
            outcome.name_probability,
            outcome.forced,
            outcome.chosen,
            outcome.passes,
            outcome.omitted,
            outcome.seconds.get("total", 0.0),
            confidence=outcome.confidence,
        )

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read what ``as_json`` wrote. Raises InputError for anything else."""
        try:
            assert isinstance(value, Mapping)
            return cls(
                str(value["id"]),
                str(value["key"]),
                _call(value["call"]),
                value["failure"],
                None if value["probability"] is None else _finite(value["probability"]),
                int(value["forced"]),
                int(value["chosen"]),
                int(value["passes"]),
                int(value["omitted"]),
                _finite(value["seconds"]),
                tuple(UnconstrainedAttempt.from_json(one) for one in value.get("attempts", ())),
                None if value.get("confidence") is None else _finite(value["confidence"]),
                tuple(one for one in map(_call, value.get("more_calls", ())) if one is not None),
            )
        except (AssertionError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError("not a record of an evaluation") from error

    def as_json(self) -> dict[str, Any]:
        """Return the record as a JSON value; arguments stay JSON text."""
        found: dict[str, Any] = {
            "id": self.id,
            "key": self.key,
            "call": _plain(self.call),
            "failure": self.failure,
            "probability": None if self.probability is None else round(self.probability, 6),
            "forced": self.forced,
            "chosen": self.chosen,
            "passes": self.passes,
            "omitted": self.omitted,
            "seconds": round(self.seconds, 6),
        }
        if self.confidence is not None:
            found["confidence"] = round(self.confidence, 6)
        if self.more_calls:
            found["more_calls"] = [_plain(one) for one in self.more_calls]
        if self.attempts:
            found["attempts"] = [one.as_json() for one in self.attempts]
        return found


def _call(value: Any) -> ToolCall | None:
    if value is None:
        return None
    call = ToolCall(str(value["name"]), str(value["arguments"]))
    _ = call.parsed  # Raises InputError for damaged arguments.
    return call


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("JSON has no such number")
    return number


def _plain(call: ToolCall | None) -> dict[str, str] | None:
    return None if call is None else {"name": call.name, "arguments": call.arguments}
