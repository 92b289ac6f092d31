"""Health: when a program is restarted, and when it gets traffic."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from aiostorm import BasicBolt, Config, LocalCluster, State, TopologyFailedError
from aiostorm.cluster import Health, WorkerStatus, health_of, health_of_all

from ..tasks.parts import Numbers, line


def worker(name: str, phase: str) -> WorkerStatus:
    return WorkerStatus(name, 1, phase, (1,), 0)


@pytest.mark.parametrize(
    ("state", "live", "ready", "text"),
    [
        (State.STARTING, True, False, "it starts"),
        (State.ACTIVE, True, True, ""),
        (State.INACTIVE, True, False, "it is deactivated"),
        (State.KILLED, True, False, "it has ended"),
        (State.FAILED, False, False, "it has failed: a task was given up"),
    ],
)
def test_by_state(state: State, live: bool, ready: bool, text: str) -> None:
    assert health_of(state) == Health(live, ready, (text,) if text else ())


def test_workers_and_degradation() -> None:
    workers = [worker("w1", "RUNNING"), worker("w2", "BACKOFF")]
    assert health_of(State.ACTIVE, workers) == Health(True, False, ("w2 is BACKOFF",))
    assert health_of(State.ACTIVE, workers[:1], "w1: it dies") == Health(True, False, ("w1: it dies",))
    assert health_of(State.KILLED, [worker("w1", "ENDED")]) == Health(True, False, ("it has ended",))


def test_that_of_a_program_is_that_of_the_worst() -> None:
    each = [health_of(state) for state in State]
    for one, other in itertools.product(each, each):
        found = health_of_all({"a": one, "b": other})
        assert (found.live, found.ready) == (one.live and other.live, one.ready and other.ready)
        assert found.ready == (not found.problems)
        assert found.live or not found.ready
    assert health_of_all({"a": each[0]}).problems == ("a: it starts",)
    assert health_of_all({}) == Health(True, False, ("no topology was submitted",))


async def test_of_a_topology_that_fails(local_cluster: LocalCluster) -> None:
    class Fails(BasicBolt):
        bad = False

        def prepare(self, context: Any) -> None:
            if type(self).bad:
                raise ValueError("bad")

        def execute(self, tup: Any, collector: Any) -> None:
            type(self).bad = True
            raise SystemExit("bad")

    running = await local_cluster.submit("t", line(Numbers(5), fails=Fails()), Config(restart_max=0))
    assert running.health() == Health()
    with pytest.raises(TopologyFailedError):
        await running.wait_finished()
    found = running.health()
    assert (found.live, found.ready) == (False, False)
