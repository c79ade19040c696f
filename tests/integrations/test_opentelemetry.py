"""What OpenTelemetry sees of the gateway."""

from __future__ import annotations

import asyncio
import json

import pytest

from callmemaybe.gateway import Gateway
from callmemaybe.tools import ToolCall, tool

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from callmemaybe.integrations.opentelemetry import GatewayTelemetry


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
    watch = GatewayTelemetry(tracer=provider.get_tracer("test"), meter=meter, arguments=arguments)

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


@pytest.mark.parametrize("sensitive", [(), ("place",)])
def test_a_redelivery_does_not_end_the_span_of_what_runs(sensitive: tuple[str, ...]) -> None:
    """What is in flight, in conflict, refused or replayed has no span; the call that runs keeps its own."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="once", trusted=True, sensitive=sensitive)
    async def act(place: str) -> str:
        begun.set()
        await go_on.wait()
        return place

    spans, now = InMemorySpanExporter(), [0.0]
    provider, reader = TracerProvider(), InMemoryMetricReader()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    meter = MeterProvider(metric_readers=[reader]).get_meter("test")
    watch = GatewayTelemetry(tracer=provider.get_tracer("test"), meter=meter, clock=lambda: now[0])

    async def go() -> None:
        async with Gateway([act], observer=watch) as gateway:
            call = ToolCall("act", '{"place": "home"}', "c")

            async def code(arguments: str = call.arguments) -> str:
                again = call if arguments == call.arguments else ToolCall("act", arguments, "c")
                return (await gateway.run([again], run="r", turn=0))[0].code

            first = asyncio.ensure_future(code())
            await begun.wait()
            assert await code() == "in_flight"
            assert await code('{"place": "away"}') == "key_conflict"
            assert await code('{"place": 5}') == "invalid_arguments"
            assert not spans.get_finished_spans()
            now[0] = 0.5
            go_on.set()
            assert [await first, await code()] == ["ok", "ok"]

    asyncio.run(go())
    (span,) = spans.get_finished_spans()
    assert (span.attributes["callmemaybe.code"], span.status.is_ok) == ("ok", True)
    metrics = json.loads(reader.get_metrics_data().to_json())["resource_metrics"][0]
    (seconds,) = [
        one["data"]["data_points"]
        for one in metrics["scope_metrics"][0]["metrics"]
        if one["name"] == "callmemaybe.gateway.duration"
    ]
    assert [point["sum"] for point in seconds] == [0.5]
