"""Calls in vLLM's own process: a logits processor of its V1 engine.

::

    from vllm import LLM, SamplingParams
    llm = LLM(folder, logits_processors=["callmemaybe.integrations.vllm:VllmLogitsProcessor"])
    params = SamplingParams(max_tokens=300, extra_args={"callmemaybe": {"tools": tools}})

Requests without that argument are left alone; ``no_call``, ``format``, ``order``, ``ground`` and ``said``
may stand beside ``tools``.
:class:`Constraint` makes the prompt and reads the answer. To constrain a vLLM *server* nothing of ours
needs to run in it: see ``models/remote.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

from callmemaybe.errors import CallMeMaybeError
from callmemaybe.integrations._constraint import (
    SequenceMatchers,
    ToolCallConstraint,
    allowed_tokens,
)

__all__ = ["ToolCallConstraint", "VllmLogitsProcessor"]

#: The key in ``SamplingParams.extra_args``.
ARGUMENT = "callmemaybe"
#: Languages kept; each holds an automaton and what was learnt of it.
KEPT = 64


class VllmLogitsProcessor(AdapterLogitsProcessor):  # type: ignore[misc]
    """Keeps the requests that say so to the language of their tools."""

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
        super().__init__(vllm_config, device, is_pin_memory)
        model = vllm_config.model_config
        self._language = lru_cache(KEPT)(_maker(model.tokenizer, model.get_vocab_size()))

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raise ValueError for a request whose argument is not understood."""
        wanted = _wanted(sampling_params)
        if wanted is not None and (
            not isinstance(wanted, dict) or not isinstance(wanted.get("tools"), list)
        ):
            raise ValueError(f'extra_args["{ARGUMENT}"] takes an object with a list of "tools"')

    def is_argmax_invariant(self) -> bool:
        """Return False: the likeliest token may not be allowed."""
        return False

    def new_req_logits_processor(self, params: Any) -> Callable[[list[int], Any], Any] | None:
        """Return what constrains one request; None for a request that does not say so."""
        wanted = _wanted(params)
        if wanted is None:
            return None
        # Not sorted: the order of the parameters is that in which they are to be written.
        matchers = SequenceMatchers(self._language(json.dumps(wanted)).matcher)

        def constrain(written: list[int], logits: Any) -> Any:
            matcher = matchers.matcher(written)
            matchers.end_step()
            if matcher is not None:
                closed = torch.from_numpy(~allowed_tokens(matcher, logits.shape[-1]))
                logits.masked_fill_(closed.to(logits.device), -torch.inf)
            return logits

        return constrain


def _wanted(params: Any) -> Any:
    return (params.extra_args or {}).get(ARGUMENT)


def _maker(tokenizer: str, size: int) -> Callable[[str], ToolCallConstraint]:
    """Return what makes a language of a request's argument, written as JSON."""

    def make(text: str) -> ToolCallConstraint:
        wanted = json.loads(text)
        try:
            return ToolCallConstraint(
                wanted["tools"],
                tokenizer,
                size=size,
                format=wanted.get("format"),
                no_call=bool(wanted.get("no_call", False)),
                order=wanted.get("order", "schema"),
                ground=wanted.get("ground"),
                said=wanted.get("said"),
            )
        except CallMeMaybeError as error:
            raise ValueError(str(error)) from error

    return make
