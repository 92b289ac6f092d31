"""Executors: the ways a bolt's rows are executed. The task hands over slices of segments; an executor runs user code.

    FunctionExecutor  @bolt functions: values in, rows out, no Tuple objects
    BasicExecutor     BasicBolt.execute(tup, collector)
    RichExecutor      Bolt.execute(tup)
    BatchExecutor     execute_batch(tuples[, collector])

1. `run` executes rows [start, stop) of a segment in order and returns how many failed. It suspends only where user code
   does, or where one row's results are so many that they must find room first.
2. In a basic or function bolt a row is acked when it has been executed and failed when it raises; the others go on.
3. What a function had emitted for a row that failed is not sent if it is still in the buffer. What a basic bolt had
   emitted is: its message may be replayed anyway.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import islice, repeat, starmap
from operator import length_hint
from typing import Any, Final, cast

from ..topology import (
    DEFAULT_STREAM,
    BasicBolt,
    Bolt,
    EmitError,
    FunctionBolt,
    Segment,
    Tuple,
    TupleBatch,
)
from .collectors import BasicBatchCollector, BasicTaskCollector, BoltTaskCollector, branch_of
from .drive import drive, finish
from .emitter import Emitter
from .hooks import HookCalls
from .outbox import Outbox

RESULTS_CHUNK: Final = 4096
"""A generator's results are taken this many at a time: after each chunk they are sent and find room."""

Fail = Callable[[Segment, int, BaseException], None]


class Executor(ABC):
    """Runs a bolt's user code over slices of segments."""

    hold_open = False
    """True: the bolt acks by itself. False: the task counts executed rows as done."""

    @abstractmethod
    async def run(self, segment: Segment, start: int, stop: int) -> int:
        """Execute rows [start, stop); how many of them failed."""

    async def tick(self, segment: Segment) -> None:
        """Execute a tick tuple."""
        await self.run(segment, 0, 1)


