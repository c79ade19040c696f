"""Spans and metrics of the gateway and the server, for OpenTelemetry.

They contain nothing that users or models wrote; arguments of calls are included on request only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from callmemaybe.gateway.answers import CallAnswer
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.tools import ToolCall


class RequestFields(Protocol):
    """The fields of the server's ``RequestSummary`` that spans use."""

    id: str
    method: str
    route: str
    status: int
    code: str | None
    model: str | None
    finish: tuple[str, ...]
    prompt_tokens: int
    tokens: int
    passes: int
    waited: float | None
    traceparent: str | None


#: The most open spans; beyond it the oldest is ended.
_MAX_OPEN = 10_000

#: States of answers to deliveries that did not start the call; a call that an earlier delivery started
#: under the same key runs on.
_NOT_STARTED = frozenset(
    {CallState.REJECTED, CallState.DENIED, CallState.AWAITING_APPROVAL, CallState.RUNNING}
)


class GatewayTelemetry:
    """An observer for ``Gateway(observer=...)``: a span and two metrics per call.

    The names are those of OpenTelemetry's conventions for generative AI where there are any.
    ``arguments`` adds the arguments of calls to the spans; they may contain secrets.
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
        overtaken = self._open.pop(key, None)
        if overtaken is not None:
            overtaken[0].end()
        if len(self._open) >= _MAX_OPEN:
            self._open.pop(next(iter(self._open)))[0].end()
        self._open[key] = (span, self._clock(), effect)

    def finished(self, call: ToolCall, answer: CallAnswer) -> None:
        """End the call's span if it is the one that this answers, and count the answer."""
        labels = {"gen_ai.tool.name": call.name, "callmemaybe.code": answer.code}
        self._count.add(1, {**labels, "callmemaybe.replayed": answer.replayed})
        if answer.replayed or answer.state in _NOT_STARTED or answer.key not in self._open:
            return
        span, began, effect = self._open.pop(answer.key)
        self._seconds.record(self._clock() - began, {**labels, "callmemaybe.effect_class": effect})
        span.set_attribute("callmemaybe.code", answer.code)
        span.set_attribute("callmemaybe.state", answer.state.value)
        if answer.is_error:
            span.set_status(Status(StatusCode.ERROR, answer.code))
        span.end()


class ServerTelemetry:
    """An observer for the server: a span per request, a child of the client's where it sent one.

    The names are those of OpenTelemetry's conventions for HTTP and for generative AI.
    """

    def __init__(self, *, tracer: trace.Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("callmemaybe.server")
        self._propagator = TraceContextTextMapPropagator()
        self._open: dict[int, Span] = {}

    def started(self, summary: RequestFields) -> None:
        """Start the request's span."""
        carried = {"traceparent": summary.traceparent} if summary.traceparent else {}
        self._open[id(summary)] = self._tracer.start_span(
            f"{summary.method} {summary.route}",
            context=self._propagator.extract(carried),
            kind=SpanKind.SERVER,
            attributes={
                "http.request.method": summary.method,
                "http.route": summary.route,
                "callmemaybe.request_id": summary.id,
            },
        )

    def finished(self, summary: RequestFields) -> None:
        """End the request's span."""
        span = self._open.pop(id(summary), None)
        if span is None:
            return
        span.set_attribute("http.response.status_code", summary.status)
        if summary.model is not None:
            span.set_attribute("gen_ai.operation.name", "chat")
            span.set_attribute("gen_ai.request.model", summary.model)
            span.set_attribute("gen_ai.usage.input_tokens", summary.prompt_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", summary.tokens)
            span.set_attribute("gen_ai.response.finish_reasons", summary.finish)
            span.set_attribute("callmemaybe.forward_passes", summary.passes)
        if summary.waited is not None:
            span.set_attribute("callmemaybe.waited", summary.waited)
        if summary.code is not None:
            span.set_attribute("error.type", summary.code)
        if summary.status >= 500:
            span.set_status(Status(StatusCode.ERROR, summary.code or ""))
        span.end()
