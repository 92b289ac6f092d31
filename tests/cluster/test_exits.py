"""User code that calls sys.exit on a worker: its row fails, the worker lives; a second one fails the topology."""

from __future__ import annotations

import sys
from collections import Counter
from typing import ClassVar

import pytest

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Config,
    LocalCluster,
    Topology,
    TopologyBuilder,
    TopologyFailedError,
    Tuple,
)
from aiostorm.testing.simulation import World

from .sim_workers import SimBackend, with_workers
from .test_workers import Numbers


class Exits(BasicBolt):
    bad: ClassVar[Counter[int]] = Counter()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        if self.bad[tup["n"]]:
            self.bad[tup["n"]] -= 1
            sys.exit(3)


def topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("exits", Exits, 2).fields_grouping("numbers", "n")
    return builder.create_topology(config=Config(max_spout_pending=30))


@pytest.mark.parametrize("times", [1, 5])
def test_a_worker_outlives_an_exit_of_user_code(times: int) -> None:
    Numbers.acked, Numbers.failures, Numbers.endless = Counter(), [], False
    Exits.bad = Counter({7: times})

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await cluster.submit("t", "tests.cluster.test_exits:topology")
        if times == 1:
            await running.wait_finished(100)
            await world.until(lambda: bool(running.errors()), 10, "a look at the workers")
            assert [(report.component, report.where) for report in running.errors()] == [("exits", "execute")]
        else:
            with pytest.raises(TopologyFailedError, match=r"exits\[\d\] was given up.*SystemExit\(3\)"):
                await running.wait_finished(100)
        await running.kill()

    backend = with_workers(story)
    assert backend.starts == {"worker-1": 1, "worker-2": 1}
