"""Data source: `format("aiostorm")` in Spark: DataFrames and streams into a running topology, its output out of one.

    register(spark)          (not needed where Spark finds it by itself: pyspark_aiostorm.py)
    df.write.format("aiostorm").option("endpoints", FOLDER).mode("append").save()
    df.writeStream.format("aiostorm").option("endpoints", FOLDER).option("checkpointLocation", …).start()
    spark.readStream.format("aiostorm").option("endpoints", FOLDER).load()        spark.read…  what is there now

1. The options hold no secret: Spark shows them on its pages and in its event log. A token is in a file (0600) that
   options name, or in AIOSTORM_CREDENTIALS on each executor.
2. What travels to executors is plain: options and names; classes by their names, so aiostorm must be installed there
   (or be given with addPyFile).
3. An option that is not known, or makes no sense, is an error when the query is planned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..errors import SparkSourceError, SparkUnavailableError
from ..needs import load, version
from .client import AHEAD, PATIENCE_S, Where
from .schemas import names_of

FORMAT: Final = "aiostorm"

MAX_AHEAD: Final = 32

_SHARED: Final = ("endpoints", "address", "credentials", "component", "patience")
_WRITING: Final = ("name", "chunkrows", "ahead", "checkpointlocation")
_READING: Final = ("consumer", "fields", "maxrowspertrigger", "maxbytespertrigger")
_SPARKS_OWN: Final = ("path", "checkpointlocation", "querydescription", "queryname")


def register(spark: Any) -> None:
    """Make `format("aiostorm")` known to a SparkSession, Spark Connect's as well. Again is harmless.

    SparkUnavailableError with PySpark before 4.0, which has no data sources in Python.
    """
    if version() < (4, 0):
        raise SparkUnavailableError('format("aiostorm") needs PySpark 4.0 or newer: 3.5 has no data sources in Python')
    load("pyarrow")
    load("pandas")
    from . import api as datasource_api

    try:
        spark.dataSource.register(datasource_api.AiostormDataSource)
    except load("pyspark.errors").PySparkException as error:
        # Spark has found it by itself (pyspark_aiostorm.py), and what it has found cannot be replaced.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


@dataclass(frozen=True, slots=True)
class Writing:
    """The options of a write. `chunk_rows`: 0: as Spark's Arrow batches are."""

    where: Where
    name: str
    chunk_rows: int
    ahead: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The options of a read. `fields`: the columns that are wanted; none: all."""

    where: Where
    consumer: str
    max_rows: int
    max_bytes: int
    fields: tuple[str, ...] = ()


def writing(options: Mapping[str, str], role: str) -> Writing:
    """The options of a write. SparkSourceError names what is wrong, and what there is."""
    said = _known(options, _WRITING)
    name = said.get("name", "")
    if "/" in name or len(name) > 200:
        raise SparkSourceError(f"option name={name[:80]!r}: up to 200 characters, and no /")
    return Writing(
        _where(said, role),
        name,
        _number(said, "chunkrows", 0, 0, 10_000_000),
        _number(said, "ahead", AHEAD, 1, MAX_AHEAD),
    )


def reading(options: Mapping[str, str], role: str, consumer: str) -> Reading:
    """The options of a read. SparkSourceError names what is wrong, and what there is."""
    said = _known(options, _READING)
    return Reading(
        _where(said, role),
        said.get("consumer", consumer),
        _number(said, "maxrowspertrigger", 0, 0, 1 << 53),
        _number(said, "maxbytespertrigger", 0, 0, 1 << 53),
        names_of(said.get("fields", "")),
    )


def _known(options: Mapping[str, str], further: tuple[str, ...]) -> dict[str, str]:
    said = {key.lower(): value for key, value in options.items()}
    unknown = [key for key in said if key not in (*_SHARED, *further, *_SPARKS_OWN)]
    if unknown:
        raise SparkSourceError(f"no option {', '.join(unknown)}; there are {', '.join((*_SHARED, *further))}")
    return said


def _where(said: Mapping[str, str], role: str) -> Where:
    endpoints = said.get("endpoints") or said.get("path") or None
    addresses = tuple(part.strip() for part in said.get("address", "").split(",") if part.strip())
    if not endpoints and not addresses:
        raise SparkSourceError(
            "where is the topology? Give option endpoints (the folder that its spout or bolt was given), or address "
            "(host:port or unix:/path of each of its tasks, in their order, with commas) and credentials"
        )
    return Where(
        role,
        endpoints,
        addresses,
        said.get("credentials") or None,
        said.get("component") or None,
        _given(said, "patience", float, PATIENCE_S, 0, 86_400),
    )


def _number(said: Mapping[str, str], key: str, default: int, least: int, most: int) -> int:
    return int(_given(said, key, int, default, least, most))


def _given(said: Mapping[str, str], key: str, kind: Callable[[str], Any], default: Any, least: int, most: int) -> Any:
    text = said.get(key)
    if text is None:
        return default
    try:
        value = kind(text)
        if not least <= value <= most:
            raise ValueError
    except ValueError:
        raise SparkSourceError(f"option {key}={text[:80]!r}: a number from {least} to {most:,}") from None
    return value
