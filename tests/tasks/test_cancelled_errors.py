"""A CancelledError that user code raises by itself (the result of a cancelled future) is an error like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, Config, Grouping, LocalCluster, TopologyBuilder, TopologyFailedError, bolt, spout
from aiostorm.testing import Recorder

from .parts import Gate, Notes, Numbers, line


def cancelled(n: int) -> int:
    if n in (3, 9):
        raise asyncio.CancelledError
    return n


@bolt(outputs="out")
def function(n: int) -> int:
    return cancelled(n)


@bolt
def sink(n: int) -> None:
    cancelled(n)


@bolt(outputs="out")
def generator(n: int) -> Iterator[int]:
    yield cancelled(n)


@bolt(outputs="out", blocking=True)
def in_thread(n: int) -> int:
    return cancelled(n)


class Basic(BasicBolt):
    outputs = "out"

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((cancelled(tup["n"]),))


class Blocking(Basic):
    blocking = True


class Rich(Bolt):
    outputs = "out"

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        self.collector.emit((cancelled(tup["n"]),), anchors=tup)
        self.collector.ack(tup)


@pytest.mark.parametrize("hooks", [[], ["aiostorm:TaskHook"]], ids=["bare", "hooks"])
@pytest.mark.parametrize(
    "kind",
    [function, sink, generator, in_thread, Basic, Rich, Blocking],
    ids=["function", "sink", "generator", "thread", "basic", "rich", "blocking"],
)
async def test_in_a_bolt_it_fails_its_tuple_and_no_other(
    local_cluster: LocalCluster, kind: Any, hooks: list[str]
) -> None:
    source, seen = Numbers(10, each_call=10), Recorder()
    topology = line(source, bolt=kind) if kind is sink else line(source, bolt=kind, seen=seen)
    config = Config(auto_task_hooks=hooks, restart_backoff_s=(0,))
    running = await local_cluster.submit("t", topology, config)
    await running.wait_finished()
    assert sorted(source.failed) == [3, 9]
    assert sorted(source.acked) == [0, 1, 2, 4, 5, 6, 7, 8]
    assert "Cancelled" in source.failed[3].error
    if kind is not sink:
        assert sorted(seen.values) == [(n,) for n in (0, 1, 2, 4, 5, 6, 7, 8)]


async def test_a_batch_fails_as_a_whole(local_cluster: LocalCluster) -> None:
    class Batch(BasicBolt):
        def execute_batch(self, tuples: Any, collector: Any) -> None:
            for n in tuples.column("n"):
                cancelled(n)

    source = Numbers(10, each_call=10)
    running = await local_cluster.submit("t", line(source, batch=Batch))
    await running.wait_finished()
    assert sorted(source.failed) == list(range(10))
    assert running.metrics()["batch"].restarts == 0


@pytest.mark.parametrize("kind", [Basic, Rich])
async def test_in_a_tick_it_is_reported(local_cluster: LocalCluster, kind: Any) -> None:
    class Ticks(kind):
        def on_tick(self, *collector: Any) -> None:
            raise asyncio.CancelledError

    source = Numbers(1)
    running = await local_cluster.submit(
        "t", line(source, bolt=Ticks), Config(tick_tuple_freq_s=1, restart_backoff_s=(0,))
    )
    await asyncio.sleep(2.5)
    assert [report.where for report in running.errors()] == ["execute" if kind is Basic else "a tick"] * 2
    assert source.acked == [0]


async def test_in_next_tuple_it_is_asked_again(local_cluster: LocalCluster) -> None:
    class Raises(Numbers):
        raised = False

        def next_tuple(self) -> None:
            if self.next == 3 and not self.raised:
                self.raised = True
                raise asyncio.CancelledError
            super().next_tuple()

    source = Raises(10)
    running = await local_cluster.submit("t", line(source, sink=Recorder()))
    await running.wait_finished(timeout_s=20)
    assert sorted(source.acked) == list(range(10))
    assert [report.where for report in running.errors()] == ["next_tuple"]


async def test_in_a_generator_spout_it_fails_the_topology_after_what_came_before(local_cluster: LocalCluster) -> None:
    @spout(outputs="n")
    def numbers() -> Iterator[int]:
        for n in range(10):
            yield cancelled(n)

    seen = Recorder()
    running = await local_cluster.submit("t", line(numbers, seen=seen))
    with pytest.raises(TopologyFailedError, match="CancelledError"):
        await running.wait_finished(timeout_s=20)
    assert seen.values == [(0,), (1,), (2,)]
    await running.kill(0)


@pytest.mark.parametrize("fails", [False, True])
async def test_in_ack_and_fail_it_is_reported_and_each_message_is_settled_once(
    local_cluster: LocalCluster, fails: bool
) -> None:
    class Raises(Numbers):
        def ack(self, message_id: Any) -> None:
            super().ack(message_id)
            cancelled(message_id)

        def fail(self, message_id: Any, failure: Any) -> None:
            super().fail(message_id, failure)
            cancelled(message_id)

    source = Raises(10, each_call=10)
    running = await local_cluster.submit("t", line(source, sink=Recorder(fail_on=lambda tup: fails)))
    await running.wait_finished(timeout_s=20)
    assert sorted(source.failed if fails else source.acked) == list(range(10))
    assert len(source.outcomes) == 10
    assert [report.where for report in running.errors() if report.component == "spout"] == [
        "fail" if fails else "ack"
    ] * 2
    assert running.metrics()["spout"].restarts == 0


async def test_a_grouping_that_raises_it_refuses_a_row_and_no_other(local_cluster: LocalCluster) -> None:
    """What was emitted beside the refused row is sent, and nothing is acked that was not."""

    class Picky(Grouping):
        def choose(self, values: Any) -> Any:
            cancelled(values[0])
            return self.targets[:1]

    source, seen = Numbers(10, each_call=10), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", source)
    builder.set_bolt("same", bolt(outputs="n")(lambda n: n)).shuffle_grouping("spout")
    builder.set_bolt("seen", seen).custom_grouping("same", Picky())
    running = await local_cluster.submit("t", builder.create_topology())
    await running.wait_finished(timeout_s=20)
    assert sorted(source.failed) == [3, 9]
    assert sorted(source.acked) == [0, 1, 2, 4, 5, 6, 7, 8]
    assert sorted(seen.values) == [(n,) for n in (0, 1, 2, 4, 5, 6, 7, 8)]


@pytest.mark.parametrize("rounds", range(4))
async def test_a_kill_ends_what_a_turn_waits_for_whenever_it_comes(local_cluster: LocalCluster, rounds: int) -> None:
    """The turn was begun in a step; until its asyncio task wakes up, nothing refers to what it waits for."""
    work, begun = Notes(), Gate()

    class Starts(BasicBolt):
        def execute(self, tup: Any, collector: Any) -> Coroutine[Any, Any, None]:
            begun.open()
            return self.wait()

        async def wait(self) -> None:
            work.append(asyncio.get_running_loop().create_task(Gate().wait()))
            await work[0]

    running = await local_cluster.submit("t", line(Numbers(1), starts=Starts))
    await begun.wait()
    for _ in range(rounds):
        await asyncio.sleep(0)
    running._task_set.abort()  # what `kill(0)` does, a few rounds later
    await running.kill(0)
    assert work[0].cancelled()
