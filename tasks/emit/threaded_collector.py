"""Threaded collector: a blocking spout emits into it, from its thread.

    thread: emit ─► checked ─► deque ─► (arrived) ─► loop: transfer ─► SpoutTaskCollector

1. The thread touches nothing of the loop: an emit is checked and put into a deque.
2. The loop takes items while the thread still emits: both ends of a deque are safe for that.
3. The context of an emit is that of the thread: it goes with what was emitted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...topology import DEFAULT_STREAM, WATERMARK_STREAM, Row, is_batch
from ...windows import to_ms
from .contexts import CurrentContext

if TYPE_CHECKING:
    from ...topology import MessageId, RecordBatch, Returned, Timestamp, Value
    from .emitter import Emitter
    from .spout_collector import SpoutTaskCollector


class ThreadedSpoutCollector:
    """For blocking spouts, whose methods run in a thread: emits are checked there and transferred in the loop.

    The loop may transfer at any time, also during a long call of `next_tuple`. `arrived` is called in the loop when
    there is something to transfer.
    """

    def __init__(
        self,
        collector: SpoutTaskCollector,
        emitter: Emitter,
        loop: asyncio.AbstractEventLoop,
        arrived: Callable[[], None],
    ) -> None:
        self._collector = collector
        self._emitter = emitter
        self._loop = loop
        self._arrived = arrived
        self._emits: deque[tuple[Row, MessageId, str, int | None, str]] = deque()
        self._context = None if collector.context is None else CurrentContext()
        self._emitted = 0
        self._finished = False

    @property
    def waiting(self) -> int:
        """Emits that were not transferred yet."""
        return len(self._emits)

    # -- in the thread -----------------------------------------------------------------------------------------------

    def turn(self, next_tuple: Callable[[], Returned], most: int, over: Callable[[], bool]) -> None:
        """Call `next_tuple` until `most` were emitted, none are left, or the turn's time is over."""
        enough = self._emitted + most
        while not self._finished and not self._collector.finished:
            before = self._emitted
            next_tuple()
            if self._emitted == before or self._emitted >= enough or over():
                return

    def emit(self, values: Row | list[Value], message_id: MessageId = None, stream: str = DEFAULT_STREAM) -> None:
        """Emit one tuple; tracked if it has a message id."""
        self._put(self._emitter.streams.row(values, stream)[1], message_id, stream, None)

    def emit_direct(
        self, task: int, values: Row | list[Value], message_id: MessageId = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Emit to one task."""
        self._put(self._emitter.streams.row(values, stream, direct_to=task)[1], message_id, stream, task)

    def emit_arrow(
        self, batch: RecordBatch, message_id: MessageId = None, stream: str = DEFAULT_STREAM, *, task: int | None = None
    ) -> None:
        """Emit a RecordBatch: one message."""
        self._put(self._emitter.streams.columns(batch, stream, direct_to=task)[1].batch, message_id, stream, task)

    def emit_watermark(self, timestamp: Timestamp) -> None:
        """Declare that no tuple before `timestamp` follows."""
        self._emitter.watermarks.check()
        self._collector.check_open()
        self._emits.append(((to_ms(timestamp),), None, WATERMARK_STREAM, None, ""))
        if len(self._emits) == 1:
            self._loop.call_soon_threadsafe(self._arrived)

    def finish(self) -> None:
        """Nothing more to emit."""
        self._finished = True

    def wake(self) -> None:
        """There is something new: call `next_tuple` now instead of after the wait. From any thread."""
        self._loop.call_soon_threadsafe(self._collector.wake)

    async def drain(self) -> None:
        """Without effect: a blocking spout cannot wait within a call; it is called again when there is capacity."""

    def report_error(self, error: BaseException) -> None:
        """Show an error without failing anything."""
        self._loop.call_soon_threadsafe(self._collector.report_error, error)

    def _put(self, row: Row, message_id: MessageId, stream: str, task: int | None) -> None:
        self._collector.check_open()
        self._emitted += 1
        context = "" if self._context is None else self._context.text()
        self._emits.append((row, message_id, stream, task, context))
        if len(self._emits) == 1:
            self._loop.call_soon_threadsafe(self._arrived)

    # -- in the loop -------------------------------------------------------------------------------------------------

    def transfer(self) -> bool:
        """Do what the thread has asked for so far. Was there anything?"""
        finished = self._finished  # read before the emits that came before it
        emits = self._emits
        taken = bool(emits)
        while emits:
            row, message_id, stream, task, context = emits.popleft()
            if self._collector.context is not None:
                self._collector.context.given = context
            if stream == WATERMARK_STREAM:
                self._collector.emit_watermark(row[0])
            elif is_batch(row):
                self._collector.emit_arrow(row, message_id, stream, task=task)
            elif task is None:
                self._collector.emit(row, message_id, stream)
            else:
                self._collector.emit_direct(task, row, message_id, stream)
        if finished and not self._collector.finished:
            self._collector.finish()
        return taken
