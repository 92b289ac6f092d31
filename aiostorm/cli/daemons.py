"""The programs of `aiostorm nimbus` and `aiostorm supervisor`.

1. They run until Ctrl-C or SIGTERM, and end with 0 then. A second one ends them at once.
2. When the session with the store is lost, they open another one and go on: that is no reason to end.
3. An error that is not expected ends them with 1 and a traceback: what has started them starts them again.
4. They listen at no port, but nimbus with --listen, and a supervisor with an address, for logs only. It tries at its
   start whether its processes will be reached there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import platform
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ..cluster import PARENT, WORKER
from ..cluster.code import Blobs, CodeCache
from ..cluster.coordination import (
    Coordination,
    Create,
    NodeExistsError,
    SessionLostError,
    UnavailableError,
    leader,
    open_coordination,
)
from ..cluster.logs import LOGS, LogServer
from ..cluster.nimbus import CLUSTER, ClusterRecord, Nimbus, SupervisorRecord, pack, unpack
from ..cluster.supervisor import (
    KEEP_FREE_BYTES,
    CgroupError,
    CgroupTree,
    DuplicateSupervisorError,
    Isolation,
    Launcher,
    Listening,
    LogRetention,
    NoIsolation,
    SlotFiles,
    Supervisor,
    SupervisorSeams,
    UnfitSupervisorError,
    prefix_of,
)
from ..cluster.supervisor import found as found_cgroup
from ..runtime import AiostormError, Clock, LoopClock, ProcessIdentity, boot_id, loop_factory, make_folders
from ..runtime.processes import DetachedPool
from ..transport import open_network
from .answering import Answering, answer_clients, check_answering
from .cluster_view import leader_text
from .errors import BusyCommandError, CommandError, ExposedCommandError
from .host import try_host
from .signals import Interrupts

if TYPE_CHECKING:
    from ..cluster import Home
    from ..transport import Security
    from .options import ClusterOptions, NodeOptions

log = logging.getLogger("aiostorm.cli")

RETRY_S: Final = 1.0
"""Until a store is opened again that could not be reached."""

READY: Final = 2
"""Processes that wait for a task on a node: a parent and a worker often move there together."""

OpenStore = Callable[[], AbstractAsyncContextManager[Coordination]]


@dataclass(frozen=True, slots=True)
class SupervisorOptions:
    """Of `aiostorm supervisor`. `more`: arguments that each of its processes gets, as `--log-level`.

    `cgroup`: auto, none, or the folder of a subtree that is delegated.
    """

    name: str
    slots: int
    node: NodeOptions
    labels: frozenset[str] = frozenset()
    version: str = ""
    more: tuple[str, ...] = ()
    retention: LogRetention = field(default_factory=LogRetention)
    memory_bytes: int = 0
    cores: float = 0.0
    cgroup: str = "auto"
    keep_free_bytes: int = KEEP_FREE_BYTES


def run_nimbus(options: ClusterOptions, blobs: str | None, answering: Answering | None = None) -> int:
    """Run nimbus. `blobs`: the place of submitted code; None: as it is, or the home folder.

    `answering`: where clients ask it; None: at the socket in the home folder. CommandError, HomeError, ExposedError.
    """
    options.home.make()
    options.home.make_credentials()
    answering = answering or Answering(options.home.nimbus_socket)
    return _run("nimbus", lambda stop: _nimbus(options, blobs, answering, stop))


def run_supervisor(options: ClusterOptions, given: SupervisorOptions) -> int:
    """Run a supervisor. CommandError, BusyCommandError, HomeError."""
    options.home.make()
    options.home.make_credentials()
    make_folders(str(options.home.slots(given.name).parent), mode=0o700)
    security = given.node.security(options.home)
    try:
        return _run(f"supervisor {given.name}", lambda stop: _supervise(options, given, security, stop))
    except DuplicateSupervisorError as error:
        raise BusyCommandError(str(error)) from error
    except UnfitSupervisorError as error:
        raise ExposedCommandError(str(error)) from error


def _run(what: str, work: Callable[[asyncio.Event], Coroutine[None, None, None]]) -> int:
    """Run it until it ends. It is given an event, which a signal sets."""
    interrupts = Interrupts()
    interrupts.first_message = lambda: f"{what}: ends"
    interrupts.last_message = lambda: f"{what}: ends now"
    interrupts.on_first = log.info

    with interrupts, asyncio.Runner(loop_factory=loop_factory("auto")) as runner:
        try:
            runner.run(_until_stopped(work, interrupts))
        except BaseExceptionGroup as group:
            error = _only(group)
            if isinstance(error, AiostormError | click.ClickException):
                raise error from group
            log.critical("%s ends: a defect, or something of this machine", what, exc_info=group)
            return 1
    return 0


async def _until_stopped(work: Callable[[asyncio.Event], Coroutine[None, None, None]], interrupts: Interrupts) -> None:
    await work(interrupts.listen())


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error in groups that hold one."""
    first = group.exceptions[0]
    if len(group.exceptions) > 1:
        return group
    return _only(first) if isinstance(first, BaseExceptionGroup) else first


