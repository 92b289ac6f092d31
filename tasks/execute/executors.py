"""Executors: the ways to execute a bolt's rows. The task passes slices of segments; an executor runs user code.

    FunctionExecutor  @bolt functions: values in, rows out, no Tuple objects
    BasicExecutor     BasicBolt.execute(tup, collector)
    RichExecutor      Bolt.execute(tup)
    BatchExecutor     execute_batch(tuples[, collector])
    ArrowExecutor     execute_arrow(batch, collector)      (arrow_executor.py)

1. `run` executes rows [start, stop) of a segment in order and returns how many failed. It suspends only where user code
   does, or where the results of one row are so many that they must wait for capacity.
2. In a basic or function bolt a row is acked when it has been executed and failed when it raises; the others continue.
3. What a function emitted for a row that failed is not sent if it is still in the buffer. What a basic bolt emitted is
   sent: its message may be replayed anyway.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any

from ...topology import BasicBolt, Bolt, Segment, Tuple, TupleBatch
from ..drive import USER_ERRORS, finish, user_error
from ..emit.collectors import BasicBatchCollector, BasicTaskCollector, BoltTaskCollector
from ..hooks import HookCalls

Fail = Callable[[Segment, int, BaseException], None]
FailSegment = Callable[[Segment, BaseException | str | None], None]


class Executor(ABC):
    """Runs a bolt's user code over slices of segments."""

    hold_open = False
    """True: the bolt acks by itself. False: the task counts executed rows as done."""
    plain = True
    """User code is not `async def`: a turn seldom waits, so it need not start in the asyncio task."""
    _hooks: HookCalls | None = None

    @abstractmethod
    def run(self, segment: Segment, start: int, stop: int) -> int | Awaitable[int]:
        """Execute rows [start, stop); returns how many of them failed, or an awaitable of that."""

    def reached(self) -> int | None:
        """User code waits in the middle of `run`: rows before this one are executed, unless the bolt acks them itself.

        None: marks of rows may be in use (see Emitter), so these rows stay in their trees.
        """
        return None

    def refresh(self) -> None:
        """The rows in hand have left their trees, and emit buffers were sealed: look both up again."""
        return

    def use_hooks(self, hooks: HookCalls | None) -> None:
        """Call these from the next `run` on. (Hooks of batches are called by the task.)"""
        self._hooks = hooks

    @abstractmethod
    async def tick(self, segment: Segment) -> None:
        """Execute a tick tuple."""


class BasicExecutor(Executor):
    """Basic bolts, one Tuple at a time, with hooks if there are any."""

    def __init__(
        self,
        execute: Callable[[Tuple, BasicTaskCollector], Any],
        collector: BasicTaskCollector,
        fail: Fail,
        on_tick: Callable[[BasicTaskCollector], Any] | None,
        hooks: HookCalls | None = None,
    ) -> None:
        self._execute = execute
        self._collector = collector
        self._fail = fail
        self._on_tick = on_tick
        self._hooks = hooks
        self.plain = not inspect.iscoroutinefunction(execute)

    async def run(self, segment: Segment, start: int, stop: int) -> int:
        collector = self._collector
        collector.enter(segment)
        try:
            if self._hooks is not None:
                return await self._run_with_hooks(self._hooks, segment, start, stop)
            failed = 0
            execute = self._execute
            bare = segment.origin.bare
            for offset, item in enumerate(islice(segment.items, start, stop), start):
                collector.offset = offset
                try:
                    result = execute(Tuple((item,) if bare else item, segment, offset), collector)
                    if result is not None:
                        await finish(result, collector.suspend)
                except USER_ERRORS as error:
                    failed += 1
                    self._fail(segment, offset, user_error(error))
            return failed
        finally:
            collector.leave()

    def reached(self) -> int | None:
        return self._collector.offset

    def refresh(self) -> None:
        self._collector.refresh()

    async def _run_with_hooks(self, hooks: HookCalls, segment: Segment, start: int, stop: int) -> int:
        failed = 0
        collector = self._collector
        for offset in range(start, stop):
            tup = segment.tuple_at(offset)
            collector.offset = offset
            begun_s = hooks.begin()
            acked = True
            try:
                await finish(self._execute(tup, collector), collector.suspend)
            except USER_ERRORS as error:
                failed += 1
                acked = False
                self._fail(segment, offset, user_error(error))
            hooks.executed(tup, begun_s, acked=acked)
        return failed

    async def tick(self, segment: Segment) -> None:
        if self._on_tick is None:
            await self.run(segment, 0, 1)
            return
        self._collector.enter(segment)
        try:
            await finish(self._on_tick(self._collector), self._collector.suspend)
        except USER_ERRORS as error:
            self._fail(segment, 0, user_error(error))
        finally:
            self._collector.leave()


