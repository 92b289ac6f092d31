"""A StopIteration (`next(lines)` with no more lines) is an error like any other: it ends no loop of ours in silence."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import BasicBolt, Config, LocalCluster, bolt
from aiostorm.testing import Recorder

from .parts import Numbers, line

NO_MORE: list[Any] = []


@bolt(outputs="out")
def function(n: int) -> Any:
    return next(iter(NO_MORE)) if n in (3, 9) else n


@bolt
def sink(n: int) -> None:
    if n in (3, 9):
        next(iter(NO_MORE))


@bolt(outputs="out")
async def later(n: int) -> Any:
    await asyncio.sleep(0)
    return next(iter(NO_MORE)) if n in (3, 9) else n


@bolt(outputs="out")
def generator(n: int) -> Any:
    yield next(iter(NO_MORE)) if n in (3, 9) else n


class Basic(BasicBolt):
    outputs = "out"

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((function.fn(*tup.values),))


@pytest.mark.parametrize("hooks", [[], ["aiostorm:TaskHook"]], ids=["bare", "hooks"])
@pytest.mark.parametrize("kind", [function, sink, later, generator, Basic], ids=lambda kind: str(kind)[:20])
async def test_in_a_bolt_it_fails_its_tuple_and_no_other(
    local_cluster: LocalCluster, kind: Any, hooks: list[str]
) -> None:
    source, seen = Numbers(10, each_call=10), Recorder()
    topology = line(source, bolt=kind) if kind is sink else line(source, bolt=kind, seen=seen)
    running = await local_cluster.submit("t", topology, Config(auto_task_hooks=hooks))
    await running.wait_finished()
    assert sorted(source.failed) == [3, 9]
    assert sorted(source.acked) == [0, 1, 2, 4, 5, 6, 7, 8]
    assert "StopIteration" in source.failed[3].error
    assert running.metrics()["bolt"].errors == 2
    if kind is not sink:
        assert sorted(seen.values) == [(n,) for n in (0, 1, 2, 4, 5, 6, 7, 8)]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_in_ack_it_is_reported_and_the_others_are_notified(
    local_cluster: LocalCluster, asynchronous: bool
) -> None:
    class Acks(Numbers):
        def ack(self, message_id: Any) -> Any:
            super().ack(message_id)
            return self.later(message_id) if asynchronous else self.now(message_id)

        def now(self, message_id: Any) -> None:
            if message_id in (2, 9):
                next(iter(NO_MORE))
            if message_id == 4:
                raise LookupError

        async def later(self, message_id: Any) -> None:
            await asyncio.sleep(0)
            self.now(message_id)

    source = Acks(10, each_call=10)
    running = await local_cluster.submit("t", line(source, sink=Recorder()))
    await running.wait_finished()
    assert source.acked == list(range(10))
    assert [report.where for report in running.errors()] == ["ack"] * 3
