"""Arrow executor: `execute_arrow(batch, collector)` of a basic bolt, and `@bolt(arrow=True)` functions.

    segment of columns ─▶ its RecordBatch ───┐
    segment of rows ────▶ converted to one ──┴▶ execute_arrow ─▶ emit_arrow / emit, children of the whole segment

1. Each segment is one call: what it emits is anchored to all messages of that segment and to no other.
2. A call that raises fails the messages of its segment; the other segments continue.
3. Ticks go to `on_tick`. A bolt without it gets none, because a tick is no batch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING

from ...topology import BasicBolt, FunctionBolt, Segment, batch_of
from ..drive import USER_ERRORS, user_error
from .base import with_state
from .batch_executor import BatchExecutor

if TYPE_CHECKING:
    from ...topology import Component, Function, RecordBatch
    from ..emit.collectors import BasicBatchCollector
    from .base import Collectors, Executor, Tools


class ArrowExecutor(BatchExecutor):
    """Basic bolts that take columns."""

    method = "execute_arrow"

    @classmethod
    def for_component(cls, component: Component, tools: Tools, collectors: Collectors) -> Executor | None:
        if isinstance(component, FunctionBolt):
            if not component.arrow:
                return None
            component = ArrowFunction(component, with_state(component, tools.state))
        return super().for_component(component, tools, collectors) if isinstance(component, BasicBolt) else None

    async def run_batch(self, segments: list[Segment]) -> int:
        """Execute segments, one call each; returns how many rows failed."""
        failed = 0
        for segment in segments:
            try:
                batch = batch_of(segment.items, segment.origin)
                await self._call(self._execute, [segment], batch, *self._arguments, given=batch)
            except USER_ERRORS as error:
                failed += len(segment.items)
                self._fail(segment, user_error(error))
        return failed

    async def tick(self, segment: Segment) -> None:
        if self._on_tick is not None:
            await super().tick(segment)


class ArrowFunction(BasicBolt):
    """A bolt around an `arrow=True` function: RecordBatch in; RecordBatch, None, or an iterator of them out."""

    def __init__(self, bolt: FunctionBolt, fn: Function) -> None:
        self._bolt = bolt
        self._fn = fn

    async def execute_arrow(self, batch: RecordBatch, collector: BasicBatchCollector) -> None:
        """Call the function and emit its result. Between two batches of an iterator, wait for capacity."""
        bolt = self._bolt
        result = self._fn(batch)
        if bolt.is_async and bolt.style == "function":
            result = await result
        if isinstance(result, Iterator | list | AsyncIterator):
            async for made in result if isinstance(result, AsyncIterator) else _each(result):
                collector.emit_arrow(made)
                if not bolt.blocking:
                    await collector.drain()
        elif result is not None:
            collector.emit_arrow(result)  # raises if it is no RecordBatch


async def _each(batches: Iterable[RecordBatch]) -> AsyncIterator[RecordBatch]:
    for batch in batches:
        yield batch
