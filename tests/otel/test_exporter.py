"""What OpenTelemetry gets of a topology: spans of its trees, and its metrics."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import pytest

from aiostorm import Config, LocalCluster
from aiostorm.otel import Exporter, OtelError

from ..tasks.parts import Does, Numbers, line

sdk_trace = pytest.importorskip("opentelemetry.sdk.trace", reason="uv sync brings the SDK")
sdk_metrics = pytest.importorskip("opentelemetry.sdk.metrics")
in_memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
exporting = pytest.importorskip("opentelemetry.sdk.trace.export")
metrics_exporting = pytest.importorskip("opentelemetry.sdk.metrics.export")


class Telemetry:
    """Providers that keep what they get."""

    def __init__(self) -> None:
        self.memory = in_memory.InMemorySpanExporter()
        self.tracers = sdk_trace.TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(exporting.SimpleSpanProcessor(self.memory))
        self.reader = metrics_exporting.InMemoryMetricReader()
        self.meters = sdk_metrics.MeterProvider([self.reader], shutdown_on_exit=False)

    def metrics(self) -> dict[str, Any]:
        found = self.reader.get_metrics_data()
        return {each.name: each for part in found.resource_metrics for of in part.scope_metrics for each in of.metrics}


def sleeping(delay_s: float) -> Any:
    async def act(tup: Any, collector: Any) -> None:
        await asyncio.sleep(delay_s)
        collector.emit((tup[0],))

    return Does(act, "n")


async def test_a_tree_is_a_producer_and_a_consumer_for_each_span_below_it() -> None:
    telemetry = Telemetry()
    async with LocalCluster() as cluster, asyncio.TaskGroup() as group:
        topology = line(Numbers(1), split=sleeping(0.5), store=sleeping(2.0))
        running = await cluster.submit("t", topology, Config(trace_one_in=1))
        exporter = Exporter(running, telemetry.tracers, telemetry.meters)
        group.create_task(exporter.run())
        await running.wait_finished()
        await asyncio.sleep(2)
        await running.kill(0)
    spans = {span.name: span for span in telemetry.memory.get_finished_spans()}
    assert sorted(spans) == ["process split", "process store", "send default"]
    top, split, store = spans["send default"], spans["process split"], spans["process store"]
    assert [span.kind.name for span in (top, split, store)] == ["PRODUCER", "CONSUMER", "CONSUMER"]
    assert (top.parent, split.parent.span_id, store.parent.span_id) == (
        None,
        top.context.span_id,
        split.context.span_id,
    )
    assert {span.context.trace_id for span in spans.values()} == {top.context.trace_id}
    assert (split.end_time - split.start_time) / 1e9 == pytest.approx(0.5, abs=1e-6)
    assert (top.end_time - top.start_time) / 1e9 == pytest.approx(2.5, abs=1e-6)
    assert top.attributes["messaging.system"] == "aiostorm"
    assert store.attributes["aiostorm.component"] == "store"
    metrics = telemetry.metrics()
    executed = {
        point.attributes["component"]: point.value for point in metrics["aiostorm.tuples.executed"].data.data_points
    }
    assert executed == {"spout": 0, "split": 1, "store": 1}
    assert metrics["aiostorm.tuples.executed"].unit == "{tuple}"
    assert (metrics["aiostorm.mailbox.fill"].unit, metrics["aiostorm.task.busy"].unit) == ("1", "s")
    assert metrics["aiostorm.complete.duration.sum"].data.data_points[0].value == pytest.approx(2.5)


async def test_a_failed_tree_is_an_error_and_each_tree_is_exported_once() -> None:
    telemetry, seen = Telemetry(), list[int]()

    def refuse(tup: Any, collector: Any) -> None:
        seen.append(1)
        if len(seen) == 1:
            raise ValueError("not yet")

    async with LocalCluster() as cluster:
        running = await cluster.submit(
            "t", line(Numbers(1), refuse=Does(refuse)), Config(trace_one_in=1, max_retries=1)
        )
        await running.wait_finished()
        exporter = Exporter(running, telemetry.tracers, telemetry.meters)
        for _ in range(3):
            exporter.export()
    tops = [span for span in telemetry.memory.get_finished_spans() if span.name.startswith("send")]
    assert [(span.status.status_code.name, span.attributes["aiostorm.attempt"]) for span in tops] == [
        ("ERROR", 1),
        ("UNSET", 2),
    ]
    assert "ValueError: not yet" in tops[0].status.description


async def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr("aiostorm.otel.exporter.import_module", missing)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", line(Numbers(1), end=Does(lambda tup, collector: None)))
        with pytest.raises(OtelError, match=r"pip install \"aiostorm\[otel\]\""):
            Exporter(running)
