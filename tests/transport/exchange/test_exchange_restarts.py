"""Exchange: workers that end, start again, or build their tasks again."""

from __future__ import annotations

from aiostorm.acker import Init

from .exchange_parts import (
    CAPACITY,
    Sender,
    Worker,
    numbers_of,
    pair,
    receive_buffers,
    run_all,
)
from .routers import Router


async def test_tasks_of_different_builds_send_each_other_nothing() -> None:
    routers: dict[str, Router] = {}
    tasks = {"a": [1, 2], "b": [3, 4]}
    a = Worker(Router("a", routers), tasks, build=2)
    old = Worker(Router("b", routers), tasks, build=1)
    for worker in (a, old):
        worker.exchange.begin()
    Sender(a, 1, 3).send(3)
    Sender(old, 3, 1).send(3)
    old.exchange.inboxes[2].post(Init(1, [(5, 6)]))
    run_all(a, old)
    assert numbers_of(a.mailboxes[1]) == numbers_of(old.mailboxes[3]) == []
    assert not a.mailboxes[2].has_control
    assert not a.exchange.is_open(3)
    again = Worker(old.router.reborn(), tasks, build=2)
    again.exchange.begin()
    run_all(a, again)
    assert numbers_of(again.mailboxes[3]) == [0, 1, 2]
    assert a.exchange.is_open(3)


async def test_a_restarted_worker_gets_what_waited_and_the_loss_is_reported_once() -> None:
    a, b = pair()
    a.exchange.begin(), b.exchange.begin()
    run_all(a, b)
    sender = Sender(a, 1, 3)
    sender.send(1)
    a.router.send("b")  # under way: it will be lost
    a.exchange.peer_died("b", 1)
    a.exchange.peer_died("b", 1)
    assert a.lost == ["b"]
    sender.send(1)
    a.exchange.inboxes[4].post(Init(1, [(5, 6)]))
    again = Worker(b.router.reborn(), {"a": [1, 2], "b": [3, 4]})
    run_all(a, again)
    assert numbers_of(again.mailboxes[3]) == []
    again.exchange.begin()
    run_all(a, again)
    assert numbers_of(again.mailboxes[3]) == [1]
    assert again.mailboxes[4].take_control().items == [(5, 6)]
    assert a.lost == ["b"], "the new incarnation is not the news of its death"
    assert (a.exchange.sent, again.exchange.received) == ({"b": 2}, {"a": 2})
    a.exchange.peer_died("b", 1)
    sender.send(1)
    run_all(a, again)
    assert numbers_of(again.mailboxes[3]) == [2], "a late report of an earlier incarnation changes nothing"


async def test_a_dead_worker_gets_nothing_and_the_spouts_are_notified_when_all_know() -> None:
    a, b = pair()
    a.exchange.begin(), b.exchange.begin()
    run_all(a, b)
    a.exchange.peer_ended("b", 1)
    Sender(a, 1, 3).send(1)
    a.exchange.inboxes[4].post(Init(1, [(5, 6)]))
    assert not a.router.send("b"), "the link may not know yet that the peer is dead"
    assert a.lost == []
    a.exchange.peer_died("b", 1)
    assert a.lost == ["b"]


async def test_a_new_incarnation_implies_that_the_previous_one_has_died() -> None:
    a, b = pair()
    a.exchange.begin(), b.exchange.begin()
    run_all(a, b)
    b.router.reborn()
    assert a.lost == ["b"]


async def test_buffered_tuples_of_an_incarnation_reduce_the_credit_of_the_next() -> None:
    a, b = pair()
    a.exchange.begin(), b.exchange.begin()
    sender = Sender(a, 1, 3)
    for _ in range(300):
        sender.send(1)
    run_all(a, b)
    [before] = [receive_buffers.credit.buffered for receive_buffers in receive_buffers(b, 3)]
    assert before > 0
    again = Worker(a.router.reborn(), {"a": [1, 2], "b": [3, 4]})
    again.exchange.begin()
    run_all(again, b)
    sender = Sender(again, 2, 3)
    for _ in range(300):
        sender.send(1)
    run_all(again, b)
    assert b.mailboxes[3].gate.fill + receive_buffers(b, 3)[0].credit.buffered <= 2 * CAPACITY


async def test_buffered_tuples_of_an_incarnation_are_not_counted_as_the_next_ones() -> None:
    # They would never agree again on what they have sent each other, and neither would ever be idle.
    a, b = pair(capacity=2)
    a.exchange.begin(), b.exchange.begin()
    sender = Sender(a, 1, 3)
    for _ in range(9):
        sender.send(1)
    run_all(a, b)
    assert not b.exchange.is_idle
    again = Worker(a.router.reborn(), {"a": [1, 2], "b": [3, 4]}, capacity=2)
    again.exchange.begin()
    run_all(again, b)
    Sender(again, 2, 3).send(1)
    for _ in range(9):
        numbers_of(b.mailboxes[3])
        run_all(again, b)
    assert (again.exchange.sent, b.exchange.received) == ({"b": 1}, {"a": 1})
