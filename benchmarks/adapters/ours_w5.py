"""aiostorm does W5: one spout, windows keyed by key, in one task or four, a task that takes the results.

The ready-made bolt, with a lag of 5 s. Watermarks are sent each 10 ms of the clock (a second by default): a run is
shorter than a second, and its windows are to close on the way.

Guarantees: "at least once": each event has a message id, and every one must be acked exactly once, the late ones too.
"at most once": without message ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiostorm import BasicBolt, BasicCollector, Config, LocalCluster, Topology, TopologyBuilder, TupleBatch, spout
from aiostorm.windows import Combined, Count, Sum, Tumbling, WindowedBolt

from ..cells import Outcome, WrongResultError
from ..clocking import Stopwatch, run_in
from ..w5 import LAG_MS, WINDOW_MS, Event, Result, events

INTERVAL_MS = 10


class Results(BasicBolt):
    """Takes what windows come to."""

    def __init__(self, results: list[Any]) -> None:
        self.results = results

    def execute_batch(self, tuples: TupleBatch, collector: BasicCollector) -> None:
        self.results += tuples.rows


def windows(
    size: int,
    *,
    guarantee: str = "at least once",
    tasks: int = 1,
    loop: str = "uvloop",
    config: dict[str, Any] | None = None,
) -> Outcome:
    """One run."""
    given = events(size)
    tracked = guarantee == "at least once"
    rows: list[tuple[str, int, int, int, int]] = []
    watch, ended, late = run_in(loop, _run(_topology(given.events, tracked, tasks, rows), Config(**(config or {}))))
    results: list[Result] = [(key, start, total, count) for key, total, count, start, _ in rows]
    dropped = given.check_results(results, by="window")
    if dropped != late:
        raise WrongResultError(f"{dropped} events are in no window; {late} were counted as late")
    if tracked and ended != (size, 0, 0):
        raise WrongResultError(f"{ended[0]} acked, {ended[1]} failed, {ended[2]} pending of {size}")
    return Outcome(size, watch.wall_s, watch.cpu_s, seen={"dropped": dropped})


def _topology(given: list[Event], tracked: bool, tasks: int, rows: list[Any]) -> Topology:
    @spout(outputs=("key", "at", "value"), tracked=tracked)
    def source() -> Iterator[Event]:
        yield from given

    def windowed() -> WindowedBolt:
        return WindowedBolt(
            Tumbling(WINDOW_MS),
            Combined(sum=Sum("value"), count=Count()),
            key="key",
            timestamp="at",
            lag_ms=LAG_MS,
            interval_ms=INTERVAL_MS,
        )

    builder = TopologyBuilder()
    builder.set_spout("events", source)
    builder.set_bolt("windows", windowed, tasks).fields_grouping("events", "key")
    builder.set_bolt("results", lambda: Results(rows)).shuffle_grouping("windows")
    return builder.create_topology("w5")


async def _run(topology: Topology, config: Config) -> tuple[Stopwatch, tuple[int, int, int], int]:
    """From the submit until every event has been emitted, every window has fired, and the results have come."""
    async with LocalCluster() as cluster:
        with Stopwatch() as watch:
            running = await cluster.submit("w5", topology, config)
            await running.wait_finished()
        metrics = running.metrics()
        source = metrics["events"]
        return watch, (source.acked, source.failed, source.pending), metrics["windows"].late
