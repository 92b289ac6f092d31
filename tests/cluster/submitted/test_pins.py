"""Pins, as a parent carries them out: tasks of a pinned component run only in the workers of its labels."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar

import pytest

from aiostorm import BasicBolt, BasicCollector, Topology, TopologyBuilder, Tuple

from ..test_workers import COUNT, Numbers
from .stage import Stage, on_stage

GPU = frozenset({"gpu"})
TARGET = f"{__name__}:topology"


class Where(BasicBolt):
    """In which event loops its tasks have executed: each process of the world has one."""

    loops: ClassVar[dict[str, set[Any]]] = {}
    outputs = "n"

    def prepare(self, context: Any) -> None:
        self.own = self.loops.setdefault(context.component, set())

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.own.add(asyncio.get_running_loop())
        collector.emit((tup["n"],))


def topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("detect", Where, 3).shuffle_grouping("numbers")
    builder.set_bolt("any", Where, 3).shuffle_grouping("detect")
    return builder.create_topology()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Numbers.acked, Numbers.failures, Numbers.endless = Counter(), [], False
    Where.loops = {}


def names_of(stage: Stage, component: str) -> set[str]:
    return {name for name, each in stage.world.processes.items() if each.loop in Where.loops[component]}


def test_tasks_of_a_pinned_component_run_only_where_the_label_is() -> None:
    async def story(stage: Stage) -> None:
        stage.place(workers=("s", "s", "g"), labels=(frozenset(), frozenset(), GPU))
        await stage.submit(workers=3, pins={"detect": GPU, "any": frozenset()})
        processes = stage.start()
        await stage.world.until(lambda: len(Numbers.acked) == COUNT, 30, "all the work")
        assert names_of(stage, "detect") == {"worker-3"}
        assert {"worker-1", "worker-2"} <= names_of(stage, "any")
        await stage.until_ended(*processes)

    on_stage(story, TARGET)


def test_the_next_parent_adopts_all_workers_as_they_are() -> None:
    async def story(stage: Stage) -> None:
        Numbers.endless = True
        stage.place(workers=("s", "g"), labels=(frozenset(), GPU))
        await stage.submit(pins={"detect": GPU})
        parent, *workers = stage.start()
        await stage.wait_state("ACTIVE")
        parent.kill("is killed by the test")
        # Nimbus has moved the worker meanwhile: its labels are the same, and so are its tasks.
        await stage.assign(workers=("s", "h"))
        await asyncio.sleep(0.3)
        parent.start()
        await stage.wait_state("ACTIVE")
        await stage.world.until(lambda: len(Numbers.acked) == COUNT, 30, "all the work")
        assert [each.incarnation for each in workers] == [1, 1]
        assert names_of(stage, "detect") == {"worker-2"}
        await stage.change(wanted="KILLED")
        await stage.until_ended(parent, *workers)

    on_stage(story, TARGET)


@pytest.mark.parametrize(
    ("pins", "why"),
    [
        ({"detetc": GPU}, "there is no component 'detetc' to be pinned: there are numbers, detect, any"),
        ({"detect": GPU}, "none of the workers (worker-1, worker-2) may run 'detect', which is pinned"),
    ],
)
def test_what_cannot_be_placed_so_runs_nowhere(pins: dict[str, frozenset[str]], why: str) -> None:
    async def story(stage: Stage) -> None:
        await stage.submit(pins=pins)
        processes = stage.start()
        await stage.wait_state("FAILED")
        record = await stage.parent_record()
        assert record is not None
        assert why in record.degraded
        assert not Where.loops
        await stage.change(wanted="KILLED")
        await stage.until_ended(processes[0])
        for worker in processes[1:]:
            worker.kill("has nothing to do")

    on_stage(story, TARGET)
