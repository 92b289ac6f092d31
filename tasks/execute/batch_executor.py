"""Batch executor: `execute_batch(tuples[, collector])` of a basic or rich bolt."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...topology import Bolt, Segment, TupleBatch
from ..drive import USER_ERRORS, finish, user_error
from ..emit.collectors import BasicBatchCollector, BoltTaskCollector
from .base import Collectors, Executor, FailSegment, RowFailedError, Tools

if TYPE_CHECKING:
    from ...topology import Component, Function, RecordBatch, Unchecked


class BatchExecutor(Executor):
    """Bolts with `execute_batch`. Basic: the whole batch is acked, or failed if it raises. Rich: acks by itself."""

    method = "execute_batch"

    @classmethod
    def for_component(cls, component: Component, tools: Tools, collectors: Collectors) -> Executor | None:
        if not callable(getattr(component, cls.method, None)):
            return None
        if isinstance(component, Bolt):
            return cls(component, collectors.rich, tools.suspend, tools.fail_segment)
        collector = BasicBatchCollector(tools.emitter, tools.outbox, tools.report)
        collectors.all.append(collector)
        return cls(component, collector, tools.suspend, tools.fail_segment)

    def __init__(
        self,
        bolt: Component,
        collector: BasicBatchCollector | BoltTaskCollector,
        suspend: Callable[[], None],
        fail: FailSegment,
    ) -> None:
        self._execute: Function = getattr(bolt, self.method)
        self.plain = not inspect.iscoroutinefunction(self._execute)
        # A rich bolt got its collector in `prepare` and may omit the parameter.
        takes = len(inspect.signature(self._execute).parameters)
        self._arguments: tuple[BasicBatchCollector | BoltTaskCollector, ...] = (collector,) if takes > 1 else ()
        self._basic = collector if isinstance(collector, BasicBatchCollector) else None
        self._suspend = suspend
        self._fail = fail
        self._on_tick: Function | None = getattr(bolt, "on_tick", None)
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
        self, method: Function, segments: list[Segment], *arguments: Unchecked, given: RecordBatch | None = None
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
