"""Basic executor: `execute(tup, collector)` of a basic bolt, and the collector that it emits into."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ...topology import DEFAULT_STREAM, BasicBolt, ColumnRows, EmitError, Row, Segment, Tuple
from ..drive import USER_ERRORS, finish, user_error
from ..emit.collectors import TaskCollector
from .base import Collectors, Executor, Fail, Tools

if TYPE_CHECKING:
    from ...topology import Anchor, Component, Item, RecordBatch, Returned, Value
    from ..emit.emitter import EmitBuffer, Emitter
    from ..emit.out_streams import OutStream
    from ..emit.outbox import Outbox
    from ..hooks import HookCalls


class BasicExecutor(Executor):
    """Basic bolts, one Tuple at a time, with hooks if there are any."""

    @classmethod
    def for_component(cls, component: Component, tools: Tools, collectors: Collectors) -> Executor | None:
        if not isinstance(component, BasicBolt):
            return None
        collector = BasicTaskCollector(tools.emitter, tools.outbox, tools.report)
        collectors.all.append(collector)
        return cls(component.execute, collector, tools.fail, getattr(component, "on_tick", None), tools.hooks)

    def __init__(
        self,
        execute: Callable[[Tuple, BasicTaskCollector], Returned],
        collector: BasicTaskCollector,
        fail: Fail,
        on_tick: Callable[[BasicTaskCollector], Returned] | None,
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


class BasicTaskCollector(TaskCollector):
    """For basic bolts. The executor enters a segment, then sets `offset` for each of its tuples."""

    __slots__ = (
        "_anchors",
        "_arity",
        "_bare",
        "_default",
        "_emit_buffer",
        "_emitted",
        "_rows",
        "_segment",
        "_source_anchors",
        "offset",
    )

    def __init__(self, emitter: Emitter, outbox: Outbox, report: Callable[[BaseException], None]) -> None:
        super().__init__(emitter, outbox, report)
        default = emitter.streams.get(DEFAULT_STREAM)
        # -1 sends every emit through the slow path, which reports what is wrong.
        self._default = default if default is not None and not default.direct else None
        self._arity = self._default.arity if self._default is not None else -1
        self._bare = self._arity == 1
        self.offset = 0
        self._source_anchors: Sequence[Anchor] | None = None
        self._emit_buffer: EmitBuffer | None = None
        self._segment: Segment | None = None
        self._emitted = (-1, 0)  # the last row that emitted a batch, and how many batches it has emitted before
        self.leave()

    def enter(self, segment: Segment) -> None:
        """From now on, emits are children of rows of this segment."""
        self._segment, self._emitted = segment, (-1, 0)
        self._source_anchors = segment.indices if segment.lineage is None else segment.lineage.pairs
        self._enter(self._emitter.buffer_of(segment))

    def suspend(self) -> None:
        """User code suspends: what it has emitted is sent; later emits go into a new emit buffer."""
        self._emitter.flush()
        if self._emit_buffer is not None:
            self._enter(self._emitter.emit_buffer(self._emit_buffer.root))

    def refresh(self) -> None:
        """The segment has left its trees while user code was suspended: later emits use its new anchors."""
        segment = self._segment
        if segment is not None:
            self._source_anchors = segment.indices if segment.lineage is None else segment.lineage.pairs
            self._enter(self._emitter.buffer_of(segment))

    def leave(self) -> None:
        """No tuple is being executed: an emit is an error."""
        self._emit_buffer = None
        self._segment = None
        self._rows: list[Item] | _Closed = _Closed(self._emitter.streams.name)
        self._anchors: list[Anchor] = []

    def emit(self, values: Row | list[Value], stream: str = DEFAULT_STREAM) -> None:
        """Emit one tuple, anchored to the tuple being executed."""
        if stream == DEFAULT_STREAM and type(values) is tuple and len(values) == self._arity:
            self._rows.append(values[0] if self._bare else values)
            anchors = self._source_anchors
            self._anchors.append(None if anchors is None else anchors[self.offset])
        else:
            self._emit(values, stream, None)

    def emit_direct(self, task: int, values: Row | list[Value], stream: str = DEFAULT_STREAM) -> None:
        """Emit to one task."""
        self._emit(values, stream, task)

    def emit_arrow(self, batch: RecordBatch, stream: str = DEFAULT_STREAM, *, task: int | None = None) -> None:
        """Emit a RecordBatch, anchored to the tuple being executed."""
        self.check_open()
        out, rows = self._emitter.streams.columns(batch, stream, direct_to=task)
        if self._emit_buffer is None:
            self._rows.append(batch)  # raises
            return
        rows = self._identified(rows, out)
        root = self._emit_buffer.root
        anchor = None if self._source_anchors is None else self._source_anchors[self.offset]
        self._emitter.put_columns(root, out, task, rows, anchor)
        self._enter(self._emitter.emit_buffer(root))  # what is emitted after the batch is sent after it

    def _identified(self, rows: ColumnRows, out: OutStream) -> ColumnRows:
        """For a batch made from one row of a batch: its number among the batches of that row."""
        items = None if self._segment is None else self._segment.items
        if type(items) is not ColumnRows:
            return rows.with_identity_of(None)
        offset, count = self._emitted
        self._emitted = (self.offset, count + 1 if offset == self.offset else 0)
        return rows.with_identity_of(items.batch, out.origin.component, out.origin.stream, *self._emitted)

    async def drain(self) -> None:
        self.suspend()
        await self._outbox.unblocked()

    def _enter(self, emit_buffer: EmitBuffer) -> None:
        self._emit_buffer = emit_buffer
        if self._default is not None:
            self._rows, self._anchors = emit_buffer.buffer(self._default)

    def _emit(self, values: Row | list[Value], stream: str, task: int | None) -> None:
        self.check_open()
        out, row = self._emitter.streams.row(values, stream, direct_to=task)
        if self._emit_buffer is None:
            self._rows.append(row)  # raises
            return
        items, anchors = self._emit_buffer.buffer(out, task)
        items.append(out.item(row))
        anchors.append(None if self._source_anchors is None else self._source_anchors[self.offset])


class _Closed:
    """In place of the row buffer while there is no tuple to anchor to."""

    def __init__(self, name: str) -> None:
        self._name = name

    def append(self, row: Row) -> None:
        raise EmitError(
            f"{self._name} emits outside of execute: a basic bolt's emits are anchored to the tuple it executes. "
            f"Emit before execute returns, or use Bolt, which names its anchors"
        )