def _opener(store: str, clock: Clock) -> OpenStore:
    """What opens the store, with a session of its own. CommandError for a URL that is none."""

    def opened() -> AbstractAsyncContextManager[Coordination]:
        try:
            return open_coordination(store, clock)
        except ValueError as error:
            raise CommandError(f"--store: {error}") from error

    return opened


# -- nimbus ------------------------------------------------------------------------------------------------------------


async def _nimbus(options: ClusterOptions, blobs: str | None, answering: Answering, stop: asyncio.Event) -> None:
    clock, host, pid = LoopClock(), platform.node(), os.getpid()
    log.info("nimbus begins on %s (pid %d); store %s", host, pid, options.store)
    open_store = _opener(options.store, clock)
    await check_answering(options, answering)  # before anything is begun
    async with asyncio.TaskGroup() as group:
        at: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        tasks = [group.create_task(answer_clients(options, answering, open_store, clock, at))]
        # The socket of the home folder may be that of another nimbus, and this one leads nevertheless.
        address = answering.address if answering.address == options.home.nimbus_socket else await at
        who = {"host": host, "pid": pid, "started": round(clock.now(), 3), "address": address}
        tasks.append(group.create_task(keep_leading(open_store, clock, json.dumps(who).encode(), blobs)))
        await stop.wait()
        for task in tasks:
            task.cancel()


async def keep_leading(open_store: OpenStore, clock: Clock, who: bytes, blobs: str | None) -> None:
    """Lead whenever no other nimbus does; a lost session is followed by another one. CommandError."""
    said = False
    while True:
        refused = ""
        try:
            async with open_store() as coordination:
                said = False
                try:  # errors stay inside: outside of the block they would come as a group
                    refused = await _describe_cluster(coordination, clock, blobs)
                    if not refused:
                        await _say_who_leads(coordination)
                        await Nimbus(coordination, clock, who).run()
                except SessionLostError:
                    log.warning("the session was lost: opens another one")
                except UnavailableError as error:
                    log.warning("%s", error)
        except UnavailableError as error:
            if not said:
                log.warning("waits for its store: %s", error)
            said = True
        if refused:
            raise CommandError(refused)
        await clock.sleep(RETRY_S)


async def _describe_cluster(coordination: Coordination, clock: Clock, blobs: str | None) -> str:
    """Write what all commands must know, if it is not there. Returns what contradicts it."""
    while True:
        node = await coordination.get(CLUSTER)
        if node is not None:
            there = unpack(ClusterRecord, CLUSTER, node.value).blobs
            if blobs is None or blobs == there:
                return ""
            place = there or "the home folder"
            return f"--blobs: the code of this cluster is in {place}: leave out --blobs, or give the same place"
        try:
            await coordination.commit([Create(CLUSTER, pack(ClusterRecord(blobs or "")))])
        except NodeExistsError:  # by another nimbus: is it the same?
            await clock.sleep(0)
        else:
            return ""


async def _say_who_leads(coordination: Coordination) -> None:
    found = await leader(coordination)
    if found is not None:
        log.info("another nimbus leads: waits until it does not. It is %s", leader_text(found.decode(errors="replace")))


# -- supervisor --------------------------------------------------------------------------------------------------------


