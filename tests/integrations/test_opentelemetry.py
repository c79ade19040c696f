"""What OpenTelemetry sees of the gateway."""

from __future__ import annotations

import asyncio
import json

import pytest

from callmemaybe.calls import ToolCall, tool
from callmemaybe.gateway import Gateway

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from callmemaybe.integrations.opentelemetry import Telemetry


@pytest.mark.parametrize("arguments", [False, True])
def test_spans_and_metrics(arguments: bool) -> None:
    """One span per call that ran, with its code; arguments only where they were asked for."""

    @tool(effect="read", secrets={"token": "T"})
    async def look(place: str, token: str) -> str:
        if place == "nowhere":
            raise ValueError(token)
        return token

    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    meter = MeterProvider(metric_readers=[reader]).get_meter("test")
    watch = Telemetry(tracer=provider.get_tracer("test"), meter=meter, arguments=arguments)

    async def go() -> None:
        async with Gateway([look], observer=watch, secrets={"T": "canary-1"}) as gateway:
            for place in ("home", "nowhere"):
                await gateway.run([ToolCall("look", json.dumps({"place": place}), "c")])

    asyncio.run(go())
    done = spans.get_finished_spans()
    assert [span.attributes["callmemaybe.code"] for span in done] == ["ok", "tool_error"]
    text = "".join(span.to_json() for span in done) + reader.get_metrics_data().to_json()
    assert ("nowhere" in text) is arguments
    assert "canary-1" not in text
    assert "callmemaybe.gateway.duration" in text
