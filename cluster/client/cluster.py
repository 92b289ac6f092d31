"""Cluster: a client of the cluster's store. It orders; nimbus, supervisors and parents carry it out.

    submit ─► check in a child ─► code ─► blobs ─► /topologies/NAME ─► … its parent says that it runs: /parents/NAME

1. An order is written, and returns. `wait_running` and `wait_ended` wait until it is carried out.
2. While no nimbus leads, orders are kept in the store, and carried out later: this is said in the log.
3. The code is stored before the record that names it, and looked for again after that: what no topology names is
   removed some time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from ...runtime import LoopClock, boot_id, make_folders
from ..code import Blobs, archive_of
from ..coordination import NoNodeError, UnavailableError, any_changed, is_there, leader, open_coordination
from ..home import STORE_VARIABLE, Home
from ..names import check_name
from ..nimbus import (
    CLUSTER,
    ERRORS,
    NIMBUSES,
    PARENTS,
    TOPOLOGIES,
    ClusterRecord,
    ErrorEntry,
    OrderError,
    TopologyRecord,
    Wanted,
    pack,
    path_of,
    rebalance,
    submit,
    unpack,
    want,
    why_unknown,
)
from ..targets import parse_target
from .checking import CHECK_S, CheckedTarget, check_target, submitter, warn_if_not_installed
from .errors import ClusterError, NotRunningError
from .nimbus import NimbusOrders, asked_nimbus
from .places import Here, check_code_place, check_state_place
from .reading import no_cluster, read_all, read_errors, read_one
from .settings import recorded
from .views import FAILED, NodeInfo, TopologyInfo, nodes_of, topologies_of, topology_of

if TYPE_CHECKING:
    from ...runtime import Clock
    from ...topology import Config
    from ..access import TokenInfo
    from ..coordination import Coordination

log = logging.getLogger("aiostorm.client")

MAX_WORKERS: Final = 1_000
MAX_TASKS: Final = 100_000
DEFAULT_WORKERS: Final = 2
MIN_MEMORY_BYTES: Final = 64 * 1024**2
"""Python, and what a worker imports, take most of that."""

MAX_CORES: Final = 1_000
START_S: Final = 30.0
"""How long a topology usually may take until it runs."""

RETRY_S: Final = 0.2

OpenStore = Callable[[str, "Clock"], AbstractAsyncContextManager["Coordination"]]

_T = TypeVar("_T")


class Cluster:
    """A cluster: `async with Cluster() as cluster`, or `Cluster("zk://host1,host2/aiostorm")`.

    `store`: the URL of its coordination store; None: AIOSTORM_STORE, else that of `home`. `home`: its folder on this
    machine; None: AIOSTORM_HOME, else ~/.local/state/aiostorm. All methods raise UnavailableError while the store
    cannot be reached, NoClusterError if there is none, and OrderError for an unknown topology.

    `Cluster("aiostorm://host:6700", token_file="ann.token")` asks a nimbus instead, which does what the token's role
    allows: DeniedError. Several addresses: with commas. `ca`: the CA's certificate, needed for
    another machine.
    """

    def __init__(
        self,
        store: str | None = None,
        *,
        home: Home | Path | str | None = None,
        token_file: Path | str | None = None,
        ca: Path | str | None = None,
        clock: Clock | None = None,
        open_store: OpenStore = open_coordination,
    ) -> None:
        self.home = home if isinstance(home, Home) else Home.default() if home is None else Home(Path(home).absolute())
        self.store = store or os.environ.get(STORE_VARIABLE) or self.home.store_url
        self._clock: Clock = clock or LoopClock()
        self._open_store = open_store
        self._stack = contextlib.AsyncExitStack()
        self._opened: Coordination | None = None
        self._asked = asked_nimbus(self.store, token_file, ca)
        self._nimbus: NimbusOrders | None = None

    async def __aenter__(self) -> Self:
        if self._asked is not None:
            self._nimbus = await self._stack.enter_async_context(self._asked.opened(self._clock))
            return self
        if self._open_store is open_coordination and not await asyncio.to_thread(is_there, self.store):
            raise no_cluster(self.store)
        self._opened = await self._stack.enter_async_context(self._open_store(self.store, self._clock))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._opened = self._nimbus = None
        await self._stack.aclose()

    # -- orders --------------------------------------------------------------------------------------------------------

    async def submit(
        self,
        name: str,
        target: str,
        conf: Config | Mapping[str, Any] | None = None,
        *,
        arguments: Sequence[str] = (),
        code: Path | str | bytes | None = None,
        workers: int | None = None,
        labels: Collection[str] = (),
        fewer: bool = False,
        worker_memory_bytes: int = 0,
        worker_cores: float = 0.0,
        initial: Literal["ACTIVE", "INACTIVE"] = "ACTIVE",
        check: bool = True,
        check_timeout_s: float = CHECK_S,
        submitted_by: str = "",
    ) -> TopologyInfo:
        """Hand a topology over to the cluster: it is stored, and will run. `wait_running` waits for that.

        `name`: empty: its own. `target`: `package.module:topology`. `code`: a folder, zip or wheel with its modules;
        None: they are installed on the nodes. `workers`: None: topology.workers, else 2. `labels`: those that its nodes
        must have. `fewer`: it may start with fewer workers if too few slots are free. `worker_memory_bytes`,
        `worker_cores`: what each worker may take; 0: that is not declared. `check`: import the target here, in a
        process of its own, and check the topology. `submitted_by`: empty: this user and machine.

        CheckError, ConfigError, ArchiveError, StoreError, TargetError; OrderError if there is one of that name;
        RecordError if its settings and arguments are too large; ValueError.
        """
        if name:
            check_name(name)
        elif not check:
            raise ValueError("a topology that is not checked needs a name")
        _check_resources(worker_memory_bytes, worker_cores)
        if parse_target(target).file:
            raise ClusterError(
                f"{target} is a file of this machine: submit its folder as the code, and name the module: "
                "`--code FOLDER MODULE:topology` (code=)"
            )
        config = recorded(conf)
        pack(TopologyRecord(target, tuple(arguments), config=config))  # too large? Before anything is done
        await self._check_cluster()
        archive = code if isinstance(code, bytes) or code is None else await asyncio.to_thread(archive_of, Path(code))
        checked: CheckedTarget | None = None
        if check:
            settings = config if workers is None else config | {"topology.workers": workers}
            checked = await check_target(target, arguments, settings, archive, timeout_s=check_timeout_s)
            _check_size(checked)
            check_name(name := name or checked.name)
            warn_if_not_installed(checked, archive)
        if self._nimbus is None:
            check_state_place(name, config, checked, (await read_all(self._client)).supervisors)
        record = TopologyRecord(
            target,
            tuple(arguments),
            config=config,
            workers=_workers(workers, config, checked),
            fewer=fewer,
            labels=frozenset(labels),
            wanted=initial,
            submitted_by=submitted_by or submitter(),
            submitted_s=self._clock.now(),
            worker_memory_bytes=worker_memory_bytes,
            worker_cores=worker_cores,
        )
        await self._store(name, record, archive)
        await self._warn_if_no_leader()
        return await self.topology(name)

    async def activate(self, name: str) -> None:
        """Let its spouts emit."""
        await self._want(name, "ACTIVE")

    async def deactivate(self, name: str) -> None:
        """Let its spouts pause."""
        await self._want(name, "INACTIVE")

    async def kill(self, name: str, wait_s: float | None = None) -> None:
        """End it: it drains for at most `wait_s`; None: its message timeout. `wait_ended` waits for the end."""
        await self._want(name, "KILLED", wait_s)

    async def rebalance(self, name: str, workers: int | None = None) -> None:
        """Spread it anew over the nodes, with so many workers; None: as many as it has."""
        if workers is not None:
            _check_workers(workers)
        if self._nimbus is not None:
            await self._nimbus.rebalance(name, workers)
            return await self._warn_if_no_leader()
        return await self._order(rebalance(self._client, name, workers))

    # -- looking -------------------------------------------------------------------------------------------------------

    async def topologies(self) -> list[TopologyInfo]:
        """All topologies, sorted by name. What cannot be read is named in the log, and left out."""
        if self._nimbus is not None:
            return await self._nimbus.topologies()
        records = await read_all(self._client)
        for why in records.unread.values():
            log.warning("%s", why)
        return topologies_of(records)

    async def topology(self, name: str) -> TopologyInfo:
        """One topology."""
        check_name(name)
        if self._nimbus is not None:
            return await self._nimbus.topology(name)
        for found in await self.topologies():
            if found.name == name:
                return found
        raise OrderError(await why_unknown(self._client, name))

    async def find(self, name: str) -> TopologyInfo | None:
        """One topology, without why it waits; None: there is none."""
        check_name(name)
        if self._nimbus is not None:
            return await self._nimbus.find(name)
        records = await read_one(self._client, name)
        return topology_of(name, records) if name in records.topologies else None

    async def nodes(self) -> list[NodeInfo]:
        """The supervisors that are there, sorted by name."""
        if self._nimbus is not None:
            return await self._nimbus.nodes()
        return nodes_of(await read_all(self._client))

    async def leader(self) -> str | None:
        """The nimbus that leads; None: there is none now."""
        if self._nimbus is not None:
            return await self._nimbus.leader()
        found = await leader(self._client)
        return None if found is None else found.decode(errors="replace")

    async def nimbuses(self) -> list[str]:
        """Those that are there: who leads, and who would."""
        if self._nimbus is not None:
            return await self._nimbus.nimbuses()
        try:
            paths = [f"{NIMBUSES}/{child}" for child in await self._client.children(NIMBUSES)]
        except NoNodeError:  # of an earlier version
            return []
        nodes = [await self._client.get(path) for path in paths]
        return sorted(node.value.decode(errors="replace") for node in nodes if node is not None)

    async def errors(self, name: str) -> tuple[ErrorEntry, ...]:
        """The last errors of a topology, the oldest first."""
        if self._nimbus is not None:
            return await self._nimbus.errors(name)
        if await self.find(name) is None:
            raise OrderError(await why_unknown(self._client, name))
        return await read_errors(self._client, name)

    async def logs(self, name: str, process: str = "", lines: int = 100) -> dict[str, list[str]]:
        """Process → its last lines, on the machine of the nimbus that is asked. ClusterError if none is."""
        return await self._of_nimbus().logs(name, process, lines)

    async def tokens(self) -> list[TokenInfo]:
        """The tokens with which nimbus is asked. ClusterError if no nimbus is asked."""
        return await self._of_nimbus().tokens()

    async def revoke_token(self, name: str) -> None:
        """Revoke one of them. ClusterError if no nimbus is asked."""
        await self._of_nimbus().revoke(name)

    # -- waiting -------------------------------------------------------------------------------------------------------

    async def wait_running(self, name: str, timeout_s: float | None = START_S) -> TopologyInfo | None:
        """Wait until it runs, as it was last submitted or rebalanced. None: it has ended, or there is none.

        NotRunningError if it has failed, or does not run in time: with the reason, as far as it is known.
        """

        async def look() -> tuple[TopologyInfo | None] | None:
            found = await self.find(name)
            if found is not None and found.state == FAILED and found.is_current:
                raise NotRunningError(f"topology {name!r} has failed: {await self._reason(found)}")
            return (found,) if found is None or found.runs or found.wanted == "KILLED" else None

        try:
            async with asyncio.timeout(timeout_s):
                return (await self._until(look, name))[0]
        except TimeoutError as error:
            if await self.find(name) is None:
                return None
            why = await self._reason(await self.topology(name))
            raise NotRunningError(f"topology {name!r} does not run after {timeout_s:g} s: {why}") from error

    async def wait_ended(self, name: str, timeout_s: float | None = None) -> None:
        """Wait until it has ended, and its name is free. TimeoutError."""
        first = await self.find(name)

        async def look() -> bool | None:
            found = await self.find(name)
            again = first is not None and found is not None and found.submitted_s != first.submitted_s
            return True if found is None or again else None

        async with asyncio.timeout(timeout_s):
            await self._until(look, name)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _of_nimbus(self) -> NimbusOrders:
        if self._nimbus is None:
            raise ClusterError("this asks the store: logs and tokens are files in the home folder of each machine")
        return self._nimbus

    @property
    def _client(self) -> Coordination:
        if self._opened is None:
            raise ClusterError("the cluster is not open: `async with Cluster() as cluster`")
        return self._opened

    async def _check_cluster(self) -> None:
        if self._nimbus is None and await self._client.get(TOPOLOGIES) is None:
            raise no_cluster(self._client.where)

    async def _want(self, name: str, wanted: Wanted, wait_s: float | None = None) -> None:
        if self._nimbus is not None:
            await self._nimbus.want(name, wanted, wait_s)
            return await self._warn_if_no_leader()
        return await self._order(want(self._client, name, wanted, wait_s))

    async def _order(self, order: Awaitable[None]) -> None:
        try:
            await order
        except NoNodeError as error:
            raise no_cluster(self._client.where) from error
        await self._warn_if_no_leader()

    async def _store(self, name: str, record: TopologyRecord, archive: bytes | None) -> None:
        """Store the code, if there is any, and then the record that names it."""
        if self._nimbus is not None:
            return await self._nimbus.submit(name, record, archive)
        if archive is None:
            return await submit(self._client, name, record)
        node = await self._client.get(CLUSTER)
        place = "" if node is None else unpack(ClusterRecord, CLUSTER, node.value).blobs
        if not place:
            here = Here(platform.node(), boot_id(), str(self.home.path))
            check_code_place(here, (await read_all(self._client)).supervisors)
            await asyncio.to_thread(make_folders, str(self.home.path), mode=0o700)  # private, as daemons want it
        async with Blobs(place or str(self.home.blobs)) as blobs:
            record = replace(record, blob=await blobs.put(archive))
            await submit(self._client, name, record)
            if not await blobs.has(record.blob):  # it was removed just before it was named
                await blobs.put(archive)
        return None

    async def _until(self, look: Callable[[], Awaitable[_T | None]], name: str) -> _T:
        """Look again after each change, until something is found."""
        if self._nimbus is not None:
            return await self._nimbus.until(look)
        paths = (TOPOLOGIES, PARENTS, path_of(ERRORS, name))
        watches = [await self._client.watch(path) for path in paths]
        try:
            while True:
                within_s = None
                try:
                    found = await look()
                    if found is not None:
                        return found
                except UnavailableError:
                    within_s = RETRY_S
                await any_changed(watches, within_s)
        finally:
            for watch in watches:
                watch.close()

    async def _reason(self, found: TopologyInfo) -> str:
        """Why a topology does not run, as far as the store says."""
        errors = [each for each in await self._last_errors(found.name) if each.at_s >= found.submitted_s]
        if found.degraded:
            return found.degraded
        if found.waiting:
            return found.waiting
        if await self.leader() is None:
            return f"it is {found.state}, and no nimbus leads: start one (aiostorm nimbus)"
        if found.running_generation is not None and not found.is_current:
            return f"it is {found.state} as before the rebalance (aiostorm logs {found.name})"
        last = f"; its last error: {errors[-1].where}: {errors[-1].text}" if errors else ""
        return f"it is {found.state}{last} (aiostorm logs {found.name})"

    async def _last_errors(self, name: str) -> tuple[ErrorEntry, ...]:
        return await (read_errors(self._client, name) if self._nimbus is None else self._nimbus.errors(name))

    async def _warn_if_no_leader(self) -> None:
        if await self.leader() is None:
            log.warning("no nimbus leads now: the order is kept, and carried out when one does (aiostorm nimbus)")


def _workers(given: int | None, config: Mapping[str, Any], checked: CheckedTarget | None) -> int:
    """How many workers: as ordered, as the settings say, as the topology's code says, or two."""
    found = (given, config.get("topology.workers"), None if checked is None else checked.workers, DEFAULT_WORKERS)
    return _check_workers(next(count for count in found if count is not None))


def _check_workers(count: int) -> int:
    if not 1 <= count <= MAX_WORKERS:
        raise ValueError(f"a topology has 1 to {MAX_WORKERS:,} workers, not {count:,}")
    return count


def _check_resources(memory_bytes: int, cores: float) -> None:
    if memory_bytes and memory_bytes < MIN_MEMORY_BYTES:
        least = MIN_MEMORY_BYTES // 1024**2
        raise ValueError(f"a worker needs {least} MiB of memory or more, not {memory_bytes / 1024**2:g} MiB")
    if not 0 <= cores <= MAX_CORES:
        raise ValueError(f"a worker may have 0 to {MAX_CORES:,} cores, not {cores}")


def _check_size(checked: CheckedTarget) -> None:
    if checked.tasks > MAX_TASKS:
        raise ClusterError(
            f"topology {checked.name!r} has {checked.tasks:,} tasks, and may have {MAX_TASKS:,}: lower the parallelism "
            "of its components (topology.max.task.parallelism)"
        )
