"""Workers whose exchanges send to each other, for tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from aiostorm.acker import ACKER_MESSAGES
from aiostorm.actors import EMPTY, Mailbox, MailboxClosedError
from aiostorm.topology import Fields, Origin, Segment
from aiostorm.transport import Exchange, ProtocolError, RemoteTask, split_capacity

from .routers import Router

ORIGINS = {task: Origin("numbers", task, "default", Fields("n")) for task in range(100)}
CAPACITY = 64


def origin_of(task: int, stream: str) -> Origin:
    if stream != "default":
        raise ProtocolError("no such stream")
    return ORIGINS[task]


class Worker:
    """A worker with so many tasks, each a mailbox that a test reads."""

    def __init__(
        self, router: Router, tasks: dict[str, list[int]], capacity: int = CAPACITY, *, build: int = 0
    ) -> None:
        self.router = router
        self.lost: list[str] = []
        self.quiet = 0
        mine, peers = tasks[router.name], len(tasks) - 1
        own, _ = split_capacity(capacity, peers)
        self.mailboxes = {task: Mailbox(own) for task in mine}
        self.exchange = Exchange(
            router.name,
            router,
            mailboxes=self.mailboxes,
            capacities=dict.fromkeys(mine, capacity),
            remote={
                t: RemoteTask(name, capacity) for name, theirs in tasks.items() if name != router.name for t in theirs
            },
            origin_of=origin_of,
            codecs=(ACKER_MESSAGES,),
            on_lost=self.lost.append,
            stopwatch=float,
            build=build,
        )
        self.exchange.on_idle(self._on_idle)

    def _on_idle(self) -> None:
        self.quiet += 1


class Sender:
    """One task that sends numbers to one other, as an outlet does: at once, or parked."""

    def __init__(self, worker: Worker, source: int, target: int) -> None:
        self.inbox = worker.exchange.inboxes[target]
        self.source = source
        self.number = 0
        self.ready: list[Segment] = []
        self.parked = False
        self.refusals = 0

    def send(self, count: int) -> None:
        numbers = list(range(self.number, self.number + count))
        self.number += count
        [(packed, _)] = self.inbox.pack(ORIGINS[self.source], numbers, None)
        segment = Segment(ORIGINS[self.source], packed)
        if self.parked:
            self.ready.append(segment)
        elif not self.inbox.offer(segment, count):
            self.ready.append(segment)
            self.parked = True
            self.inbox.park(self)

    def next_piece(self) -> tuple[Any, int] | None:
        segment = self.ready.pop(0)
        return segment, len(segment.items)

    def has_more(self) -> bool:
        self.parked = bool(self.ready)
        return self.parked

    def refused(self, error: MailboxClosedError) -> None:
        self.ready.clear()
        self.parked = False
        self.refusals += 1


def pair(capacity: int = CAPACITY) -> tuple[Worker, Worker]:
    routers: dict[str, Router] = {}
    a, b = Router("a", routers), Router("b", routers)
    tasks = {"a": [1, 2], "b": [3, 4]}
    return Worker(a, tasks, capacity), Worker(b, tasks, capacity)


def run_all(*workers: Worker) -> None:
    """Until nothing moves any more."""
    moved = True
    while moved:
        moved = False
        for worker in workers:
            for peer in worker.router.send_queues:
                moved |= worker.router.send(peer) or worker.router.deliver(peer)


def numbers_of(mailbox: Mailbox) -> list[int]:
    found: list[int] = []
    while (segment := mailbox.take_data()) is not EMPTY:
        found += segment.items
    return found


def receive_buffers(worker: Worker, task: int) -> list[Any]:
    return [peer_channel.receive_buffers[task] for peer_channel in worker.exchange._peer_channels.values()]


routes = st.sampled_from([(1, 3), (2, 3), (1, 4), (3, 1), (4, 2)])


def read(mailbox: Mailbox, into: list[tuple[int, int]]) -> bool:
    segment = mailbox.take_data()
    if segment is EMPTY:
        return False
    into += [(segment.origin.task, n) for n in segment.items]
    return True
