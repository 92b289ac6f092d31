"""What a worker of the simulated world runs: an actor system, a node over the simulated network, a task set with its
part.

1. Links are opened and the task set is made in one step: a peer's first CREDIT finds its receiver.
2. RouterWatch (between exchange and node) and InboxWatch (between send queue and link) observe what passes and change
   nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from aiostorm.acker import AckerActor
from aiostorm.actors import Actor, ActorSystem
from aiostorm.cluster.hosting import Hosting
from aiostorm.cluster.task_set import TaskSet
from aiostorm.cluster.tasks_here import make_tasks
from aiostorm.runtime import AiostormError
from aiostorm.tasks import Activate, SpoutTask
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import (
    Exchange,
    LinkSupersededError,
    Node,
    PayloadKind,
    PeerLostError,
    PeerStarted,
    RemoteMailbox,
    SendQueue,
    unpack_all,
)

from .model import Incarnation

if TYPE_CHECKING:
    from .world import WorkersWorkload

PING_S = 0.5


class RouterWatch:
    """A PeerRouter: the worker's node. After each frame of segments it looks what is held for the task."""

    def __init__(self, program: Watched, node: Node) -> None:
        self.send_queue = node.send_queue
        self.incarnation = node.incarnation
        self.on_peer: Callable[[Callable[[str, PeerStarted], None]], None] = node.on_peer
        self.largest: dict[tuple[str, int], int] = {}
        self._program = program
        self._node = node

    def handle(self, kind: PayloadKind, handler: Callable[[str, int, memoryview], None]) -> None:
        if kind is not PayloadKind.SEGMENTS:
            self._node.handle(kind, handler)
            return

        def look(peer: str, target: int, body: memoryview) -> None:
            self._program.work.segments += 1
            receive_buffers = self._program.exchange._peer_channels[peer].receive_buffers.get(target)
            before = (
                0 if receive_buffers is None else receive_buffers.credit.buffered + receive_buffers.credit._accepted
            )
            handler(peer, target, body)
            if receive_buffers is not None:
                weight = receive_buffers.credit.buffered + receive_buffers.credit._accepted - before
                self.largest[peer, target] = max(self.largest.get((peer, target), 0), weight)
                self._check(target)

        self._node.handle(kind, look)

    def _check(self, target: int) -> None:
        """What is held for a task is never more than its capacity and a frame of each sender."""
        program = self._program
        box = program.task_set.tasks.mailboxes[target]
        peer_channels = program.exchange._peer_channels.values()
        held = box.gate.fill + sum(
            peer_channel.receive_buffers[target].credit.buffered for peer_channel in peer_channels
        )
        frames = sum(self.largest.get((peer_channel.peer, target), 0) for peer_channel in peer_channels)
        capacity = program.work.capacity
        if held > capacity + frames and target not in program.work.overfilled and program.process.alive:
            program.work.world.problem(
                f"{program.name} holds {held} tuples for task {target}: its capacity is {capacity}, frames had {frames}"
            )


class InboxWatch:
    """A Source: the send queue. When data is taken, nothing may wait for the control lane."""

    def __init__(self, program: Watched, send_queue: SendQueue) -> None:
        self._program = program
        self._send_queue = send_queue

    @property
    def is_empty(self) -> bool:
        return self._send_queue.is_empty

    @property
    def last_was_urgent(self) -> bool:
        return self._send_queue.last_was_urgent

    def next_payload(self, *, urgent: bool = False) -> bytes | None:
        payload = self._send_queue.next_payload(urgent=urgent)
        if payload is not None:
            kinds = [kind for kind, _, _ in unpack_all(payload)]
            self._program.taken.update(kinds)
            if PayloadKind.SEGMENTS in kinds and self._program.process.alive:
                waiting = [*self._send_queue._control, *self._send_queue._data]
                behind = kinds[kinds.index(PayloadKind.SEGMENTS) :]
                if any(not isinstance(gatherer, RemoteMailbox) for gatherer in waiting) or set(behind) > {
                    PayloadKind.SEGMENTS
                }:
                    self._program.work.world.problem(f"{self._program.name} sends data, and control waits")
        return payload


