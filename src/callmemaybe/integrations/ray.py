"""Calls for a whole dataset: prompts in a column, on as many workers as Ray has.

::

    import ray
    from callmemaybe.integrations.ray import with_calls
    prompts = ray.data.read_json("prompts.jsonl")
    with_calls(prompts, tools, model="nano", workers=4).write_json("calls")

Each worker loads the model once. A row without a call has the reason in ``error``, also if its prompt is
missing or no text; the other rows of its batch are not affected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from callmemaybe.caller import Caller, load_model
from callmemaybe.errors import CallMeMaybeError


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
