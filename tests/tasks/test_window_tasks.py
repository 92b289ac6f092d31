"""Tasks with windows: hooks, errors of the user's in the middle, settings of one component, what a restart says."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from aiostorm import Config, Failure, Fields, LocalCluster, TaskHook, TopologyBuilder, Tuple
from aiostorm.cli.document import as_json
from aiostorm.cli.report import RunReport, as_text
from aiostorm.testing import FeederSpout, Recorder
from aiostorm.windows import BufferedWindowBolt, ByFunction, Count, Punctuated, Tumbling, WindowedBolt, WindowRows

FIELDS = Fields("at", "name")


class Seen(TaskHook):
    calls: ClassVar[list[tuple[str, str]]] = []

    def bolt_execute(self, tup: Tuple, task_id: int, execute_latency_s: float) -> None:
        self.note("execute", tup)

    def bolt_ack(self, tup: Tuple, task_id: int) -> None:
        self.note("ack", tup)

    def bolt_fail(self, tup: Tuple, task_id: int) -> None:
        self.note("fail", tup)

    def spout_fail(self, message_id: Any, task_id: int, failure: Failure) -> None:
        self.calls.append(("spout", str(failure.error)))

    def note(self, what: str, tup: Tuple) -> None:
        if tup.source_component == "spout":
            self.calls.append((what, tup["name"]))


class Shown(BufferedWindowBolt):
    windows = Tumbling(100)
    timestamp = "at"
    outputs = Fields("rows")

    def execute(self, window: WindowRows) -> Any:
        return len(window.get())


def topology(windowed: Any, **config: Any) -> tuple[FeederSpout, Recorder, Any]:
    feeder, sink = FeederSpout(FIELDS), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("windows", windowed).shuffle_grouping("spout").set_config(config)
    builder.set_bolt("sink", sink).shuffle_grouping("windows")
    return feeder, sink, builder.create_topology()


def counts(**settings: Any) -> WindowedBolt:
    return WindowedBolt(Tumbling(100), Count(), timestamp="at", **settings)


@pytest.mark.parametrize("windowed", [counts(), Shown()], ids=["states", "tuples"])
async def test_hooks_see_rows(windowed: Any) -> None:
    Seen.calls.clear()
    feeder, _, made = topology(windowed)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", made, Config(auto_task_hooks=(f"{__name__}:Seen",)))
        await feeder.feed_all([(1, "a"), (None, "b"), (2, "c")])
        feeder.finish()
        await running.wait_idle()
    calls = [call for call in Seen.calls if call[0] in ("execute", "ack", "fail")]
    assert sorted(calls) == [("ack", "a"), ("ack", "c"), *(("execute", n) for n in "abc"), ("fail", "b")]


async def test_timestamps_of_several_kinds() -> None:
    feeder, sink, made = topology(counts())
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", made)
        await feeder.feed_all([(1, ""), (2.5, ""), (datetime.fromtimestamp(0.15, UTC), ""), ("3", "")])
        feeder.finish()
        await running.wait_idle()
    assert sink.values == [(2, 0, 100), (1, 100, 200)]
    assert list(feeder.failed) == [3]
    assert "timestamp is a str" in str(feeder.failed[3].error)


@pytest.mark.parametrize("kind", [Punctuated, ByFunction])
async def test_a_generator_that_raises_loses_only_what_it_would_have_said(kind: Any) -> None:
    def raises(*arguments: Any) -> Any:
        raise ValueError("no idea")

    feeder, sink, made = topology(counts(generator=lambda: kind(raises)))
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", made)
        await feeder.feed_all([(1, ""), (2, "")])
        await running.wait_idle()
        assert len(feeder.acked) == 2
        assert "no idea" in str(running.errors()[0].error)
        feeder.finish()
        await running.wait_idle()
    assert sink.values == [(2, 0, 100)]


async def test_settings_of_one_component() -> None:
    feeder, sink, made = topology(
        counts(), **{"topology.bolts.tuple.timestamp.max.lag.ms": 500, "window_max_states": 1}
    )
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", made)
        await feeder.feed_all([(1, ""), (599, "")])
        await running.wait_idle()
        assert list(feeder.failed) == [1]
        assert sink.values == []


@pytest.mark.parametrize("wait_s", [None, 0])
async def test_a_task_that_ends_with_open_windows_logs_and_counts_them(
    caplog: pytest.LogCaptureFixture, wait_s: float | None
) -> None:
    caplog.set_level(logging.WARNING, "aiostorm.tasks")
    feeder, _, made = topology(counts())
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", made)
        await feeder.feed((1, ""))
        await running.wait_idle()
        await running.kill(wait_s)
    assert "'windows' (task 2) ended with 1 open window that have not fired: their rows were acked" in caplog.text
    found = running.metrics()["windows"]
    assert (found.live_windows, found.dropped_windows, found.dropped_tuples) == (0, 1, 0)
    report = RunReport("t", "interrupted", 1.0, running.metrics())
    assert "\nwindows   windows: 1 open window dropped, not fired\n" in as_text(report)
    assert json.loads(as_json(report))["components"]["windows"]["windows"]["dropped_windows"] == 1


async def test_a_task_that_ends_with_kept_tuples_logs_and_counts_them(caplog: pytest.LogCaptureFixture) -> None:
    feeder, _, made = topology(Shown())
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", made)
        await feeder.feed_all([(1, ""), (2, "")])
        await running.wait_still()
        await running.kill(0)
    assert "'windows' (task 2) ended with 2 tuples in windows that have not fired: they are not acked" in caplog.text
    found = running.metrics()["windows"]
    assert (found.live_windows, found.dropped_windows, found.dropped_tuples) == (0, 0, 2)


async def test_an_instance_that_begins_anew_says_what_it_lost(caplog: pytest.LogCaptureFixture) -> None:
    feeder, sink, made = topology(counts())
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", made)
        await feeder.feed_all([(1, ""), (50, "")])
        await running.wait_idle()
        running._task_set.tasks.mailboxes[2].post("what no bolt task understands")
        await asyncio.sleep(1)
        assert running.metrics()["windows"].live_windows == 0
        await feeder.feed_all([(160, "")])
        feeder.finish()
        await running.wait_idle()
        assert running.metrics()["windows"].dropped_windows == 1
    assert "'windows' (task 2) was restarted: what 1 open window held is lost" in caplog.text
    assert sink.values == [(1, 100, 200)]
