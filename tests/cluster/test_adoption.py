"""Workers outlive their parent: the next one adopts those that live, and replaces those that do not."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from aiostorm import LocalCluster, RunningTopology, TopologyFailedError
from aiostorm.cluster.messages import UpdateConfig
from aiostorm.cluster.worker.service import WorkerService
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import Exchange, SendQueue
from aiostorm.transport.exchange.peer_channel import PeerChannel

from ..simulation.planted.planting import replaced
from .parents import EVERY_S, HERE, Parents, Seen, Ticks, gap_s, parents

NO_GAP_S = 3 * EVERY_S


async def works(backend: Parents, cluster: LocalCluster) -> None:
    """The first parent: all works, and it is killed."""
    await backend.submit(cluster)
    await asyncio.sleep(2)
    await backend.replace_parent()


async def some_rows(backend: Parents, count: int = 50) -> None:
    before = len(Seen.at_s)
    await backend.world.until(lambda: len(Seen.at_s) > before + count, 60, "some rows")


@pytest.mark.parametrize("away_s", [0.0, 0.5, 3.0])
def test_the_next_parent_adopts_the_workers_and_their_spouts_emit_without_a_gap(away_s: float) -> None:
    pids: list[int] = []

    async def first(backend: Parents, cluster: LocalCluster) -> None:
        await backend.submit(cluster)
        await asyncio.sleep(2)
        pids.extend(backend.pids())
        await backend.replace_parent(away_s)

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        began_s = backend.world.now_s
        running = await backend.submit(cluster)
        print(f"away {away_s:g} s, adopted in {backend.world.now_s - began_s:.3f} s")
        assert backend.world.now_s - began_s < 0.5
        await asyncio.sleep(2)
        assert backend.pids() == pids
        assert [(w.phase, w.restarts, w.pid) for w in running.workers()] == [("RUNNING", 0, 1), ("RUNNING", 0, 1)]
        for times in (*Ticks.emitted.values(), Seen.at_s):
            print(f"longest gap {gap_s(times):.4f} s")
            assert gap_s(times) < NO_GAP_S
        await backend.finish(running)
        assert not Ticks.failures
        assert set(Ticks.acked.values()) == {1}

    backend = parents(first, second)
    assert sorted(backend.codes) == [("worker-1", 0), ("worker-2", 0)]
    assert not backend.abandoned


def test_a_worker_without_a_parent_ends_with_its_lease_and_the_next_parent_begins_anew() -> None:
    async def first(backend: Parents, cluster: LocalCluster) -> None:
        await backend.submit(cluster)
        await asyncio.sleep(2)
        backend.supervised = False
        await backend.replace_parent(11.0)

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        assert sorted(backend.codes) == [("worker-1", 69), ("worker-2", 69)]
        last_s = max(max(times) for times in Ticks.emitted.values())
        assert 9.5 < last_s - 2.0 < 11.0, "it had worked to the end of its lease"
        backend.supervised = True
        backend._supervise()
        await backend.finish(await backend.submit(cluster))

    parents(first, second, outlive_s=10.0)


def test_a_worker_that_died_while_the_parent_was_away_is_replaced_and_its_messages_fail_at_once() -> None:
    async def first(backend: Parents, cluster: LocalCluster) -> None:
        await backend.submit(cluster)
        await asyncio.sleep(2)
        backend.world.call_at(backend.world.now_s + 0.1, backend.workers_by_name["worker-2"].kill)
        await backend.replace_parent(1.0)

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        began_s = backend.world.now_s
        running = await backend.submit(cluster)
        assert backend.world.now_s - began_s < 1.0
        assert backend.pids() == [1, 2]
        await backend.finish(running)
        assert backend.world.now_s - began_s < 10.0, "no message waited for its timeout"
        assert Ticks.failures, "what it had was failed, and replayed"

    assert not parents(first, second).abandoned


@pytest.mark.parametrize("dead", [("worker-1", "worker-3"), ("worker-2", "worker-3"), ("worker-1", "worker-2")])
def test_two_of_three_may_die_while_the_parent_is_away(dead: tuple[str, ...]) -> None:
    async def first(backend: Parents, cluster: LocalCluster) -> None:
        await backend.submit(cluster)
        await asyncio.sleep(2)
        for name in dead:
            backend.world.call_at(backend.world.now_s + 0.1, backend.workers_by_name[name].kill)
        await backend.replace_parent(1.0)

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        began_s = backend.world.now_s
        received: list[tuple[str, str]] = []
        ended, started = Exchange.peer_ended, PeerChannel.restarted

        def peer_ended(self: Exchange, peer: str, incarnation: int) -> None:
            received.append(("ended", peer))
            ended(self, peer, incarnation)

        def restarted(self: PeerChannel, incarnation: int, send_queue: SendQueue) -> None:
            received.append(("started", self.peer))
            started(self, incarnation, send_queue)

        with replaced(Exchange, "peer_ended", peer_ended), replaced(PeerChannel, "restarted", restarted):
            running = await backend.submit(cluster)
            assert sorted(backend.pids()) == [1, 2, 2]
            await backend.finish(running)
        for name in dead:
            assert received.index(("ended", name)) < received.index(("started", name)), "all know of its end first"
        assert backend.world.now_s - began_s < 10.0

    parents(first, second, names=("worker-1", "worker-2", "worker-3"))


def test_the_start_waits_for_a_worker_that_comes_late_while_the_others_go_on() -> None:
    async def first(backend: Parents, cluster: LocalCluster) -> None:
        await backend.submit(cluster)
        await asyncio.sleep(2)
        backend.supervised = False
        backend.workers_by_name["worker-2"].kill("is killed by the test")
        await backend.replace_parent()

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        starting = asyncio.ensure_future(backend.submit(cluster))
        await asyncio.sleep(20)
        assert not starting.done()
        assert any(gap_s(times, from_s=5.0) < NO_GAP_S and times[-1] > 20 for times in Ticks.emitted.values())
        assert backend.pids()[0] == 1
        backend.supervised = True
        backend._supervise()
        running = await starting
        await backend.finish(running)

    parents(first, second)


@pytest.mark.parametrize("again_s", [0.0, 0.005, 0.02, 0.05, 0.1, 0.15, 0.3, 1.0])
def test_the_next_parent_may_die_at_once(again_s: float) -> None:
    async def second(backend: Parents, cluster: LocalCluster) -> None:
        starting = asyncio.ensure_future(backend.submit(cluster))
        await asyncio.sleep(again_s)
        await asyncio.gather(starting, backend.replace_parent(0.2))

    async def third(backend: Parents, cluster: LocalCluster) -> None:
        running = await backend.submit(cluster)
        assert backend.pids() == [1, 1]
        for times in Ticks.emitted.values():
            assert gap_s(times) < NO_GAP_S
        await backend.finish(running)
        assert not Ticks.failures

    parents(works, second, third)


@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25])
def test_a_parent_may_die_while_it_starts_the_topology(after_s: float) -> None:
    async def first(backend: Parents, cluster: LocalCluster) -> None:
        starting = asyncio.ensure_future(backend.submit(cluster))
        await asyncio.sleep(after_s)
        await asyncio.gather(starting, backend.replace_parent(0.2))

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        began_s = backend.world.now_s
        running = await backend.submit(cluster)
        assert backend.world.now_s - began_s < 3.0
        await some_rows(backend)
        await backend.finish(running)

    parents(first, second)


# -- workers that were given up ----------------------------------------------------------------------------------------


def test_a_frozen_worker_that_was_given_up_ends_when_it_comes_back_to_the_same_parent() -> None:
    async def story(backend: Parents, cluster: LocalCluster) -> None:
        running = await backend.submit(cluster)
        await asyncio.sleep(2)
        backend.supervised = False  # else it would be killed at once
        frozen = backend.workers_by_name["worker-2"]
        frozen.pause(8.0)
        await backend.world.until(lambda: not frozen.alive, 20, "its end")
        assert backend.codes == [("worker-2", 69)]
        assert running.workers()[1].phase == "STARTING", "it is not taken for the next process"
        backend.supervised = True
        backend._supervise()
        await backend.finish(running)

    assert parents(story).abandoned == [("worker-2", 1)]


def test_a_supervisor_kills_the_worker_that_a_parent_has_given_up() -> None:
    async def story(backend: Parents, cluster: LocalCluster) -> None:
        running = await backend.submit(cluster)
        await asyncio.sleep(2)
        backend.workers_by_name["worker-2"].pause(1000.0)
        await backend.world.until(lambda: backend.pids() == [1, 2], 10, "the next process")
        await backend.finish(running)

    assert parents(story).abandoned == [("worker-2", 1)]


@pytest.mark.parametrize("comes_first", ["worker-1", "worker-2"])
def test_a_worker_that_the_last_parent_had_given_up_is_not_adopted(
    comes_first: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its peer was notified of its end: it has failed its messages, and sends it nothing any more."""

    async def first(backend: Parents, cluster: LocalCluster) -> None:
        running = await backend.submit(cluster)
        await asyncio.sleep(2)
        backend.supervised = False
        backend.workers_by_name["worker-2"].pause(6.5)
        await backend.world.until(lambda: running.workers()[1].phase != "RUNNING", 6.4, "its lease is over")
        await asyncio.sleep(0.2)
        if comes_first == "worker-2":
            backend.workers_by_name["worker-1"].pause(3.0)
        await backend.replace_parent()

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        began_s = backend.world.now_s
        starting = asyncio.ensure_future(backend.submit(cluster))
        await backend.world.until(lambda: ("worker-2", 0) in backend.codes or ("worker-2", 69) in backend.codes, 9, "")
        backend.supervised = True
        backend._supervise()
        running = await starting
        await backend.finish(running)
        assert backend.world.now_s - began_s < 20
        assert backend.pids() == [1, 2]

    parents(first, second)
    assert "an earlier parent had given it up" in caplog.text


