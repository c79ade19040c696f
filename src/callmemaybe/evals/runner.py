"""Runs a model on cases: one ``Caller`` for each list of functions, with a small cache of them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from callmemaybe.caller import Caller
from callmemaybe.errors import CallMeMaybeError, InputError
from callmemaybe.evals.case import Case
from callmemaybe.evals.record import EvalRecord
from callmemaybe.evals.unconstrained import UnconstrainedGenerator
from callmemaybe.generation.compound import all_calls
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.models.base import Model
from callmemaybe.models.remote import RemoteModel

#: The size of the cache; a caller holds the grammar of its functions and their cached prefix.
CALLER_CACHE_SIZE = 8


@dataclass(frozen=True)
class EvalSettings:
    """How cases are run. ``settings`` are passed to every ``Caller``."""

    no_call: bool = True
    unconstrained: bool = False
    settings: Mapping[str, Any] | None = None


class EvalRunner:
    """Runs one model on cases, and returns a record of each.

    Raises InputError if a model on a server is to run unconstrained.
    """

    def __init__(
        self,
        model: Model | RemoteModel,
        options: EvalSettings | None = None,
        *,
        cache_size: int = CALLER_CACHE_SIZE,
    ) -> None:
        self._model = model
        self._options = options or EvalSettings()
        self._cache_size = cache_size
        self._callers: OrderedDict[str, tuple[Caller, UnconstrainedGenerator | None]] = (
            OrderedDict()
        )
        self._shared: dict[str, Any] = dict(self._options.settings or {})
        if self._options.unconstrained and isinstance(model, RemoteModel):
            raise InputError(
                "a model on a server cannot run unconstrained",
                where="--unconstrained",
                hint="name a local model",
            )

    def records(
        self, cases: Iterable[Case], resumed: Mapping[str, EvalRecord] | None = None
    ) -> Iterator[EvalRecord]:
        """Run the cases in order; those with a record in ``resumed`` (by id, of an equal case) are not run."""
        for case in cases:
            before = (resumed or {}).get(case.id)
            yield before if before is not None and before.key == case.key else self.run(case)

    def run(self, case: Case) -> EvalRecord:
        """Run one case; every error becomes the failure of its record."""
        try:
            caller, free = self._of(case)
            if case.wants_all:
                return self._run_all(caller, case)
            record = EvalRecord.of(case.id, case.key, caller.call(case.prompt))
            if free is not None:
                record = replace(record, attempts=free.attempts(case.prompt))
        except CallMeMaybeError as error:
            return EvalRecord(case.id, case.key, failure=str(error))
        except Exception as error:
            return EvalRecord(case.id, case.key, failure=_first_line(error))
        return record

    def _run_all(self, caller: Caller, case: Case) -> EvalRecord:
        """Run a case that wants several calls, with all of which the model answers."""
        started = time.perf_counter()
        calls = all_calls(caller.generator, case.prompt, case.tools)
        seconds = time.perf_counter() - started
        return EvalRecord(
            case.id,
            case.key,
            calls[0] if calls else None,
            seconds=seconds,
            more_calls=tuple(calls[1:]),
        )

    def _of(self, case: Case) -> tuple[Caller, UnconstrainedGenerator | None]:
        found = self._callers.pop(case.offered, None)
        if found is None:
            caller = Caller(self._model, case.tools, no_call=self._options.no_call, **self._shared)
            free = None
            if isinstance(caller.generator, LocalGenerator):
                # Reading a vocabulary and detecting a format take longer than answering.
                self._shared |= {
                    "vocabulary": caller.generator.vocabulary,
                    "format": caller.generator.format,
                }
                if self._options.unconstrained:
                    free = UnconstrainedGenerator(caller, no_call=self._options.no_call)
            found = caller, free
        self._callers[case.offered] = found
        while len(self._callers) > self._cache_size:
            self._callers.popitem(last=False)
        return found


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().split("\n", 1)[0]
