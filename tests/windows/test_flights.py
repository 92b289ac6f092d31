"""A real time series through whole topologies: what windows say is what a plain look at all rows says.

flights.json: the 463 flights from four airports among the 20,000 of `flights-20k.json` of vega-datasets, which were
drawn from the on-time records of the US Bureau of Transportation Statistics (public domain): January to March 2001. A
row is date, delay in minutes, distance in miles, origin and destination.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aiostorm import Fields, LocalCluster, Session, Sliding, Spout, TopologyBuilder, Tumbling, WindowedBolt
from aiostorm.testing import Recorder
from aiostorm.windows import Combined, Count, Fold, Max, Mean

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
Flight = tuple[int, int, int, str, str]
"""When (ms), delay, distance, origin, destination."""


def read() -> list[Flight]:
    rows = json.loads(Path(__file__).with_name("flights.json").read_text())
    return [(to_ms(date), delay, distance, origin, to) for date, delay, distance, origin, to in rows]


def to_ms(date: str) -> int:
    return int(datetime.strptime(date, "%Y/%m/%d %H:%M").replace(tzinfo=UTC).timestamp() * 1_000)


FLIGHTS = read()


def out_of_order(seed: int) -> list[Flight]:
    """As they may arrive: each up to three hours late."""
    rng = random.Random(seed)
    return sorted(FLIGHTS, key=lambda flight: flight[0] + rng.randrange(3 * HOUR_MS))


class Flights(Spout):
    """Emits its share of the flights, one each 10 ms; two tasks share them out by their turn."""

    outputs = Fields("at", "delay", "distance", "origin", "destination")

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def open(self, context: Any, collector: Any) -> None:
        self.left = iter(out_of_order(self.seed)[context.task_index :: context.parallelism])
        self.collector = collector

    async def next_tuple(self) -> None:
        flight = next(self.left, None)
        if flight is None:
            self.collector.finish()
        else:
            self.collector.emit(flight, message_id=flight)
            await asyncio.sleep(0.01)


class Worst(WindowedBolt):
    """The worst delay of a session, and where it was to; a session without a delay says nothing."""

    windows = Session(6 * HOUR_MS)
    key = "origin"
    outputs: ClassVar[Fields] = Fields("origin", "flights", "delay", "destinations", "start", "end")

    def timestamp(self, tup: Any) -> int:
        return int(tup["at"])

    def init_state(self, window: Any) -> dict[str, Any]:
        return {"flights": 0, "delay": -10_000, "to": frozenset()}

    def execute(self, tup: Any, state: dict[str, Any], window: Any) -> None:
        state["flights"] += 1
        state["delay"] = max(state["delay"], tup["delay"])
        state["to"] |= {tup["destination"]}

    def merge(self, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
        return {
            "flights": first["flights"] + second["flights"],
            "delay": max(first["delay"], second["delay"]),
            "to": first["to"] | second["to"],
        }

    def purge(self, state: dict[str, Any], window: Any, key: str) -> tuple[Any, ...] | None:
        if state["delay"] <= 0:
            return None
        return key, state["flights"], state["delay"], len(state["to"]), window.start, window.end


async def run(windowed: Any, seed: int) -> list[tuple[Any, ...]]:
    """What a windowed bolt of two tasks says of the flights of two spout tasks; nothing is late."""
    builder, sink = TopologyBuilder(), Recorder()
    builder.set_spout("flights", Flights(seed), parallelism=2)
    builder.set_bolt("windows", windowed, parallelism=2).fields_grouping("flights", "origin")
    builder.set_bolt("sink", sink).global_grouping("windows")
    async with LocalCluster() as cluster:
        running = await cluster.submit("flights", builder.create_topology())
        await asyncio.sleep(len(FLIGHTS) / 2 * 0.01 - 0.02)
        before_the_end = running.metrics()["windows"].fired
        await running.wait_finished()
        metrics = running.metrics()
    assert (metrics["flights"].acked, metrics["windows"].late) == (len(FLIGHTS), 0)
    assert before_the_end > 0.9 * metrics["windows"].fired, "watermarks fire them, not the end"
    return sorted(sink.values)


def of(flights: Iterable[Flight], key: str, start: int, end: int) -> tuple[Any, ...]:
    """One row, plainly."""
    here = [flight for flight in flights if flight[3] == key and start <= flight[0] < end]
    delays = [delay for _, delay, *_ in here]
    to = {flight[4] for flight in here}
    return (
        key,
        len(here),
        pytest.approx(sum(delays) / len(here)),
        max(flight[2] for flight in here),
        len(to),
        start,
        end,
    )


@pytest.mark.parametrize("windows", [Tumbling(DAY_MS), Sliding(7 * DAY_MS, DAY_MS)], ids=["by day", "of a week"])
@pytest.mark.parametrize("seed", [1, 2])
async def test_flights_by_origin(windows: Sliding, seed: int) -> None:
    said = Combined(
        flights=Count(),
        delay=Mean("delay"),
        farthest=Max("distance"),
        destinations=Fold(set, lambda seen, to: seen | {to}, lambda a, b: a | b, len, of="destination"),
    )
    # Flights are rare: one bad clock among them is not what a step of hours means.
    settings: dict[str, Any] = {"lag_ms": 3 * HOUR_MS, "interval_ms": 10, "max_advance_ms": 0}
    found = await run(WindowedBolt(windows, said, key="origin", timestamp="at", **settings), seed)
    spans = {(flight[3], window.start, window.end) for flight in FLIGHTS for window in windows.windows_of(flight[0])}
    expected = [of(FLIGHTS, *span) for span in sorted(spans)]
    assert len(found) == len(expected)
    assert sorted(found, key=lambda row: (row[0], row[-2])) == expected


@pytest.mark.parametrize("seed", [1, 2])
async def test_sessions_of_an_airport(seed: int) -> None:
    found = await run(Worst(lag_ms=3 * HOUR_MS, interval_ms=10, max_advance_ms=0), seed)
    by_origin: dict[str, list[Flight]] = defaultdict(list)
    for flight in sorted(FLIGHTS):
        by_origin[flight[3]].append(flight)
    expected = []
    for origin, flights in by_origin.items():
        session: list[Flight] = []
        for flight in [*flights, None]:
            if session and (flight is None or flight[0] - session[-1][0] >= 6 * HOUR_MS):
                worst = max(delay for _, delay, *_ in session)
                if worst > 0:
                    to = len({flown[4] for flown in session})
                    expected.append((origin, len(session), worst, to, session[0][0], session[-1][0] + 6 * HOUR_MS))
                session = []
            if flight is not None:
                session.append(flight)
    assert sorted(found) == sorted(expected)
