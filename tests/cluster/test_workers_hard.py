"""Topologies on workers that do what they should not: long errors and ids, results that cannot be had; odd moments."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import BasicCollector, Config, LocalCluster, State, Topology, TopologyBuilder, Tuple
from aiostorm.cluster import WorkerError
from aiostorm.testing.simulation import World

from . import test_workers
from .sim_workers import SimSite, with_workers
from .test_workers import Numbers, Twice, _fresh, breaks, submit  # noqa: F401  (a fixture)

HERE = "tests.cluster.test_workers_hard"


class Talkative(Twice):
    """Its errors are long."""

    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        error = ValueError("it is long")
        error.add_note("€" * 20_000)
        raise error

    def result(self) -> None:
        raise ValueError("no result")


class Named(Numbers):
    """Its message ids are long."""

    def next_tuple(self) -> None:
        if self.left:
            n = self.left.pop()
            self.collector.emit((n,), f"{n}{'i' * 4000}")

    def ack(self, message_id: Any) -> None:
        raise AssertionError("nothing is acked")

    def fail(self, message_id: Any, failure: Any) -> None:
        return None


class Keeps(Talkative):
    """Keeps what it has."""

    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        await asyncio.Event().wait()


def talkative() -> Topology:
    return breaks(Talkative)


def long_names() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Named)
    builder.set_bolt("keeps", Keeps, 2).shuffle_grouping("numbers")
    return builder.create_topology(config=Config(max_spout_pending=1000))


def test_long_errors_of_many_tuples_do_no_harm() -> None:
    Numbers.endless = True

    async def story(world: World, cluster: LocalCluster, site: SimSite) -> None:
        running = await cluster.submit("job", f"{HERE}:talkative")
        await world.until(lambda: running.metrics()["broken"].errors > 100, 30, "errors")
        assert running.state is State.ACTIVE
        assert running.errors()[-1].component == "broken"
        assert len(running.errors()[-1].traceback) > 10_000
        for _ in range(10):
            with pytest.raises(WorkerError, match=r"broken\[\d+\].result\(\) failed: ValueError: no result"):
                await running.results()
        await running.kill(0)

    site = with_workers(story)
    assert set(site.lives.values()) == {1}


def test_many_long_message_ids_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_workers, "COUNT", 600)

    async def story(world: World, cluster: LocalCluster, site: SimSite) -> None:
        running = await cluster.submit("job", f"{HERE}:long_names")
        await world.until(lambda: running.metrics().pending > 500, 30, "messages")
        await world.until(lambda: bool(running.pending()["numbers"]), 30, "ids")
        assert 40 < len(running.pending()["numbers"]) < 60
        await running.kill(0)

    with_workers(story)
