"""When components are notified of the end of their topology, and when not."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from aiostorm import BasicBolt, LocalCluster, Spout, TopologyBuilder
from aiostorm.topology import Completion


class Numbers(Spout):
    outputs = ("n",)

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.left = collector, 3

    def next_tuple(self) -> None:
        if self.left:
            self.left -= 1
            self.collector.emit((self.left,), message_id=self.left)
        else:
            self.collector.finish()


class Completes(BasicBolt):
    completions: ClassVar[list[tuple[Completion, bool]]] = []
    ended: ClassVar[int] = 0

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.ran = False

    def prepare(self, context: Any) -> None:
        self.ran = True

    def execute(self, tup: Any, collector: Any) -> None:
        if self.fails == "rows":
            raise ValueError("no row")

    def cleanup(self) -> None:
        type(self).ended += 1

    def completed(self, completion: Completion) -> None:
        assert type(self).ended == completion.tasks, "all tasks have ended"
        self.completions.append((completion, self.ran))
        if self.fails == "end":
            raise OSError("the disk is full")


@pytest.fixture(autouse=True)
def nothing_completed() -> None:
    Completes.completions, Completes.ended = [], 0


async def ran(bolt: Any, *, waits: bool = True, kill: bool = False) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(), **{"topology.max.retries": 0})
    builder.set_bolt("completes", bolt, parallelism=2).shuffle_grouping("numbers")
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", builder.create_topology())
        await (running.wait_finished() if waits else running.wait_idle())
        if kill:
            await running.kill(wait_s=0)
    return running


@pytest.mark.parametrize("bolt", [Completes(), Completes, lambda: Completes()])
async def test_completed_is_called_once_when_all_tasks_have_ended(bolt: Any) -> None:
    running = await ran(bolt)
    assert Completes.completions == [(Completion("job", "completes", 2), False)]
    assert running.problems == []


async def test_an_error_in_completed_is_a_problem_of_the_topology() -> None:
    running = await ran(Completes("end"))
    assert [str(problem) for problem in running.problems] == ["bolt 'completes': the disk is full"]


async def test_completed_is_not_called_after_a_lost_message_or_a_kill_or_without_a_waiting_caller() -> None:
    await ran(Completes("rows"))
    await ran(Completes(), waits=False)
    await ran(Completes(), kill=True)
    assert Completes.completions == []