# -- what has changed between two parents ------------------------------------------------------------------------------


def test_workers_with_the_same_code_are_set_up_again() -> None:
    async def second(backend: Parents, cluster: LocalCluster) -> None:
        running = await backend.submit(cluster, mailbox_capacity_tuples=64)
        assert backend.pids() == [1, 1]
        await backend.finish(running)

    backend = parents(works, second)
    assert sorted(backend.codes) == [("worker-1", 0), ("worker-2", 0)]


def test_workers_that_run_something_else_are_ended_and_replaced(caplog: pytest.LogCaptureFixture) -> None:
    async def second(backend: Parents, cluster: LocalCluster) -> None:
        running = await cluster.submit("other", f"{HERE}:ticks")
        assert backend.pids() == [2, 2]
        await backend.finish(running)

    backend = parents(works, second)
    assert sorted(backend.codes[:2]) == [("worker-1", 0), ("worker-2", 0)]
    assert caplog.text.count("it runs another topology, or the same with other settings, code or workers") == 2


def test_settings_that_were_changed_before_are_those_of_the_next_parent() -> None:
    async def first(backend: Parents, cluster: LocalCluster) -> None:
        running = await backend.submit(cluster, max_spout_pending=1000)
        await running.update({"max_spout_pending": 500, "tick_tuple_freq_s": 3})
        await asyncio.sleep(2)
        await backend.replace_parent()

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        updated: list[Any] = []
        real = WorkerService.update

        async def update(self: WorkerService, order: UpdateConfig) -> None:
            updated.append(order.config["max_spout_pending"])
            await real(self, order)

        with replaced(WorkerService, "update", update):
            running = await backend.submit(cluster, max_spout_pending=1000)
        assert backend.pids() == [1, 1]
        assert updated == [1000, 1000]
        await backend.finish(running)

    parents(first, second)