async def _supervise(
    options: ClusterOptions, given: SupervisorOptions, security: Security, stop: asyncio.Event
) -> None:
    home, clock = options.home, LoopClock()
    open_store = _opener(options.store, clock)
    open_store()  # a URL that is none is refused before anything is adopted
    listening = Listening(given.node.host, given.node.words)
    if listening.host:
        await try_host(listening, security)
    files = SlotFiles(home.slots(given.name))
    code = ClusterCode(home, open_store, clock)
    credentials = security.credentials
    record = SupervisorRecord(
        platform.node(),
        listening.host,
        given.slots,
        given.version,
        given.labels,
        boot_id(),
        str(ProcessIdentity.own()),
        given.memory_bytes,
        given.cores,
        str(home.path),
        f"{'tls-' if security.tls is not None else ''}{'' if credentials is None else credentials.fingerprint}",
    )
    isolation = await asyncio.to_thread(isolation_of, given.cgroup, home, given.name)
    record = replace(record, limits="cgroup" if isinstance(isolation, CgroupTree) else "rlimit")
    output = home.slots(given.name).parent / "slot.log"
    waiting = ("slot", "--websockets") if listening.host else ("slot",)
    try:
        async with (
            files.owned(),
            DetachedPool("aiostorm", waiting, output, ready=READY) as processes,
            serving_logs(home, listening, security, clock) as logs_at,
        ):
            record = replace(record, logs=logs_at)
            launcher = Launcher(
                home,
                options.store,
                given.name,
                code,
                given.more,
                given.retention,
                listening,
                given.keep_free_bytes,
            )
            seams = SupervisorSeams(open_store, processes, files, launcher, isolation)
            await Supervisor(given.name, record, seams, clock).run(stop)
    finally:
        await code.close()


@contextlib.asynccontextmanager
async def serving_logs(home: Home, listening: Listening, security: Security, clock: Clock) -> AsyncIterator[str]:
    """Send logs to nimbus. The address; empty: this node has none, and is of a cluster of one machine."""
    if not listening.host:
        yield ""
        return
    async with (
        asyncio.TaskGroup() as group,
        open_network("supervisor", security.derived(LOGS), role=WORKER, roles=(PARENT,)) as network,
    ):
        at: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        server = LogServer(home, network, clock)
        serving = group.create_task(server.serve(listening.listen, at.set_result), name="logs for nimbus")
        try:
            yield await at
        finally:
            serving.cancel()


def isolation_of(cgroup: str, home: Home, name: str) -> Isolation:
    """What keeps processes to their limits: cgroups in this folder, and where there are none, rlimit. CommandError.

    What is used is said in the log. CommandError if a folder that was named cannot be used.
    """
    try:
        if cgroup == "none":
            raise CgroupError("--cgroup none")
        root = found_cgroup() if cgroup == "auto" else Path(cgroup).absolute()
        tree = CgroupTree.opened(root, prefix_of(str(home.path), name))
    except CgroupError as error:
        if cgroup not in ("auto", "none"):
            raise CommandError(f"--cgroup: {error}") from error
        log.info("limits: rlimit, and a look at the memory of workers each second; no cgroups: %s", error)
        return NoIsolation()
    log.info("limits: memory, cores and processes of each process by its cgroup below %s", root)
    return tree


class ClusterCode:
    """The code of topologies, from where the cluster keeps it: that is looked up when it is first needed."""

    def __init__(self, home: Home, open_store: OpenStore, clock: Clock) -> None:
        self._home = home
        self._open_store = open_store
        self._clock = clock
        self._blobs: Blobs | None = None
        self._cache: CodeCache | None = None
        self._one = asyncio.Lock()

    async def path(self, blob: str) -> str:
        """The folder with the code of this SHA-256. AiostormError, OSError."""
        return await (await self._opened()).path(blob)

    async def remove_unused(self, used: Collection[str]) -> None:
        """Remove code that is not in `used` for some time. AiostormError, OSError."""
        await (await self._opened()).remove_unused(used)

    async def close(self) -> None:
        """Release the place."""
        if self._blobs is not None:
            await self._blobs.close()

    async def _opened(self) -> CodeCache:
        async with self._one:
            if self._cache is None:
                self._blobs = Blobs(await self._place() or str(self._home.blobs))
                self._cache = CodeCache(self._home, self._blobs, self._clock)
            return self._cache

    async def _place(self) -> str:
        """Where the cluster keeps its code; empty: the home folder. AiostormError."""
        found: str | AiostormError
        async with self._open_store() as coordination:
            try:
                node = await coordination.get(CLUSTER)
                found = "" if node is None else unpack(ClusterRecord, CLUSTER, node.value).blobs
            except AiostormError as error:  # outside of the block it would come as a group
                found = error
        if isinstance(found, AiostormError):
            raise found
        return found
