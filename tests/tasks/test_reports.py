"""Error reports: what they name, that they are bounded, and that no value can break them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aiostorm import Config, LocalCluster
from aiostorm.testing import FixedSpout, SimClock

from .parts import Does, Notes, Numbers, line, rows


class Awkward:
    """A value, or an exception's argument, that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("do not look at me")

    __str__ = __repr__


class AwkwardError(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("do not look at me")

    __repr__ = __str__


@pytest.mark.parametrize(
    "error", [ValueError("bad"), AwkwardError(), ValueError(Awkward())], ids=["plain", "own", "arg"]
)
async def test_values_and_errors_that_cannot_be_shown(local_cluster: LocalCluster, error: Exception) -> None:
    source = FixedSpout([(Awkward(),), (1,)], "n")

    def act(tup: Any, collector: Any) -> None:
        if tup["n"] != 1:
            raise error

    running = await local_cluster.submit("t", line(source, bolt=Does(act)))
    await running.wait_finished()
    assert source.acked == [1]
    assert type(error).__name__ in str(source.failed[0].error)
    [report] = running.errors()
    assert type(error).__name__ in str(report)
    assert running.metrics()["bolt"].restarts == 0


async def test_reports_are_bounded(local_cluster: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    source = FixedSpout([("x" * 1_000_000,)], "text")

    def act(tup: Any, collector: Any) -> None:
        raise KeyError(tup["text"])

    with caplog.at_level(logging.ERROR):
        running = await local_cluster.submit("t", line(source, bolt=Does(act)))
        await running.wait_finished()
    [report] = running.errors()
    assert len(report.tuple or "") < 2_000
    assert len(report.error) < 5_000
    assert len(report.traceback) < 50_000
    assert "KeyError" in report.traceback
    assert len(source.failed[0].error or "") < 5_000
    assert max(len(record.getMessage()) for record in caplog.records) < 100_000


async def test_the_last_200_are_kept_and_all_are_counted(local_cluster: LocalCluster) -> None:
    source = Numbers(500)

    def act(tup: Any, collector: Any) -> None:
        raise ValueError(tup["n"])

    running = await local_cluster.submit("t", line(source, bolt=Does(act)))
    await running.wait_finished()
    assert [report.error for report in running.errors()] == [f"ValueError: {n}" for n in range(300, 500)]
    assert running.metrics()["bolt"].errors == 500


async def test_the_log_gets_each_kind_once_and_then_once_a_second(
    local_cluster: LocalCluster, sim_clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    source = FixedSpout(rows(range(100)), "n")

    def act(tup: Any, collector: Any) -> None:
        if tup["n"] % 2:
            raise ValueError(tup["n"])
        raise LookupError(tup["n"])

    with caplog.at_level(logging.ERROR, logger="aiostorm.component"):
        running = await local_cluster.submit("t", line(source, bolt=Does(act)))
        await running.wait_finished()
    texts = [record.getMessage() for record in caplog.records if record.name == "aiostorm.component"]
    assert len(texts) == 2
    assert "Traceback" in texts[0]
    assert texts[0].startswith("t: bolt[2] failed in execute on Tuple(n=0; from spout[1] on 'default'): LookupError: 0")


async def test_a_report_has_the_time_and_the_traceback(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    seen = Notes()

    def act(tup: Any, collector: Any) -> None:
        seen.append(sim_clock.now())
        raise ValueError("bad")

    running = await local_cluster.submit("t", line(Numbers(1), bolt=Does(act)))
    await running.wait_finished()
    [report] = running.errors()
    assert report.time == seen[0]
    assert report.traceback.rstrip().endswith("ValueError: bad")
    assert 'raise ValueError("bad")' in report.traceback


async def test_report_error_shows_an_error_and_fails_nothing(local_cluster: LocalCluster) -> None:
    class Reports(Numbers):
        def next_tuple(self) -> None:
            self.collector.report_error(LookupError("in the spout"))
            super().next_tuple()

    source = Reports(1)
    running = await local_cluster.submit(
        "t", line(source, bolt=Does(lambda tup, c: c.report_error(LookupError("in the bolt"))))
    )
    await running.wait_finished()
    assert source.acked == [0]
    assert [(r.component, r.where, r.error) for r in running.errors()] == [
        ("spout", "report_error", "LookupError: in the spout"),
        ("bolt", "report_error", "LookupError: in the bolt"),
    ]


async def test_report_error_of_a_blocking_spout(local_cluster: LocalCluster) -> None:
    class Reports(Numbers):
        blocking = True

        def next_tuple(self) -> None:
            self.collector.report_error(LookupError("in the thread"))
            super().next_tuple()

    running = await local_cluster.submit("t", line(Reports(1), sink=Does(lambda tup, c: None)), Config())
    await running.wait_finished()
    assert [r.error for r in running.errors()] == ["LookupError: in the thread"]