class Echo(Actor):
    """Answers."""

    def receive(self, message: Any) -> Any:
        return message


class Watched:
    """One worker, over all incarnations of its process: its task set, and what passes there."""

    def __init__(self, work: WorkersWorkload, name: str) -> None:
        self.work = work
        self.name = name
        self.process: Process
        self.incarnation: Incarnation = (name, 0)
        self.incarnation_id = 0
        self.task_set: TaskSet
        self.router: RouterWatch
        self.system: ActorSystem
        self.taken: Counter[PayloadKind] = Counter()

    async def main(self, process: Process) -> None:
        """What an incarnation runs."""
        raise NotImplementedError

    @property
    def emits(self) -> bool:
        """Do its spouts emit?"""
        raise NotImplementedError

    @property
    def exchange(self) -> Exchange:
        exchange = self.task_set.tasks.exchange
        assert exchange is not None
        return exchange

    def watch(self, system: ActorSystem, node: Node) -> RouterWatch:
        """An incarnation begins, with links to all peers; the task set is given what is returned as its router."""
        self.system = system
        self.incarnation_id = node._links.incarnation
        self.process.current.at_death.append(partial(self.work.died, self.incarnation, self.incarnation_id))
        node.on_lost(self._lost)
        for peer in node.peers:
            if peer in self.work.names:
                link = node.state(peer)
                assert link is not None
                link._sequence._source = InboxWatch(self, node.send_queue(peer))
        self.router = RouterWatch(self, node)
        return self.router

    # -- is it at rest? ----------------------------------------------------------------------------------------------

    @property
    def waits_for(self) -> Iterator[str]:
        """What keeps it from being quiet."""
        if not self.emits:
            yield f"{self.name} is not up"
            return
        if not self.exchange.is_idle:
            yield f"in the exchange of {self.name} something waits"
        for task in self.task_set.tasks:
            # (A spout that asks an idle source is not quiet at that moment.)
            if task.pending or not (task.is_idle or isinstance(task, SpoutTask)):
                yield f"{task.task.component}[{task.task.task_id}] of {self.name} is not quiet ({task.pending} pending)"
        for spout in self.task_set.tasks.spouts:
            if spout.pace.wait_us:
                yield f"{spout.task.component}[{spout.task.task_id}] of {self.name} is paced"
        if self.task_set.tasks.master is not None and self.task_set.tasks.master.view().state != "NORMAL":
            yield f"the topology master on {self.name} has not found that all is over"

    def remains(self, *, rows: bool) -> Iterator[str]:
        """What a worker at rest should not have any more. `rows`: of ledgers, too."""
        for task_id, box in self.task_set.tasks.mailboxes.items():
            if box.gate.fill or box.has_data or box.has_control or box.parked:
                yield f"task {task_id} of {self.name} is at rest, and its mailbox holds {box.gate.fill} tuples"
            if not box.gate.is_open:
                yield f"task {task_id} of {self.name} is at rest, and the gate of its mailbox is closed"
        for peer_channel in self.exchange._peer_channels.values():
            for receive_buffers in peer_channel.receive_buffers.values():
                if buffered := receive_buffers.credit.buffered:
                    yield f"{self.name} is at rest, and holds {buffered} tuples of {peer_channel.peer}"
            for task_id, inbox in peer_channel.inboxes.items():
                if inbox._queue.size_bytes or inbox._queue.tuples or not (inbox.is_empty and inbox.gate.is_open):
                    yield f"{self.name} is at rest, and something waits for task {task_id} of {peer_channel.peer}"
        for cell in self.system.cells if rows else ():
            if isinstance(cell.supervision.actor, AckerActor) and len(cell.supervision.actor.ledger):
                yield f"{self.name} is at rest, and a ledger has {len(cell.supervision.actor.ledger)} rows"

    # -- inside ------------------------------------------------------------------------------------------------------

    def _lost(self, peer: str, error: Exception) -> None:
        if self.process.alive and not isinstance(
            error, PeerLostError | LinkSupersededError
        ):  # else it ends, on purpose
            self.work.world.problem(f"{self.name} has closed the link to {peer}: {error!r}")

    def _gave_up(self, path: str, error: BaseException) -> None:
        if self.process.alive:
            self.work.world.problem(f"{self.name} has given up {path}: {error!r}")


