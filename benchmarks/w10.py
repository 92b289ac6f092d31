"""W10, Spark into a topology: rows a second, time to the first row, memory of this process.

    python -m benchmarks.w10 [--rows 5_000_000] [--repetitions 5] [--ahead 1 2 4]        needs: uv sync --group spark

Input: Parquet files, written by Spark once for a run: id, key (97 values), amount (a double), at (a timestamp).

Every way runs in turn, in one process with one session (`local[2]`), since a session takes 10 s to start; the order
turns round with each repetition, and a first round that is not counted warms the JVM. Ratios are of one repetition.

    pyarrow     the files themselves, batch by batch, no Spark: the limit
    bare        the recommended way alone: partitions as Arrow, `ahead` at a time, decoded and counted
    topology    SparkBatchSpout with the same `ahead`, a bolt that counts (`execute_arrow`), acks on
    rows        the same, but the bolt takes tuples, one by one
    toArrow, toLocalIterator     what PySpark has, once each, on a tenth of the rows

Oracle: the number of rows, and the sum of ids, of every way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aiostorm import BasicBolt, BasicCollector, LocalCluster, TopologyBuilder, Tuple
from aiostorm.spark import SparkBatchSpout, make_session
from aiostorm.spark.batch.fetching import Fetching, planned
from aiostorm.spark.sessions import stop_session
from aiostorm.spark.types import arrow_schema

from .cells import WrongResultError
from .machine import describe

FILES = 32
CHUNK_ROWS = 10_000
TARGET = 0.8
CONF = {"spark.driver.memory": "2g", "spark.log.level": "ERROR", "spark.sql.session.timeZone": "UTC"}


@dataclass(slots=True)
class Counted:
    """What a way has seen."""

    rows: int = 0
    ids: int = 0
    first_s: float = 0.0
    began_s: float = field(default_factory=time.perf_counter)

    def take(self, rows: int, ids: int) -> None:
        """Some more."""
        if not self.rows:
            self.first_s = time.perf_counter() - self.began_s
        self.rows += rows
        self.ids += ids

    def batch(self, batch: Any) -> None:
        """A record batch (or a table) more."""
        self.take(batch.num_rows, pc.sum(batch.column("id")).as_py() or 0)


@dataclass(frozen=True, slots=True)
class Rate:
    """One run of a way."""

    way: str
    rows_per_s: float
    first_s: float
    grown_mb: float


class Count(BasicBolt):
    """Counts columns."""

    def __init__(self, counted: Counted) -> None:
        self.counted = counted

    def __deepcopy__(self, memo: object) -> Count:
        return self

    def execute_arrow(self, batch: Any, collector: BasicCollector) -> None:
        self.counted.batch(batch)


class CountRows(BasicBolt):
    """Counts tuples."""

    def __init__(self, counted: Counted) -> None:
        self.counted = counted

    def __deepcopy__(self, memo: object) -> CountRows:
        return self

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.counted.take(1, tup["id"])


# -- the ways ----------------------------------------------------------------------------------------------------------


def from_files(folder: str) -> Iterator[Any]:
    """Without Spark."""
    for path in sorted(Path(folder).glob("*.parquet")):
        yield from pq.ParquetFile(path).iter_batches(CHUNK_ROWS)


def bare(session: Any, folder: str, ahead: int) -> Iterator[Any]:
    """`ahead` threads fetch a partition each and decode it; no more than eight batches wait."""
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.execution.arrow.maxRecordsPerBatch": CHUNK_ROWS}
    own = planned(session.read.parquet(folder), settings)
    fetching, schema = Fetching(own), arrow_schema(own.schema, "it")
    slots, lock = threading.Semaphore(8), threading.Lock()
    ready: list[Any] = []
    came = threading.Condition(lock)

    def fetch(partition: int) -> None:
        fetched = fetching.fetch([partition], "bare")
        for _ in range(fetched.sizes[0]):
            slots.acquire()
            batch = pa.ipc.read_record_batch(pa.py_buffer(fetched.read()), schema)
            with came:
                ready.append(batch)
                came.notify()
        fetched.close()

    with ThreadPoolExecutor(ahead) as threads:
        left = [threads.submit(fetch, partition) for partition in range(fetching.partitions)]
        while left or ready:
            with came:
                came.wait_for(lambda: ready, timeout=0.01)
                batches, ready[:] = list(ready), []
            for batch in batches:
                slots.release()
                yield batch
            for done in [future for future in left if future.done()]:
                done.result()
                left.remove(done)


async def topology(session: Any, folder: str, ahead: int, counted: Counted, bolt: type[Any]) -> None:
    """Through a topology, with acks."""
    frame = await asyncio.to_thread(session.read.parquet, folder)
    spout = await asyncio.to_thread(lambda: SparkBatchSpout(frame, ahead=ahead, chunk_rows=CHUNK_ROWS))
    builder = TopologyBuilder()
    builder.set_spout("rows", spout)
    builder.set_bolt("count", bolt(counted)).shuffle_grouping("rows")
    async with LocalCluster() as cluster:
        running = await cluster.submit("w10", builder.create_topology())
        await running.wait_finished()
        if running.metrics()["rows"].failed:
            raise WrongResultError("chunks failed")


def consumed(batches: Iterable[Any]) -> Callable[[Counted], None]:
    """A way that is an iterator of batches."""

    def consume(counted: Counted) -> None:
        for batch in batches:
            counted.batch(batch)

    return consume


# -- the run -----------------------------------------------------------------------------------------------------------


class Peak:
    """The most memory that this process has while it is asked, each 10 ms."""

    def __init__(self) -> None:
        self.most_mb = self.began_mb = rss_mb()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, name="peak")

    def _look(self) -> None:
        while not self._ends.wait(0.01):
            self.most_mb = max(self.most_mb, rss_mb())

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look within."""
        self._thread.start()
        try:
            yield
        finally:
            self._ends.set()
            self._thread.join()

    @property
    def grown_mb(self) -> float:
        """More than at the beginning."""
        return self.most_mb - self.began_mb


