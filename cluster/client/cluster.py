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
import dataclasses
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from ...runtime import LoopClock
from ..access import RevokedCertificate, RevokedCertificates
from ..coordination import is_there, leader, open_coordination
from ..home import STORE_VARIABLE, Home
from ..names import check_name
from ..nimbus import (
    SUPERVISORS,
    TOPOLOGIES,
    ErrorEntry,
    OrderError,
    SupervisorRecord,
    TopologyRecord,
    Wanted,
    merged_pins,
    pack,
    rebalance,
    replace_code,
    submit,
    update,
    want,
    why_unknown,
)
from .audited import THIS_PROGRAM, Audited, OrderedBy
from .checking import CHECK_S
from .errors import ClusterError
from .nimbus import ORDERS, NimbusOrders, asked_nimbus
from .places import check_state_place
from .reading import no_cluster, read_all, read_errors, read_nimbuses, read_one, read_record, read_until
from .settings import changed, recorded
from .stored_code import StoredCode
from .submission import (
    Pins,
    archive_with,
    check_plan,
    check_request,
    check_resources,
    check_workers,
    merged,
    pins_of,
    rebalanced,
    settled_pins,
    submitted,
    submitter,
    workers_of,
)
from .views import NodeInfo, TopologyInfo, nodes_of, topologies_of, topology_of, why_not_running
from .waiting import until_ended, until_running

if TYPE_CHECKING:
    from ...runtime import Clock
    from ...topology import Config
    from ..access import TokenInfo
    from ..coordination import Coordination
    from ..logs import LogsAsked, ProcessLines

log = logging.getLogger("aiostorm.client")

START_S: Final = 30.0
"""How long a topology usually may take until it runs."""

OpenStore = Callable[[str, "Clock"], AbstractAsyncContextManager["Coordination"]]

_T = TypeVar("_T")


