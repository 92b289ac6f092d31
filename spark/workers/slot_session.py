"""Slot session: the Spark session of the slots: made, checked, given the code of the topology, and released."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from ...runtime import LIVENESS
from ..calls import SparkCalls
from ..errors import SparkUnavailableError, SparkWorkersError
from ..resources import resources_for
from ..sessions import SessionSource, sessions
from .code import zip_package

log = logging.getLogger("aiostorm.spark")

END_S: Final = LIVENESS.slots_stop_timeout_s
"""The time the session has to end."""

GIVEN_UP_S: Final = 0.5
"""The same for a session that is still being made."""


class SlotSession:
    """The session of `slots` slots. `py_files` and `ship`: as in SparkWorkers."""

    def __init__(self, spark: Any, slots: int, py_files: Iterable[str], *, ship: bool) -> None:
        self.lease = sessions.lease(_source(spark))
        self.calls = SparkCalls(name="spark-workers")
        self._slots = slots
        self._py_files = [str(Path(file).absolute()) for file in py_files]
        self._ship = ship
        self._is_open = False

    async def open(self, check: Callable[[str], object]) -> str:
        """Make the session, and check whether it is suitable. `check` is called with its master, which is returned."""
        master = await self.calls.run(self._begin, check)
        self._is_open = True
        return master

    async def close(self) -> None:
        try:
            async with asyncio.timeout(END_S if self._is_open else GIVEN_UP_S):
                await self.calls.run(self.lease.release)
        except TimeoutError:
            log.warning("the Spark session has not ended in time: it will end with this process")
        finally:
            self.calls.close()

    def describe_capacity(self) -> str:
        """Spark's executors and cores, and what to change. Blocking."""
        context = self.lease.get().sparkContext
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

    def _begin(self, check: Callable[[str], object]) -> str:
        session = self.lease.get()
        try:
            context = session.sparkContext
        except Exception as error:
            raise SparkUnavailableError(
                "workers on executors need a Spark session in this process; over Spark Connect there is none: give the "
                "address of the master itself"
            ) from error
        master = str(context.master)
        check(master)
        conf = context.getConf()
        found = resources_for(self._slots, master, context.defaultParallelism, conf.get)
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
        log.info("Spark %s on %s: %d slots", context.version, master, self._slots)
        return master


def _source(spark: Any) -> SessionSource:
    """The source of the session; a given session becomes a function that returns it."""
    if hasattr(spark, "createDataFrame"):
        return lambda: spark
    source: SessionSource = spark
    return source
