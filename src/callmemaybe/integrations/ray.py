"""Calls for a whole dataset: prompts in a column, on as many workers as Ray has.

::

    import ray
    from callmemaybe.integrations.ray import with_calls
    prompts = ray.data.read_json("prompts.jsonl")
    with_calls(prompts, tools, model="nano", workers=4).write_json("calls")

Each worker loads the model once. A row without a call has the reason in ``error``, also if its prompt is
missing or no text; the other rows of its batch are not affected.

:class:`RayWorkers` is what ``callmemaybe run --ray`` works with: actors that get some prompts at a time,
whose results come back in order and at once. (Ray Data hands on blocks of some 100 MB, in any order, and
ends its actors with each dataset: a run that appends result by result cannot wait for that.)
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from callmemaybe.caller import Caller, load_model
from callmemaybe.errors import CallMeMaybeError, InputError, ModelError

Item = TypeVar("Item")
Result = TypeVar("Result")
_Read_contra = TypeVar("_Read_contra", contravariant=True)
_Written_co = TypeVar("_Written_co", covariant=True)
#: Processes that may die over the same prompts before these are tried one by one, and then given up.
_DEATHS = 3
_DIED = f"the worker ended, {_DEATHS} times with this prompt"
#: Chunks that an actor has before it, and chunks in flight for each actor: later ones wait for earlier ones.
_AHEAD, _IN_FLIGHT = 2, 8
_REACH_S = 10.0


class RayBatchCaller:
    """Adds the columns ``name``, ``arguments`` (JSON) and ``error`` to batches of rows.

    The options are those of ``Caller``. ``at_once`` prompts share forward passes.
    """

    def __init__(
        self,
        tools: Sequence[Mapping[str, Any]],
        model: str = "nano",
        column: str = "prompt",
        at_once: int = 8,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._caller = Caller(load_model(model), tools, **(options or {}))
        self._column, self._at_once = column, at_once

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the batch (columns by name) with the calls."""
        found: list[tuple[str | None, str | None, str | None]] = []
        with self._caller.submitting(self._at_once) as submit:
            # A missing prompt is None, or pandas' nan, which must not be sent to the model as text.
            submitted = [
                submit(prompt) if isinstance(prompt, str) else None
                for prompt in batch[self._column]
            ]
            for waiting in submitted:
                if waiting is None:
                    found.append((None, None, "the prompt is no text"))
                    continue
                try:
                    call = waiting.result().call
                except CallMeMaybeError as error:
                    found.append((None, None, str(error)))
                else:
                    found.append((call.name, call.arguments, None) if call else (None,) * 3)
        names, arguments, errors = zip(*found, strict=True) if found else ((), (), ())
        return {
            **batch, "name": list(names), "arguments": list(arguments), "error": list(errors)
        }  # fmt: skip


