"""A topology on workers, in a simulated world: it starts, is idle, is steered, ends; workers die, freeze, leave."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Any, ClassVar

import pytest

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Config,
    LocalCluster,
    RunningTopology,
    Spout,
    State,
    Topology,
    TopologyBuilder,
    TopologyError,
    TopologyFailedError,
    TopologyKilledError,
    Tuple,
)
from aiostorm.cluster import LifecycleTimings, TargetError, WorkerError
from aiostorm.cluster.messages import CONTROL, GetIdleReport
from aiostorm.cluster.parent.distributed_runtime import DistributedRuntime
from aiostorm.cluster.parent.worker_queries import idle_report
from aiostorm.testing.simulation import World
from aiostorm.windows import Collect, Time, Tumbling, WindowedBolt

from .sim_workers import SimBackend, with_workers

COUNT = 150


class Numbers(Spout):
    """0 to COUNT - 1, each until it is acked: what was acked survives its worker."""

    outputs = "n"
    acked: ClassVar[Counter[int]] = Counter()
    failures: ClassVar[list[Any]] = []
    endless = False

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.left = [n for n in range(COUNT) if n not in self.acked]

    def next_tuple(self) -> None:
        if self.left:
            n = self.left.pop()
            self.collector.emit((n,), n)
        elif not self.endless and len(self.acked) == COUNT:
            self.collector.finish()

    def ack(self, message_id: int) -> None:
        self.acked[message_id] += 1

    def fail(self, message_id: int, failure: Any) -> None:
        self.failures.append(failure)
        self.left.append(message_id)

    def result(self) -> int:
        return len(self.acked)


class Twice(BasicBolt):
    outputs = "n"
    prepared: ClassVar[list[str]] = []
    takes_s = 0.01

    def prepare(self, context: Any) -> None:
        self.prepared.append(context.component)

    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        await asyncio.sleep(self.takes_s)
        collector.emit((tup["n"],))


class Sum(Twice):
    seen: ClassVar[Counter[int]] = Counter()

    def prepare(self, context: Any) -> None:
        super().prepare(context)
        self.mine: Counter[int] = Counter()

    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.seen[tup["n"]] += 1
        self.mine[tup["n"]] += 1

    def result(self) -> Counter[int]:
        return self.mine


class Broken(Twice):
    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        raise ValueError(f"no {tup['n']}")


class GivesUp(Twice):
    def prepare(self, context: Any) -> None:
        raise ValueError("it cannot be prepared")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Numbers.acked, Numbers.failures, Numbers.endless = Counter(), [], False
    Sum.seen, Twice.prepared = Counter(), []


def topology(**config: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("twice", Twice, 3).shuffle_grouping("numbers")
    builder.set_bolt("sum", Sum, 2).fields_grouping("twice", "n")
    settings = {"max_spout_pending": 30, "message_timeout_s": 1000.0, **config}
    return builder.create_topology(config=Config(**settings))


def breaks(component: type[Any], **config: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("broken", component, 2).shuffle_grouping("numbers")
    return builder.create_topology(config=Config(**config))


def not_prepared() -> Topology:
    return breaks(GivesUp, restart_max=1)


def raising() -> Topology:
    return breaks(Broken)


async def submit(cluster: LocalCluster, target: str = "topology") -> RunningTopology:
    return await cluster.submit("sums", f"tests.cluster.test_workers:{target}")


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_topology_on_workers_executes_every_tuple_once(workers: int) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        assert running.state is State.ACTIVE
        status = running.workers()
        assert [w.name for w in status] == [f"worker-{i + 1}" for i in range(workers)]
        assert {type(w.phase) for w in status} == {str}, "it goes to other programs"
        assert sorted(task for w in status for task in w.tasks) == [task.task_id for task in running.plan.tasks]
        await running.wait_finished(60)
        results = await running.results()
        assert results["numbers"] == [COUNT]
        assert sum((Counter(part) for part in results["sum"]), Counter()) == Counter(range(COUNT))
        await running.kill()
        metrics = running.metrics()
        assert metrics["twice"].executed == metrics["sum"].executed == COUNT
        assert metrics["numbers"].acked == COUNT
        assert metrics.pending == 0
        assert running.pending() == {"numbers": []}

    backend = with_workers(story, workers=workers)
    assert backend.codes == [(name, 0) for name, _ in sorted(backend.codes)]
    assert set(backend.starts.values()) == {1}


def test_a_topology_on_workers_is_idle_when_all_is_done_and_continues_when_activated() -> None:
    Numbers.endless = True

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        await running.deactivate()
        await running.wait_idle(60)
        assert sum(Sum.seen.values()) == len(Numbers.acked) < COUNT
        await running.activate()
        await running.wait_idle(60)
        assert Sum.seen == Counter(range(COUNT))
        await running.drain(60)
        with pytest.raises(TopologyKilledError, match="drained"):
            await running.activate()

    with_workers(story)


@pytest.mark.parametrize("seed", range(4))
def test_the_last_of_two_simultaneous_commands_counts_in_any_order_of_arrival(seed: int) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        for _ in range(5):
            await running.deactivate()
            await running.activate()
        # (Whether it is idle is not asked: that would steer it again.)
        await world.until(lambda: len(Numbers.acked) == COUNT, 20, "the last ack")
        await running.kill()

    with_workers(story, seed=seed, order="shuffle")


def test_a_delayed_command_does_not_stay_the_last_one() -> None:
    """What says "rest" may come after what says "emit": the next look, 0.25 s later, says what is wanted."""

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        runtime = running._runtime
        assert isinstance(runtime, DistributedRuntime)
        late = GetIdleReport("inactive", finished=False, still=False, quiet_s=0.0)
        for worker_handle in runtime.worker_handles.values():
            await worker_handle.ask(CONTROL, late)
        await world.until(lambda: len(Numbers.acked) == COUNT, 20, "the last ack")
        await running.kill()

    with_workers(story)


def test_a_request_for_an_idle_report_has_the_mode_at_its_sending() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        runtime = running._runtime
        assert isinstance(runtime, DistributedRuntime)
        modes = []
        worker_handle = runtime.worker_handles["worker-1"]
        real = worker_handle.ask

        async def ask(actor: str, message: Any, **options: Any) -> Any:
            if isinstance(message, GetIdleReport):
                modes.append(message.mode)
            return await real(actor, message, **options)

        worker_handle.ask = ask  # type: ignore[method-assign]
        await idle_report(worker_handle, GetIdleReport("inactive", finished=False, still=False, quiet_s=0.0))
        assert modes == ["active"]
        await running.kill()

    with_workers(story)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_that_dies_is_replaced_and_nothing_is_lost(victim: int) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        await world.until(lambda: len(Numbers.acked) > 40, 10, "some work")
        name = running.workers()[victim].name
        began_s = world.now_s
        world.processes[name].kill("is killed by the test")
        await running.wait_finished(100)
        assert world.now_s - began_s < 30, "no message waited for the timeout"
        assert set(Sum.seen) == set(range(COUNT))
        status = running.workers()
        assert [w.restarts for w in status] == [int(i == victim) for i in range(2)]
        assert not running.degraded
        assert running.metrics()["numbers"].acked > 0, "what was counted is kept"

    backend = with_workers(story)
    assert backend.starts == {"worker-1": 1 + (victim == 0), "worker-2": 1 + (victim == 1)}


def windows() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers)
    windows = WindowedBolt(Tumbling(COUNT, time=Time.INGESTION, offset_ms=7), Collect(), lag_ms=3_600_000)
    builder.set_bolt("windows", windows, 4).shuffle_grouping("numbers")
    return builder.create_topology()


def test_lost_open_windows_are_logged_when_their_worker_dies(caplog: pytest.LogCaptureFixture) -> None:
    Numbers.endless = True

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster, "windows")
        await running.wait_idle(60)
        runtime = running._runtime
        assert isinstance(runtime, DistributedRuntime)
        seen = runtime.worker_handles["worker-2"].reports.metrics
        await world.until(lambda: any(task.time and task.time.live for task in seen.values()), 10, "a look at it")
        world.processes["worker-2"].kill("is killed by the test")
        await world.until(lambda: "open windows" in caplog.text, 60, "its end is noticed")

        lost = re.search(r"with worker-2, (\d+) open windows are lost", caplog.text)
        assert lost is not None
        await world.until(lambda: running.metrics()["windows"].dropped_windows > 0, 10, "its counts")
        assert running.metrics()["windows"].dropped_windows == int(lost[1])
        await running.kill()
        open_windows = sum(int(n) for n in re.findall(r"ended with (\d+) open windows? that have not", caplog.text))
        assert running.metrics()["windows"].dropped_windows == int(lost[1]) + open_windows
        assert running.metrics()["windows"].live_windows == 0

    with_workers(story)


def test_a_frozen_worker_is_replaced_after_its_lease() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        await world.until(lambda: len(Numbers.acked) > 40, 10, "some work")
        world.processes["worker-2"].pause(1000.0)
        began_s = world.now_s
        await world.until(lambda: backend.starts["worker-2"] == 2, 20, "another worker-2")
        assert 4.0 < world.now_s - began_s < 8.0
        await running.wait_finished(100)
        assert set(Sum.seen) == set(range(COUNT))

    with_workers(story)


def test_a_worker_that_is_asked_to_end_is_replaced_without_a_replay() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        await world.until(lambda: len(Numbers.acked) > 40, 10, "some work")
        process = world.processes["worker-2"]
        assert process.current.on_terminate is not None
        process.loop.call_soon(process.current.on_terminate)
        await world.until(lambda: backend.starts["worker-2"] == 2, 20, "another worker-2")
        await running.wait_finished(100)
        assert Sum.seen == Counter(range(COUNT)), "each once"
        assert not Numbers.failures

    backend = with_workers(story)
    assert ("worker-2", 143) in backend.codes


def test_a_worker_that_does_not_stay_alive_makes_it_degraded_until_it_does() -> None:
    Numbers.endless = True

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        for _ in range(5):
            starts = backend.starts["worker-2"]
            world.processes["worker-2"].kill("is killed by the test")
            await world.until(lambda starts=starts: backend.starts["worker-2"] > starts, 10, "another")  # type: ignore[misc]
        assert "worker-2: it ended 5 times in 30 s" in running.degraded
        assert running.workers()[1].restarts == 5
        await running.wait_idle(60)
        await world.until(lambda: not running.degraded, 60, "recovery")
        assert set(Sum.seen) == set(range(COUNT))

    with_workers(story)


def test_a_task_that_gives_up_fails_the_topology() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        with pytest.raises(TopologyFailedError, match=r"ValueError: it cannot be prepared \(in worker-"):
            await submit(cluster, "not_prepared")

    with_workers(story)


@pytest.mark.slow
def test_errors_of_tasks_are_reported_to_the_parent() -> None:
    Numbers.endless = True

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster, "raising")
        await world.until(lambda: len(running.errors()) > 3, 10, "errors")
        report = running.errors()[0]
        assert report.component == "broken"
        assert report.error.startswith("ValueError: no ")
        assert running.metrics()["broken"].errors > 3
        await running.kill(0)
        assert running.state is State.KILLED

    with_workers(story)


def test_a_worker_that_cannot_load_fails_the_start() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        backend.importer = lambda target, words: raising()
        with pytest.raises(TopologyError, match="is not the same topology in worker worker-"):
            await submit(cluster)
        assert not cluster.topologies
        with pytest.raises(TargetError, match="no attribute of any module"):
            await cluster.submit("own", raising())

    with_workers(story)


def test_a_worker_that_never_stays_alive_fails_the_start() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        backend.listen = lambda worker, before: "parent:1"  # type: ignore[method-assign]
        with pytest.raises(WorkerError, match=r"worker-1 failed|cannot be started"):
            await submit(cluster)

    with_workers(story)


def test_two_topologies_have_separate_workers() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        one = await submit(cluster)
        await one.wait_finished(60)
        two = await cluster.submit("other", "tests.cluster.test_workers:topology")
        names = [w.name for w in (*one.workers(), *two.workers())]
        assert names == ["worker-1", "worker-2", "worker-3", "worker-4"]
        await one.kill()
        assert {w.phase for w in one.workers()} == {"ENDED"}
        assert {w.phase for w in two.workers()} == {"RUNNING"}

    with_workers(story)


def test_workers_end_with_their_parent() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        await submit(cluster)
        raise LookupError("in the block")

    with pytest.raises(LookupError):
        with_workers(story, timings=LifecycleTimings(stop_limit_s=3.0))


@pytest.mark.parametrize("seed", [3, 9, 17])
def test_workers_may_end_or_freeze_at_any_time(seed: int) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        chance = world.chance.stream("what the test does")
        starting = asyncio.ensure_future(submit(cluster))
        for _ in range(4):
            await asyncio.sleep(chance.random() * 0.4)
            processes = [p for name, p in world.processes.items() if name.startswith("worker") and p.alive]
            if not processes:
                continue
            process = chance.choice(processes)
            match chance.choice(["kill", "freeze", "ask"]):
                case "kill":
                    process.kill("is killed by the test")
                case "freeze":
                    process.pause(chance.choice([1.0, 30.0]))
                case _ if process.current.on_terminate is not None:
                    process.loop.call_soon(process.current.on_terminate)
        running = await starting
        await running.wait_finished(300)
        assert set(Sum.seen) == set(range(COUNT))

    with_workers(story, workers=3, seed=seed)
