"""Worker: a process that does a part of a topology's work for a parent. This is its program; `aiostorm worker` runs it.

    dial the parent ─► WorkerJoined ─► does what it is told (worker service) ─┬─ told to end ──────────────► 0
                                                              ├─ SIGTERM: WorkerLeaving ─► told to end, or 10 s ─► 143
                                                              ╰─ no word of the parent's for 5 s ─► 69

1. A worker without a parent ends: a spawned one with its parent (parent watch), every one when its lease is over. So
   no two processes do the work of one. A spawned one's lease is long: its parent is there, and may only be held up.
2. The parent's word counts, not the link: a link that is cut and comes back within the lease is no reason to end.
3. A loop that was held up (user code, a frozen process) has not listened: that time does not count as silence.
4. SIGTERM lets the parent take it out first: spouts rest until all is processed. Then nothing needs to be replayed.
5. A worker whose link to a peer or its parent was closed (what came over it could not be taken) ends: its next life
   has another.
6. One that has nothing to do yet (it has joined before anything was submitted) lives as long as its link does.
7. Only its parent gives it orders: nothing that it offers can be found by any other peer.
8. A parent that has begun anew does not know it, and one that has given it up has another: it ends.
9. If another process has its name, and the others speak to that one, it ends.

Exit codes: 0 told to end; 69 no parent (EX_UNAVAILABLE); 143 SIGTERM; 1 anything else, with a traceback.

From: Storm's Worker, which ends when its supervisor's assignment changes; here the parent says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...actors import ActorSystem
from ...runtime import LIVENESS, AiostormError, Clock, Rng
from ...transport import ExposedError, Link, LinkSupersededError, Network, Node, PeerStarted
from ..messages import CONTROL, PARENT, SETUP, WorkerJoined, WorkerLeaving, register
from .service import ControlActor, Loader, SetupActor, WorkerService, load

log = logging.getLogger("aiostorm.worker")

TICK_S: Final = 0.25

BROKEN: Final = 1
NO_PARENT: Final = 69
TERMINATED: Final = 143

__all__ = ["NO_PARENT", "TERMINATED", "WorkerOptions", "work"]


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """`parent`: the address that it dials; `listen`: where its peers dial it; `node`: the machine; `pid` its own.

    `is_child`: the system ends it with its parent. `targets`: what it may be told to load.
    `any_code`: other code of it than the parent's will do.
    """

    name: str
    parent: str
    listen: str
    pid: int
    node: str = ""
    is_child: bool = False
    targets: tuple[str, ...] = ()
    any_code: bool = False


async def work(
    options: WorkerOptions,
    network: Network,
    leave: asyncio.Event,
    *,
    loader: Loader = load,
    clock: Clock | None = None,
    rng: Rng | None = None,
) -> int:
    """Be a worker to the end. `leave` is set when it is asked to end (SIGTERM). Returns the exit code."""
    register()
    async with ActorSystem(options.name, clock=clock, rng=rng) as system:
        worker = _Worker(options, system, leave)
        try:
            async with Node(options.name, network, system) as node:
                code = await worker.run(node, loader)
        except* ExposedError as refused:
            raise _first(refused) from refused
        finally:
            if worker.service is not None and worker.service.part is not None:
                worker.service.part.doom()
    return code


def _first(group: BaseExceptionGroup[ExposedError]) -> ExposedError:
    """A link's, out of the groups that it was raised through."""
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


class _Worker:
    """One life."""

    def __init__(self, options: WorkerOptions, system: ActorSystem, leave: asyncio.Event) -> None:
        self.service: WorkerService | None = None
        self._options = options
        self._system = system
        self._leave = leave
        self._broken: tuple[str, Exception] | None = None
        self._parents = 0
        self._ends = False

    async def run(self, node: Node, loader: Loader) -> int:
        """To the end."""
        options = self._options
        link = node.link(PARENT, options.parent, role=PARENT)
        parent = node.ref(PARENT, options.name)

        def tell_parent(message: object) -> None:
            self._system.guard(parent.tell(message), name=f"{options.name} tells its parent")

        node.on_lost(self._lost)
        node.on_peer(self._started)
        service = self.service = WorkerService(
            self._system, node, options.listen, tell_parent, loader, options.targets, any_code=options.any_code
        )
        for name, actor in ((SETUP, SetupActor(service)), (CONTROL, ControlActor(service))):
            node.offer(name, self._system.spawn(actor, name), to=(PARENT,))
        try:
            await parent.ask(WorkerJoined(options.pid, options.node), timeout_s=LIVENESS.worker_join_timeout_s)
        except AiostormError as error:
            if self._broken is not None and isinstance(self._broken[1], ExposedError):
                raise self._broken[1] from error
            why = error if link.established else link.last_error or error
            log.error("no parent at %s: %s", options.parent, why)
            node.lose(PARENT, "it does not answer")
            return NO_PARENT
        code = await self._serve(service, link, tell_parent)
        self._ends = True
        for peer in node.peers:
            if peer != PARENT or code == NO_PARENT:  # what is left for them is lost: nobody waits for it
                node.lose(peer, f"{options.name} ends")
        return code

    def _lost(self, peer: str, error: Exception) -> None:
        """A link was closed for what came over it. Without it this worker's tasks would wait for ever."""
        if not self._ends and self._broken is None:
            self._broken = peer, error

    def _started(self, peer: str, started: PeerStarted) -> None:
        """A peer begins a life; the parent that this one has joined, another."""
        self._parents += peer == PARENT

    async def _serve(self, service: WorkerService, link: Link, tell_parent: Callable[[object], None]) -> int:
        """Until it is over, one way or the other."""
        clock = self._system.clock
        silence_s = 0.0
        leaving_s: float | None = None
        heard = service.heard
        looked_s = clock.monotonic()
        while True:
            done, _ = await asyncio.wait((service.over,), timeout=TICK_S)
            if done:
                return TERMINATED if leaving_s is not None else 0
            now_s = clock.monotonic()
            passed_s, looked_s = min(now_s - looked_s, 2 * TICK_S), now_s  # 3: no more than if all was well
            waits = service.part is None and link.established  # 6
            silence_s = 0.0 if waits or service.heard != heard else silence_s + passed_s
            heard = service.heard
            liveness = service.liveness
            lease_s = liveness.child_parent_timeout_s if self._options.is_child else liveness.parent_timeout_s
            if silence_s >= lease_s:
                log.error("no word of the parent's for %g s: it is gone, or this machine is cut off", silence_s)
                return NO_PARENT
            if self._parents > 1:  # 8
                log.error("its parent has begun anew, and does not know this process")
                return NO_PARENT
            if self._broken is not None and isinstance(self._broken[1], ExposedError):
                raise self._broken[1]
            if self._broken is not None and isinstance(self._broken[1], LinkSupersededError):  # 9
                log.error("another process has the name %s by now: this one ends", self._options.name)
                return NO_PARENT
            if self._broken is not None:
                log.error("ends, to be started anew: its link to %s is closed (%s)", *self._broken)
                return BROKEN
            if leaving_s is None and self._leave.is_set():
                if service.is_idle:
                    return TERMINATED
                leaving_s = now_s
                log.info("SIGTERM: asks its parent to go on without it")
                tell_parent(WorkerLeaving(liveness.worker_leave_timeout_s))
            if leaving_s is not None and now_s - leaving_s >= liveness.worker_leave_timeout_s:
                log.warning("not taken out within %g s: what it has is replayed", now_s - leaving_s)
                return TERMINATED
