"""Flights: cleaned and joined in Spark, their delays by airport and hour in windows of event time, written as Parquet.

    python -m examples.spark_flights                                flights that Spark makes up, and the check
    python -m examples.spark_flights --flights FILE --workers 2     your own (JSON: date, delay, origin, destination)
    aiostorm run examples.spark_flights:topology FILE FOLDER        the topology alone; - for FILE: made up
    aiostorm run --spark 'local-cluster[2,1,1024]' examples.spark_flights:topology FILE FOLDER

      Spark                                     aiostorm
      read ─▶ clean ─▶ join ─▶ sort ══Arrow══▶ flights ──fields (origin)──▶ delays ×2 ──▶ hours ──▶ parquet ─▶ FOLDER
                                                                  1 h of event time       columns    size=…/*.parquet

It needs `pip install "aiostorm[spark]"` and a Java: `aiostorm doctor` says what is missing.

What it shows: a DataFrame as a source, whose columns become rows where a bolt wants rows; windows that go by the time
that flights have; a sink of Parquet files; and that the answer is Spark SQL's, row by row.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiostorm import Combined, Count, LocalCluster, Max, Mean, Topology, TopologyBuilder, Tumbling, WindowedBolt, bolt
from aiostorm.spark import ParquetSinkBolt, SparkBatchSpout, make_session

HOUR_MS = 3_600_000
MADE_UP = "-"
SPARK = {
    "spark.master": "local[2]",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
}
FIELDS = ("at", "origin", "size", "delay")
DELAYS = ("size", "origin", "hour", "flights", "mean_delay", "worst_delay")


# -- in Spark ----------------------------------------------------------------------------------------------------------


def raw_flights(spark: Any, file: str) -> Any:
    """The flights of a file (one JSON array, or an object on each line), or a hundred thousand that are made up."""
    if file != MADE_UP:
        return spark.read.json(file, multiLine=not file.endswith("l"))
    return spark.range(100_000, numPartitions=4).selectExpr(
        "date_format(timestamp_seconds(978307200 + id * 61 + hash(id) % 600), 'yyyy/MM/dd HH:mm') as date",
        "if(id % 997 = 0, null, cast(abs(hash(id, 1)) % 90 - 15 as bigint)) as delay",
        "concat('A', lpad(cast(int(sqrt(abs(hash(id, 2)) % 900)) as string), 2, '0')) as origin",
        "concat('A', lpad(cast(int(sqrt(abs(hash(id, 3)) % 900)) as string), 2, '0')) as destination",
    )


def flights(spark: Any, file: str) -> Any:
    """Cleaned (a time that can be read, a delay that can be true), joined with how large the airport is, by time."""
    raw = raw_flights(spark, file)
    clean = raw.selectExpr(
        "try_to_timestamp(date, 'yyyy/MM/dd HH:mm') as at", "cast(delay as int) as delay", "upper(origin) as origin"
    ).where("at is not null and origin is not null and delay between -180 and 1440")
    airports = clean.groupBy("origin").count().selectExpr("origin", "if(count < 500, 'small', 'large') as size")
    # The same rows in the same order whenever it is computed: what has been processed is not processed again.
    return clean.join(airports, "origin").select(*FIELDS).orderBy(*FIELDS)


# -- the topology ------------------------------------------------------------------------------------------------------


@bolt(outputs=DELAYS)
def hours(origin: str, size: str, flights: int, mean: float, worst: int, start: int, end: int) -> tuple[Any, ...]:
    """A window as a row of the result."""
    return size, origin, datetime.fromtimestamp(start / 1_000, UTC), flights, mean, worst


def topology(file: str = MADE_UP, folder: str = "") -> Topology:
    """Flights of `file`; the result goes to `folder`."""
    if not folder:
        raise ValueError("say where the result goes: aiostorm run examples.spark_flights:topology FILE FOLDER")
    builder = TopologyBuilder()
    source = SparkBatchSpout(lambda spark: flights(spark, file), fields=FIELDS, session=SPARK, ahead=1)
    builder.set_spout("flights", source)
    delays = WindowedBolt(
        Tumbling(HOUR_MS),
        Combined(flights=Count(), mean=Mean("delay"), worst=Max("delay")),
        key=("origin", "size"),
        timestamp="at",
    )
    builder.set_bolt("delays", delays, parallelism=2).fields_grouping("flights", "origin")
    builder.set_bolt("hours", hours).shuffle_grouping("delays")
    builder.set_bolt("parquet", ParquetSinkBolt(folder, partition_by=("size",))).shuffle_grouping("hours")
    return builder.create_topology()


# -- the check ---------------------------------------------------------------------------------------------------------


def check(file: str, folder: str) -> tuple[int, list[Any], list[Any]]:
    """How many rows are the same as Spark SQL's, what is too much, what is missing. Blocks."""
    spark = make_session(SPARK)
    flights(spark, file).createOrReplaceTempView("flights")
    asked = spark.sql(
        """select size, origin, date_trunc('hour', at) as hour, count(*) as flights, avg(delay) as mean_delay,
                  max(delay) as worst_delay
           from flights group by 1, 2, 3"""
    ).cache()
    found = spark.read.parquet(folder).select(*DELAYS)
    wrong, missing = found.exceptAll(asked).limit(5).collect(), asked.exceptAll(found).limit(5).collect()
    return asked.count(), wrong, missing


async def main(file: str, folder: str, workers: int) -> int:
    """Run it, and compare."""
    async with LocalCluster(workers=workers) as cluster:
        running = await cluster.submit("flights", "examples.spark_flights:topology", arguments=(file, folder))
        await running.wait_finished()
        done = running.metrics()["delays"]
        print(f"{done.executed:,} flights went through the windows")
    rows, wrong, missing = await asyncio.to_thread(check, file, folder)
    for row in wrong:
        print("not Spark's:", row)
    for row in missing:
        print("missing:", row)
    print(
        f"{rows:,} rows in {folder}: " + ("NOT what Spark SQL says" if wrong or missing else "each as Spark SQL has it")
    )
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--flights", default=MADE_UP, metavar="FILE", help="JSON; default: flights that are made up")
    options.add_argument("--out", metavar="FOLDER", help="where the result goes; default: a new temporary folder")
    options.add_argument("--workers", type=int, default=0, help="processes; default: all in this one")
    given = options.parse_args()
    where = given.out or str(Path(tempfile.mkdtemp(prefix="flights-")) / "delays")
    sys.exit(asyncio.run(main(given.flights, where, given.workers)))