class RichExecutor(Executor):
    """Rich bolts ack and fail by themselves; what `execute` raises is for the guardian to decide."""

    hold_open = True

    def __init__(self, bolt: Bolt, suspend: Callable[[], None], hooks: HookCalls | None = None) -> None:
        self._execute = bolt.execute
        self.plain = not inspect.iscoroutinefunction(bolt.execute)
        self._suspend = suspend
        self._hooks = hooks
        self._on_tick: Callable[[], Any] | None = getattr(bolt, "on_tick", None)

    async def run(self, segment: Segment, start: int, stop: int) -> int:
        execute, hooks = self._execute, self._hooks
        for offset in range(start, stop):
            tup = segment.tuple_at(offset)
            begun_s = hooks.begin() if hooks is not None else 0.0
            try:
                result = execute(tup)
                if result is not None:
                    await finish(result, self._suspend)
            except USER_ERRORS as error:
                raise RowFailedError(offset) from user_error(error)
            if hooks is not None:
                hooks.executed(tup, begun_s)
        return 0

    def reached(self) -> int | None:
        return 0

    async def tick(self, segment: Segment) -> None:
        if self._on_tick is None:
            await self.run(segment, 0, 1)
        else:
            await finish(self._on_tick(), self._suspend)


class BatchExecutor(Executor):
    """Bolts with `execute_batch`. Basic: the whole batch is acked, or failed if it raises. Rich: acks by itself."""

    method = "execute_batch"

    def __init__(
        self,
        bolt: BasicBolt | Bolt,
        collector: BasicBatchCollector | BoltTaskCollector,
        suspend: Callable[[], None],
        fail: FailSegment,
    ) -> None:
        self._execute: Callable[..., Any] = getattr(bolt, self.method)
        self.plain = not inspect.iscoroutinefunction(self._execute)
        # A rich bolt got its collector in `prepare` and may omit the parameter.
        takes = len(inspect.signature(self._execute).parameters)
        self._arguments: tuple[Any, ...] = (collector,) if takes > 1 else ()
        self._basic = collector if isinstance(collector, BasicBatchCollector) else None
        self._suspend = suspend
        self._fail = fail
        self._on_tick: Callable[..., Any] | None = getattr(bolt, "on_tick", None)
        self.hold_open = isinstance(bolt, Bolt)

    async def run(self, segment: Segment, start: int, stop: int) -> int:
        """A single slice; the task prefers `run_batch`."""
        return await self.run_batch([segment])

    async def run_batch(self, segments: list[Segment]) -> int:
        """Execute whole segments as one batch; returns how many rows failed. A rich bolt's error is raised."""
        try:
            await self._call(self._execute, segments, TupleBatch(segments), *self._arguments)
        except USER_ERRORS as error:
            if self.hold_open:
                raise RowFailedError(-1) from user_error(error)
            for segment in segments:
                self._fail(segment, user_error(error))
            return sum(len(segment.items) for segment in segments)
        return 0

    def reached(self) -> int | None:
        return 0

    def refresh(self) -> None:
        if self._basic is not None:
            self._basic.refresh()

    async def tick(self, segment: Segment) -> None:
        if self._on_tick is None:
            await self.run_batch([segment])
        else:
            takes = len(inspect.signature(self._on_tick).parameters)
            await self._call(self._on_tick, [segment], *self._arguments[:takes])

    async def _call(
        self, method: Callable[..., Any], segments: list[Segment], *arguments: Any, given: Any = None
    ) -> None:
        if self._basic is not None:
            self._basic.enter(segments, given)
        try:
            result = method(*arguments)
            if result is not None:
                await finish(result, self._suspend)
        finally:
            if self._basic is not None:
                self._basic.leave()


class RowFailedError(Exception):
    """A rich bolt raised, at this offset of the segment (-1: the batch); `__cause__` is the error."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def without_waiting(work: Any) -> int:
    """Run an executor to its end in a thread: its user code is not async, so it never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        return int(end.value or 0)
    work.close()
    raise RuntimeError("a blocking component suspended: its methods must be plain `def`")
