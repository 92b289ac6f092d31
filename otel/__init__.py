"""OpenTelemetry: what is traced and measured of a running topology, for the tracer and the meter of a program.

    RunningTopology ─ traces(), metrics() ─► Exporter, once a second ─► spans and instruments of OpenTelemetry's API

It needs the extra `otel`, which brings the API only: exporters and their SDK are the program's.
"""

from .exporter import Exporter, OtelError

__all__ = ["Exporter", "OtelError"]
