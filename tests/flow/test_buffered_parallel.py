"""What buffered windows say does not depend on how many tasks there are, nor on how rows are put into batches."""

from __future__ import annotations

import random
from typing import Any

import pytest

from aiostorm import BufferedWindowBolt, Config, Fields, Mixed, Session, Sliding, Spout, TopologyBuilder, Tumbling
from aiostorm.testing import complete_topology
from aiostorm.windows import WindowRows

from ..windows import reference

DISORDER_MS = 20


class Rows(Spout):
    outputs = Fields("key", "at", "n")

    def next_tuple(self) -> None:
        raise AssertionError("replaced")


class Shown(BufferedWindowBolt):
    key = "key"
    timestamp = "at"
    outputs = Fields("key", "start", "end", "all", "new", "expired")

    def execute(self, window: WindowRows) -> Any:
        sides = ([tup["n"] for tup in rows] for rows in (window.get(), window.get_new(), window.get_expired()))
        return (window.key, window.window.start, window.window.end, *sides)


def model_of(windows: Any) -> Any:
    if isinstance(windows, Session):
        return reference.KeptSessions(windows.gap_ms)
    if isinstance(windows, Sliding):
        return reference.Buffered(windows.size_ms, windows.slide_ms)
    if windows.size_ms is None:
        return reference.RowsEach(windows.size, windows.slide_ms)
    return reference.SpanEach(windows.size_ms, windows.slide)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "windows",
    [Session(10), Tumbling(50), Sliding(50, 20), Mixed(size=3, slide_ms=25), Mixed(size_ms=40, slide=2)],
    ids=["session", "tumbling", "sliding", "rows each ms", "ms each rows"],
)
async def test_results_equal_those_of_a_plain_model_with_any_number_of_tasks(windows: Any, seed: int) -> None:
    rng = random.Random(seed)
    at, rows = 1_000, []
    for n in range(120):
        at += rng.choice((0, 0, 1, 4, 10, 11))
        rows.append((rng.choice("abcde"), at - rng.choice((0, 0, 5, DISORDER_MS)), n))
    model = model_of(windows)
    model.add([(key, at_ms, n) for key, at_ms, n in rows])
    fired, _ = model.advance(reference.END)
    expected = sorted([key, *span, *sides] for span, key, *sides in fired)
    for parallelism, config in ((1, Config()), (2, Config(turn_max_tuples=3)), (4, Config()), (8, Config())):
        builder = TopologyBuilder()
        builder.set_spout("rows", Rows)
        bolt = Shown(windows, lag_ms=DISORDER_MS, interval_ms=1)
        builder.set_bolt("windows", bolt, parallelism).fields_grouping("rows", "key")
        done = await complete_topology(builder.create_topology(), {"rows": rows}, config=config)
        assert sorted(map(list, done["windows"])) == expected
        assert (done.acked, done.failed) == (120, 0)