def test_a_topology_that_rests_rests_until_the_next_parent_decides() -> None:
    async def first(backend: Parents, cluster: LocalCluster) -> None:
        running = await backend.submit(cluster)
        await asyncio.sleep(2)
        await running.deactivate()
        await asyncio.sleep(1)
        await backend.replace_parent()

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        rested = Counter(Ticks.offered)
        starting = asyncio.ensure_future(backend.submit(cluster))
        await asyncio.sleep(0.01)
        await cluster.topologies["ticks"].deactivate()
        running = await starting
        await asyncio.sleep(5)
        assert Ticks.offered == rested
        assert backend.pids() == [1, 1]
        await running.activate()
        await some_rows(backend)
        await backend.finish(running)

    parents(first, second)


@pytest.mark.parametrize("after_s", [0.002, 0.005, 0.01])
def test_workers_whose_spouts_were_ended_are_replaced_if_the_next_parent_runs_the_topology(after_s: float) -> None:
    """It was drained for another plan, which was taken back."""

    async def first(backend: Parents, cluster: LocalCluster) -> None:
        running = await backend.submit(cluster)
        await asyncio.sleep(2)
        ending = asyncio.ensure_future(running.kill(30))
        await asyncio.sleep(after_s)
        assert not ending.done()
        await backend.replace_parent()

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        running = await backend.submit(cluster)
        await some_rows(backend)
        await backend.finish(running)

    parents(first, second)


