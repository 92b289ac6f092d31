"""What components emit, ack and fail with. Storm: OutputCollector and its variants, in snake_case."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from .names import DEFAULT_STREAM

if TYPE_CHECKING:
    from .tuples import Row, Tuple, TupleBatch
    from .values import MessageId, RecordBatch, Timestamp, Value


class SpoutCollector(Protocol):
    """Emits the tuples of a spout."""

    def emit(self, values: Row | list[Value], message_id: MessageId = None, stream: str = DEFAULT_STREAM) -> None:
        """Emit one tuple; with a message id it is tracked, and `ack` or `fail` will be called with that id."""
        ...

    def emit_direct(
        self, task: int, values: Row | list[Value], message_id: MessageId = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Emit to one task of a component that subscribed with direct grouping."""
        ...

    def emit_arrow(
        self, batch: RecordBatch, message_id: MessageId = None, stream: str = DEFAULT_STREAM, *, task: int | None = None
    ) -> None:
        """Emit a pyarrow.RecordBatch whose columns are the stream's fields: one message, one tree.

        `task`: to this task only, on a direct stream.
        """
        ...

    def emit_watermark(self, timestamp: Timestamp) -> None:
        """Promise that no tuple before `timestamp` follows; windows downstream use this. Needs `watermarks = True`."""
        ...

    async def drain(self) -> None:
        """Send what was emitted so far, and wait until the targets have accepted it."""
        ...

    def wake(self) -> None:
        """There is something to emit: `next_tuple` is called at once, not after the wait that follows an empty call."""
        ...

    def finish(self) -> None:
        """This task has nothing more to emit: `next_tuple` is not called again."""
        ...

    def report_error(self, error: BaseException) -> None:
        """Report an error in the log, the metrics and `running.errors()`, without failing any tuple."""
        ...


class BasicCollector(Protocol):
    """Emits the tuples of a basic bolt, anchored to the tuple that is being executed."""

    def emit(self, values: Row | list[Value], stream: str = DEFAULT_STREAM) -> None:
        """Emit one tuple."""
        ...

    def emit_direct(self, task: int, values: Row | list[Value], stream: str = DEFAULT_STREAM) -> None:
        """Emit to one task of a component that subscribed with direct grouping."""
        ...

    def emit_arrow(self, batch: RecordBatch, stream: str = DEFAULT_STREAM, *, task: int | None = None) -> None:
        """Emit a pyarrow.RecordBatch, anchored to the tuple or batch that is being executed."""
        ...

    async def drain(self) -> None:
        """Send what was emitted so far, and wait until the targets have accepted it."""
        ...

    def report_error(self, error: BaseException) -> None:
        """Report an error in the log, the metrics and `running.errors()`, without failing any tuple."""
        ...


class BatchCollector(BasicCollector, Protocol):
    """Emits the tuples of `execute_batch`, anchored to the whole batch unless `anchors` names tuples."""

    def emit(
        self,
        values: Row | list[Value],
        stream: str = DEFAULT_STREAM,
        *,
        anchors: Tuple | list[Tuple] | tuple[Tuple, ...] | None = ...,
    ) -> None:
        """Emit one tuple."""
        ...

    def emit_rows(
        self,
        rows: Iterable[Row],
        stream: str = DEFAULT_STREAM,
        *,
        anchors: Tuple | list[Tuple] | tuple[Tuple, ...] | None = ...,
    ) -> None:
        """Emit many tuples: like `emit` for each, at a fraction of the cost."""
        ...

    def emit_column(
        self,
        values: Iterable[Value],
        stream: str = DEFAULT_STREAM,
        *,
        anchors: Tuple | list[Tuple] | tuple[Tuple, ...] | None = ...,
    ) -> None:
        """Emit many tuples of one value each, on a stream of one field."""
        ...


class BoltCollector(Protocol):
    """Emits, acks and fails the tuples of a (rich) bolt."""

    def emit(
        self,
        values: Row | list[Value],
        anchors: Tuple | TupleBatch | list[Tuple] | tuple[Tuple, ...] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> None:
        """Emit one tuple, as a child of `anchors` (one tuple, several, a whole batch, or none: untracked)."""
        ...

    def emit_direct(
        self,
        task: int,
        values: Row | list[Value],
        anchors: Tuple | TupleBatch | list[Tuple] | tuple[Tuple, ...] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> None:
        """Emit to one task of a component that subscribed with direct grouping."""
        ...

    def emit_arrow(
        self,
        batch: RecordBatch,
        anchors: Tuple | TupleBatch | list[Tuple] | tuple[Tuple, ...] | None = None,
        stream: str = DEFAULT_STREAM,
        *,
        task: int | None = None,
    ) -> None:
        """Emit a pyarrow.RecordBatch, as a child of `anchors`."""
        ...

    def ack(self, tup: Tuple | TupleBatch) -> None:
        """The tuple, or everything passed to `execute_batch`, has been processed. A second ack has no effect."""
        ...

    def fail(self, tup: Tuple | TupleBatch, error: BaseException | str | None = None) -> None:
        """The tuple, or everything in a batch, could not be processed: the messages fail at the spout."""
        ...

    def reset_timeout(self, tup: Tuple) -> None:
        """Restart the clock of the tuple's tree."""
        ...

    def emit_watermark(self, timestamp: Timestamp) -> None:
        """Promise that no tuple before `timestamp` follows; windows downstream use this. Needs `watermarks = True`."""
        ...

    async def drain(self) -> None:
        """Send what was emitted so far, and wait until the targets have accepted it."""
        ...

    def report_error(self, error: BaseException) -> None:
        """Report an error in the log, the metrics and `running.errors()`, without failing any tuple."""
        ...
