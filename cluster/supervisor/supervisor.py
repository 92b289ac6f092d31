"""Supervisor: runs on one machine what the cluster assigns to it: parents of topologies, and their workers.

    adopt what runs ─► session: register as /supervisors/ID ─► read ─► start, end ─► wait for news ─┐
                          ▲                                     ▲                                   │
                          │ the session is lost: a new one      ╰───────────────────────────────────┘

1. It decides from what the store says, and tells no other process: a parent and its supervisors are not connected.
2. It may end at any time, and so may its machine's other daemons: processes live on, and the next supervisor adopts
   them before it starts anything.
3. While the store cannot be reached, nothing that is wanted changes; what ends is started again.
4. There is one supervisor of a name: a second one is refused, on this machine at once, from another one when the first
   is still there after REGISTER_S. One whose processes could not connect to those of the others is refused, too.
5. An error that is not expected ends it: it is to be started again by what started it.

From: Storm's Supervisor. It has no ports: workers of a machine find each other by sockets in its home folder, and
listen at ports that the system chooses where there are several machines.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from ...runtime import AiostormError
from ..coordination import (
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Put,
    RefusedError,
    SessionLostError,
    UnavailableError,
)
from ..nimbus import (
    PARENT_PROCESS,
    SUPERVISORS,
    RecordError,
    SupervisorRecord,
    TopologyRecord,
    make_folders,
    name_in,
    pack,
    path_of,
    unpack,
)
from .following import Following
from .logs import LOOK_S
from .neighbours import conflict
from .reading import Reader, names_of, used_code
from .running import NoIsolation, Running
from .slot_files import DuplicateSupervisorError

if TYPE_CHECKING:
    from ...runtime import Clock
    from ..coordination import Coordination
    from .launching import Launch
    from .running import Isolation, Processes, SlotNotes
    from .slots import Key

log = logging.getLogger("aiostorm.supervisor")

RETRY_S: Final = 0.2
REOPEN_S: Final = 1.0
"""Until the store is opened again that could not be."""

REGISTER_S: Final = 15.0
"""How long another supervisor of this name may still be there: a session ends in 8 s."""

FAILED_S: Final = 1.0
"""Between two looks for processes that do not stay alive."""

MEMORY_S: Final = 1.0
"""Between two looks at the memory of workers."""

OLD_S: Final = 60.0
"""Between two looks for code and logs that are not used any more."""


class Launching(Protocol):
    """What processes are started with (see Launcher)."""

    async def launch(self, key: Key, record: TopologyRecord) -> Launch:
        """Prepare one. AiostormError, OSError."""
        ...

    async def note_parents(self, addresses: Mapping[str, str]) -> None:
        """Tell workers here where their parents listen: topology → address; empty: not known. OSError."""
        ...

    async def limit_logs(self, running: Collection[Key]) -> None:
        """Keep logs within their quota."""
        ...

    async def remove_unused(self, used: Collection[str]) -> None:
        """Remove code that no topology names. AiostormError, OSError."""
        ...

    async def note(self, key: Key, text: str) -> None:
        """Write a line into the log of a process."""
        ...

    async def remove_logs(self, used: Collection[str], now_s: float) -> None:
        """Remove old logs of topologies that are not in `used`; it is `now_s` (Unix time). OSError."""
        ...


@dataclass(frozen=True, slots=True)
class SupervisorSeams:
    """What a supervisor reaches outside with. `open_store`: a client with a session of its own."""

    open_store: Callable[[], AbstractAsyncContextManager[Coordination]]
    processes: Processes
    notes: SlotNotes
    launching: Launching
    isolation: Isolation = field(default_factory=NoIsolation)


class UnknownTopologyError(AiostormError):
    """What a process is to run is not known here."""


class UnfitSupervisorError(AiostormError):
    """The processes of this supervisor and of another one could not connect to each other: what to change."""


class _RefusedError(Exception):
    """Ends all that a supervisor does."""


class Supervisor:
    """The daemon. `record`: what others read of it; its `process` tells sessions apart."""

    def __init__(self, name: str, record: SupervisorRecord, seams: SupervisorSeams, clock: Clock) -> None:
        self._name = name
        self._record = record
        self._seams = seams
        self._clock = clock
        self._sessions = 0
        self._registered = record
        self._topologies: Mapping[str, TopologyRecord] = {}
        self._reader = Reader(name)
        self._running: Running | None = None
        self._coordination: Coordination | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop`. DuplicateSupervisorError, UnfitSupervisorError; OSError.

        CoordinationError if the store cannot be used.
        """
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._work())
            stopping = group.create_task(stop.wait())
            await asyncio.wait((work, stopping), return_when=asyncio.FIRST_COMPLETED)
            work.cancel()
            stopping.cancel()
        if not work.cancelled() and (refused := work.result()) is not None:
            raise refused
        left = 0 if self._running is None else await self._running.left()
        log.info("ends; %d processes live on, and are adopted by the next supervisor %s", left, self._name)

    async def _work(self) -> AiostormError | None:
        """Returns why this supervisor may not run."""
        refused: AiostormError | None = None
        try:
            async with asyncio.TaskGroup() as group:
                seams = self._seams
                running = self._running = Running(
                    seams.processes,
                    seams.notes,
                    self._launch,
                    self._clock,
                    group,
                    seams.isolation,
                    seams.launching.note,
                )
                await running.adopt()
                group.create_task(running.run(), name="slots")
                group.create_task(self._limit_logs(running), name="logs")
                group.create_task(self._name_failed(running), name="failures")
                group.create_task(self._limit_memory(running), name="memory")
                group.create_task(self._remove_old(running), name="old files")
                refused = await self._keep_session(running)
                raise _RefusedError
        except* _RefusedError:
            log.debug("all that it does was ended")
        return refused

    # -- sessions ------------------------------------------------------------------------------------------------------

    async def _keep_session(self, running: Running) -> AiostormError:
        """Returns only if this supervisor may not run: why."""
        said = False
        while True:
            try:
                opened = self._seams.open_store()
                async with opened as coordination:
                    said = False
                    refused = await self._session(coordination, running)
            except UnavailableError as error:
                if not said:
                    log.warning("waits for its store: %s", error)
                said = True
                await self._clock.sleep(REOPEN_S)
                continue
            if refused is not None:
                return refused
            log.warning("its session was lost: registers anew; its processes go on")

    async def _session(self, coordination: Coordination, running: Running) -> AiostormError | None:
        """One session, until it is lost. Returns why this supervisor may not run; None: the session was lost."""
        # Errors stay here: outside the block of the client they would come as a group.
        try:
            refused = await self._register(coordination) or await self._check_neighbours(coordination)
            if refused is not None:
                return refused
            log.info("supervises as %s, with %d slots; store %s", self._name, self._record.slots, coordination.where)
            self._coordination = coordination
            await self._follow(coordination, running)
        except SessionLostError:
            return None
        finally:
            self._coordination = None
        return None

    async def _register(self, coordination: Coordination) -> AiostormError | None:
        """Make the node. Returns who has it, and still after REGISTER_S; None: it is made."""
        self._sessions += 1
        path = path_of(SUPERVISORS, self._name)
        self._registered = replace(self._record, process=f"{self._record.process}.{self._sessions}")
        record = pack(self._registered)
        until_s = self._clock.monotonic() + REGISTER_S
        said = False
        while True:
            try:
                await make_folders(coordination)
                await coordination.commit([Create(path, record, ephemeral=True), Put(SUPERVISORS, b"")])
            except (UnavailableError, NoNodeError):
                await self._clock.sleep(RETRY_S)
                continue
            except NodeExistsError:
                pass
            else:
                return None
            try:
                node = await coordination.get(path)
            except UnavailableError:
                continue
            if node is not None and node.value == record:  # made before the store could not be reached
                return None
            if node is not None and self._clock.monotonic() >= until_s:
                where = _where(path, node.value)
                return DuplicateSupervisorError(
                    f"another supervisor {self._name} runs{where}: give this one another name"
                )
            if not said:
                log.info("another supervisor %s is still registered: waits for its end", self._name)
            said = True
            await self._clock.sleep(RETRY_S)

    async def _check_neighbours(self, coordination: Coordination) -> AiostormError | None:
        """Returns why this supervisor, which is registered, cannot work with the others; None: it can."""
        while True:
            why = ""
            try:
                others = await self._others(coordination)
                why = conflict(self._record, others)
                if why:
                    await coordination.commit([Delete(path_of(SUPERVISORS, self._name)), Put(SUPERVISORS, b"")])
            except UnavailableError:
                await self._clock.sleep(RETRY_S)
                continue
            except RefusedError:  # the node has ended already
                pass
            return UnfitSupervisorError(why) if why else None

    async def _others(self, coordination: Coordination) -> dict[str, SupervisorRecord]:
        found: dict[str, SupervisorRecord] = {}
        for child in await coordination.children(SUPERVISORS):
            path = f"{SUPERVISORS}/{child}"
            node = await coordination.get(path)
            if node is None or path == path_of(SUPERVISORS, self._name):
                continue
            try:
                found[name_in(child)] = unpack(SupervisorRecord, path, node.value)
            except RecordError as error:
                log.warning("%s", error)
        return found

    async def _follow(self, coordination: Coordination, running: Running) -> None:
        """Do what the store says, until the session is lost."""
        following = await Following.begin(coordination)
        try:
            while coordination.status != "lost":
                within_s = None
                try:
                    if coordination.status == "connected":
                        reading = await self._reader.read(coordination, {key.topology for key in running.keys})
                        if await following.follow(reading.concerned):
                            continue  # what has changed before it was watched
                        self._topologies = reading.topologies
                        running.see(reading.wanted)
                        await self._seams.launching.note_parents(reading.addresses)
                except UnavailableError:
                    within_s = RETRY_S
                except OSError as error:
                    log.warning("where parents listen cannot be noted for workers: %s", error)
                    within_s = REOPEN_S
                await following.changed(within_s)
        finally:
            following.close()

    # -- for the processes ---------------------------------------------------------------------------------------------

    async def _launch(self, key: Key) -> Launch:
        record = self._topologies.get(key.topology)
        if record is None:
            raise UnknownTopologyError(f"the record of {key.topology} could not be read yet")
        return await self._seams.launching.launch(key, record)

    async def _limit_logs(self, running: Running) -> None:
        while True:
            await self._clock.sleep(LOOK_S)
            await self._seams.launching.limit_logs(list(running.keys))
            await self._seams.isolation.tidy()

    async def _name_failed(self, running: Running) -> None:
        """Say in the record which processes do not stay alive here: nimbus starts them elsewhere."""
        while True:
            await self._clock.sleep(FAILED_S)
            record, coordination = replace(self._registered, failed=running.failed), self._coordination
            if record == self._registered or coordination is None or coordination.status != "connected":
                continue
            try:
                await coordination.commit([Put(path_of(SUPERVISORS, self._name), pack(record)), Put(SUPERVISORS, b"")])
            except (UnavailableError, SessionLostError, NoNodeError) as error:
                log.debug("it is said later what fails here: %s", error)
            else:
                self._registered = record

    async def _limit_memory(self, running: Running) -> None:
        """End workers that have more memory than was declared for them."""

        def allowed_bytes(key: Key) -> int:
            record = self._topologies.get(key.topology)
            return 0 if record is None or key.process == PARENT_PROCESS else record.worker_memory_bytes

        while True:
            await self._clock.sleep(MEMORY_S)
            for key, why in running.end_too_large(allowed_bytes).items():
                text = f"killed by its supervisor: {why} (aiostorm submit --worker-memory)"
                await self._seams.launching.note(key, text)

    async def _remove_old(self, running: Running) -> None:
        """Remove code that no topology names any more, and old logs of topologies that have ended."""
        while True:
            await self._clock.sleep(OLD_S)
            coordination = self._coordination
            if coordination is None or coordination.status != "connected":
                continue
            try:
                names = await names_of(coordination) | {key.topology for key in running.keys}
                await self._seams.launching.remove_logs(names, self._clock.now())
                await self._seams.launching.remove_unused(await used_code(coordination))
            except (UnavailableError, SessionLostError, RecordError) as error:
                log.debug("nothing is removed: %s", error)
            except (AiostormError, OSError) as error:
                log.warning("what is not used any more cannot be removed: %s", error)


def _where(path: str, value: bytes) -> str:
    try:
        record = unpack(SupervisorRecord, path, value)
    except RecordError:
        return ""
    return f" on {record.host}" if record.host else ""
