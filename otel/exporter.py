"""Exporter: spans of the tuple trees that are sampled, and instruments with the metrics.

    a tree ─► PRODUCER "send <stream>" of the spout ─► CONSUMER "process <component>" of each span, below its parent

1. A tree is exported once, when it is complete. Which trees: `topology.trace.one.in`, those that `trace` asks for, and
   with `topology.trace.context` those that are emitted in a span that is sampled: this is then the parent.
2. Metrics are read once a second, in the event loop; the SDK's thread gets what was read last.
3. Counters have no `_total`, and units are `s` and `By`. A histogram is two counters, `.count` and `.sum`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ..cluster import State
from ..metrics import families
from ..runtime import AiostormError

if TYPE_CHECKING:
    from ..cluster import RunningTopology
    from ..metrics import Family, Span, Trace

EACH_S: Final = 1.0

MAX_KNOWN: Final = 2000
"""So many trees are remembered as exported; more than are known at a time."""

UNITS: Final = {"seconds": "s", "bytes": "By", "ratio": "1"}

OVER: Final = (State.KILLED, State.FAILED)


class OtelError(AiostormError):
    """OpenTelemetry cannot be used; the text says what to install."""


class Exporter:
    """Exports one topology. Without providers it uses those that the program has set (`trace.set_tracer_provider`).

    Run it beside the topology: `group.create_task(Exporter(running).run())`. OtelError without the extra `otel`.
    """

    def __init__(self, running: RunningTopology, tracer_provider: Any = None, meter_provider: Any = None) -> None:
        self._running = running
        self._trace, self._metrics = _api("trace"), _api("metrics")
        self._tracer = self._trace.get_tracer("aiostorm", tracer_provider=tracer_provider)
        self._meter = self._metrics.get_meter("aiostorm", meter_provider=meter_provider)
        self._propagator = _api("trace.propagation.tracecontext").TraceContextTextMapPropagator()
        self._exported: dict[str, None] = {}
        self._read: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        self._instruments: set[str] = set()

    async def run(self) -> None:
        """Export until the topology has ended, or the call is cancelled."""
        while self._running.state not in OVER:
            self.export()
            await asyncio.sleep(EACH_S)
        self.export()

    def export(self) -> None:
        """Export what is new now."""
        for trace in reversed(self._running.traces()):
            if trace.complete_s is not None and trace.id not in self._exported:
                self._exported[trace.id] = None
                self._send(trace)
        while len(self._exported) > MAX_KNOWN:
            del self._exported[next(iter(self._exported))]
        self._measure(families({self._running.name: self._running.metrics()}))

    # -- spans ---------------------------------------------------------------------------------------------------------

    def _send(self, trace: Trace) -> None:
        kinds, start_s = self._trace.SpanKind, trace.emitted_at_s
        stream = next((span.stream for span in trace.spans if not span.parent), "default")
        top = self._tracer.start_span(
            f"send {stream}",
            context=self._emitted_in(trace),
            kind=kinds.PRODUCER,
            attributes={
                **self._about(trace.component, trace.task, trace.worker, stream, "send"),
                "messaging.batch.message_count": trace.messages,
                "aiostorm.tree": trace.id,
                "aiostorm.attempt": trace.attempt,
            },
            start_time=_ns(start_s),
        )
        if trace.outcome == "failed":
            top.set_status(self._trace.Status(self._trace.StatusCode.ERROR, trace.problem))
        made = {"": top}
        for span in trace.spans:  # a parent comes before its children
            made[span.edge] = self._send_span(span, start_s, made.get(span.parent, top))
        top.end(_ns(start_s + (trace.complete_s or 0.0)))

    def _emitted_in(self, trace: Trace) -> Any:
        """The context in which the spout has emitted it; an empty one is not below what the program does now."""
        parent, _, state = trace.context.partition(" ")
        context = _api("context").Context()
        return self._propagator.extract({"traceparent": parent, "tracestate": state}, context) if parent else context

    def _send_span(self, span: Span, start_s: float, parent: Any) -> Any:
        made = self._tracer.start_span(
            f"process {span.component}",
            context=self._trace.set_span_in_context(parent, _api("context").Context()),
            kind=self._trace.SpanKind.CONSUMER,
            attributes={
                **self._about(span.component, span.task, span.worker, span.stream, "process"),
                "messaging.batch.message_count": span.rows,
                "aiostorm.waited": max(0.0, span.begun_s - span.arrived_s),
            },
            start_time=_ns(start_s + span.begun_s),
        )
        made.end(_ns(start_s + span.ended_s))
        return made

    def _about(self, component: str, task: int, worker: str, stream: str, operation: str) -> dict[str, Any]:
        return {
            "messaging.system": "aiostorm",
            "messaging.destination.name": stream,
            "messaging.operation.type": operation,
            "aiostorm.topology": self._running.name,
            "aiostorm.component": component,
            "aiostorm.task": task,
            "aiostorm.worker": worker,
        }

    # -- instruments ---------------------------------------------------------------------------------------------------

    def _measure(self, found: Iterable[Family]) -> None:
        read: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        for family in found:
            name, unit = otel_name(family.name)
            for suffix, labels, value in family.samples:
                if suffix == "_bucket":
                    continue
                own = f"{name}.{suffix[1:]}" if family.kind == "histogram" else name
                read.setdefault(own, []).append((labels, value))
                if own not in self._instruments:
                    self._make(own, family, "1" if suffix == "_count" else unit)
        self._read = read

    def _make(self, name: str, family: Family, unit: str) -> None:
        self._instruments.add(name)
        gauge = family.kind == "gauge"
        make = self._meter.create_observable_gauge if gauge else self._meter.create_observable_counter
        make(name, callbacks=[self._observer(name)], unit=unit, description=family.help)

    def _observer(self, name: str) -> Callable[[Any], list[Any]]:
        observation = self._metrics.Observation

        def observe(options: Any) -> list[Any]:
            return [observation(value, dict(labels)) for labels, value in self._read.get(name, ())]

        return observe


def otel_name(name: str) -> tuple[str, str]:
    """Name and unit of a Prometheus family here: `aiostorm_mailbox_fill_ratio` is `aiostorm.mailbox.fill`, in `1`."""
    *words, last = name.split("_")
    if last in UNITS:
        return ".".join(words), UNITS[last]
    unit = "{tuple}" if name.startswith("aiostorm_tuples_") else "1"
    return ".".join([*words, last]), unit


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)


def _api(module: str) -> Any:
    try:
        return import_module(f"opentelemetry.{module}")
    except ImportError as error:
        raise OtelError('OpenTelemetry is not installed: pip install "aiostorm[otel]"') from error