def with_calls(
    dataset: Any,
    tools: Iterable[Mapping[str, Any]],
    *,
    model: str = "nano",
    column: str = "prompt",
    workers: int = 1,
    at_once: int = 8,
    batch_size: int = 64,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Return a Ray dataset with the columns of :class:`RayBatchCaller` added, computed by ``workers`` actors.

    ``tools`` must be plain JSON, since they travel to other processes.
    """
    from ray.data import ActorPoolStrategy

    return dataset.map_batches(
        RayBatchCaller,
        fn_constructor_args=(list(tools), model, column, at_once, options),
        compute=ActorPoolStrategy(size=workers),
        batch_size=batch_size,
    )


class RayRunner(Protocol[_Read_contra, _Written_co]):
    """What works in an actor."""

    def rows(self, prompts: Iterable[_Read_contra], /) -> Iterator[_Written_co]:
        """Yield the result of each prompt, in order."""
        ...


class RayActor(Generic[Item, Result]):
    """A process of the cluster that has loaded the model."""

    def __init__(self, make: Callable[[int], RayRunner[Item, Result]]) -> None:
        self._problem: str | None = None
        try:
            self._runner = make(1)
        except CallMeMaybeError as error:
            # An actor whose constructor fails would be started again for ever.
            self._problem = str(error)

    def problem(self) -> str | None:
        """Return why the model cannot be used, if so."""
        return self._problem

    def work(self, prompts: Sequence[Item]) -> list[Result]:
        """Return the results of some prompts."""
        return list(self._runner.rows(prompts))


class RayWorkers(Generic[Item, Result]):
    """Works on prompts with ``count`` actors of the cluster at ``address`` (None: one for each of its CPUs).

    "local" starts a cluster on this machine for the time of the run, "auto" finds the one that is running.
    ``make`` is called in each actor and must travel there by pickle; ``failed`` makes the result of a prompt
    that several processes died of. Raises InputError if Ray is not installed or there is no cluster.
    """

    def __init__(
        self,
        make: Callable[[int], RayRunner[Item, Result]],
        failed: Callable[[Item, str], Result],
        *,
        address: str = "local",
        count: int | None = None,
        chunk: int = 8,
    ) -> None:
        self._make, self._failed, self._chunk = make, failed, chunk
        try:
            import ray
        except ImportError:
            raise InputError(
                "Ray is not installed", where="--ray", hint="pip install 'callmemaybe[ray]'"
            ) from None
        self._ray = ray
        self._address, self._count = address, count

    def rows(self, prompts: Iterable[Item]) -> Iterator[Result]:
        """Yield the result of each prompt, in order. Raises ModelError if no actor can load the model."""
        self._connect()
        try:
            yield from self._in_order(iter(prompts), self._actors())
        finally:
            self._ray.shutdown()

    def _connect(self) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self._address == "local":
            options |= {"include_dashboard": False, "num_cpus": self._count}
        try:
            _reach(self._address)
            self._ray.init(address=self._address, **options)
        except Exception as error:  # a cluster that does not start in time is a bare Exception
            reason = str(error).split("\n", 1)[0].rstrip(".")
            raise InputError(
                f"no Ray cluster at {self._address}: {reason}",
                where="--ray",
                hint='"local" starts one on this machine, "auto" finds the one that runs here',
            ) from error

    def _actors(self) -> list[Any]:
        ray = self._ray
        count = self._count or max(1, int(ray.cluster_resources().get("CPU", 1)))
        kind = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=_DEATHS - 1)(RayActor)
        actors = [kind.remote(self._make) for _ in range(count)]
        try:
            # The first one that is ready says whether the model can be loaded; others may wait for CPUs.
            ready, _ = ray.wait([actor.problem.remote() for actor in actors], num_returns=1)
            problem = ray.get(ready[0])
        except ray.exceptions.RayError as error:
            raise ModelError(f"no worker of the cluster starts: {_reason(error)}") from error
        if problem is not None:
            raise ModelError(problem)
        return actors

    def _in_order(self, todo: Iterator[Item], actors: list[Any]) -> Iterator[Result]:
        ray = self._ray
        order: deque[tuple[list[Item], Any]] = deque()
        load = dict.fromkeys(actors, 0)
        working: dict[Any, Any] = {}

        def submit(chunk: list[Item]) -> tuple[list[Item], Any]:
            actor = min(actors, key=load.__getitem__)
            reference = actor.work.remote(chunk)
            load[actor] += 1
            working[reference] = actor
            return chunk, reference

        while True:
            while len(order) < _IN_FLIGHT * len(actors) and min(load.values()) < _AHEAD:
                if not (chunk := list(islice(todo, self._chunk))):
                    break
                order.append(submit(chunk))
            if not order:
                return
            done, _ = ray.wait(list(working), num_returns=1)
            for reference in done:
                load[working.pop(reference)] -= 1
            while order and order[0][1] not in working:
                chunk, reference = order.popleft()
                try:
                    yield from ray.get(reference)
                except ray.exceptions.RayError as error:
                    if len(chunk) > 1:
                        order.extendleft([submit([item]) for item in reversed(chunk)])
                        continue
                    # Ray's words differ from run to run: "unavailable", "died", "socket closed".
                    died = isinstance(error, ray.exceptions.RayActorError)
                    yield self._failed(chunk[0], _DIED if died else _reason(error))


def _reach(address: str) -> None:
    """Raise OSError if nothing listens at an address with a port: ``ray.init`` would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_S):
            pass


def _reason(error: Exception) -> str:
    """Return what Ray says in its first line that is a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"the worker ended ({type(error).__name__}: {lines[0] if lines else 'no reason given'})"