def rss_mb() -> float:
    """What this process has in memory (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / (1 << 20)


async def timed(way: str, rows: int, run: Callable[[Counted], Any]) -> Rate:
    """One way, once. `run` blocks, or returns what is awaited."""
    peak, counted = Peak(), Counted()
    with peak.watched():
        counted.began_s = time.perf_counter()
        running = run(counted) if way.startswith(("topology", "rows")) else asyncio.to_thread(run, counted)
        await running
        took_s = time.perf_counter() - counted.began_s
    if (counted.rows, counted.ids) != (rows, rows * (rows - 1) // 2):
        raise WrongResultError(f"{way}: {counted.rows} rows, sum of ids {counted.ids}")
    return Rate(way, rows / took_s, counted.first_s, peak.grown_mb)


def ways(session: Any, folder: str, aheads: list[int]) -> dict[str, Callable[[Counted], Any]]:
    """Name → what to run."""
    found: dict[str, Callable[[Counted], Any]] = {"pyarrow": lambda c: consumed(from_files(folder))(c)}
    for ahead in aheads:
        found[f"bare, ahead {ahead}"] = lambda c, a=ahead: consumed(bare(session, folder, a))(c)  # type: ignore[misc]
        found[f"topology, ahead {ahead}"] = lambda c, a=ahead: topology(session, folder, a, c, Count)  # type: ignore[misc]
    found[f"rows, ahead {aheads[-1]}"] = lambda c: topology(session, folder, aheads[-1], c, CountRows)
    return found


def write(session: Any, rows: int, folder: str) -> None:
    """The input."""
    columns = ("id", "id % 97 as key", "cast(id as double) / 3 as amount", "timestamp_micros(id * 1000) as at")
    session.range(0, rows, 1, FILES).selectExpr(*columns).write.parquet(folder)


async def measure(rows: int, repetitions: int, aheads: list[int]) -> list[list[Rate]]:
    """The rates of each repetition; the first, which is not counted, is left out."""
    session = await asyncio.to_thread(lambda: make_session(CONF, master="local[2]", app_name="w10"))
    with tempfile.TemporaryDirectory(prefix="w10-") as home:
        folder, small = f"{home}/rows", f"{home}/small"
        try:
            await asyncio.to_thread(write, session, rows, folder)
            await asyncio.to_thread(write, session, rows // 10, small)
            found = []
            for repetition in range(repetitions + 1):
                order = list(ways(session, folder, aheads).items())
                rates = [await timed(name, rows, run) for name, run in order[:: -1 if repetition % 2 else 1]]
                for rate in rates:
                    print(f"{repetition}: {shown(rate)}", file=sys.stderr, flush=True)
                found.append(rates)
            found[-1] += await others(session, small, rows // 10)
        finally:
            await asyncio.to_thread(stop_session, session)
    return found[1:]


async def others(session: Any, folder: str, rows: int) -> list[Rate]:
    """What PySpark has."""

    def all_rows(counted: Counted) -> None:
        for row in session.read.parquet(folder).toLocalIterator():
            counted.take(1, row.id)

    return [
        await timed("toArrow", rows, lambda counted: counted.batch(session.read.parquet(folder).toArrow())),
        await timed("toLocalIterator", rows, all_rows),
    ]


# -- what is shown -----------------------------------------------------------------------------------------------------


def shown(rate: Rate) -> str:
    """In a line."""
    return f"{rate.way:20} {rate.rows_per_s:>12,.0f} rows/s  first {rate.first_s:6.2f} s  + {rate.grown_mb:6.1f} MB"


def table(found: list[list[Rate]], aheads: list[int]) -> str:
    """Medians, and what part of the bare way's rate of the same repetition the topology has."""
    names = list(dict.fromkeys(rate.way for rates in found for rate in rates))
    lines = ["| way | rows/s | first row | memory grows by |", "|---|---|---|---|"]
    for name in names:
        mine = [rate for rates in found for rate in rates if rate.way == name]
        rates = sorted(rate.rows_per_s for rate in mine)
        lines.append(
            f"| {name} | {statistics.median(rates):,.0f} ({rates[0]:,.0f} – {rates[-1]:,.0f}) "
            f"| {statistics.median(rate.first_s for rate in mine):.2f} s "
            f"| {max(rate.grown_mb for rate in mine):.0f} MB at most |"
        )
    for ahead in aheads:
        ratios = []
        for rates in found:
            by_name = {rate.way: rate.rows_per_s for rate in rates}
            ratios.append(by_name[f"topology, ahead {ahead}"] / by_name[f"bare, ahead {ahead}"])
        median = statistics.median(ratios)
        verdict = "met" if median >= TARGET else "missed"
        lines.append(
            f"\nThe topology has {median:.2f} ({min(ratios):.2f} – {max(ratios):.2f}) of the bare way's rate at ahead "
            f"{ahead}; at least {TARGET} is aimed at: {verdict}."
        )
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rows", type=int, default=5_000_000)
    options.add_argument("--repetitions", type=int, default=5)
    options.add_argument("--ahead", type=int, nargs="+", default=[1, 2, 4])
    options.add_argument("--json", metavar="FILE", help="write every run there, too")
    given = options.parse_args()
    found = asyncio.run(measure(given.rows, given.repetitions, given.ahead))
    print(table(found, given.ahead))
    if given.json:
        text = json.dumps({"machine": describe(), "runs": [[asdict(r) for r in rates] for rates in found]})
        Path(given.json).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
