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


class Hears(BasicBolt):
    heard: ClassVar[list[tuple[Completion, bool]]] = []
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
        self.heard.append((completion, self.ran))
        if self.fails == "end":
            raise OSError("no room")


@pytest.fixture(autouse=True)
def nothing_heard() -> None:
    Hears.heard, Hears.ended = [], 0


async def ran(bolt: Any, *, waits: bool = True, kill: bool = False) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(), **{"topology.max.retries": 0})
    builder.set_bolt("hears", bolt, parallelism=2).shuffle_grouping("numbers")
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", builder.create_topology())
        await (running.wait_finished() if waits else running.wait_idle())
        if kill:
            await running.kill(wait_s=0)
    return running


@pytest.mark.parametrize("bolt", [Hears(), Hears, lambda: Hears()])
async def test_it_is_called_once_when_all_was_processed_and_all_tasks_have_ended(bolt: Any) -> None:
    running = await ran(bolt)
    assert Hears.heard == [(Completion("job", "hears", 2), False)]
    assert running.problems == []


async def test_what_goes_wrong_there_is_a_problem_of_the_topology() -> None:
    running = await ran(Hears("end"))
    assert [str(problem) for problem in running.problems] == ["bolt 'hears': no room"]


async def test_it_is_not_called_if_a_message_was_lost_or_no_caller_waited_or_it_was_killed() -> None:
    await ran(Hears("rows"))
    await ran(Hears(), waits=False)
    await ran(Hears(), kill=True)
    assert Hears.heard == []
