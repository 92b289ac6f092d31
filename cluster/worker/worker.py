"""Worker: a process that runs a part of a topology for a parent. This is its program; `aiostorm worker` runs it.

    dial the parent ─► WorkerJoined ─► commands (worker service) ─┬─ Finish ─────────────────────────────────► 0
                                                                  ├─ SIGTERM: WorkerLeaving ─► Finish, or 10 s ─► 143
                                                                  ╰─ no command of the parent for 5 s ─► 69

1. A worker without a parent ends: a child with its parent (parent watch), every worker when its lease is over. So no
   two processes do the same work. A child has a long lease: its parent exists, and may only be blocked. A worker that
   outlives its parent (`outlive_s`) has a lease of its own, and goes on with its tasks meanwhile: a parent that gives
   such a worker up has its process killed (`on_abandoned`).
2. Commands renew the lease, not the link: a link that is cut and resumes within the lease does not end the worker.
3. While the own event loop is blocked (by user code, or a frozen process), the worker cannot receive: that time does
   not count as silence.
4. On SIGTERM the parent replaces the worker first: the spouts pause until all tuples are processed. Then nothing has to
   be replayed.
5. A worker ends when its link to a peer or its parent has failed; its next process has a new one.
6. A worker that has joined before a topology was submitted lives as long as its link does.
7. Only the parent can send it commands: no other peer can find its actors.
8. A restarted parent does not know the worker, and one that has given the worker up has another one: it ends. One that
   outlives its parent joins the restarted one, with all that this has to know (joining.py), and ends only if it was
   given up. It dials more often, so that the next parent need not wait for it.
9. Where its parent may be started on another machine, it looks again and again where that is (`find_parent`), and
   connects there when it has no connection.
10. If another process has its name, and the others are linked to that one, it ends.

Exit codes: 0 ended by its parent; 69 no parent (EX_UNAVAILABLE); 143 SIGTERM; 1 any other reason, with a traceback.

From: Storm's Worker, which ends when its supervisor's assignment changes; here the parent decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ...actors import ActorSystem, Ref
from ...runtime import LIVENESS, AiostormError, Clock, LivenessSettings, Profile, Rng
from ...transport import ExposedError, Link, LinkSupersededError, LinkTimings, Network, Node, PeerLostError, PeerStarted
from ..messages import CONTROL, PARENT, SETUP, WorkerJoined, WorkerLeaving
from ..records import register
from .importing import Importer, TopologyImporter, import_target
from .joining import Joining
from .peer_links import PeerLinks
from .service import ControlActor, SetupActor, WorkerService
from .snapshots import StoreOpener, WorkerSnapshots, open_shared

log = logging.getLogger("aiostorm.worker")

TICK_S: Final = 0.25

RETRY_S: Final = 0.2
"""The longest time between two attempts to connect, of a worker that outlives its parent."""

BROKEN: Final = 1
NO_PARENT: Final = 69
TERMINATED: Final = 143

__all__ = ["NO_PARENT", "TERMINATED", "WorkerOptions", "work"]


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """`parent`: the address to dial; `listen`: the address for its peers; `node`: its machine; `pid`: its process id.

    `is_child`: the system ends it with its parent. `targets`: what it may import.
    `any_code`: may its code differ from the parent's? `outlive_s`: how many seconds it goes on without a parent, and
    joins the next one; None: it ends with its parent. `find_parent`: returns the address at which the parent listens
    now, if that may change; empty: it is not known. `generation`: see WorkerJoined. `profiled`: gets profiles of stalls
    while they last, in another thread; None: they are not passed on.
    """

    name: str
    parent: str
    listen: str
    pid: int
    node: str = ""
    is_child: bool = False
    targets: tuple[str, ...] = ()
    any_code: bool = False
    outlive_s: float | None = None
    find_parent: Callable[[], str] | None = None
    generation: int = 0
    profiled: Callable[[Profile], None] | None = None

    @property
    def parent_address(self) -> str:
        """Where the parent listens now; empty: it is not known."""
        return self.parent if self.find_parent is None else self.find_parent()

    @property
    def link_timings(self) -> LinkTimings | None:
        """Those of its links; None: the usual ones."""
        return None if self.outlive_s is None else LinkTimings(max_retry_s=RETRY_S)


async def work(
    options: WorkerOptions,
    network: Network,
    leave: asyncio.Event,
    *,
    importer: Importer = import_target,
    open_store: StoreOpener = open_shared,
    clock: Clock | None = None,
    rng: Rng | None = None,
) -> int:
    """Run a worker to its end. `leave` is set on SIGTERM. Returns the exit code."""
    register()
    async with ActorSystem(options.name, clock=clock, rng=rng) as system:
        worker = _Worker(options, system, leave)
        try:
            async with Node(options.name, network, system, timings=options.link_timings) as node:
                code = await worker.run(node, importer, open_store)
        except* ExposedError as refused:
            raise _first(refused) from refused
        finally:
            if worker.service is not None:
                await worker.service.close()
    return code


async def _tell(parent: Ref, message: object) -> None:
    """Send a message to the parent. The link to it is closed when this process ends: nothing is to be said then."""
    try:
        await parent.tell(message)
    except PeerLostError as error:
        log.debug("not sent, since this process ends: %r: %s", type(message).__name__, error)


def _first(group: BaseExceptionGroup[ExposedError]) -> ExposedError:
    """The first error inside nested groups."""
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


class _Worker:
    """One process of a worker."""

    def __init__(self, options: WorkerOptions, system: ActorSystem, leave: asyncio.Event) -> None:
        self.service: WorkerService | None = None
        self._options = options
        self._system = system
        self._leave = leave
        self._broken: tuple[str, Exception] | None = None
        self._joining: Joining | None = None
        self._leaving_s: float | None = None
        self._ends = False

    async def run(self, node: Node, importer: Importer, open_store: StoreOpener) -> int:
        """Join the parent and run to the end."""
        options = self._options
        address = await self._wait_address()
        if not address:
            return TERMINATED if self._leave.is_set() else NO_PARENT
        link = node.link(PARENT, address, role=PARENT)
        if options.find_parent is not None:
            self._system.guard(self._follow_parent(node, address), name="looks for its parent")
        parent = node.ref(PARENT, options.name)

        def send_to_parent(message: object) -> None:
            self._system.guard(_tell(parent, message), name=f"{options.name} to its parent")

        node.on_lost(self._lost)
        node.on_peer(self._started)
        topologies = TopologyImporter(options.name, options.targets, importer, any_code=options.any_code)
        links, snapshots = PeerLinks(node, options.listen), WorkerSnapshots(self._system, send_to_parent, open_store)
        service = self.service = WorkerService(
            self._system, links, topologies, snapshots, send_to_parent, options.profiled
        )
        for name, actor in ((SETUP, SetupActor(service)), (CONTROL, ControlActor(service))):
            node.offer(name, self._system.spawn(actor, name), to=(PARENT,))

        def joined(before: int) -> WorkerJoined:
            standing = service.standing(before) if before else None
            return WorkerJoined(options.pid, options.node, standing, options.generation)

        def on_served() -> None:
            service.commands_received += 1  # a sign of life
            self._tell_leaving(service, send_to_parent)

        joining = self._joining = Joining(self._system, parent, options.outlive_s, joined, on_served)
        try:
            await joining.first()
        except AiostormError as error:
            if self._broken is not None and isinstance(self._broken[1], ExposedError):
                raise self._broken[1] from error
            why = error if link.established else link.last_error or error
            log.error("no parent at %s: %s", options.parent_address, why)
            node.lose(PARENT, "it does not answer")
            return NO_PARENT
        code = await self._serve(service, link, joining, send_to_parent)
        self._ends = True
        for peer in node.peers:
            if peer != PARENT or code == NO_PARENT:  # do not wait until they have acked the rest
                node.lose(peer, f"{options.name} ends")
        return code

    async def _wait_address(self) -> str:
        """Where the parent listens; empty: it is not known in time, or this process is to end."""
        limit_s = max(LIVENESS.worker_join_timeout_s, self._options.outlive_s or 0.0)
        monotonic = self._system.clock.monotonic
        until_s = monotonic() + limit_s
        while not (address := self._options.parent_address):
            if monotonic() >= until_s:
                log.error("no parent was started within %g s", limit_s)
                return ""
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S):
                    await self._leave.wait()
                return ""
        return address

    async def _follow_parent(self, node: Node, address: str) -> None:
        """Connect to the parent where it is."""
        while True:
            await self._system.clock.sleep(TICK_S)
            found = self._options.parent_address
            if found and found != address:
                log.info("its parent is at %s now", found)
                address = found
                node.redial(PARENT, address)

    def _lost(self, peer: str, error: Exception) -> None:
        """A link has failed. Without it, tasks of this worker would wait for ever."""
        if self.service is not None and self.service.links.ending:  # on purpose, with the tasks
            return
        if not self._ends and self._broken is None:
            self._broken = peer, error

    def _started(self, peer: str, started: PeerStarted) -> None:
        """A peer has a new incarnation."""
        if peer == PARENT and self._joining is not None:
            self._joining.parent_started()

    async def _serve(
        self, service: WorkerService, link: Link, joining: Joining, send_to_parent: Callable[[object], None]
    ) -> int:
        """Wait for the end, for whatever reason. Returns the exit code."""
        clock = self._system.clock
        silence_s = 0.0
        received = service.commands_received
        looked_s = clock.monotonic()
        while True:
            done, _ = await asyncio.wait((service.over,), timeout=TICK_S)
            if done:
                return TERMINATED if self._leaving_s is not None else 0
            now_s = clock.monotonic()
            passed_s, looked_s = min(now_s - looked_s, 2 * TICK_S), now_s  # 3: a blocked loop does not count as silence
            waits = service.part is None and link.established  # 6
            silence_s = 0.0 if waits or service.commands_received != received else silence_s + passed_s
            received = service.commands_received
            liveness = service.liveness
            if silence_s >= self._lease_s(liveness):
                log.error("no command of the parent for %g s: it has ended, or this machine is cut off", silence_s)
                return NO_PARENT
            if joining.given_up:  # 8
                restarted = "its parent was restarted, and does not know this process"
                log.error(restarted if self._options.outlive_s is None else "its parent has given this process up")
                return NO_PARENT
            if self._broken is not None:
                return self._broken_off(*self._broken)
            if self._leaving_s is None and self._leave.is_set():
                if service.is_idle:
                    return TERMINATED
                self._leaving_s = now_s
                log.info("SIGTERM: asks its parent for a replacement")
                self._tell_leaving(service, send_to_parent)
            if self._leaving_s is not None and now_s - self._leaving_s >= liveness.worker_leave_timeout_s:
                log.warning("not replaced within %g s: its tuples are replayed", now_s - self._leaving_s)
                return TERMINATED

    def _lease_s(self, liveness: LivenessSettings) -> float:
        """How long the parent may be silent."""
        if self._options.outlive_s is not None:
            return self._options.outlive_s
        return liveness.worker_child_parent_timeout_s if self._options.is_child else liveness.worker_parent_timeout_s

    def _broken_off(self, peer: str, error: Exception) -> int:
        """A link has failed: the exit code. ExposedError."""
        if isinstance(error, ExposedError):
            raise error
        if isinstance(error, LinkSupersededError):  # 10
            log.error("another process has taken the name %s: this one ends", self._options.name)
            return NO_PARENT
        log.error("ends, to be restarted: its link to %s is closed (%s)", peer, error)
        return BROKEN

    def _tell_leaving(self, service: WorkerService, send_to_parent: Callable[[object], None]) -> None:
        """If it leaves, its parent has to know within which time: also the next parent."""
        if self._leaving_s is not None:
            passed_s = self._system.clock.monotonic() - self._leaving_s
            left_s = service.liveness.worker_leave_timeout_s - passed_s
            if left_s > 0:
                send_to_parent(WorkerLeaving(left_s))
