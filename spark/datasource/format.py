"""Data source: `format("aiostorm")` in Spark: writes into a running topology, and reads its output.

    register(spark)          (not needed where Spark finds it by itself: pyspark_aiostorm.py)
    df.write.format("aiostorm").option("endpoints", FOLDER).mode("append").save()
    df.writeStream.format("aiostorm").option("endpoints", FOLDER).option("checkpointLocation", …).start()
    spark.readStream.format("aiostorm").option("endpoints", FOLDER).load()        spark.read…  what is there now

1. Options contain no secret: Spark shows them on its pages and in its event log. A token is in a file (0600) named by
   options, or in AIOSTORM_CREDENTIALS on each executor.
2. Executors get plain values: options and names; they import classes by name, so aiostorm must be installed there (or
   added with addPyFile).
3. An unknown or invalid option is an error when the query is planned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..errors import SparkSourceError, SparkUnavailableError
from ..executors.client import AHEAD
from ..executors.location import PATIENCE_S, ServerLocation
from ..needs import require, version
from .schemas import names_of

FORMAT: Final = "aiostorm"

MAX_AHEAD: Final = 32

_SHARED: Final = ("endpoints", "address", "credentials", "component", "patience")
_WRITING: Final = ("name", "chunkrows", "ahead", "checkpointlocation")
_READING: Final = ("consumer", "fields", "maxrowspertrigger", "maxbytespertrigger")
_SPARKS_OWN: Final = ("path", "checkpointlocation", "querydescription", "queryname")


def register(spark: Any) -> None:
    """Register `format("aiostorm")` with a SparkSession, also one of Spark Connect. May be called again.

    SparkUnavailableError with PySpark before 4.0, which has no data sources in Python.
    """
    if version() < (4, 0):
        raise SparkUnavailableError('format("aiostorm") needs PySpark 4.0 or newer: 3.5 has no data sources in Python')
    require("pyarrow")
    from . import api as datasource_api

    try:
        spark.dataSource.register(datasource_api.AiostormDataSource)
    except require("pyspark.errors").PySparkException as error:
        # Spark has found it by itself (pyspark_aiostorm.py), and does not replace it.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write. `chunk_rows`: 0 for the size of Spark's Arrow batches."""

    where: ServerLocation
    name: str
    chunk_rows: int
    ahead: int


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a read. `fields`: the columns to read; empty: all."""

    where: ServerLocation
    consumer: str
    max_rows: int
    max_bytes: int
    fields: tuple[str, ...] = ()


def writing(options: Mapping[str, str], role: str) -> WriteOptions:
    """Parse the options of a write. SparkSourceError names a wrong option and the valid ones."""
    given = _known(options, _WRITING)
    name = given.get("name", "")
    if "/" in name or len(name) > 200:
        raise SparkSourceError(f"option name={name[:80]!r}: up to 200 characters, and no /")
    return WriteOptions(
        _where(given, role),
        name,
        _number(given, "chunkrows", 0, 0, 10_000_000),
        _number(given, "ahead", AHEAD, 1, MAX_AHEAD),
    )


def reading(options: Mapping[str, str], role: str, consumer: str) -> ReadOptions:
    """Parse the options of a read. SparkSourceError names a wrong option and the valid ones."""
    given = _known(options, _READING)
    return ReadOptions(
        _where(given, role),
        given.get("consumer", consumer),
        _number(given, "maxrowspertrigger", 0, 0, 1 << 53),
        _number(given, "maxbytespertrigger", 0, 0, 1 << 53),
        names_of(given.get("fields", "")),
    )


def _known(options: Mapping[str, str], further: tuple[str, ...]) -> dict[str, str]:
    given = {key.lower(): value for key, value in options.items()}
    unknown = [key for key in given if key not in (*_SHARED, *further, *_SPARKS_OWN)]
    if unknown:
        raise SparkSourceError(f"no option {', '.join(unknown)}; there are {', '.join((*_SHARED, *further))}")
    return given


def _where(given: Mapping[str, str], role: str) -> ServerLocation:
    endpoints = given.get("endpoints") or given.get("path") or None
    addresses = tuple(part.strip() for part in given.get("address", "").split(",") if part.strip())
    if not endpoints and not addresses:
        raise SparkSourceError(
            "no address of the topology: give option endpoints (the folder of its spout or bolt), or address "
            "(host:port or unix:/path of each of its tasks, in their order, with commas) and credentials"
        )
    return ServerLocation(
        role,
        endpoints,
        addresses,
        given.get("credentials") or None,
        given.get("component") or None,
        _parsed(given, "patience", float, PATIENCE_S, 0, 86_400),
    )


def _number(given: Mapping[str, str], key: str, default: int, least: int, most: int) -> int:
    return int(_parsed(given, key, int, default, least, most))


def _parsed(given: Mapping[str, str], key: str, kind: Callable[[str], Any], default: Any, least: int, most: int) -> Any:
    text = given.get(key)
    if text is None:
        return default
    try:
        value = kind(text)
        if not least <= value <= most:
            raise ValueError
    except ValueError:
        raise SparkSourceError(f"option {key}={text[:80]!r}: a number from {least} to {most:,}") from None
    return value
