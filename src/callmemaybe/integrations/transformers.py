"""Calls in ``transformers.generate``: a logits processor that allows only calls of some tools.

::

    from callmemaybe.integrations.transformers import ToolCallConstraint, TransformersLogitsProcessor
    constraint = ToolCallConstraint(tools, folder)
    ids = torch.tensor([constraint.prompt("Weather in Oslo?")])
    written = model.generate(ids, logits_processor=[TransformersLogitsProcessor(constraint)], max_new_tokens=200)
    constraint.read(written[0, ids.shape[1]:].tolist())

Sampling, beams and batches work as they do without it. Nothing is forced or guessed this way: each
token costs a pass, which this package's own decoder avoids.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import LogitsProcessor

from callmemaybe.integrations._constraint import (
    SequenceMatchers,
    ToolCallConstraint,
    allowed_tokens,
)

__all__ = ["ToolCallConstraint", "TransformersLogitsProcessor"]


class TransformersLogitsProcessor(LogitsProcessor):  # type: ignore[misc]
    """Allows the tokens that continue an answer of ``language``; use one for each ``generate``.

    ``prompt`` is how many ids stand before the answer, by default all that are there at the first
    step (prompts of a batch are padded on the left).
    """

    def __init__(self, language: ToolCallConstraint, prompt: int | None = None) -> None:
        self._matchers = SequenceMatchers(language.matcher)
        self._prompt = prompt

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return ``scores`` (``[rows, width]``) with what is not allowed at minus infinity."""
        if self._prompt is None:
            self._prompt = int(input_ids.shape[1])
        closed = torch.ones(scores.shape, dtype=torch.bool)
        for row, ids in enumerate(input_ids[:, self._prompt :].tolist()):
            matcher = self._matchers.matcher(ids)
            if matcher is None:
                # A beam that was dropped, or padding behind an end: whatever it says is not read.
                closed[row] = False
                continue
            closed[row] = torch.from_numpy(~allowed_tokens(matcher, scores.shape[1]))
        self._matchers.end_step()
        return scores.masked_fill(closed.to(scores.device), -torch.inf)
