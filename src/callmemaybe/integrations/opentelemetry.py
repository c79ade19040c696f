"""Spans and metrics of the gateway, for OpenTelemetry; arguments are left out unless asked for."""

from __future__ import annotations

import time
from collections.abc import Callable

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from callmemaybe.calls import ToolCall
from callmemaybe.gateway.codes import Answer

#: Calls that are open at once; beyond it the oldest span is ended unfinished.
_MOST_OPEN = 10_000


class Telemetry:
    """An observer for ``Gateway(observer=...)``: a span and two metrics per call.

    The names are those of OpenTelemetry's conventions for generative AI where there are any.
    ``arguments`` adds the calls' arguments to the spans; they may hold what nobody should keep.
    """

    def __init__(
        self,
        *,
        tracer: trace.Tracer | None = None,
        meter: metrics.Meter | None = None,
        arguments: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._tracer = tracer or trace.get_tracer("callmemaybe.gateway")
        meter = meter or metrics.get_meter("callmemaybe.gateway")
        self._count = meter.create_counter("callmemaybe.gateway.calls", unit="{call}")
        self._seconds = meter.create_histogram("callmemaybe.gateway.duration", unit="s")
        self._arguments = arguments
        self._clock = clock
        self._open: dict[str, tuple[Span, float, str]] = {}

    def started(self, call: ToolCall, *, key: str, run: str, effect: str) -> None:
        """Start the call's span."""
        span = self._tracer.start_span(
            f"execute_tool {call.name}",
            kind=SpanKind.INTERNAL,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.name,
                "gen_ai.tool.call.id": call.id,
                "gen_ai.conversation.id": run,
                "callmemaybe.key": key,
                "callmemaybe.effect_class": effect,
            },
        )
        if self._arguments:
            span.set_attribute("gen_ai.tool.call.arguments", call.arguments)
        if len(self._open) >= _MOST_OPEN:
            self._open.pop(next(iter(self._open)))[0].end()
        self._open[key] = (span, self._clock(), effect)

    def finished(self, call: ToolCall, answer: Answer) -> None:
        """End the call's span, and count it."""
        span, began, effect = self._open.pop(answer.key, (None, None, ""))
        labels = {"gen_ai.tool.name": call.name, "callmemaybe.code": answer.code}
        self._count.add(1, {**labels, "callmemaybe.replayed": answer.replayed})
        if span is None or began is None:
            return
        self._seconds.record(self._clock() - began, {**labels, "callmemaybe.effect_class": effect})
        span.set_attribute("callmemaybe.code", answer.code)
        span.set_attribute("callmemaybe.state", answer.state.value)
        if answer.is_error:
            span.set_status(Status(StatusCode.ERROR, answer.code))
        span.end()
