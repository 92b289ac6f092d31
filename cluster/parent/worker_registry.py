"""WorkerRegistry: where the workers of a parent come from, and where they report.

    WorkerBackend (network, spawner, addresses, secret: the seams) ─► WorkerRegistry ─► worker handles, one for each
    worker ── WorkerJoined, TaskGaveUp, WorkerLeaving, SnapshotReport ─► an actor for each worker ─► its worker handle

1. The address of a worker is the same for all its processes; only that of a remote worker may change, or a backend may
   choose another. Its peers are then notified.
2. A local worker is a child process. A remote worker is started by a user on another machine: it exists once it has
   joined, until its lease is over or another process with its name joins. If it joins before it is needed, it is used
   if its link is established then. The answer to a worker that joins is the id of this parent: one that outlives its
   parent learns whether another one has taken its place, or this one has given it up.
3. A child gets the secret by its standard input: neither its arguments nor its environment contain it.
4. Each worker reports to an actor of its own, which no other worker can reach: the authenticated link identifies the
   worker, not the message.
5. If the workers of a backend run elsewhere (`is_apart`), components that belong to the driver (`Component.on_driver`)
   get one more worker, in the parent's process, with a name of its own kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from ...actors import Actor, ActorSystem, Ref
from ...runtime import AiostormError
from ...transport import Network, Node, PeerLostError, PeerStarted
from ..messages import DRIVER, PARENT, SETUP, Finish, ProfileTaken, TaskGaveUp, WorkerJoined, WorkerLeaving
from ..records import register
from ..scheduler import WorkerInfo
from ..snapshots.messages import SnapshotReport
from ..worker.log import WorkerLog, profile_in, profile_of
from .children import LocalChildren, OnAbandoned, RemoteWorkers

if TYPE_CHECKING:
    from ...actors import Answer, Message
    from ...runtime import Profile
    from ...runtime.processes import Child, ChildLine, Spawner

log = logging.getLogger("aiostorm.cluster")


KEPT_LIMIT_S: Final = 1.0
"""How long the end of a process may take that was kept."""

KILL_LIMIT_S: Final = 5.0
"""How long killed workers may take to end before the parent goes on without them."""


class WorkerBackend(Protocol):
    """Where workers run and how to connect to them: the seams. An async context manager."""

    @property
    def network(self) -> Network:
        """The network, made when the backend is entered."""
        ...

    @property
    def address(self) -> str:
        """The address at which the parent listens."""
        ...

    @property
    def workers(self) -> int:
        """How many workers each topology gets; 0: as many as it requests."""
        ...

    @property
    def start_limit_s(self) -> float | None:
        """How long its workers may take to start; None: as the settings of the topology say."""
        ...

    @property
    def is_apart(self) -> bool:
        """Do its workers run elsewhere, so that driver components need a worker in the parent's process?"""
        ...

    @property
    def paths(self) -> Sequence[str]:
        """More directories from which its workers import modules."""
        ...

    @property
    def arguments(self) -> Sequence[str]:
        """More arguments for `aiostorm worker`."""
        ...

    @property
    def secret(self) -> bytes:
        """What a worker reads from its standard input."""
        ...

    def listen(self, worker: str, before: str) -> str:
        """The address at which a worker listens. `before`: the one of its last process; empty for the first."""
        ...

    def spawner(self, on_line: Callable[[ChildLine], None], node: Node) -> Spawner:
        """The spawner of workers; `on_line` gets their output. `node`: the parent's, which listens."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class WorkerListener(Protocol):
    """Receives the events of one worker."""

    def on_joined(self, joined: WorkerJoined) -> None:
        """The worker has joined."""
        ...

    def on_task_gave_up(self, report: TaskGaveUp) -> None:
        """A task of the worker has failed for good."""
        ...

    def on_snapshot_report(self, report: SnapshotReport) -> None:
        """Its tasks report about snapshots."""
        ...

    def on_leaving(self, report: WorkerLeaving) -> None:
        """The worker has received SIGTERM."""
        ...

    def on_alive(self) -> None:
        """A sign of life has arrived."""
        ...

    def on_profile(self, profile: Profile) -> None:
        """A profile has arrived: one that was ordered, or of a stall that lasts."""
        ...


class WorkerRegistry:
    """The workers of one parent, whose node listens from `start` to `stop`.

    `on_abandoned(name, pid)`: is called when a process of a remote worker is given up.
    """

    def __init__(
        self, system: ActorSystem, backend: WorkerBackend, on_abandoned: OnAbandoned = lambda name, pid: None
    ) -> None:
        self.system = system
        self.address = ""
        self.node: Node
        self._backend = backend
        self._stack = contextlib.AsyncExitStack()
        self._log = WorkerLog()
        self._children: LocalChildren
        self._remote = RemoteWorkers(on_abandoned)
        self._listeners: dict[str, WorkerListener] = {}
        self._report_actors: dict[str, Ref] = {}
        self._addresses: dict[str, str] = {}
        self._count = 0

    async def start(self) -> None:
        """Enter the backend and listen."""
        register()
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._backend)
            self.node = await stack.enter_async_context(Node(PARENT, self._backend.network, self.system))
            self.address = await self.node.listen(self._backend.address)
            self._children = LocalChildren(self.system, self._backend.spawner(self._on_line, self.node))
            self.node.on_peer(self._on_peer_started)
            self.node.on_pulse(self._on_heartbeat)
            self.node.on_lost(self._on_link_failed)
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """Kill the remaining workers and close the node and the backend."""
        try:
            await self._children.kill(KILL_LIMIT_S)
        finally:
            for name in self.node.peers:
                self.node.lose(name, "the parent ends")
            await self._stack.aclose()

    def allocate(self, here: int, remote: int, *, on_driver: bool = False) -> list[WorkerInfo]:
        """Workers for a topology: local ones, remote ones, and one in the parent's process if `on_driver` needs it.

        That one is the last, so it dials the others: they need not connect to the parent's machine for it.
        """
        names = [f"worker-{self._count + i + 1}" for i in range(here)]
        self._count += here
        free = [name for name in self._remote.names if name not in self._listeners]
        if len(free) < remote:
            raise ValueError(f"{remote} remote workers are requested, and {len(free)} are free")
        infos = [WorkerInfo(name) for name in names] + [WorkerInfo(name, name) for name in free[:remote]]
        if on_driver and self._backend.is_apart:
            infos.append(WorkerInfo(f"{DRIVER}-{self._count}", on_driver=True))
        return infos

    def add_remote(self, name: str) -> None:
        """Expect a remote worker with that name."""
        self._remote.names.append(name)
        self._await_reports(name)
        self.node.link(name)

    def remove_remote(self, name: str) -> None:
        """Expect no remote worker with that name any more. No topology uses it."""
        self._remote.names.remove(name)
        self._remote.early.pop(name, None)
        self.node.lose(name, f"{name} is not needed any more")
        self.node.withdraw(name)
        self._report_actors.pop(name).stop()

    def let_stay(self, names: Collection[str], since: int) -> None:
        """From now on these remote workers stay when their topology ends. `since`: see RemoteWorkers."""
        self._remote.stay, self._remote.since = frozenset(names), since

    def may_stay(self, name: str) -> bool:
        """Does the process stay when its topology ends?"""
        return name in self._remote.stay

    def keep(self, name: str, joined: WorkerJoined) -> None:
        """The process stays: it has joined for the next topology. The present one is done with it."""
        self._remote.early[name] = joined
        child = self._remote.child(name)
        if child is not None:
            child.end("it stays for the next topology")

    async def end_kept(self) -> None:
        """End the processes that have stayed, and that no topology uses."""
        kept = [name for name, joined in self._remote.early.items() if joined.standing is not None]
        async with asyncio.TaskGroup() as group:
            for name in kept:
                group.create_task(self._end_kept(name), name=f"{name}: end")

    async def _end_kept(self, name: str) -> None:
        try:
            await self.node.ref(name, SETUP).ask(Finish(at_once=True), timeout_s=KEPT_LIMIT_S)
        except AiostormError as error:  # its supervisor ends it, or its lease
            log.debug("%s has not ended in order: %s", name, error)

    def is_remote(self, name: str) -> bool:
        """Is the worker started by a user?"""
        return name in self._remote.names

    def attach(self, name: str, listener: WorkerListener) -> None:
        """Send the events of a worker to this listener."""
        self._listeners[name] = listener
        if not self.is_remote(name):
            self._await_reports(name)
            self.node.link(name)

    def detach(self, name: str) -> None:
        """The worker has ended for good."""
        self._listeners.pop(name, None)
        if not self.is_remote(name):
            self.node.lose(name, f"{name} has ended")
            self.node.withdraw(name)
            self._report_actors.pop(name).stop()
        self._log.forget(name)

    async def spawn(self, name: str, target: str) -> Child:
        """Start a worker for the target, or wait for a remote one. SpawnError."""
        if self.is_remote(name):
            child = self._remote.expect(name)
            joined, link = self._remote.early.pop(name, None), self.node.state(name)
            has_work = joined is not None and joined.standing is not None and bool(joined.standing.digest)
            if joined is not None and link is not None and (link.established or has_work):
                self.system.loop.call_soon(self.on_joined, name, joined)
            elif joined is not None:  # it has ended, or is cut off: then it ends when it notices the new incarnation
                self.on_lost(name, self.node.incarnation(name))
            return child
        listen = self._backend.listen(name, self._addresses.get(name, ""))
        words = ["--name", name, "--connect", self.address, "--listen", listen, "--target", target]
        for path in filter(None, self._backend.paths):
            words += ["--path", path]
        return await self._children.spawn(name, ["worker", *words, *self._backend.arguments], self._backend.secret)

    def incarnation(self, name: str) -> int:
        """The incarnation of a worker's process; 0: it has not joined.

        For a remote worker the link may have the next incarnation already: that shows its end.
        """
        child = self._remote.child(name)
        return self.node.incarnation(name) if child is None else child.incarnation

    def on_lost(self, name: str, incarnation: int) -> None:
        """That process of a worker has ended: end its open questions, and open a link for the next one."""
        link = self.node.state(name)
        if link is None:  # it was closed because of an error
            self.node.link(name)
        elif link.incarnation == incarnation:
            self.node.lose(name, f"{name} has ended")
            self.node.link(name)

    def set_address(self, name: str, address: str) -> None:
        """The address at which a worker and its next processes listen."""
        self._addresses[name] = address

    def address_of(self, name: str) -> str:
        """The last address of a worker; empty if it has had none."""
        return self._addresses.get(name, "")

    def last_lines(self, name: str) -> list[str]:
        """The last lines that a worker has printed."""
        return self._log.last(name)

    # -- reports of workers ------------------------------------------------------------------------------------------

    def on_joined(self, worker: str, joined: WorkerJoined) -> int:
        """A worker has joined. Returns the id of this parent."""
        parent = self.node.own_incarnation
        listener = self._listeners.get(worker)
        if joined.standing is not None and joined.standing.parent == parent:
            log.info("%s (pid %d) was given up, and comes back: it ends", worker, joined.pid)
        elif 0 < joined.generation < self._remote.since:
            log.info("%s (pid %d) is of generation %d, and ends", worker, joined.pid, joined.generation)
            self.system.guard(self._end_kept(worker), name=f"end of {worker}")
        elif listener is not None and (not self.is_remote(worker) or self._remote.is_awaited(worker)):
            child = self._remote.child(worker)
            if child is not None:
                child.pid, child.incarnation = joined.pid, self.node.incarnation(worker)
            listener.on_joined(joined)
        elif self.is_remote(worker):
            self._remote.early[worker] = joined
            log.info("%s has joined from %s", worker, joined.node)
        return parent

    def on_report(self, worker: str, report: TaskGaveUp | WorkerLeaving | ProfileTaken | SnapshotReport) -> None:
        """A worker reports an event."""
        listener, child = self._listeners.get(worker), self._remote.child(worker)
        if listener is None or (self.is_remote(worker) and (child is None or not child.pid)):
            return  # it has not joined this topology
        if isinstance(report, TaskGaveUp):
            listener.on_task_gave_up(report)
        elif isinstance(report, WorkerLeaving):
            listener.on_leaving(report)
        elif isinstance(report, ProfileTaken):
            listener.on_profile(report.profile)
        else:
            listener.on_snapshot_report(report)

    def _await_reports(self, worker: str) -> None:
        self._report_actors[worker] = report_actor = self.system.spawn(
            _ReportActor(self, worker), f"reports of {worker}"
        )
        self.node.offer(worker, report_actor, to=(worker,))

    def _on_peer_started(self, peer: str, started: PeerStarted) -> None:
        self._remote.early.pop(peer, None)  # it was of another process
        child = self._remote.child(peer)
        if child is not None and child.pid:
            child.end("another process with its name has joined")

    def _on_link_failed(self, peer: str, error: Exception) -> None:
        """The link to a worker has failed. A remote worker may join again later."""
        if isinstance(error, PeerLostError) or not self.is_remote(peer):  # closed here, or the child has ended
            return
        self._remote.early.pop(peer, None)
        child = self._remote.child(peer)
        if child is not None and child.pid and not child.ended.done():
            child.end(f"its link failed: {error}")
        else:
            self.node.link(peer)

    def _on_heartbeat(self, peer: str, process: int, note: bytes) -> None:
        """A heartbeat of a remote worker whose event loop is blocked by user code. `note`: a profile, or empty."""
        child, listener = self._remote.child(peer), self._listeners.get(peer)
        if child is None or child.pid != process or listener is None:
            return
        listener.on_alive()
        profile = profile_of(peer, note.decode(errors="replace")) if note else None
        if profile is not None:
            listener.on_profile(profile)

    def _on_line(self, line: ChildLine) -> None:
        listener, profile = self._listeners.get(line.name), profile_in(line)
        if listener is not None:
            listener.on_alive()
        if profile is None:
            self._log.line(line)
        elif listener is not None:
            listener.on_profile(profile)


class _ReportActor(Actor):
    """Receives the reports of one worker: offered to that worker only, under its name."""

    def __init__(self, registry: WorkerRegistry, worker: str) -> None:
        self._registry = registry
        self._worker = worker

    def receive(self, message: Message) -> Answer:
        if isinstance(message, WorkerJoined):
            return self._registry.on_joined(self._worker, message)
        if isinstance(message, TaskGaveUp | WorkerLeaving | ProfileTaken | SnapshotReport):
            return self._registry.on_report(self._worker, message)
        raise TypeError(f"a parent has no such message: {message!r:.200}")
