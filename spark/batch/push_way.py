"""Push way: partitions that executors send themselves, while a Spark job runs in a thread.

    job: mapInArrow(pusher).collect() ─► executors ─ ─ ─► accept ─► claimed? ─► answer ─► chunks … End ─► confirm
                                                            └ `ahead` streams, each with one executor after another

1. A partition of another task, or one that is done or being read, is refused.
2. An executor's task ends well only after the end of its partition is recorded here (`confirm`).
3. Where the end of the input is not certain, partitions end when the job has ended well: PySpark does not report the
   failure of an earlier step, and the input of a `mapInArrow` function may end too early.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from .push_server import PushedReader, PushServer
from .pushing import BUSY, NOT_WANTED, WANTED
from .readers import End, Piece
from .ways import close_opened

if TYPE_CHECKING:
    from ..calls import SparkCalls
    from .capacity import Capacity
    from .partitions import Partitions

log = logging.getLogger("aiostorm.spark")


class PushWay:
    """Partitions from executors. `job` runs the job (blocking; returns the partitions that ran), `cancel` cancels it.

    `certain`: a partition that was read to its end is complete.
    """

    def __init__(
        self,
        machine: Partitions,
        calls: SparkCalls,
        capacity: Capacity,
        server: PushServer,
        job: Callable[[PushServer], Sequence[int]],
        cancel: Callable[[], None],
        *,
        schema: Any,
        ahead: int,
        certain: bool,
    ) -> None:
        self._machine = machine
        self._calls = calls
        self._capacity = capacity
        self._server = server
        self._job = job
        self._cancel = cancel
        self._schema = schema
        self._ahead = ahead
        self._certain = certain
        self._unconfirmed: list[int] = []

    def streams(self) -> Sequence[AsyncGenerator[Piece | End, None]]:
        return (self._run_job(), *(self._pieces() for _ in range(self._ahead)))

    def cancel(self) -> None:
        self._server.close()
        self._cancel()

    async def _run_job(self) -> AsyncGenerator[Piece | End, None]:
        """Run the job, and end the partitions that are complete only now."""
        try:
            partitions = await self._calls.run(self._server.during, self._job)
        except Exception as error:
            if not self._machine.is_read:
                raise
            log.debug("the job failed after all of its partitions were read: %r", error)
            return
        self._machine.ran(partitions)
        for partition in self._unconfirmed:
            yield End(partition)

    async def _pieces(self) -> AsyncGenerator[Piece | End, None]:
        """Receive from one executor after another, until the job has ended."""
        while True:
            opening = self._calls.begin(self._accept)
            try:
                try:
                    reader = await self._calls.result(opening)
                except EOFError:
                    return
                if self._machine.claim(reader.partition):
                    await self._calls.run(reader.answer, WANTED, self._machine.acked_of(reader.partition))
                    async with aclosing(self._received(reader)) as items:
                        async for item in items:
                            yield item
                else:
                    is_busy = self._machine.is_claimed(reader.partition)
                    await self._calls.run(reader.answer, BUSY if is_busy else NOT_WANTED)
            finally:
                opening.add_done_callback(close_opened)

    async def _received(self, reader: PushedReader) -> AsyncGenerator[Piece | End, None]:
        more = True
        while more:
            async with self._capacity.reserve(1) as most:
                items, more = await self._calls.run(reader.read, most)
                for item in items:
                    if isinstance(item, Piece) or reader.is_whole or self._certain:
                        yield item
                    else:
                        self._unconfirmed.append(item.partition)
        await self._calls.run(reader.confirm)

    def _accept(self) -> PushedReader:
        return PushedReader(*self._server.accept(), self._schema)
