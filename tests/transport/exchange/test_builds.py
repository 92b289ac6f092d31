"""Tasks of different builds receive nothing of each other, and tasks that have ended receive nothing."""

from __future__ import annotations

from aiostorm.acker import Init

from .routers import Router
from .test_exchange import Sender, Worker, numbers_of, pair, run_all


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
