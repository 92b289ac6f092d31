"""WorkerRegistry: where a parent's workers come from, and where they report.

    WorkerBackend (network, spawner, addresses, secret: the seams) ─► WorkerRegistry ─► worker handles, one for each
    worker ── WorkerJoined, TaskGaveUp, WorkerLeaving ─► an actor for each worker ─► its worker handle

1. A worker's address does not change with its lives; that of one that a user starts may, and a worker backend may
   choose another. Its peers are told of it.
2. A worker of ours is a child process. One that a user starts on another machine is not: it is there when it has
   joined, and gone when its lease is over or another of its name comes. If it has joined before it is wanted, it is
   taken if its link stands then.
3. The secret goes to a child by its standard input: neither its arguments nor its environment show it.
4. Each worker reports to an actor of its own, which no other worker finds: a message does not say whose it is, the
   authenticated link does.
5. Where a worker backend's workers are elsewhere (`is_apart`), one more of a topology is beside the parent, if it has
   components that belong there (`Component.on_driver`): its name says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from ...actors import Actor, ActorSystem, Ref
from ...runtime import Child, ChildLine, Spawner
from ...transport import Network, Node, PeerLostError, PeerStarted
from ..messages import DRIVER, PARENT, TaskGaveUp, WorkerJoined, WorkerLeaving, register
from ..scheduler import WorkerInfo
from ..worker.log import WorkerLog

log = logging.getLogger("aiostorm.cluster")


class WorkerBackend(Protocol):
    """Where workers run, and how they are reached: the seams. An async context manager."""

    @property
    def network(self) -> Network:
        """Made when the worker backend was entered."""
        ...

    @property
    def address(self) -> str:
        """Where the parent listens."""
        ...

    @property
    def workers(self) -> int:
        """How many it has for each topology; 0: as many as are asked for."""
        ...

    @property
    def start_limit_s(self) -> float | None:
        """How long its workers may take to start; None: as the settings of the topology say."""
        ...

    @property
    def is_apart(self) -> bool:
        """Are its workers elsewhere, so that what belongs on the driver needs one beside the parent?"""
        ...

    @property
    def paths(self) -> Sequence[str]:
        """Where its workers look for modules, besides their own places."""
        ...

    @property
    def arguments(self) -> Sequence[str]:
        """More words for `aiostorm worker`."""
        ...

    @property
    def secret(self) -> bytes:
        """What a worker reads from its standard input."""
        ...

    def listen(self, worker: str, before: str) -> str:
        """Where that worker is to listen. `before`: where its last life did; empty if this is its first."""
        ...

    def spawner(self, on_line: Callable[[ChildLine], None], node: Node) -> Spawner:
        """Starts workers; what they print goes there. `node` is the parent's, and listens."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class WorkerListener(Protocol):
    """Who hears of one worker."""

    def joined(self, joined: WorkerJoined) -> None:
        """It is there."""
        ...

    def gave_up(self, told: TaskGaveUp) -> None:
        """It gave a task up."""
        ...

    def leaving(self, told: WorkerLeaving) -> None:
        """It was asked to end."""
        ...

    def heard(self) -> None:
        """It lives."""
        ...


