"""Local cluster: topologies in this event loop, or on workers that it starts. Embed it in any asyncio program.

1. It starts no thread but the stall watch, installs no signal handler, configures no logging, and creates nothing
   before `async with`.
2. Leaving the block drains and stops every topology; after an exception in the block it stops them at once.
3. A failed topology makes the block end with TopologyFailedError, unless a caller has already received the error.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self

from ..actors import ActorSystem, DeadLetter, Decision
from ..runtime import forget_process
from ..tasks import MailboxWrapper, describe, direct
from ..topology import Config, Segment, Topology, lost_at_restart
from .local_runtime import LocalRuntime
from .names import check_name, remote_names
from .pinned import check_pinned
from .running_topology import RunningTopology
from .snapshots.place import Beginning
from .targets import import_topology, target_of

if TYPE_CHECKING:  # imported only if there are workers, since these need a network
    from ..runtime import Clock, Rng, Store
    from ..topology import Setting, Unchecked
    from .parent.assignment import Deployment
    from .parent.worker_lifecycle import LifecycleTimings
    from .parent.worker_registry import WorkerBackend, WorkerRegistry
    from .pinned import Pinned
    from .runtimes import OnTaskGaveUp, TopologyRuntime
    from .snapshots.place import Restore

log = logging.getLogger("aiostorm.cluster")


class _Origin(NamedTuple):
    """Where a topology comes from, and what of it is not as its code says."""

    target: str
    arguments: tuple[str, ...]
    parallelism: dict[str, int]
    pinned: Pinned


class _Seams(NamedTuple):
    """What a cluster is given instead of child processes, their usual timings, and folders for snapshots."""

    backend: WorkerBackend | None
    timings: LifecycleTimings | None
    open_store: Callable[[str], Store] | None
    on_abandoned: Callable[[str, int], None]


class ClusterPage(Protocol):
    """What shows the topologies of a cluster, and starts and ends with it: `aiostorm.ui.Dashboard`."""

    async def start(self, cluster: LocalCluster) -> None:
        """The cluster has started; an error ends it again."""
        ...

    async def stop(self) -> None:
        """The topologies have ended. A second call does nothing."""
        ...


class LocalCluster:
    """Runs topologies in the current event loop: `async with LocalCluster() as cluster`.

    `config` is the base of every topology's configuration. `mailbox_wrapper` gives what tasks send to instead of
    each other's mailboxes: in one process the mailboxes themselves.

    `workers=N`: each topology runs on N processes of its own, which are started and watched from here; then it is
    submitted by its import string, or is an attribute of a module. `remote_workers=M`: and on M more that are started
    on other machines (`remote_names`); instead of M their names may be given. `on_abandoned(name, pid)` is called when
    a process of one of these is given up, and cannot be killed from here. `backend` says where they run, and how they
    are reached: child processes and private sockets by default. Some worker backends (`aiostorm.spark.SparkWorkers`)
    say how many there are, too.

    `open_store` opens `topology.state.dir` (exactly once): a folder or a URL of fsspec by default.

    `ui` shows the topologies: `ui=aiostorm.ui.Dashboard("127.0.0.1:8080")` in a browser.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        clock: Clock | None = None,
        rng: Rng | None = None,
        mailbox_wrapper: MailboxWrapper = direct,
        workers: int = 0,
        remote_workers: int | Sequence[str] = 0,
        backend: WorkerBackend | None = None,
        timings: LifecycleTimings | None = None,
        open_store: Callable[[str], Store] | None = None,
        on_abandoned: Callable[[str, int], None] = lambda name, pid: None,
        ui: ClusterPage | None = None,
    ) -> None:
        if workers < 0:
            raise ValueError(f"a number of workers is 0 or more, not {workers}")
        own = 0 if backend is None else backend.workers
        if own and workers not in (0, own):
            raise ValueError(f"the worker backend has {own} workers, not {workers}: omit workers=")
        self.workers = own or workers
        self.remote_names = remote_names(remote_workers, has_local=bool(self.workers))
        self._seams = _Seams(backend, timings, open_store, on_abandoned)
        self._page = ui
        self._registry: WorkerRegistry | None = None
        self._config = config
        self._mailbox_wrapper = mailbox_wrapper
        self._system = ActorSystem("local", clock=clock, rng=rng)
        self._system.on_failure = self._task_failed
        self._system.dead_letters.listener = self._not_executed
        self._dead_letters = 0
        self._topologies: dict[str, RunningTopology] = {}
        self._failed: list[RunningTopology] = []
        self._state: Literal["new", "running", "ended"] = "new"

    @property
    def topologies(self) -> Mapping[str, RunningTopology]:
        """The running topologies, by name."""
        return dict(self._topologies)

    @property
    def dead_letters(self) -> int:
        """Segments that a task had accepted and did not execute to their end (of topologies stopped at once).

        A segment is what one task sent another in one turn. What was in execution counts; acks and orders do not.
        """
        return self._dead_letters

    async def submit(
        self,
        name: str,
        topology: Topology | str,
        config: Config | Mapping[str, Setting] | None = None,
        *,
        arguments: Sequence[str] = (),
        restore: Restore = "latest",
        repeat_output: bool = False,
        active: bool = True,
        parallelism: Mapping[str, int] | None = None,
        pinned: Mapping[str, Collection[str]] | None = None,
    ) -> RunningTopology:
        """Start a topology; returns when all its components are open and its spouts may emit.

        It may be given by its import string ("package.module:topology"), with arguments if that is a function. Without
        `active` its spouts emit nothing before `activate`. `parallelism`: component → tasks, if not as declared.
        `pinned`: component → the remote workers that alone may run its tasks.
        `restore` (exactly once): the snapshot to continue from: "latest", a number, or None: begin from the start.
        RepeatedOutputError if sinks have committed rows after it, unless `repeat_output` allows to write them again.
        TargetError if there is none, or if workers could not find it; WorkerError if they cannot be started;
        ValueError for a name that runs already or cannot be used; ConfigError and TopologyError for what is seen to be
        wrong before anything starts; TopologyFailedError if a component cannot be opened; TopologyKilledError if it is
        killed meanwhile. Then, and if it is cancelled, nothing of the topology is left.
        """
        if self._state != "running":
            ended = "the cluster has ended" if self._state == "ended" else "the cluster does not run yet"
            raise RuntimeError(f"{ended}: submit within `async with LocalCluster() as cluster`")
        check_name(name)
        if name in self._topologies:
            raise ValueError(f"a topology named {name!r} is running: kill it first, or choose another name")
        target = topology if isinstance(topology, str) else ""
        if isinstance(topology, str):
            topology = import_topology(target, arguments, own=bool(self._spread))[1]
        settings = Config()
        for layer in (self._config, topology.config, config):
            settings = settings.merge(layer)
        if self._spread:
            target = target or target_of(topology)
            settings = settings.merge({"topology.workers": self._spread})
        sized = dict(parallelism or {})
        topology = topology.with_parallelism(sized) if sized else topology
        if pinned:
            check_pinned(topology, pinned, self.remote_names)
        origin = _Origin(target, tuple(arguments), sized, dict(pinned or {}))
        running = RunningTopology(
            self._system,
            name,
            topology,
            settings,
            on_killed=lambda: self._forget(name),
            make_runtime=lambda gave_up: self._make_runtime(
                name, topology, settings, origin, gave_up, Beginning(restore, repeat_output)
            ),
            page_url=lambda: str(getattr(self._page, "url", "")),
        )
        self._topologies[name] = running
        if lost := lost_at_restart(topology, settings):
            log.warning("topology %s: %s", name, lost)
        await running.start(active=active)
        return running

    def expect_remote(self, names: Sequence[str], stay: Collection[str] = (), *, since: int = 0) -> None:
        """The remote workers from now on. No topology runs that uses one which is not expected any more.

        The processes of those in `stay` stay when their topology ends: the next one that is submitted under its name,
        from the same code, goes on in them. Processes that were started for a generation before `since` are ended: they
        have other code. ValueError for names that cannot be used.
        """
        registry, before = self._registry, self.remote_names
        self.remote_names = remote_names(names, has_local=bool(self.workers))
        if registry is None:
            raise RuntimeError("this cluster has no workers")
        for name in before:
            if name not in self.remote_names:
                registry.remove_remote(name)
        for name in self.remote_names:
            if name not in before:
                registry.add_remote(name)
        registry.let_stay(stay, since)

    async def start(self) -> None:
        """Start the cluster; `async with` calls this."""
        await self._system.start()
        if self._spread:
            from .parent.process_backend import ProcessBackend
            from .parent.worker_registry import WorkerRegistry

            seams = self._seams
            self._registry = WorkerRegistry(self._system, seams.backend or ProcessBackend(), seams.on_abandoned)
            try:
                await self._registry.start()
            except BaseException:
                await self._system.stop(drain=False)
                raise
            for name in self.remote_names:
                self._registry.add_remote(name)
        self._state = "running"
        if self._page is not None:
            try:
                await self._page.start(self)
            except BaseException:
                await self.stop(drain=False)
                raise

    @property
    def address(self) -> str:
        """The address at which remote workers reach this process; empty without workers."""
        return "" if self._registry is None else self._registry.address

    async def stop(self, *, drain: bool = True) -> None:
        """End every topology, drained or at once, and all that the cluster has started.

        Cancelled while it drains, it ends what is left at once, and is done with that before the cancel goes on.
        """
        if self._state == "running":
            self._state = "ended"
        drained = False
        try:
            for running in list(self._topologies.values()):
                await running.end(None if drain else 0)
            drained = drain
        finally:
            try:
                if self._page is not None:
                    await self._page.stop()
                if self._registry is not None:
                    await self._end_workers(self._registry)
            finally:
                forget_process()
                await self._system.stop(drain=drained)

    async def _end_workers(self, registry: WorkerRegistry) -> None:
        try:
            for running in list(self._topologies.values()):
                await running.end(0)
            await registry.end_kept()
        finally:  # also if it is cancelled again
            await registry.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop(drain=error is None)
        if error is None:
            for running in self._failed:
                if running.unreported_failure:
                    await running.wait_ended()
            if self._system.failure is not None:
                raise self._system.failure

    @property
    def _spread(self) -> int:
        return self.workers + len(self.remote_names)

    @property
    def _has_other_machines(self) -> bool:
        backend = self._seams.backend
        # Who reaches a socket of this machine is on it.
        return (bool(self.remote_names) and not self.address.startswith("unix:")) or (
            backend is not None and backend.is_apart
        )

    def _make_runtime(
        self,
        name: str,
        topology: Topology,
        settings: Config,
        origin: _Origin,
        gave_up: OnTaskGaveUp,
        beginning: Beginning,
    ) -> TopologyRuntime:
        registry = self._registry
        if settings.guarantee == "exactly-once":
            return self._make_exactly_once(name, topology, settings, origin, gave_up, beginning)
        if registry is None:
            return LocalRuntime(
                self._system, name, topology, settings, gave_up=gave_up, mailbox_wrapper=self._mailbox_wrapper
            )
        from .parent.distributed_runtime import DistributedRuntime

        deployment = self._deploy(registry, name, topology, settings, origin)
        return DistributedRuntime(registry, deployment, gave_up)

    def _make_exactly_once(
        self,
        name: str,
        topology: Topology,
        settings: Config,
        origin: _Origin,
        gave_up: OnTaskGaveUp,
        beginning: Beginning,
    ) -> TopologyRuntime:
        from .snapshots.building import exactly_once_runtime, rebuilt_local

        system, registry = self._system, self._registry
        if registry is None:
            make = rebuilt_local(system, name, topology, settings, self._mailbox_wrapper)
        else:
            from .parent.exactly_once import rebuilt_on_workers
            from .snapshots.place import check_reach

            if self._has_other_machines:
                check_reach(settings.state_dir, name)
            make = rebuilt_on_workers(registry, self._deploy(registry, name, topology, settings, origin))
        return exactly_once_runtime(system, name, topology, settings, gave_up, make, beginning, self._seams.open_store)

    def _deploy(
        self,
        registry: WorkerRegistry,
        name: str,
        topology: Topology,
        settings: Config,
        origin: _Origin,
    ) -> Deployment:
        from .parent.assignment import Assignment, Deployment
        from .parent.worker_lifecycle import LifecycleTimings

        timings = self._seams.timings or LifecycleTimings.of(settings.liveness)
        start_limit_s = None if self._seams.backend is None else self._seams.backend.start_limit_s
        if self._seams.timings is None and start_limit_s is not None:
            timings = replace(timings, start_limit_s=start_limit_s)
        remote = len(self.remote_names)
        target, arguments, parallelism, pinned = origin
        assignment = Assignment(target, arguments, self.workers, remote, parallelism, pinned, timings)
        return Deployment.make(registry, name, topology, settings, assignment)

    def _forget(self, name: str) -> None:
        """A killed topology frees its name. A failed one stays until it is killed, so that its error can be queried."""
        running = self._topologies.pop(name, None)
        if running is not None and running.unreported_failure:
            self._failed.append(running)

    def _not_executed(self, letter: DeadLetter) -> None:
        self._dead_letters += isinstance(letter.message, Segment)

    def _task_failed(self, path: str, error: BaseException, decision: Decision) -> None:
        log.warning(
            "%s failed (%s): %s%s",
            path.lstrip("/"),
            describe(error),
            decision.directive.value,
            f" in {decision.delay_s:g} s" if decision.delay_s else "",
        )


