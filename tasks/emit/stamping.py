"""Stamping: rows carry the time at which they came into the topology, for windows by ingestion time.

    spout: segment ◄─ the clock           bolt: segment ◄─ the stamp of the segment whose rows it was made from

1. All rows of a segment have one stamp: rows of different stamps are not put into one emit buffer.
2. Rows that a bolt emits outside of a turn, or when a window fires, get the time of sending.

From: Flink, ingestion time. (JStorm takes the time at which the last task emitted the tuple: depart.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...topology import Origin, Segment
from .emit_buffer import EmitBuffer, OutStream
from .emitter import Emitter

_NONE = -2
"""The root of no emit buffer."""


class StampingEmitter(Emitter):
    """An emitter that stamps. `wall_ms` is set once by the task; `ingested_ms` belongs to the executed rows."""

    __slots__ = ("_born", "_sealing_ms", "ingested_ms", "wall_ms")

    def begin(self, wall_ms: Callable[[], int]) -> None:
        """Before anything is emitted."""
        self.wall_ms = wall_ms
        self.ingested_ms: int | None = None
        self._sealing_ms: int | None = None
        self._born: dict[int, int] = {}  # by the identity of an emit buffer, until it is sealed

    def enter(self, ingested_ms: int | None) -> None:
        """Later emits are of rows that came in at this time; None: they have no input row."""
        if ingested_ms != self.ingested_ms:
            self.ingested_ms = ingested_ms
            if self._emit_buffers:
                self._emit_buffers.append(EmitBuffer(_NONE))  # later rows must not be added to earlier buffers

    def emit_buffer(self, root: int) -> EmitBuffer:
        return self._stamped(super().emit_buffer(root))

    def add(self, root: int, stream: OutStream, items: list[Any], anchors: Sequence[Any] | None) -> None:
        super().add(root, stream, items, anchors)
        self._stamped(self._emit_buffers[-1])

    def put_columns(self, root: int, stream: OutStream, target: int | None, rows: Any, anchor: Any) -> None:
        super().put_columns(root, stream, target, rows, anchor)
        for emit_buffer in self._emit_buffers[-2:]:
            self._stamped(emit_buffer)

    def seal_buffer(self, emit_buffer: EmitBuffer) -> None:
        self._sealing_ms = self._born.pop(id(emit_buffer), None)
        super().seal_buffer(emit_buffer)
        self._sealing_ms = None

    def _stamped(self, emit_buffer: EmitBuffer) -> EmitBuffer:
        if self.ingested_ms is not None:
            self._born.setdefault(id(emit_buffer), self.ingested_ms)
        return emit_buffer

    def segment(self, origin: Origin, items: Sequence[Any], anchors: Sequence[Any] | None, root: int) -> Segment:
        segment = super().segment(origin, items, anchors, root)
        segment.ingested_ms = self.wall_ms() if self._sealing_ms is None else self._sealing_ms
        return segment