class FunctionExecutor(Executor):
    """Function bolts: the lean path. A row in is the arguments; a result is a value, or a tuple of them."""

    def __init__(self, bolt: FunctionBolt, emitter: Emitter, outbox: Outbox, fail: Fail) -> None:
        self._fn = bolt.fn
        self._emitter = emitter
        self._outbox = outbox
        self._fail = fail
        self._stream = emitter.streams.get(DEFAULT_STREAM)
        self._single = self._stream is not None and self._stream.arity == 1
        self._generates = bolt.style == "generator"
        self._async = bolt.is_async
        self.may_wait = not bolt.blocking

    async def run(self, segment: Segment, start: int, stop: int) -> int:
        """See Executor."""
        if self._stream is None and not self._generates and not self._async:
            return self._run_sink(segment, start, stop)
        marks: Any = segment.lineage.pairs if segment.lineage is not None else segment.indices
        if marks is None:
            marks = repeat(None, stop - start) if start == 0 else [None] * stop
        elif start or stop < len(segment.items):
            marks = marks[start:stop]
        if self._async:
            return await self._run_async(segment, start, stop, marks)
        if self._generates:
            return await self._run_generator(segment, start, stop, marks)
        return self._run_function(segment, start, stop, marks)

    def _calls(self, segment: Segment, start: int, stop: int) -> tuple[Iterator[Any], Iterator[Any]]:
        """Items, and what the function returns for each: unpacked and called in C.

        A call that raises ends a loop over the results; both iterators then stand behind its item.
        """
        left = iter(segment.items if stop - start == len(segment.items) else segment.items[start:stop])
        return left, map(self._fn, left) if segment.origin.bare else starmap(self._fn, left)

    def _run_function(self, segment: Segment, start: int, stop: int, marks: Iterable[Any]) -> int:
        """A plain function: one result an item, or none."""
        failed = 0
        single = self._single
        out, out_marks = self._buffer(segment)
        left, results = self._calls(segment, start, stop)
        marked = zip(marks, results)  # noqa: B905 - the hot path; the mark first, so that it goes with an item that raises
        while True:
            try:
                for mark, result in marked:
                    if result is not None:
                        out.append(result if single else self._item(result))
                        out_marks.append(mark)
                return failed
            except Exception as error:
                failed += 1
                self._fail(segment, stop - length_hint(left) - 1, error)

    async def _run_generator(self, segment: Segment, start: int, stop: int, marks: Iterable[Any]) -> int:
        failed = 0
        fn, single = self._fn, self._single
        bare = segment.origin.bare
        items = segment.items if stop - start == len(segment.items) else segment.items[start:stop]
        out, out_marks = self._buffer(segment)
        made_before = len(out)
        for offset, (item, mark) in enumerate(zip(items, marks), start):  # noqa: B905 - the hot path; both are cut alike
            try:
                result = fn(item) if bare else fn(*item)
                results = islice(result, RESULTS_CHUNK)
                out.extend(results if single else map(self._item, results))
            except Exception as error:
                del out[made_before:]
                failed += 1
                self._fail(segment, offset, error)
                continue
            made = len(out) - made_before
            if made:
                out_marks.extend(repeat(mark, made))
                made_before += made
                if made == RESULTS_CHUNK:
                    failed += await self._rest(segment, offset, cast(Iterator[Any], result), mark)
                    out, out_marks = self._buffer(segment)
                    made_before = len(out)
        return failed

    def _run_sink(self, segment: Segment, start: int, stop: int) -> int:
        """A plain function that emits nothing: no marks, no buffers."""
        failed = 0
        left, results = self._calls(segment, start, stop)
        while True:
            try:
                for result in results:
                    if result is not None:
                        self._item(result)  # raises: there is nowhere to emit it
                return failed
            except Exception as error:
                failed += 1
                self._fail(segment, stop - length_hint(left) - 1, error)

    async def _run_async(self, segment: Segment, start: int, stop: int, marks: Iterable[Any]) -> int:
        failed = 0
        for offset, mark in zip(range(start, stop), marks):  # noqa: B905
            try:
                result = self._fn(*segment.row(offset))
                await drive(self._collect(result, segment, mark), self._emitter.flush)
            except Exception as error:
                failed += 1
                self._fail(segment, offset, error)
        return failed

    async def tick(self, segment: Segment) -> None:
        """A function knows no ticks."""

    def _buffer(self, segment: Segment) -> tuple[list[Any], list[Any]]:
        if self._stream is None:
            return [], []
        return branch_of(self._emitter, segment).buffer(self._stream)

    async def _rest(self, segment: Segment, offset: int, results: Iterator[Any], mark: Any) -> int:
        """The results of one row beyond the first chunk, with room between chunks. 1 if it failed, else 0."""
        try:
            while True:
                await self._find_room()
                out, out_marks = self._buffer(segment)
                before = len(out)
                out.extend(map(self._item, islice(results, RESULTS_CHUNK)))
                out_marks.extend(repeat(mark, len(out) - before))
                if len(out) - before < RESULTS_CHUNK:
                    return 0
        except Exception as error:
            out, out_marks = self._buffer(segment)
            del out[len(out_marks) :]
            self._fail(segment, offset, error)
            return 1

    async def _find_room(self) -> None:
        if self.may_wait:
            self._emitter.flush()
            await self._outbox.room()

    async def _collect(self, result: Any, segment: Segment, mark: Any) -> None:
        """Await an async function's results. Each suspension flushes, so the buffer is looked up for every result."""
        if not self._generates:
            value = await result
            if value is not None:
                self._append(segment, value, mark)
            return
        results: AsyncIterator[Any] = result
        async for value in results:
            if self._append(segment, value, mark) >= RESULTS_CHUNK:
                await self._find_room()

    def _append(self, segment: Segment, value: Any, mark: Any) -> int:
        item = self._item(value)
        out, out_marks = self._buffer(segment)
        out.append(item)
        out_marks.append(mark)
        return len(out)

    def _item(self, value: Any) -> Any:
        """A result as it travels: the value itself with one declared field, else a checked row."""
        if self._single:
            return value
        if self._stream is None:
            raise EmitError(f"{self._emitter.name} returned {value!r:.200} but declares no outputs: @bolt(outputs=…)")
        return self._emitter.row(value, DEFAULT_STREAM)[1]  # several fields: the row


class BasicExecutor(Executor):
    """Basic bolts, one Tuple at a time; with hooks, if there are any."""

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

    async def run(self, segment: Segment, start: int, stop: int) -> int:
        """See Executor."""
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
                except Exception as error:
                    failed += 1
                    self._fail(segment, offset, error)
            return failed
        finally:
            collector.leave()

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
            except Exception as error:
                failed += 1
                acked = False
                self._fail(segment, offset, error)
            hooks.executed(tup, begun_s, acked=acked)
        return failed

    async def tick(self, segment: Segment) -> None:
        """See Executor."""
        if self._on_tick is None:
            await self.run(segment, 0, 1)
            return
        self._collector.enter(segment)
        try:
            await finish(self._on_tick(self._collector), self._collector.suspend)
        except Exception as error:
            self._fail(segment, 0, error)
        finally:
            self._collector.leave()


