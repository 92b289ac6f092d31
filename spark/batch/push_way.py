"""Push way: partitions that executors send themselves, while a Spark job runs in a thread.

    job: mapInArrow(pusher).collect() ─► executors ─ ─ ─► accept ─► claimed? ─► want ─► chunks … End ─► confirm
                                                            └ `ahead` streams, each with one executor after another

1. A partition of another task, or one that is done or being read, is refused.
2. An executor's task ends well only after the end of its partition is recorded here (`confirm`).
3. Where the end of the input is not certain, partitions end when the job has ended well: PySpark does not report the
   failure of an earlier step, and the input of a `mapInArrow` function may end too early.
4. After an error partitions are refused until the job has failed, too: Spark may retry a task before, and the job has
   the reason.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .readers import End, Piece
from .ways import Way

if TYPE_CHECKING:
    from ..calls import SparkCalls
    from .capacity import Capacity
    from .partitions import Partitions
    from .push_server import PushedPartition, PushServer
    from .pushing import PushLocation

log = logging.getLogger("aiostorm.spark")

_CUT_OFF: Final = re.compile("the topology was not available for|was cut off|from another attempt")

REASON_WAIT_S: Final = 5.0
"""How long to wait for the job's error after a connection broke."""


@dataclass(eq=False)
class PushWay(Way):
    """Partitions from executors. `job` runs the job (blocking; returns the partitions that ran).

    `certain`: a partition that was read to its end is complete.
    """

    machine: Partitions
    calls: SparkCalls
    capacity: Capacity
    server: PushServer
    job: Callable[[PushLocation], Sequence[int]]
    cancel_jobs: Callable[[], None]
    schema: Any
    ahead: int
    certain: bool
    _unconfirmed: list[int] = field(default_factory=list)
    _running: asyncio.Future[Sequence[int]] | None = None

    def streams(self) -> Sequence[AsyncGenerator[Piece | End, None]]:
        return (self._run_job(), *(self._pieces() for _ in range(self.ahead)))

    def cancel(self) -> None:
        self.cancel_jobs()

    async def reason(self, error: Exception) -> Exception:
        self.server.refuse()
        if not is_cut_off(error) or self._running is None:
            return error
        await asyncio.wait((self._running,), timeout=REASON_WAIT_S)
        job = self._running.exception() if self._running.done() else None
        return job if isinstance(job, Exception) else error

    async def close(self) -> None:
        await self.server.close()

    async def _run_job(self) -> AsyncGenerator[Piece | End, None]:
        """Run the job, and end the partitions that are complete only now."""
        where = await self.server.open()
        self._running = self.calls.begin(self.job, where)
        try:
            partitions = await self.calls.result(self._running)
        except Exception as error:
            if not self.machine.is_read:
                raise
            log.debug("the job failed after all of its partitions were read: %r", error)
            return
        finally:
            self.server.refuse()
        self.machine.ran(partitions)
        for partition in self._unconfirmed:
            yield End(partition)

    async def _pieces(self) -> AsyncGenerator[Piece | End, None]:
        """Receive from one executor after another, until the job has ended."""
        while (pushed := await self.server.accept()) is not None:
            try:
                if self.machine.claim(pushed.partition):
                    pushed.want()
                    async with aclosing(self._received(pushed)) as items:
                        async for item in items:
                            yield item
                elif self.machine.is_claimed(pushed.partition):
                    pushed.refuse_attempt()
            finally:
                pushed.close()

    async def _received(self, pushed: PushedPartition) -> AsyncGenerator[Piece | End, None]:
        def is_acked(number: int) -> bool:
            return self.machine.is_acked(pushed.partition, number)

        more = True
        while more:
            async with self.capacity.reserve(1):
                item = await pushed.next(self.schema, is_acked)
                more = isinstance(item, Piece)
                if more or pushed.is_whole or self.certain:
                    yield item
                else:
                    self._unconfirmed.append(item.partition)
        pushed.confirm()


def is_cut_off(error: BaseException) -> bool:
    """Whether an executor was lost: the job may have the reason."""
    return isinstance(error, EOFError | ConnectionError) or _CUT_OFF.search(str(error)) is not None
