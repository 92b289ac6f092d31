"""Spark: DataFrames and streams in, results out, workers on executors. PySpark is imported here only, when it is used.

The names here are loaded when they are first used, and what they need of PySpark and pyarrow later still: topologies
are built and drawn without them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch_spout import SparkBatchSpout
    from .calls import SparkCalls
    from .datasource import register
    from .egress import SparkEgressBolt
    from .errors import (
        OutputExistsError,
        SinkError,
        SparkJobError,
        SparkLostError,
        SparkSourceError,
        SparkUnavailableError,
        SparkWorkersError,
    )
    from .ingress import SparkIngressSpout
    from .java import Java, ensure_java, find_java
    from .needs import INSTALL_SPARK, PYSPARK_VERSIONS
    from .parquet_sink import ParquetSinkBolt
    from .session_settings import agreed, let_win
    from .sessions import make_session
    from .stream_spout import SparkStreamSpout
    from .table_sink import SparkTableSinkBolt
    from .workers import SparkWorkers

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
    "agreed",
    "ensure_java",
    "find_java",
    "let_win",
    "make_session",
    "register",
]

_HOMES = {
    "INSTALL_SPARK": "needs",
    "PYSPARK_VERSIONS": "needs",
    "Java": "java",
    "OutputExistsError": "errors",
    "ParquetSinkBolt": "parquet_sink",
    "SinkError": "errors",
    "SparkBatchSpout": "batch_spout",
    "SparkCalls": "calls",
    "SparkEgressBolt": "egress",
    "SparkIngressSpout": "ingress",
    "SparkJobError": "errors",
    "SparkLostError": "errors",
    "SparkSourceError": "errors",
    "SparkStreamSpout": "stream_spout",
    "SparkTableSinkBolt": "table_sink",
    "SparkUnavailableError": "errors",
    "SparkWorkers": "workers",
    "SparkWorkersError": "errors",
    "agreed": "session_settings",
    "ensure_java": "java",
    "find_java": "java",
    "let_win": "session_settings",
    "make_session": "sessions",
    "register": "datasource",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
