"""Exchange: segments and messages between the tasks of two workers: all of them, in order, within their bounds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.acker import Acks, Forget, Init, Verdict, VerdictKind, Verdicts
from aiostorm.topology import Failure
from aiostorm.transport import PayloadKind, ProtocolError, unpack_all

from ...tries import examples
from .exchange_parts import (
    CAPACITY,
    Sender,
    numbers_of,
    pair,
    read,
    receive_buffers,
    run_all,
)


async def test_segments_come_in_order_and_nothing_goes_before_both_are_prepared() -> None:
    a, b = pair()
    sender = Sender(a, 1, 3)
    sender.send(3)
    a.exchange.begin()
    run_all(a, b)
    assert numbers_of(b.mailboxes[3]) == [], "b has not begun, so it has given no credit"
    assert not a.exchange.is_idle
    b.exchange.begin()
    sender.send(2)
    run_all(a, b)
    assert numbers_of(b.mailboxes[3]) == [0, 1, 2, 3, 4]
    assert a.exchange.is_idle
    assert a.exchange.sent == {"b": 2}
    assert b.exchange.received == {"a": 2}


async def test_a_closed_exchange_takes_nothing() -> None:
    a, b = pair()
    for worker in (a, b):
        worker.exchange.begin()
    run_all(a, b)
    Sender(a, 1, 3).send(3)
    a.exchange.inboxes[4].post(Init(1, [(5, 6)]))
    b.exchange.close()
    run_all(a, b)
    assert numbers_of(b.mailboxes[3]) == []
    assert not b.mailboxes[4].has_control


async def test_either_worker_may_begin() -> None:
    for order in ("ab", "ba"):
        a, b = pair()
        workers = {"a": a, "b": b}
        for name in order:
            workers[name].exchange.begin()
            run_all(a, b)
        Sender(a, 1, 3).send(1)
        Sender(b, 3, 1).send(2)
        run_all(a, b)
        assert (numbers_of(b.mailboxes[3]), numbers_of(a.mailboxes[1])) == ([0], [0, 1])


async def test_a_full_task_holds_up_no_other_of_the_same_worker() -> None:
    a, b = pair()
    a.exchange.begin(), b.exchange.begin()
    slow, quick = Sender(a, 1, 3), Sender(a, 1, 4)
    for _ in range(500):
        slow.send(1)
    run_all(a, b)
    held = b.mailboxes[3].gate.fill + sum(t.credit.buffered for t in receive_buffers(b, 3))
    assert held <= CAPACITY + CAPACITY, "its capacity, and one frame of the sender"
    assert slow.parked
    assert slow.inbox.is_high
    for _ in range(100):
        quick.send(1)
        run_all(a, b)
        assert len(numbers_of(b.mailboxes[4])) == 1
    got: list[int] = []
    while (found := numbers_of(b.mailboxes[3])) or not a.exchange.is_idle:
        got += found
        run_all(a, b)
    assert got == list(range(500))
    assert not slow.inbox.is_high


@pytest.mark.parametrize(("row_s", "sent_s"), [(0.0, 0.0), (0.05, 0.05), (1.5e-6, 1.5e-6), (1e-12, 1e-9), (1e9, 1e6)])
async def test_the_time_for_a_row_is_sent_with_the_credit(row_s: float, sent_s: float) -> None:
    a, b = pair()
    a.exchange.begin(), b.exchange.begin()
    run_all(a, b)
    assert a.exchange.inboxes[3].reader.row_s == 0.0
    sender = Sender(a, 1, 3)
    for _ in range(CAPACITY):
        sender.send(1)
        b.mailboxes[3].reader.row_s = row_s
        run_all(a, b)
        numbers_of(b.mailboxes[3])
    assert a.exchange.inboxes[3].reader.row_s == sent_s
    assert a.exchange.inboxes[4].reader.row_s == 0.0


async def test_the_limit_of_a_mailbox_bounds_the_tuples_in_flight_to_it() -> None:
    a, b = pair(1024)
    box = b.mailboxes[3]
    a.exchange.begin(), b.exchange.begin()
    sender = Sender(a, 1, 3)
    assert sender.inbox.gate.limit == 64, "few, as long as it has said nothing"
    run_all(a, b)
    assert sender.inbox.gate.limit == box.gate.limit == box.gate.capacity
    for limit in (16, 100, box.gate.capacity, 32):
        box.set_limit(limit)
        while not sender.parked:
            sender.send(1)
            run_all(a, b)
        for _ in range(80):  # it takes a while until what was sent before has left
            box.take_batch(64)
            while not sender.parked:
                sender.send(1)
            run_all(a, b)
        while not sender.parked:
            sender.send(1)
        assert (sender.inbox.gate.limit, sender.inbox.gate.piece) == (
            limit,
            limit * sender.inbox.gate.max_piece // 1024,
        )
        held = box.gate.fill + sum(t.credit.buffered for t in receive_buffers(b, 3))
        assert held <= 2.2 * limit
        assert sender.inbox._queue.tuples <= limit


@given(
    seed=st.integers(0, 2**32),
    capacity=st.sampled_from([1, 2, 7, 64]),
    plan=st.lists(
        st.tuples(st.sampled_from([(1, 3), (2, 3), (1, 4), (3, 1), (4, 2)]), st.integers(1, 5)), max_size=120
    ),
)
@settings(max_examples=examples(40))
def test_all_rows_come_once_and_in_order_at_any_pace(
    seed: int, capacity: int, plan: list[tuple[tuple[int, int], int]]
) -> None:
    async def run() -> None:
        chance = random.Random(seed)
        a, b = pair(capacity)
        a.exchange.begin(), b.exchange.begin()
        of = {1: a, 2: a, 3: b, 4: b}
        senders = {(source, target): Sender(of[source], source, target) for (source, target), _ in plan}
        got: dict[int, list[tuple[int, int]]] = {task: [] for task in of}
        steps: list[Callable[[], Any]] = []
        for worker, peer in ((a, "b"), (b, "a")):
            steps += [lambda w=worker, p=peer: w.router.send(p), lambda w=worker, p=peer: w.router.deliver(p)]
        for task, worker in of.items():
            steps.append(lambda t=task, w=worker: read(w.mailboxes[t], got[t]))
        for route, count in plan:
            for _ in range(min(count, senders[route].inbox.gate.max_piece)):
                senders[route].send(1)
            for _ in range(chance.randrange(4)):
                chance.choice(steps)()
            for task, worker in of.items():
                held = worker.mailboxes[task].gate.fill + sum(t.credit.buffered for t in receive_buffers(worker, task))
                assert held <= capacity + max(capacity, senders[route].inbox.gate.max_piece)
        for _ in range(20_000):
            if not any(step() for step in steps) and a.exchange.is_idle and b.exchange.is_idle:
                break
        for (source, target), sender in senders.items():
            assert [n for task, n in got[target] if task == source] == list(range(sender.number))
        assert a.exchange.sent["b"] == b.exchange.received["a"]
        assert b.exchange.sent["a"] == a.exchange.received["b"]

    asyncio.run(run())


async def test_messages_for_control_lanes_need_no_credit_and_go_together() -> None:
    a, b = pair()
    a.exchange.begin(), b.exchange.begin()
    run_all(a, b)
    failure = Failure("failed", "count", 9, "ValueError: no")
    inbox = a.exchange.inboxes[3]
    inbox.post(Init(1, [(5, 2**64 - 1), (6, 7)]))
    inbox.post(Acks([(5, 0)], [(5, 3, failure), (5, 4, Failure("timeout"))], [6]))
    inbox.post(Verdicts([Verdict(VerdictKind.ACK, 5, failure={3: failure}), Verdict(VerdictKind.FAIL, 6, 2, failure)]))
    inbox.post(Verdicts([Verdict(VerdictKind.EXPIRED, 8), Verdict(VerdictKind.RESET, 9), Verdict(VerdictKind.ACK, 9)]))
    inbox.post(Forget(1))
    assert a.router.send("b")
    assert not a.router.send("b"), "they go in one payload"
    a.router.deliver("b")
    box = b.mailboxes[3]
    init, acks, first, second, forget = (box.take_control() for _ in range(5))
    assert forget.owner == 1
    assert (init.owner, init.items) == (1, [(5, 2**64 - 1), (6, 7)])
    assert (acks.items, acks.failures, acks.resets) == ([(5, 0)], [(5, 3, failure), (5, 4, Failure("timeout"))], [6])
    assert [(v.kind, v.root, v.index, v.failure) for v in (*first.verdicts, *second.verdicts)] == [
        (VerdictKind.ACK, 5, -1, {3: failure}),
        (VerdictKind.FAIL, 6, 2, failure),
        (VerdictKind.EXPIRED, 8, -1, None),
        (VerdictKind.RESET, 9, -1, None),
        (VerdictKind.ACK, 9, -1, None),
    ]


async def test_control_overtakes_data_that_waits() -> None:
    a, b = pair()
    a.exchange.begin(), b.exchange.begin()
    run_all(a, b)
    Sender(a, 1, 3).send(1)
    a.exchange.inboxes[4].post(Init(1, [(5, 6)]))
    a.router.send("b")
    [payload] = a.router.way["b"]
    assert [kind for kind, _, _ in unpack_all(payload)] == [PayloadKind.TASK, PayloadKind.SEGMENTS]


async def test_the_end_refuses_those_that_wait() -> None:
    a, _ = pair()
    sender = Sender(a, 1, 3)
    for _ in range(200):
        sender.send(1)
    assert sender.parked
    a.exchange.close()
    assert (sender.parked, sender.refusals) == (False, 1)
    assert not sender.inbox.offer(None)
    assert not sender.inbox.force(None)


@pytest.mark.parametrize(
    "noise",
    [
        b"\x01\x00\x00\x00\x63\x90",  # segments for a task that is not there
        b"\x01\x00\x00\x00\x03\xc0",  # no segments
        b"\x02\x00\x00\x00\x00\x90",  # credit without a word
        b"\x02\x00\x00\x00\x00\x94\x00\x03\x05\x00",  # what task 3 takes is not for a to say
        b"\x02\x00\x00\x00\x00\x93\x00\x02\x05",
        b"\x02\x00\x00\x00\x00\x94\x00\x02\x05\xff",  # no row takes less than no time
        b"\x02\x00\x00\x00\x00\x94\x00\x02\x05\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x02\x00\x00\x00\x00\x94\x00\x02\x05\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00",
        b"\x02\x00\x00\x00\x00\x92\x00\x01",
        b"\x03\x00\x00\x00\x00\x01",
        b"\x03\x00\x00\x00\x00\x91\x93\x03\x01\x01",
        b"\x03\x00\x00\x00\x00\x91\x94\x63\x01\x01\xc4\x00",  # a message to a task that is not there
        b"\x03\x00\x00\x00\x00\x91\x94\x03\x01\x01\xc4\x01\x00",
        b"\x03\x00\x00\x00\x00\x91\x93\x03\x03\x91\x94\x07\x01\xff\xc0",
    ],
)
async def test_noise_is_a_protocol_error(noise: bytes) -> None:
    a, b = pair()
    b.exchange.begin()
    a.router.way["b"].append(noise)
    with pytest.raises(ProtocolError):
        a.router.deliver("b")