class RichExecutor(Executor):
    """Rich bolts: they ack and fail by themselves; what `execute` raises is the guardian's to decide."""

    hold_open = True

    def __init__(self, bolt: Bolt, suspend: Callable[[], None], hooks: HookCalls | None = None) -> None:
        self._execute = bolt.execute
        self._suspend = suspend
        self._hooks = hooks
        self._on_tick: Callable[[], Any] | None = getattr(bolt, "on_tick", None)

    async def run(self, segment: Segment, start: int, stop: int) -> int:
        """See Executor; raises RowFailedError."""
        execute, hooks = self._execute, self._hooks
        for offset in range(start, stop):
            tup = segment.tuple_at(offset)
            begun_s = hooks.begin() if hooks is not None else 0.0
            try:
                result = execute(tup)
                if result is not None:
                    await finish(result, self._suspend)
            except Exception as error:
                raise RowFailedError(offset) from error
            if hooks is not None:
                hooks.executed(tup, begun_s)
        return 0

    async def tick(self, segment: Segment) -> None:
        """See Executor; raises what the bolt raises."""
        if self._on_tick is None:
            await self.run(segment, 0, 1)
        else:
            await finish(self._on_tick(), self._suspend)


class BatchExecutor(Executor):
    """Bolts with `execute_batch`. Basic: the whole batch is acked, or failed if it raises. Rich: acks by itself."""

    def __init__(
        self,
        bolt: BasicBolt | Bolt,
        collector: BasicBatchCollector | BoltTaskCollector,
        suspend: Callable[[], None],
        fail: Fail,
    ) -> None:
        self._execute: Callable[..., Any] = bolt.execute_batch  # type: ignore[union-attr]
        # A rich bolt got its collector in `prepare` and may leave it out here.
        takes = len(inspect.signature(self._execute).parameters)
        self._arguments: tuple[Any, ...] = (collector,) if takes > 1 else ()
        self._basic = collector if isinstance(collector, BasicBatchCollector) else None
        self._suspend = suspend
        self._fail = fail
        self._on_tick: Callable[..., Any] | None = getattr(bolt, "on_tick", None)
        self.hold_open = isinstance(bolt, Bolt)

    async def run(self, segment: Segment, start: int, stop: int) -> int:
        """A slice alone; the task prefers `run_batch`."""
        return await self.run_batch([segment])

    async def run_batch(self, segments: list[Segment]) -> int:
        """Execute whole segments as one batch; how many rows failed. A rich bolt's error is raised."""
        try:
            await self._call(self._execute, segments, TupleBatch(segments), *self._arguments)
        except Exception as error:
            if self.hold_open:
                raise RowFailedError(-1) from error
            failed = 0
            for segment in segments:
                for offset in range(len(segment.items)):
                    self._fail(segment, offset, error)
                    failed += 1
            return failed
        return 0

    async def tick(self, segment: Segment) -> None:
        """See Executor."""
        if self._on_tick is None:
            await self.run_batch([segment])
        else:
            takes = len(inspect.signature(self._on_tick).parameters)
            await self._call(self._on_tick, [segment], *self._arguments[:takes])

    async def _call(self, method: Callable[..., Any], segments: list[Segment], *arguments: Any) -> None:
        if self._basic is not None:
            self._basic.enter(segments)
        try:
            result = method(*arguments)
            if result is not None:
                await finish(result, self._suspend)
        finally:
            if self._basic is not None:
                self._basic.leave()


class RowFailedError(Exception):
    """A rich bolt raised: at this offset of the segment (-1: the batch); `__cause__` is what it raised."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def function_as_execute(bolt: FunctionBolt, *, single: bool) -> Callable[[Tuple, BasicTaskCollector], Any]:
    """A function bolt with Tuple objects, for a task with hooks: `execute(tup, collector)`."""

    async def execute(tup: Tuple, collector: BasicTaskCollector) -> None:
        result = bolt.fn(*tup.values)
        if bolt.style != "generator":
            value = await result if bolt.is_async else result
            if value is not None:
                collector.emit((value,) if single else value)
            return
        made = 0
        async for value in result if bolt.is_async else _each(result):
            collector.emit((value,) if single else value)
            made += 1
            if made % RESULTS_CHUNK == 0 and not bolt.blocking:
                await collector.drain()

    return execute


async def _each(values: Iterable[Any]) -> AsyncIterator[Any]:
    for value in values:
        yield value
