"""Spark workers: the workers of topologies run in Spark tasks, one in each slot.

    async with LocalCluster(backend=SparkWorkers(spark, slots=4)) as cluster:
        running = await cluster.submit("word-count", "examples.word_count:topology")

    driver: parent ═ link ═ worker-1 in a slot on an executor        tuples go from worker to worker
              │    ═ link ═ worker-2 in a slot on another
              ╰─ driver-1, in the parent's process: the tasks of components with `on_driver = True`

1. Spark does what a node daemon would do: placement, resources, isolation. The parent decides about every start.
2. Executors of this machine (local masters, a standalone master on loopback): nothing can be reached from outside; the
   token is in a file of this user (0600), and only its path is passed on.
3. Executors of other machines: TLS and a token, from a directory that `aiostorm certs node` has made, in the same place
   on every machine. Without them nothing starts. No secret goes into a closure, a setting or an event log.
4. A slot occupies its cores as long as its worker runs. The other cores are for other jobs of the session.
5. Code: the driver's `sys.path` on this machine; on others the installed code, `py_files`, and aiostorm (`ship`).
6. A session made from settings or by a function is made anew when its JVM has died; a session that is given is not.

From: Storm on YARN and Mesos, where the supervisor is a task; Spark's own executors.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from ...cluster import DRIVER, PARENT, ProcessBackend
from ...runtime import LIVENESS, write_file
from ...transport import Credentials, Network, Node, Security
from ..resources import is_local
from .driver_worker import DriverWorkerSpawner
from .executor_access import ExecutorAccess
from .jobs import SlotJobs
from .launch_spec import ANY_HOST, LaunchSpec
from .slot import version
from .slot_session import SlotSession
from .spawner import SlotSpawner

if TYPE_CHECKING:
    from ...runtime.processes import Child, ChildLine, Spawner

START_LIMIT_S: Final = LIVENESS.slot_start_timeout_s
"""The time from the request of a worker to its first message: a core must be free, Python must start."""


class SparkWorkers:
    """A WorkerBackend: `LocalCluster(backend=SparkWorkers(spark, slots=n))`.

    `spark`: a SparkSession, settings of one, or a function that makes one. `slots`: the workers of each topology.

    For executors of other machines: `listen` (HOST:PORT, where they reach this process) and `credentials`, a directory
    of `aiostorm certs node`, in the same place on every machine. `host`: the name by which others reach an executor's
    machine, if its own name does not work. `insecure`: without credentials, in a private network.

    `py_files`: modules and zips for the executors. `ship`: send aiostorm itself. `start_limit_s`: the time in which a
    worker must start. `arguments`: more arguments of `aiostorm worker`.
    """

    def __init__(
        self,
        spark: Any = None,
        slots: int = 1,
        *,
        listen: str = "",
        credentials: str = "",
        insecure: bool = False,
        host: str = "",
        py_files: Iterable[str] = (),
        ship: bool = False,
        start_limit_s: float = START_LIMIT_S,
        arguments: Sequence[str] = (),
    ) -> None:
        if slots < 1:
            raise ValueError(f"slots is 1 or more, not {slots}")
        self._slots = slots
        self._access = ExecutorAccess(listen, credentials, insecure, host)
        self._session = SlotSession(spark, slots, py_files, ship=ship)
        self._start_limit_s = start_limit_s
        self._arguments = tuple(arguments)
        self._master = str(spark.get("spark.master", "")) if isinstance(spark, Mapping) else ""
        self._security = Security()
        self._local = ProcessBackend()  # replaced when the master is known
        self._stack = contextlib.AsyncExitStack()
        self._incarnations: dict[str, int] = {}

    is_local = staticmethod(is_local)

    @property
    def workers(self) -> int:
        return self._slots

    @property
    def start_limit_s(self) -> float | None:
        return self._start_limit_s  # an executor may have to be started first

    @property
    def is_apart(self) -> bool:
        return True

    @property
    def network(self) -> Network:
        return self._local.network

    @property
    def address(self) -> str:
        return self._local.address

    @property
    def paths(self) -> Sequence[str]:
        """The driver's `sys.path` on this machine; nothing on others, which have other paths."""
        return sys.path if self._on_this_machine else ()

    @property
    def arguments(self) -> Sequence[str]:
        """More arguments of workers; each kind of worker gets its secrets in another way."""
        return self._arguments

    @property
    def secret(self) -> bytes:
        return b""

    def listen(self, worker: str, before: str) -> str:
        """The address on which a worker listens; after a restart it may be on another machine."""
        if not self._on_this_machine:
            # No worker connects to the driver worker (it connects to them), so it needs no address of this machine.
            return "127.0.0.1:0" if worker.startswith(f"{DRIVER}-") else f"{ANY_HOST}:0"
        self._incarnations[worker] = self._incarnations.get(worker, 0) + 1
        return self._local.listen(f"{worker}.{self._incarnations[worker]}", "")

    def spawner(self, on_line: Callable[[ChildLine], None], node: Node) -> Spawner:
        session = self._session
        slots = SlotSpawner(
            SlotJobs(session.lease), session.calls, self._spec, session.describe_capacity, on_line, node
        )
        return _WorkerSpawner(slots, DriverWorkerSpawner(self._security, node))

    async def __aenter__(self) -> Self:
        if self._master:
            self._access.security(self._master)  # before anything is started
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._session.close)
            self._master = await self._session.open(self._access.security)
            if self._on_this_machine:
                self._security = security = Security(Credentials.new("spark"))
                self._local = ProcessBackend("", security.credentials)
            else:
                self._security = security = self._access.security("")
                self._local = ProcessBackend(
                    self._access.listen, security.credentials, security.tls, insecure=security.insecure
                )
            await stack.enter_async_context(self._local)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    def abandon(self) -> None:
        """The process ends now: remove files. Spark's JVM ends when its standard input is closed."""
        self._local.abandon()

    @property
    def _on_this_machine(self) -> bool:
        """Whether all executors are on this machine."""
        return not self._master or is_local(self._master)

    def _spec(self, slot: str, worker: str, command: Sequence[str]) -> LaunchSpec:
        credentials = self._token_file() if self._on_this_machine else self._access.credentials
        parent = command[command.index("--connect") + 1]
        return LaunchSpec(
            slot,
            worker,
            parent,
            PARENT,
            tuple(command),
            version(),
            credentials=credentials,
            is_file=self._on_this_machine,
            insecure=self._security.insecure,
            host=self._access.host,
            folder=os.getcwd() if self._on_this_machine else "",
        )

    def _token_file(self) -> str:
        """The path of a file with the token, readable by this user only."""
        file = self._local.folder / "credentials"
        if not file.exists():
            assert self._security.credentials is not None  # noqa: S101 - made when the worker backend was entered
            write_file(file, self._security.credentials.to_bytes())
        return str(file)


class _WorkerSpawner:
    """The spawner of both kinds of workers."""

    def __init__(self, slots: SlotSpawner, driver: DriverWorkerSpawner) -> None:
        self._slots = slots
        self._driver = driver

    async def spawn(self, name: str, arguments: Sequence[str], *, stdin: bytes = b"") -> Child:
        spawner: Spawner = self._driver if name.startswith(f"{DRIVER}-") else self._slots
        return await spawner.spawn(name, arguments, stdin=stdin)