@asynccontextmanager
async def running(
    topology: Topology, config: Config | Mapping[str, Setting] | None = None, *, name: str | None = None
) -> AsyncIterator[RunningTopology]:
    """One topology for the length of a block: `async with aiostorm.running(topology) as running: …`.

    It has the topology's own name, unless another one is given; "topology" if it has none.
    """
    async with LocalCluster() as cluster:
        yield await cluster.submit(name or topology.name or "topology", topology, config)


def cleanup_ctx(
    topology: Topology,
    config: Config | Mapping[str, Setting] | None = None,
    *,
    name: str | None = None,
    key: Unchecked = None,
) -> Callable[[Unchecked], AsyncIterator[None]]:
    """For aiohttp: `app.cleanup_ctx.append(aiostorm.cleanup_ctx(topology, key=RUNNING))`.

    The topology runs as long as the application; with a key (an `aiohttp.web.AppKey`), `app[key]` is its handle. Its
    name: see `running`.
    """

    async def context(app: Unchecked) -> AsyncIterator[None]:
        async with running(topology, config, name=name) as handle:
            if key is not None:
                app[key] = handle
            yield

    return context


def lifespan(
    topology: Topology, config: Config | Mapping[str, Setting] | None = None, *, name: str | None = None
) -> Callable[[Unchecked], Unchecked]:
    """For ASGI frameworks: `FastAPI(lifespan=aiostorm.lifespan(topology))`; the handle is `request.state.running`.

    Its name: see `running`.
    """

    @asynccontextmanager
    async def context(app: Unchecked) -> AsyncIterator[dict[str, RunningTopology]]:
        async with running(topology, config, name=name) as handle:
            yield {"running": handle}

    return context
