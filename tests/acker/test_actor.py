"""The acker as an actor: verdicts to their owners, in time, over failures of its own."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.acker import AckerActor, Acks, Forget, Init, VerdictKind, Verdicts
from aiostorm.actors import ActorSystem, Ref, RestartPolicy
from aiostorm.testing import VirtualTimeLoop

from ..tries import examples
from .trees import ids, shapes, tree


class Spouts:
    """Records the verdicts for every spout task, with their times."""

    def __init__(self) -> None:
        self.verdicts: list[tuple[int, str, int]] = []  # owner, kind, root
        self.at_s: dict[int, float] = {}

    def inbox_of(self, owner: int) -> Any:
        """The inbox of a spout task."""
        return SimpleNamespace(post=partial(self.deliver, owner))

    def deliver(self, owner: int, verdicts: Verdicts) -> None:
        for verdict in verdicts.verdicts:
            self.verdicts.append((owner, verdict.kind.name, verdict.root))
            self.at_s[verdict.root] = asyncio.get_running_loop().time()


def acker_in(system: ActorSystem, spouts: Spouts, timeout_s: float | None) -> tuple[Ref, AckerActor]:
    actor = AckerActor(timeout_s, spouts.inbox_of)
    return system.spawn(actor, "acker"), actor


async def test_verdicts_go_to_their_owners_in_order_one_message_each() -> None:
    spouts = Spouts()
    calls: list[tuple[int, int]] = []

    def deliver(owner: int, verdicts: Verdicts) -> None:
        calls.append((owner, len(verdicts.verdicts)))
        spouts.deliver(owner, verdicts)

    async with ActorSystem() as system:
        actor = AckerActor(30.0, lambda owner: cast(Any, SimpleNamespace(post=partial(deliver, owner))))
        system.spawn(actor)
        await asyncio.sleep(0)
        actor.mailbox.post(Init(1, [(11, 5), (12, 6)]))
        actor.mailbox.post(Init(2, [(21, 7)]))
        actor.mailbox.post(Acks([(21, 7), (12, 6), (11, 5)], [(11, 3, "bad")], [21]))
        await asyncio.sleep(1)
    # The failure first: in the same step the tree is complete, and its failed message must not be acked with it.
    assert spouts.verdicts == [(1, "FAIL", 11), (1, "ACK", 12), (1, "ACK", 11), (2, "ACK", 21)]
    assert calls == [(1, 3), (2, 1)]


async def test_trees_of_a_failed_owner_are_forgotten_and_its_later_ones_are_kept() -> None:
    spouts = Spouts()
    async with ActorSystem() as system:
        _, actor = acker_in(system, spouts, None)
        await asyncio.sleep(0)
        actor.mailbox.post(Init(1, [(11, 5), (12, 6)]))
        actor.mailbox.post(Init(2, [(21, 7)]))
        actor.mailbox.post(Forget(1))
        actor.mailbox.post(Init(1, [(13, 8)]))
        actor.mailbox.post(Acks([(11, 5), (12, 6), (13, 8), (21, 7)]))
        await asyncio.sleep(1)
        assert spouts.verdicts == [(1, "ACK", 13), (2, "ACK", 21)]
        assert len(actor.ledger) == 2, "early rows, which end by themselves"


@pytest.mark.parametrize("timeout_s", [0.05, 1.0, 30.0, 3_600.0, 30 * 86_400.0])
async def test_a_tree_expires_within_ten_percent_of_its_timeout(timeout_s: float) -> None:
    spouts = Spouts()
    loop = asyncio.get_running_loop()
    emitted_s: dict[int, float] = {}
    async with ActorSystem() as system:
        _, acker = acker_in(system, spouts, timeout_s)
        await asyncio.sleep(0)
        for root in range(1, 200):
            emitted_s[root] = loop.time()
            acker.mailbox.post(Init(1, [(root, 1 << root)]))
            await asyncio.sleep(timeout_s * (root * 7919 % 97) / 97 / 20)
        await asyncio.sleep(timeout_s * 1.2)
        late = [(spouts.at_s[root] - emitted_s[root]) / timeout_s for root in emitted_s]
        assert min(late) >= 1 - 1e-9
        assert max(late) <= 1.05 + 1e-9
        assert {kind for _, kind, _ in spouts.verdicts} == {VerdictKind.EXPIRED.name}
        assert not len(acker.ledger)


@settings(max_examples=examples(50))
@given(
    timeout_s=st.floats(0.01, 1e5),
    emits=st.lists(st.tuples(st.floats(0, 1), st.sampled_from(["expires", "reset", "early"])), min_size=1, max_size=20),
)
def test_within_ten_percent_for_any_timeout_and_any_pattern(timeout_s: float, emits: list[tuple[float, str]]) -> None:
    async def work() -> None:
        spouts = Spouts()
        loop = asyncio.get_running_loop()
        clock_s: dict[int, float] = {}
        async with ActorSystem() as system:
            _, acker = acker_in(system, spouts, timeout_s)
            await asyncio.sleep(0)
            for root, (pause, kind) in enumerate(emits, 1):
                if kind == "early":
                    acker.mailbox.post(Acks([(root, 99)]))
                else:
                    acker.mailbox.post(Init(1, [(root, 1)]))
                    clock_s[root] = loop.time()
                await asyncio.sleep(pause * timeout_s * 0.9)
                if kind == "reset":
                    acker.mailbox.post(Acks([], resets=[root]))
                    clock_s[root] = loop.time()
            await asyncio.sleep(timeout_s * 1.2)
            expired = {root: at for root, at in spouts.at_s.items() if (1, "EXPIRED", root) in spouts.verdicts}
            assert expired.keys() == clock_s.keys()
            for root, since_s in clock_s.items():
                assert 1 - 1e-6 <= (expired[root] - since_s) / timeout_s <= 1.1
            assert not len(acker.ledger)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())


async def test_no_timer_runs_while_nothing_can_expire() -> None:
    """An idle acker sets no timer (a virtual loop with nothing else to do would report it)."""
    spouts = Spouts()
    async with ActorSystem() as system:
        for timeout_s in (10.0, None):
            ref, acker = acker_in(system, spouts, timeout_s)
            await asyncio.sleep(0)
            assert acker._timer is None
            acker.mailbox.post(Init(1, [(1, 1)]))
            await asyncio.sleep(1)
            assert (acker._timer is None) is (timeout_s is None)
            acker.mailbox.post(Acks([(1, 1)]))
            await asyncio.sleep(11)
            assert acker._timer is None
            ref.kill()
            await ref.wait_terminated()


async def test_early_rows_expire_also_where_trees_do_not() -> None:
    spouts = Spouts()
    async with ActorSystem() as system:
        _, acker = acker_in(system, spouts, None)
        await asyncio.sleep(0)
        acker.mailbox.post(Init(1, [(1, 1)]))
        acker.mailbox.post(Acks([(2, 1)]))
        await asyncio.sleep(4_000)
        assert 1 in acker.ledger
        assert 2 not in acker.ledger
        assert acker._timer is None


@given(
    shape=shapes(),
    seed=st.integers(0, 2**32),
    data=st.data(),
    failing=st.sets(st.integers(0, 12), max_size=3),
)
def test_a_restart_costs_no_rows_and_gives_no_false_ack(
    shape: list[list[int]], seed: int, data: st.DataObject, failing: set[int]
) -> None:
    """Frames in any order, and messages between them that make the acker fail."""
    which = tree(shape, ids(seed))
    order = data.draw(st.permutations(range(len(which.frames))))

    async def work() -> None:
        spouts = Spouts()
        async with ActorSystem(policy=RestartPolicy(max_restarts=100, backoff_s=(0.0, 0.1))) as system:
            system.on_failure = lambda path, error, decision: None
            _, acker = acker_in(system, spouts, 30.0)
            await asyncio.sleep(0)
            for at, frame in enumerate(order):
                assert not spouts.verdicts
                if at in failing:
                    acker.mailbox.post("what is this?")
                if frame:
                    acker.mailbox.post(Acks([(which.root, which.frames[frame].xor)]))
                else:
                    acker.mailbox.post(Init(4, [(which.root, which.frames[0].xor)]))
                await asyncio.sleep(1)
            assert spouts.verdicts == [(4, "ACK", which.root)]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())


async def test_verdicts_from_before_an_error_are_delivered() -> None:
    spouts = Spouts()
    async with ActorSystem() as system:
        system.on_failure = lambda path, error, decision: None
        _, acker = acker_in(system, spouts, 30.0)
        await asyncio.sleep(0)
        items: list[Any] = [(1, 0), "garbage"]
        acker.mailbox.post(Init(5, items))
        await asyncio.sleep(1)
        assert spouts.verdicts == [(5, "ACK", 1)]


async def test_pending_trees_expire_after_a_restart_of_the_acker() -> None:
    spouts = Spouts()
    loop = asyncio.get_running_loop()
    async with ActorSystem(policy=RestartPolicy(backoff_s=(1.0,))) as system:
        system.on_failure = lambda path, error, decision: None
        _, acker = acker_in(system, spouts, 10.0)
        await asyncio.sleep(0)
        begun_s = loop.time()
        acker.mailbox.post(Init(1, [(1, 1)]))
        acker.mailbox.post("what is this?")  # restarts it, which ends its timers
        await asyncio.sleep(20)
        assert spouts.verdicts == [(1, "EXPIRED", 1)]
        assert spouts.at_s[1] - begun_s <= 11