class Program(Watched):
    """One worker without a parent of ours. (A spare is another program of the same worker.)"""

    def __init__(self, work: WorkersWorkload, name: str) -> None:
        super().__init__(work, name)
        self.node: Node
        self.stopping: asyncio.Event
        self.may_open: asyncio.Event
        self._emits = False
        self._incarnation_task: asyncio.Task[None] | None = None

    @property
    def emits(self) -> bool:
        return self._emits

    async def main(self, process: Process) -> None:
        self._emits = False
        self.stopping, self.may_open = asyncio.Event(), asyncio.Event()
        self.incarnation = self.work.model.begins(self.name, process)
        task = self._incarnation_task = asyncio.get_running_loop().create_task(
            self.run_incarnation(process), name=f"{self.name} runs"
        )
        try:
            await asyncio.wait((task,))
            if not task.cancelled():
                await task
        finally:
            if process.alive:
                self._emits = False
                task.cancel()

    def _lost(self, peer: str, error: Exception) -> None:
        super()._lost(peer, error)
        if isinstance(error, LinkSupersededError) and self.process.alive and self._incarnation_task is not None:
            self.work.superseded += 1  # another worker of this name has come: this one ends
            self._incarnation_task.cancel()

    async def run_incarnation(self, process: Process) -> None:
        work = self.work
        async with (
            ActorSystem(self.name, rng=process.rng) as system,
            Node(self.name, process.network, system, rng=process.rng, limits=work.limits) as node,
        ):
            self.node = node
            await node.listen(f"{process.name}:1")
            for peer in work.names:
                if peer != self.name:
                    node.link(peer, f"{peer}:1" if self.name < peer else None)
            router = self.watch(system, node)
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            tasks = make_tasks(
                system,
                "spread",
                work.topology,
                work.config,
                gave_up=self._gave_up,
                hosting=Hosting(self.name, work.placement, router),
            )
            self.task_set = TaskSet(system, tasks, gave_up=self._gave_up)
            node.offer("echo", system.spawn(Echo, "echo"))
            await self.task_set.start_bolts(ended)
            work.prepare(self)
            await self.may_open.wait()
            await self.task_set.start_spouts(ended)
            self.task_set.tasks.post_to_spouts(Activate)
            self._emits = True
            async with asyncio.TaskGroup() as group:
                pinging = [
                    group.create_task(self._ping(peer), name=f"{self.name} pings {peer}")
                    for peer in work.names
                    if peer != self.name
                ]
                await self.stopping.wait()
                for task in pinging:
                    task.cancel()
            await self.task_set.stop()

    def on_death(self, worker: str, incarnation_id: int) -> None:
        """Its parent says that another's process has ended."""
        if self.emits and self.process.alive:
            self.exchange.peer_died(worker, incarnation_id)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _ping(self, peer: str) -> None:
        """Is a message of an actor there in time, whatever the load is?"""
        work = self.work
        ref = self.node.ref(peer, "echo")
        number = 0
        while True:
            await asyncio.sleep(PING_S)
            began_s = work.world.now_s
            try:
                number += 1
                answer = await ref.ask(number, timeout_s=30.0)
            except AiostormError:
                continue
            if answer != number:
                work.world.problem(f"{self.name} asks {peer} {number}, and gets {answer!r}")
            work.pinged(self, peer, began_s)