class Cluster:
    """A cluster: `async with Cluster() as cluster`, or `Cluster("zk://host1,host2/aiostorm")`.

    `store`: the URL of its coordination store; None: AIOSTORM_STORE, else that of `home`. `home`: its folder on this
    machine; None: AIOSTORM_HOME, else ~/.local/state/aiostorm. All methods raise UnavailableError while the store
    cannot be reached, NoClusterError if there is none, and OrderError for an unknown topology.

    `Cluster("aiostorm://host:6700", token_file="ann.token")` asks a nimbus instead, which does what the token's role
    allows: DeniedError. Several addresses: with commas. `ca`: the CA's certificate, needed for another machine.
    `certificate` instead of both: a folder of `aiostorm certs client`, whose role counts.

    `ordered_by`: who is said to order, in the audit log of `home`; None: it is not written here. Where no line can be
    written nothing is ordered: AuditError.
    """

    def __init__(
        self,
        store: str | None = None,
        *,
        home: Home | Path | str | None = None,
        token_file: Path | str | None = None,
        ca: Path | str | None = None,
        certificate: Path | str | None = None,
        ordered_by: OrderedBy | None = THIS_PROGRAM,
        clock: Clock | None = None,
        open_store: OpenStore = open_coordination,
    ) -> None:
        self.home = home if isinstance(home, Home) else Home.default() if home is None else Home(Path(home).absolute())
        self.store = store or os.environ.get(STORE_VARIABLE) or self.home.store_url
        self._clock: Clock = clock or LoopClock()
        self._open_store = open_store
        self._stack = contextlib.AsyncExitStack()
        self._opened: Coordination | None = None
        self._audited = Audited(self.home, ordered_by, self._clock)
        self._asked = asked_nimbus(self.store, token_file, ca, certificate)
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
        files: Sequence[Path | str] = (),
        workers: int | None = None,
        parallelism: Mapping[str, int] | None = None,
        labels: Collection[str] = (),
        pins: Pins | None = None,
        fewer: bool = False,
        replace: bool = False,
        worker_memory_bytes: int = 0,
        worker_cores: float = 0.0,
        initial: Literal["ACTIVE", "INACTIVE"] = "ACTIVE",
        check: bool = True,
        check_timeout_s: float = CHECK_S,
        submitted_by: str = "",
    ) -> TopologyInfo:
        """Hand a topology over to the cluster: it is stored, and will run. `wait_running` waits for that.

        `name`: empty: its own. `target`: `package.module:topology`. `code`: a folder, zip or wheel with its modules;
        None: they are installed on the nodes. `files`: more files, at the top of the code, beside its modules.
        `workers`: None: topology.workers, else 2. `parallelism`: component → tasks, where it is not as declared.
        `labels`: those that its nodes must have. `pins`: component → labels: its tasks run only on nodes with these.
        `fewer`: start with fewer workers if too few slots are free.
        `worker_memory_bytes`, `worker_cores`: what each worker may take; 0: that is not declared. `check`: import the
        target here, in a process of its own, and check the topology. `submitted_by`: empty: this user and machine.

        `replace`: give this code to the topology of that name, which goes on with it: settings, workers, tasks, labels
        and pins that are not given are as before, and so is whether it is active. If it does not run with it, it goes
        back to the code before: `wait_running` says so.

        CheckError, ConfigError, ArchiveError, StoreError, TargetError; OrderError if there is one of that name;
        RecordError if its settings and arguments are too large; ValueError.
        """
        check_request(name, target, replace=replace, check=check, initial=initial)
        check_resources(worker_memory_bytes, worker_cores)
        given = TopologyRecord(
            target,
            tuple(arguments),
            config=recorded(conf),
            workers=0 if workers is None else check_workers(workers),
            parallelism=dict(parallelism or {}),
            labels=frozenset(labels),
            pins=pins_of(pins),
            fewer=fewer,
            wanted=initial,
            submitted_by=submitted_by or submitter(),
            worker_memory_bytes=worker_memory_bytes,
            worker_cores=worker_cores,
        )
        pack(given)  # too large? Before anything is done
        await self._check_cluster()
        put, limit_s = self._replace if replace else self._submit, check_timeout_s if check else None
        name = await put(name, given, await archive_with(code, files), limit_s)
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

    async def rebalance(
        self,
        name: str,
        workers: int | None = None,
        *,
        parallelism: Mapping[str, int] | None = None,
        pins: Pins | None = None,
        drain_s: float | None = None,
        check: bool = True,
        check_timeout_s: float = CHECK_S,
    ) -> int:
        """Spread it anew over the nodes, with so many workers and tasks; None: as many as it has.

        `parallelism`: component → tasks; `pins`: component → labels of its nodes, none: its pin ends. Both are checked
        against the code, as in `submit`; not where a nimbus is asked, which imports no code. `drain_s`: how long
        messages under way may take; None: its message timeout. Returns the generation in which it is to run so:
        `wait_running` takes it. If it does not run so, it goes back to what it was. CheckError, BlobError, StoreError,
        ValueError.
        """
        if workers is not None:
            check_workers(workers)
        given = pins_of(pins)
        if self._nimbus is not None:
            generation = await self._nimbus.rebalance(name, workers, dict(parallelism or {}), drain_s, given)
            await self._warn_if_no_leader()
            return generation
        if (parallelism or given) and check:
            record = (await self._known(name)).record
            plan = dataclasses.replace(record, parallelism={**record.parallelism, **(parallelism or {})})
            archive = await StoredCode(self._client, self.home).fetch(record.blob)
            checked = await check_plan(plan, workers or record.workers, archive, limit_s=check_timeout_s)
            given = settled_pins(given, {}, checked)
        arguments = rebalanced(name, workers, parallelism or {}, drain_s, given)
        order = partial(rebalance, self._client, name, workers, parallelism, drain_s, given)
        return (await self._order("rebalance", arguments, order)).generation

    async def update(self, name: str, settings: Config | Mapping[str, Any]) -> int:
        """Change settings until it ends. They hold, or are refused, when its `updated` is this number. ConfigError."""
        if self._nimbus is not None:
            return await self._nimbus.update(name, recorded(settings))
        record = (await self._known(name)).record
        if not (changes := changed(record, settings)):
            return record.update
        order = partial(update, self._client, name, changes)
        return (await self._order("update", {"name": name, "config": changes}, order)).update

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
        return nodes_of(await read_all(self._client)) if self._nimbus is None else await self._nimbus.nodes()

    async def leader(self) -> str | None:
        """The nimbus that leads; None: there is none now."""
        found = await (leader(self._client) if self._nimbus is None else self._nimbus.leader())
        return found.decode(errors="replace") if isinstance(found, bytes) else found

    async def nimbuses(self) -> list[str]:
        """Those that are there: who leads, and who would."""
        return await (read_nimbuses(self._client) if self._nimbus is None else self._nimbus.nimbuses())

    async def errors(self, name: str) -> tuple[ErrorEntry, ...]:
        """The last errors of a topology, the oldest first."""
        if self._nimbus is not None:
            return await self._nimbus.errors(name)
        await self._known(name)
        return await read_errors(self._client, name)

    async def logs(self, name: str, process: str = "", lines: int = 100) -> dict[str, list[str]]:
        """Process → its last lines, on the machine of the nimbus that is asked. ClusterError if none is."""
        return await self._of_nimbus().logs(name, process, lines)

    async def node_logs(self, node: str, asked: LogsAsked) -> list[ProcessLines]:
        """The next lines of a topology's processes on a node, through the nimbus that is asked. NodeAwayError."""
        return await self._of_nimbus().node_logs(node, asked)

    async def supervisor(self, node: str) -> SupervisorRecord | None:
        """What the store says of a node; None: no supervisor of this name is there."""
        return await read_record(self._client, SupervisorRecord, SUPERVISORS, node)

    async def tokens(self) -> list[TokenInfo]:
        """The tokens with which nimbus is asked. ClusterError if no nimbus is asked."""
        return await self._of_nimbus().tokens()

    async def revoke_token(self, name: str) -> None:
        """Revoke one of them. ClusterError if no nimbus is asked."""
        await self._of_nimbus().revoke(name)

    async def revoked_certificates(self) -> list[RevokedCertificate]:
        """The certificates of clients that no nimbus accepts any more, the oldest first."""
        asked = self._nimbus
        return await (asked.revoked_certificates() if asked else RevokedCertificates(self._client).listed())

    async def revoke_certificate(self, sha256: str, ends_s: float = 0.0) -> None:
        """Revoke that of a client. `ends_s`: Unix time of its end; 0: not known. AuditError, ValueError."""
        if self._nimbus is not None:
            await self._nimbus.revoke_certificate(sha256, ends_s)
            return
        await self._check_cluster()
        async with self._audited.order("revoke_certificate", {"sha256": sha256}):
            await RevokedCertificates(self._client).add(sha256, self._clock.now(), submitter(), ends_s)

    # -- waiting -------------------------------------------------------------------------------------------------------

    async def wait_running(
        self, name: str, timeout_s: float | None = START_S, *, generation: int = 0
    ) -> TopologyInfo | None:
        """Wait until it runs, as it was last submitted or rebalanced. None: it has ended, or there is none.

        `generation`: that of an order (see `rebalance`). NotRunningError if that did not run, and was taken back; or if
        it has failed, or does not run in time: with the reason, as far as it is known.
        """
        return await until_running(self, self._until, self._reason, name, timeout_s, generation)

    async def wait_ended(self, name: str, timeout_s: float | None = None) -> None:
        """Wait until it has ended, and its name is free. TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await until_ended(self, self._until, name)

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
            await self._warn_if_no_leader()
            return
        arguments = {"name": name, "wait_s": wait_s} if wanted == "KILLED" else {"name": name}
        await self._order(ORDERS[wanted], arguments, partial(want, self._client, name, wanted, wait_s))

    async def _order(self, what: str, arguments: Mapping[str, Any], order: Callable[[], Awaitable[_T]]) -> _T:
        """Give an order over the store."""
        await self._check_cluster()
        async with self._audited.order(what, arguments):
            found = await order()
        await self._warn_if_no_leader()
        return found

    async def _submit(self, name: str, given: TopologyRecord, archive: bytes | None, limit_s: float | None) -> str:
        """Submit a new topology, checked within so many seconds; None: not checked. Its name."""
        checked = None
        if limit_s is not None:
            checked = await check_plan(given, given.workers, archive, limit_s=limit_s)
            check_name(name := name or checked.name)
        workers = workers_of(given.workers, given.config, checked)
        pins = merged_pins({}, settled_pins(given.pins, {}, checked))
        record = dataclasses.replace(given, workers=workers, pins=pins, submitted_s=self._clock.now())
        if self._nimbus is not None:
            await self._nimbus.submit(name, record, archive)
            return name
        check_state_place(name, given.config, checked, (await read_all(self._client)).supervisors)
        async with self._audited.order("submit", submitted(name, record, archive)):
            await StoredCode(self._client, self.home).put(record, archive, partial(submit, self._client, name))
        return name

    async def _replace(self, name: str, given: TopologyRecord, archive: bytes | None, limit_s: float | None) -> str:
        """As `_submit`, for a topology that is there: other code for it."""
        before = (await self._known(name)).record
        config = before.config | before.updates | given.config
        checked, tasks = None, before.parallelism | given.parallelism
        if limit_s is not None:
            workers = given.workers or before.workers
            settled = dataclasses.replace(given, config=config)
            checked = await check_plan(settled, workers, archive, kept=before.parallelism, limit_s=limit_s)
            tasks = checked.parallelism
        plan = dataclasses.replace(given, parallelism=tasks, pins=settled_pins(given.pins, before.pins, checked))
        if self._nimbus is not None:
            await self._nimbus.submit(name, plan, archive, replace=True)
            return name
        check_state_place(name, config, checked, (await read_all(self._client)).supervisors)
        put = StoredCode(self._client, self.home).put
        async with self._audited.order("submit", submitted(name, plan, archive, replace=True)):
            await put(plan, archive, lambda new: replace_code(self._client, name, lambda old: merged(old, new)))
        return name

    async def _known(self, name: str) -> TopologyInfo:
        """One topology, as `find`. OrderError."""
        await self._check_cluster()
        return await self.find(name) or await self.topology(name)  # which says why there is none

    async def _until(self, look: Callable[[], Awaitable[_T | None]], name: str) -> _T:
        """Look again after each change, until something is found."""
        return await (read_until(self._client, name, look) if self._nimbus is None else self._nimbus.until(look))

    async def _reason(self, found: TopologyInfo) -> str:
        """Why a topology does not run, as far as the store says."""
        errors = await (self.errors(found.name) if self._nimbus else read_errors(self._client, found.name))
        return why_not_running(found, errors, is_led=await self.leader() is not None)

    async def _warn_if_no_leader(self) -> None:
        if await self.leader() is None:
            log.warning("no nimbus leads now: the order is kept, and carried out when one does (aiostorm nimbus)")
