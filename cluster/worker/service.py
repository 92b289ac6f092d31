"""WorkerService: what a worker does for its parent: a part of one topology. Two actors, one for slow commands.

    setup actor    one after the other: import, connect, prepare, open, results, rebuild, the end
    control actor  at once: metrics, mode of the spouts, idle reports, the death of a peer, snapshots

If user code or the configuration makes a command impossible, the answer is CommandFailed. Any other error ends the
worker with its traceback.

From: Storm's Worker and WorkerState; theirs read the assignment from ZooKeeper.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...actors import Actor, ActorEscalatedError, ActorSystem
from ...runtime import LIVENESS, LivenessSettings, StoreError
from ...tasks import AbortSnapshot, CommitSnapshot, HoldSpouts, TakeSnapshot, describe
from ...topology import Config, ConfigError, Topology, TopologyError
from ..distributed_idle import IdleReport
from ..hosting import Hosting
from ..idle_detection import IdleGoal
from ..local_runtime import LocalRuntime
from ..log_levels import set_level
from ..messages import (
    FAILED_IMPORT,
    CommandFailed,
    Connect,
    FetchResult,
    Finish,
    GatherResults,
    GetIdleReport,
    GetSpans,
    GetStatus,
    ImportTopology,
    Open,
    PeerDied,
    PeerEnded,
    PeerRestarted,
    Prepare,
    ProfileTaken,
    SetLogLevel,
    Standing,
    StatusReport,
    TakeProfile,
    TaskGaveUp,
    UpdateConfig,
    WantTraces,
    without_plan,
)
from ..snapshots.messages import EndTasks, Rebuild
from .importing import MAX_TEXT_CHARS, TopologyImporter
from .results import TaskResults
from .status import span_report, status_report

if TYPE_CHECKING:
    from ...actors import Answer, Message
    from ...runtime import Profile
    from .peer_links import PeerLinks
    from .snapshots import WorkerSnapshots

PROBLEMS: Final = 10
"""How many problems of a configuration or a topology are reported."""

MAX_PROFILE_S: Final = 60.0
MAX_PROFILE_BYTES: Final = 256 * 1024

ANSWERED_S: Final = 0.02
"""How long after its last answer a worker ends. The link sends what it has before it closes."""


class WorkerService:
    """The part of a topology that this worker runs. `over` is done when the worker may end.

    `profiled`: gets profiles of stalls while they last, in another thread; None: they are not passed on.
    """

    def __init__(
        self,
        system: ActorSystem,
        links: PeerLinks,
        importer: TopologyImporter,
        snapshots: WorkerSnapshots,
        send_to_parent: Callable[[object], None],
        profiled: Callable[[Profile], None] | None = None,
    ) -> None:
        self.incarnation = _incarnation(system)
        self.part: LocalRuntime | None = None
        self.results = TaskResults()
        self.over: asyncio.Future[None] = system.loop.create_future()
        self.commands_received = 0
        """Counts the commands of the parent: signs of life."""
        self.links = links
        self.snapshots = snapshots
        self._system = system
        self._importer = importer
        self._imported: tuple[ImportTopology, Topology] | None = None
        self._parent = _ParentReports(send_to_parent, system.loop)
        self._profiled = profiled

    @property
    def is_idle(self) -> bool:
        """Has it not imported a topology yet?"""
        return self._imported is None

    @property
    def liveness(self) -> LivenessSettings:
        """Those of the topology, once its tasks are made."""
        return LIVENESS if self.part is None else self.part.task_set.tasks.env.config.liveness

    def standing(self, parent: int) -> Standing:
        """What the next parent has to know. `parent`: the id of the last one."""
        if self._imported is None:
            return Standing(parent, FAILED_IMPORT if self._importer.was_called else "")
        exchange = None if self.part is None else self.part.task_set.tasks.exchange
        return Standing(
            parent,
            self._imported[0].digest,
            has_tasks=self.part is not None,
            works=self._parent.works and self.part is not None and self.part.mode != "ended",
            address=self.links.address,
            incarnations={} if exchange is None else exchange.incarnations,
            ended=() if exchange is None else exchange.ended,
            gave_up=self._parent.given_up,
        )

    # -- setup actor ---------------------------------------------------------------------------------------------------

    def import_topology(self, order: ImportTopology) -> CommandFailed | None:
        """Import the topology. This may take long and blocks the event loop."""
        if self.part is not None:
            raise RuntimeError("a worker whose tasks run imports nothing: Rebuild comes first")
        topology = self._importer.import_topology(order)
        if isinstance(topology, CommandFailed):
            return topology
        self._imported = order, topology
        return None

    async def connect(self, order: Connect) -> str | CommandFailed:
        """Listen, open the links and make the tasks, in one step, so that the tasks exist when peers send to them."""
        if self._imported is None:
            raise RuntimeError("a worker imports a topology before any other command")
        address = await self.links.listen()
        ordered, topology = self._imported  # with settings that have arrived meanwhile
        self.links.open(order.peers)
        hosting = Hosting(self.links.worker, ordered.placement, self.links, order.nodes, order.build)
        parent = self._parent = self._parent.next(order.build)
        try:
            config = Config(**ordered.config)
            agent = None
            if order.snapshots is not None:
                agent = self.snapshots.begin(order.snapshots, strict=config.testing_always_try_serialize)
            self.part = LocalRuntime(
                self._system,
                ordered.name,
                topology,
                config,
                gave_up=parent.gave_up,
                hosting=hosting,
                snapshots=agent,
                profiled=self._profiled,
            )
        except (TopologyError, ConfigError) as error:
            problems = tuple(text[:MAX_TEXT_CHARS] for text in error.problems[:PROBLEMS])
            return CommandFailed(type(error).__name__, problems)
        except StoreError as error:
            return CommandFailed("WorkerError", (f"the snapshots cannot be reached: {error}"[:MAX_TEXT_CHARS],))
        return address

    async def prepare(self) -> TaskGaveUp | None:
        """Prepare the bolts. Returns early if one of them has failed for good."""
        await self._have().start_bolts(self._parent.failed)
        return self._parent.given_up

    async def open(self) -> TaskGaveUp | None:
        """Open the spouts. As `prepare`."""
        parent = self._parent
        await self._have().start_spouts(parent.failed)
        parent.opened()
        return parent.given_up

    async def gather(self) -> tuple[tuple[int, int], ...] | CommandFailed:
        """Gather and encode the results of the tasks. Returns their sizes."""
        return await self.results.gather(self._have())

    def end_tasks(self) -> None:
        """End the tasks at once, without waiting; so does a command that waits for them."""
        self._parent.end()
        self.snapshots.end()
        self.links.end()
        if self.part is not None:
            self.part.abort()

    async def rebuild(self, order: Rebuild) -> StatusReport:
        """End the tasks at once, and the links to the other workers; returns the last status. `connect` comes next."""
        self.end_tasks()
        if self.part is not None:
            await self.part.kill()
        last = self.status(GetStatus(order.errors, order.stalls, order.events))
        self.part = None
        self.incarnation = _incarnation(self._system)
        return last

    async def finish(self, order: Finish) -> StatusReport:
        """End the tasks; returns the last status."""
        self._parent.works = False
        if self.part is not None:
            await (self.part.kill() if order.at_once else self.part.stop())
        if order.stay and self._imported is not None:
            ordered, topology = self._imported
            self._imported = replace(ordered, digest=without_plan(ordered.digest)), topology
        else:
            asyncio.get_running_loop().call_later(ANSWERED_S, self.end)
        return self.status(GetStatus(order.errors, order.stalls, order.events, pending=True, spans=order.spans))

    def end(self) -> None:
        """The process may end."""
        if not self.over.done():
            self.over.set_result(None)

    async def close(self) -> None:
        """The process ends, for whatever reason."""
        if self.part is not None:
            self.part.abort()
        await self.snapshots.close()

    # -- control actor -------------------------------------------------------------------------------------------------

    def status(self, order: GetStatus) -> StatusReport:
        """Set the mode, and report the status."""
        self._set_mode(order.mode)
        return StatusReport() if self.part is None else status_report(self.part, order)

    async def update(self, order: UpdateConfig) -> None:
        """Apply settings, or keep them for tasks that are not made yet."""
        if self._imported is not None:
            ordered, topology = self._imported
            self._imported = replace(ordered, config=order.config), topology
        if self.part is not None:
            await self.part.update(Config(**order.config))

    async def want_traces(self, order: WantTraces) -> None:
        """Sample the next trees of these spouts."""
        if self.part is not None:
            await self.part.want_traces(order.spouts, order.count)

    def take_profile(self, order: TakeProfile) -> None:
        """Start to sample; the answer does not wait for the end, since other commands wait behind it."""
        if self.part is not None and 0 < order.seconds <= MAX_PROFILE_S:
            self._system.guard(self._take_profile(self.part, order.seconds), name="profile")

    async def _take_profile(self, part: LocalRuntime, seconds: float) -> None:
        for profile in await part.profile(seconds):
            self._parent.send(ProfileTaken(profile.within(MAX_PROFILE_BYTES)))

    def spans(self, order: GetSpans) -> StatusReport:
        """What is kept of sampled tuple trees."""
        return StatusReport(span_count=order.count) if self.part is None else span_report(self.part, order.count)

    def peer_ended(self, order: PeerEnded | PeerDied) -> None:
        """The process of a peer has ended. Another one with its name will start."""
        exchange = self.part.task_set.tasks.exchange if self.part is not None else None
        if exchange is not None and isinstance(order, PeerEnded):
            exchange.peer_ended(order.peer, order.incarnation)
        elif exchange is not None:
            exchange.peer_died(order.peer, order.incarnation)

    def peer_restarted(self, order: PeerRestarted) -> None:
        """A peer listens again: dial it now."""
        self.links.redial(order.peer, order.address)

    def idle_report(self, order: GetIdleReport) -> IdleReport:
        """Set the mode, and report whether there is work here."""
        self._set_mode(order.mode)
        part = self.part
        if part is None:
            return IdleReport(self.links.worker, self.incarnation, quiet=False)
        goal = IdleGoal(order.finished, order.still, order.quiet_s, away=order.away)
        exchange = part.task_set.tasks.exchange
        counts = ({}, {}) if exchange is None else (exchange.sent, exchange.received)
        sent, received = ({p: n for p, n in count.items() if p not in order.away} for count in counts)
        return IdleReport(
            self.links.worker, self.incarnation, part.is_quiet_now(goal), part.reports.activity, sent, received
        )

    # -- inside ------------------------------------------------------------------------------------------------------

    def _set_mode(self, mode: str) -> None:
        match mode:
            case "":  # unchanged
                return
            case "active" | "inactive" | "ended":
                if self.part is not None:
                    self.part.set_mode(mode)
            case _:
                raise ValueError(f"spouts have no such mode: {mode!r:.50}")

    def _have(self) -> LocalRuntime:
        if self.part is None:
            raise RuntimeError("a worker imports a topology before any other command")
        return self.part


def _incarnation(system: ActorSystem) -> int:
    return int.from_bytes(system.rng.token_bytes(8), "big") >> 1


class _ParentReports:
    """Sends the parent each task that has failed for good, of one build. `failed` is done after the first, `given_up`.

    It is also done when the tasks are ended. `works`: were all tasks opened, and are not being ended?
    """

    def __init__(
        self, send_to_parent: Callable[[object], None], loop: asyncio.AbstractEventLoop, build: int = 0
    ) -> None:
        self.failed: asyncio.Future[None] = loop.create_future()
        self.given_up: TaskGaveUp | None = None
        self.works = False
        self._send_to_parent = send_to_parent
        self._build = build
        self._ended = False

    def send(self, report: object) -> None:
        """Send the parent another report."""
        self._send_to_parent(report)

    def next(self, build: int) -> _ParentReports:
        """Those of the next build."""
        return _ParentReports(self._send_to_parent, self.failed.get_loop(), build)

    def opened(self) -> None:
        """All tasks were opened, or one has failed for good, or they are being ended."""
        self.works = not self.failed.done()

    def gave_up(self, path: str, error: BaseException) -> None:
        """A task has failed for good."""
        if self._ended:
            return
        cause = error.__cause__ if isinstance(error, ActorEscalatedError) and error.__cause__ else error
        text = "".join(traceback.format_exception(cause))[-20_000:]
        report = TaskGaveUp(path, describe(cause), text, self._build)
        self._send_to_parent(report)
        if not self.failed.done():
            self.given_up = report
            self.failed.set_result(None)

    def end(self) -> None:
        """The tasks are ended: nothing of them is reported any more."""
        self._ended = True
        self.works = False
        if not self.failed.done():
            self.failed.set_result(None)


class SetupActor(Actor):
    """Executes the commands that may be slow, one after the other."""

    def __init__(self, service: WorkerService) -> None:
        self._service = service

    async def receive(self, message: Message) -> Answer:
        service = self._service
        match message:
            case ImportTopology():
                return service.import_topology(message)
            case Connect():
                return await service.connect(message)
            case Prepare():
                return await service.prepare()
            case Open():
                return await service.open()
            case GatherResults():
                return await service.gather()
            case FetchResult():
                return service.results.fetch(message)
            case Rebuild():
                return await service.rebuild(message)
            case Finish():
                return await service.finish(message)
        raise TypeError(f"a setup actor has no such command: {message!r}")


class ControlActor(Actor):
    """Answers its commands at once."""

    def __init__(self, service: WorkerService) -> None:
        self._service = service

    def receive(self, message: Message) -> Answer:
        self._service.commands_received += 1
        match message:
            case GetStatus():
                return self._service.status(message)
            case UpdateConfig():
                return self._service.update(message)
            case WantTraces():
                return self._service.want_traces(message)
            case TakeProfile():
                return self._service.take_profile(message)
            case GetSpans():
                return self._service.spans(message)
            case SetLogLevel():
                return set_level(message.logger, message.level)
            case GetIdleReport():
                return self._service.idle_report(message)
            case PeerEnded() | PeerDied():
                return self._service.peer_ended(message)
            case PeerRestarted():
                return self._service.peer_restarted(message)
            case TakeSnapshot() | CommitSnapshot() | AbortSnapshot() | HoldSpouts():
                return self._service.snapshots.command(message)
            case EndTasks():
                return self._service.end_tasks()
        raise TypeError(f"a control actor has no such command: {message!r}")