def emitted(running: RunningTopology) -> int:
    return running.metrics()["ticks"].emitted


def test_counters_go_on_with_what_the_living_processes_have_counted() -> None:
    last: list[int] = []

    async def first(backend: Parents, cluster: LocalCluster) -> None:
        running = await backend.submit(cluster)
        await asyncio.sleep(2)
        last.append(emitted(running))
        await backend.replace_parent()

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        running = await backend.submit(cluster)
        await asyncio.sleep(1)
        found = [emitted(running)]
        assert found[0] >= last[0] > 0
        assert found[0] <= sum(Ticks.offered.values()), "nothing is counted twice"
        backend.workers_by_name["worker-2"].kill("is killed by the test")
        for _ in range(40):
            await asyncio.sleep(0.1)
            found.append(emitted(running))
        assert found == sorted(found)
        await backend.finish(running)
        assert running.metrics()["ticks"].acked <= sum(Ticks.acked.values())

    parents(first, second)


def test_a_task_that_fails_for_good_without_a_parent_makes_the_next_one_fail() -> None:
    async def first(backend: Parents, cluster: LocalCluster) -> None:
        await backend.submit(cluster, restart_max=0)
        await asyncio.sleep(2)
        backend.world.call_at(backend.world.now_s + 0.2, setattr, Ticks, "breaks", True)
        await backend.replace_parent(3.0)

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        with pytest.raises(TopologyFailedError, match="the source is lost"):
            await (await backend.submit(cluster, restart_max=0)).wait_ended()

    parents(first, second)


def test_a_worker_that_leaves_asks_the_next_parent_for_a_replacement() -> None:
    async def first(backend: Parents, cluster: LocalCluster) -> None:
        await backend.submit(cluster)
        await asyncio.sleep(2)
        process = backend.workers_by_name["worker-2"]
        backend.world.call_at(backend.world.now_s + 0.1, process.loop.call_soon, process.current.on_terminate)
        await backend.replace_parent(1.0)

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        running = await backend.submit(cluster)
        await backend.world.until(lambda: backend.pids() == [1, 2], 12, "its replacement")
        await backend.finish(running)
        assert not Ticks.failures, "all spouts paused, nothing had to be replayed"

    assert parents(first, second).codes[0] == ("worker-2", 143)


# -- whatever happens --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1, 2, 4, 5, 6, 7))])
def test_no_message_is_lost_whichever_process_dies_when(seed: int) -> None:
    names = ("worker-1", "worker-2", "worker-3")

    def hurt(backend: Parents, process: Process) -> None:
        chance = backend.world.chance.stream("what the test does")
        if chance.random() < 0.7:
            process.kill("is killed by the test")
        elif process.alive:
            process.pause(chance.choice([0.5, 3.0, 7.0]))

    async def trouble(backend: Parents, cluster: LocalCluster) -> None:
        world, chance = backend.world, backend.world.chance.stream("what the test does")
        starting = asyncio.ensure_future(backend.submit(cluster))
        await asyncio.sleep(chance.choice([0.1, 1.0, 3.0]))
        for _ in range(chance.choice([0, 1, 2])):
            victim = world.processes[chance.choice(names)]
            world.call_at(world.now_s + chance.random() * 3, hurt, backend, victim)
        await asyncio.sleep(chance.random() * 3)
        await asyncio.gather(starting, backend.replace_parent(chance.choice([0.1, 1.0, 8.0])))

    async def last(backend: Parents, cluster: LocalCluster) -> None:
        running = await backend.submit(cluster)
        began_s = backend.world.now_s
        await asyncio.sleep(1)
        await backend.finish(running)
        assert backend.world.now_s - began_s < 30, "no message waited for its timeout"

    parents(*[trouble] * 4, last, names=names, seed=seed)
