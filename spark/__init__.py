"""Spark: DataFrames and streams in, results out, workers on executors. Only this package imports PySpark.

The names here are imported when they are first used; PySpark and pyarrow are imported when they are needed: topologies
are built and drawn without them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch.spout import SparkBatchSpout
    from .calls import SparkCalls
    from .datasource.egress import SparkEgressBolt
    from .datasource.format import register
    from .datasource.ingress import SparkIngressSpout
    from .errors import (
        OutputExistsError,
        SinkError,
        SparkJobError,
        SparkLostError,
        SparkSourceError,
        SparkUnavailableError,
        SparkWorkersError,
    )
    from .java import Java, ensure_java, find_java
    from .needs import INSTALL_SPARK, PYSPARK_VERSIONS
    from .session_settings import merged_settings, override_settings
    from .sessions import make_session
    from .sinks.parquet_sink import ParquetSinkBolt
    from .sinks.table_sink import SparkTableSinkBolt
    from .stream.spout import SparkStreamSpout
    from .workers.backend import SparkWorkers

__all__ = [
    "INSTALL_SPARK",
    "PYSPARK_VERSIONS",
    "Java",
    "OutputExistsError",
    "ParquetSinkBolt",
    "SinkError",
    "SparkBatchSpout",
    "SparkCalls",
    "SparkEgressBolt",
    "SparkIngressSpout",
    "SparkJobError",
    "SparkLostError",
    "SparkSourceError",
    "SparkStreamSpout",
    "SparkTableSinkBolt",
    "SparkUnavailableError",
    "SparkWorkers",
    "SparkWorkersError",
    "ensure_java",
    "find_java",
    "make_session",
    "merged_settings",
    "override_settings",
    "register",
]

_NAMES = {
    "batch.spout": "SparkBatchSpout",
    "calls": "SparkCalls",
    "datasource.egress": "SparkEgressBolt",
    "datasource.format": "register",
    "datasource.ingress": "SparkIngressSpout",
    "errors": "OutputExistsError SinkError SparkJobError SparkLostError SparkSourceError SparkUnavailableError "
    "SparkWorkersError",
    "java": "Java ensure_java find_java",
    "needs": "INSTALL_SPARK PYSPARK_VERSIONS",
    "session_settings": "merged_settings override_settings",
    "sessions": "make_session",
    "sinks.parquet_sink": "ParquetSinkBolt",
    "sinks.table_sink": "SparkTableSinkBolt",
    "stream.spout": "SparkStreamSpout",
    "workers.backend": "SparkWorkers",
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