class WorkerRegistry:
    """Of one parent. `async with`: its node listens."""

    def __init__(self, system: ActorSystem, backend: WorkerBackend) -> None:
        self.system = system
        self.address = ""
        self.node: Node
        self._backend = backend
        self._stack = contextlib.AsyncExitStack()
        self._log = WorkerLog()
        self._spawner: Spawner
        self._listeners: dict[str, WorkerListener] = {}
        self._children: dict[Child, None] = {}
        self._remote: dict[str, RemoteChild] = {}
        self._remote_names: list[str] = []
        self._early: dict[str, WorkerJoined] = {}
        self._report_actors: dict[str, Ref] = {}
        self._addresses: dict[str, str] = {}
        self._count = 0

    async def start(self) -> None:
        """Listen."""
        register()
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._backend)
            self.node = await stack.enter_async_context(Node(PARENT, self._backend.network, self.system))
            self.address = await self.node.listen(self._backend.address)
            self._spawner = self._backend.spawner(self._line, self.node)
            self.node.on_peer(self._peer_started)
            self.node.on_pulse(self._pulsed)
            self.node.on_lost(self._link_failed)
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """Close. What is still there of the workers has been killed."""
        try:
            async with asyncio.timeout(5.0):
                for child in list(self._children):
                    child.kill()
                    await child.wait()
        except TimeoutError:
            log.warning("not ended, though killed: %s", ", ".join(child.name for child in self._children))
        finally:
            for name in self.node.peers:
                self.node.lose(name, "the parent ends")
            await self._stack.aclose()

    def hire(self, here: int, remote: int, *, on_driver: bool = False) -> list[WorkerInfo]:
        """Workers for a topology: of our own, of those that a user starts, and one beside the parent if it needs that.

        It is the last, and so dials the others: nothing needs to reach the parent's machine but for the parent.
        """
        names = [f"worker-{self._count + i + 1}" for i in range(here)]
        self._count += here
        free = [name for name in self._remote_names if name not in self._listeners]
        if len(free) < remote:
            raise ValueError(f"{remote} workers of other machines are wanted, and {len(free)} are free")
        infos = [WorkerInfo(name) for name in names] + [WorkerInfo(name, name) for name in free[:remote]]
        if on_driver and self._backend.is_apart:
            infos.append(WorkerInfo(f"{DRIVER}-{self._count}", on_driver=True))
        return infos

    def admit(self, name: str) -> None:
        """A user will start a worker of that name."""
        self._remote_names.append(name)
        self._await_reports(name)
        self.node.link(name)

    def is_remote(self, name: str) -> bool:
        """Is it one that a user starts?"""
        return name in self._remote_names

    def enlist(self, name: str, listener: WorkerListener) -> None:
        """Tell this one of that worker."""
        self._listeners[name] = listener
        if not self.is_remote(name):
            self._await_reports(name)
            self.node.link(name)

    def dismiss(self, name: str) -> None:
        """The worker has ended for good."""
        self._listeners.pop(name, None)
        if not self.is_remote(name):
            self.node.lose(name, f"{name} has ended")
            self.node.withdraw(name)
            self._report_actors.pop(name).stop()
        self._log.forget(name)

    async def spawn(self, name: str, target: str) -> Child:
        """Start a worker for that target; of another machine: begin to wait for it. SpawnError."""
        if self.is_remote(name):
            child = self._remote[name] = RemoteChild(name)
            joined, link = self._early.pop(name, None), self.node.state(name)
            if joined is not None and link is not None and link.established:
                self.system.loop.call_soon(self.joined, name, joined)
            elif joined is not None:  # it has ended; if it is only cut off, it ends when it sees a parent begin anew
                self.lost(name, self.node.incarnation(name))
            return child
        listen = self._backend.listen(name, self._addresses.get(name, ""))
        words = ["--name", name, "--connect", self.address, "--listen", listen, "--target", target]
        for path in filter(None, self._backend.paths):
            words += ["--path", path]
        started = await self._spawner.spawn(
            name, ["worker", *words, *self._backend.arguments], stdin=self._backend.secret
        )
        self._children[started] = None
        self.system.guard(self._reap(started), name=f"end of {name}")
        return started

    def life(self, name: str) -> int:
        """Which life of a worker's the process is that we know; 0: it has not been there.

        Of a remote one the link may know the next already: that is how its end is seen.
        """
        child = self._remote.get(name)
        return self.node.incarnation(name) if child is None else child.life

    def lost(self, name: str, life: int) -> None:
        """That life of a worker has ended: who has asked it is told, and the next one finds a link."""
        link = self.node.state(name)
        if link is None:  # it was closed for what came over it
            self.node.link(name)
        elif link.incarnation == life:
            self.node.lose(name, f"{name} has ended")
            self.node.link(name)

    def set_address(self, name: str, address: str) -> None:
        """Where a worker listens. So it does in its next lives."""
        self._addresses[name] = address

    def last_lines(self, name: str) -> list[str]:
        """What it printed last."""
        return self._log.last(name)

    # -- what workers say --------------------------------------------------------------------------------------------

    def joined(self, worker: str, joined: WorkerJoined) -> None:
        """A worker is there."""
        listener = self._listeners.get(worker)
        if listener is not None and (not self.is_remote(worker) or self._is_awaited(worker)):
            if self.is_remote(worker):
                child = self._remote[worker]
                child.pid, child.life = joined.pid, self.node.incarnation(worker)
            listener.joined(joined)
        elif self.is_remote(worker):
            self._early[worker] = joined
            log.info("%s has joined from %s", worker, joined.node)

    def report(self, worker: str, told: TaskGaveUp | WorkerLeaving) -> None:
        """A worker reports what happened to it."""
        listener = self._listeners.get(worker)
        if listener is None:
            return
        if isinstance(told, TaskGaveUp):
            listener.gave_up(told)
        else:
            listener.leaving(told)

    def _await_reports(self, worker: str) -> None:
        self._report_actors[worker] = report_actor = self.system.spawn(
            _ReportActor(self, worker), f"reports of {worker}"
        )
        self.node.offer(worker, report_actor, to=(worker,))

    def _is_awaited(self, name: str) -> bool:
        child = self._remote.get(name)
        return child is not None and not child.ended.done()

    def _peer_started(self, peer: str, started: PeerStarted) -> None:
        child = self._remote.get(peer)
        if child is not None and child.pid:
            child.end("another process of that name has come")

    def _link_failed(self, peer: str, error: Exception) -> None:
        """What came from a peer could not be taken. The place of a remote worker stays open for who comes next."""
        if isinstance(error, PeerLostError) or not self.is_remote(peer):  # we have ended it; or its process will
            return
        self._early.pop(peer, None)
        child = self._remote.get(peer)
        if child is not None and child.pid and not child.ended.done():
            child.end(f"what it has sent cannot be taken: {error}")
        else:
            self.node.link(peer)

    def _pulsed(self, peer: str, process: int) -> None:
        """A thread of a remote worker says that it lives, while user code holds its loop."""
        child, listener = self._remote.get(peer), self._listeners.get(peer)
        if child is not None and child.pid == process and listener is not None:
            listener.heard()

    def _line(self, line: ChildLine) -> None:
        listener = self._listeners.get(line.name)
        if listener is not None:
            listener.heard()
        self._log.line(line)

    async def _reap(self, child: Child) -> None:
        try:
            await child.wait()
        finally:
            self._children.pop(child, None)


class RemoteChild:
    """A worker that a user has started. A Child, as far as that goes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pid = self.life = 0  # until it has joined
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> int:
        return await asyncio.shield(self.ended)

    def terminate(self) -> None:
        """See Child. It ends when it is told to; else with its lease."""
        self.end("it was asked to end")

    def kill(self) -> None:
        """See Child. Nothing can be done to it from here: it ends with its lease."""
        self.end("it is given up")

    def end(self, reason: str) -> None:
        """It is no worker of ours any more."""
        if not self.ended.done():
            log.info("%s: %s", self.name, reason)
            self.ended.set_result(0)


class _ReportActor(Actor):
    """What one worker reports to: offered to that worker alone, under its name."""

    def __init__(self, registry: WorkerRegistry, worker: str) -> None:
        self._registry = registry
        self._worker = worker

    def receive(self, message: Any) -> None:
        if isinstance(message, WorkerJoined):
            self._registry.joined(self._worker, message)
        elif isinstance(message, TaskGaveUp | WorkerLeaving):
            self._registry.report(self._worker, message)
        else:
            raise TypeError(f"a parent does not understand {message!r:.200}")
