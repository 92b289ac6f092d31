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

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from ...cluster import DRIVER, PARENT, ProcessBackend
from ...runtime import LIVENESS, Child, ChildLine, Spawner, write_file
from ...transport import Credentials, ExposedError, Network, Node, Security
from ..calls import SparkCalls
from ..errors import SparkUnavailableError, SparkWorkersError
from ..resources import is_local, resources_for
from ..sessions import SessionSource, sessions
from .code import zip_package
from .driver_worker import DriverWorkerSpawner
from .jobs import SlotJobs
from .launch_spec import ANY_HOST, LaunchSpec
from .slot import version
from .spawner import SlotSpawner

log = logging.getLogger("aiostorm.spark")

START_LIMIT_S: Final = LIVENESS.slot_start_timeout_s
"""The time from the request of a worker to its first message: a core must be free, Python must start."""

END_S: Final = LIVENESS.slots_stop_timeout_s
"""The time the session has to end."""

GIVEN_UP_S: Final = 0.5
"""The same for a session that is still being made."""


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
        self._listen = listen
        self._credentials = credentials
        self._insecure = insecure
        self._host = host
        self._py_files = [str(Path(file).absolute()) for file in py_files]
        self._ship = ship
        self._start_limit_s = start_limit_s
        self._arguments = tuple(arguments)
        self._lease = sessions.lease(_source(spark))
        self._calls = SparkCalls(name="spark-workers")
        self._jobs = SlotJobs(self._lease)
        self._began = False
        self._known = spark.get("spark.master", "") if isinstance(spark, Mapping) else ""
        self._is_local = True
        self._security = Security()
        self._local: ProcessBackend
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
        return sys.path if self._is_local else ()

    @property
    def arguments(self) -> Sequence[str]:
        """More arguments of workers; each kind of worker gets its secrets in another way."""
        return self._arguments

    @property
    def secret(self) -> bytes:
        return b""

    def listen(self, worker: str, before: str) -> str:
        """The address on which a worker listens; after a restart it may be on another machine."""
        if not self._is_local:
            # No worker connects to the driver worker (it connects to them), so it needs no address of this machine.
            return "127.0.0.1:0" if worker.startswith(f"{DRIVER}-") else f"{ANY_HOST}:0"
        self._incarnations[worker] = self._incarnations.get(worker, 0) + 1
        return self._local.listen(f"{worker}.{self._incarnations[worker]}", "")

    def spawner(self, on_line: Callable[[ChildLine], None], node: Node) -> Spawner:
        slots = SlotSpawner(self._jobs, self._calls, self._spec, self._describe_capacity, on_line, node)
        return _WorkerSpawner(slots, DriverWorkerSpawner(self._security, node))

    async def __aenter__(self) -> Self:
        if self._known:
            self._check_exposed(self._known)  # before anything is started
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._release)
            await self._calls.run(self._begin)
            self._began = True
            if self._is_local:
                self._security = Security(Credentials.new("spark"))
                self._local = ProcessBackend("", self._security.credentials)
            else:
                self._security = self._check_exposed("")
                security = self._security
                self._local = ProcessBackend(
                    self._listen, security.credentials, security.tls, insecure=security.insecure
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
        if hasattr(self, "_home"):
            self._local.abandon()

    # -- in a thread -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Make the session, and check whether it is suitable."""
        session = self._lease.get()
        try:
            context = session.sparkContext
        except Exception as error:
            raise SparkUnavailableError(
                "workers on executors need a Spark session in this process; over Spark Connect there is none: give the "
                "address of the master itself"
            ) from error
        self._is_local = is_local(context.master)
        if not self._is_local:
            self._check_exposed(context.master)
        conf = context.getConf()
        found = resources_for(self._slots, context.master, context.defaultParallelism, conf.get)
        for warning in found.warnings:
            log.warning("%s", warning)
        if found.problems:
            raise SparkWorkersError("; ".join(found.problems))
        for file in self._py_files:
            if not Path(file).is_file():
                raise SparkWorkersError(f"there is no file {file} to give to the executors (py_files)")
            context.addPyFile(file)
        if self._ship:
            context.addPyFile(str(zip_package(Path(context._temp_dir))))
        log.info("Spark %s on %s: %d slots", context.version, context.master, self._slots)

    def _describe_capacity(self) -> str:
        """Spark's executors and cores, and what to change."""
        context = self._lease.get().sparkContext
        store = context._jsc.sc().statusStore().executorList(True)
        executors = [store.apply(i) for i in range(store.size())]
        if not context.master.startswith("local[") and context.master != "local":
            executors = [executor for executor in executors if executor.id() != "driver"]
        cores = sum(executor.totalCores() for executor in executors)
        busy = sum(executor.activeTasks() for executor in executors)
        return (
            f"Spark has {len(executors)} executors with {cores} cores, {busy} of them busy, and {self._slots} slots "
            "are wanted; give it more (spark.executor.instances, spark.cores.max, machines), or ask for fewer slots"
        )

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(END_S if self._began else GIVEN_UP_S):
                await self._calls.run(self._lease.release)
        except TimeoutError:
            log.warning("the Spark session has not ended in time: it will end with this process")
        finally:
            self._calls.close()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _check_exposed(self, master: str) -> Security:
        """The security for executors of other machines. ExposedError if it is missing, or the error of the files."""
        if master and is_local(master):
            return Security()
        what = f"the executors of {master or 'this Spark'} may be on other machines"
        if not self._listen:
            raise ExposedError(f"{what}: say where they reach this process, listen=HOST:PORT (--listen)")
        if self._credentials:
            found = Security.from_directory(self._credentials)
            return Security(found.credentials, found.tls, self._insecure)
        if self._insecure:
            return Security(insecure=True)
        raise ExposedError(
            f"{what}: they need TLS and a token. Give credentials=DIR (--credentials), a directory that `aiostorm "
            "certs node` has made, in the same place on every machine (or insecure, in a private network)"
        )

    def _spec(self, slot: str, worker: str, command: Sequence[str]) -> LaunchSpec:
        credentials = self._token_file() if self._is_local else self._credentials
        parent = command[command.index("--connect") + 1]
        return LaunchSpec(
            slot,
            worker,
            parent,
            PARENT,
            tuple(command),
            version(),
            credentials=credentials,
            is_file=self._is_local,
            insecure=self._security.insecure,
            host=self._host,
            folder=os.getcwd() if self._is_local else "",
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


def _source(spark: Any) -> SessionSource:
    """The source of the session; a given session becomes a function that returns it."""
    if hasattr(spark, "createDataFrame"):
        return lambda: spark
    source: SessionSource = spark
    return source
