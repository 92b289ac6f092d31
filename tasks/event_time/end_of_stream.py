"""EndOfStream: when a spout task that has finished informs the downstream tasks that nothing more will come.

    finish() ─► every message acked (a failed one may come again) ─► END on every edge with windows downstream

Windows that keep their tuples ack them only after the end: with such windows downstream, a spout does not wait for
acks. Messages that it replays afterwards are late where the end was received. Where it was lost (the task that had it
has died) windows open again, so the end is sent again after the replays.
"""

from __future__ import annotations

from collections.abc import Sized

from ...acker import Pending
from ...windows import END_MS
from ..emit.spout_collector import SpoutTaskCollector
from .watermark_emitter import WatermarkEmitter


class EndOfStream:
    """The end of one spout task's stream."""

    def __init__(self, watermarks: WatermarkEmitter, pending: Pending, replays: Sized, *, keeps: bool) -> None:
        self._watermarks = watermarks
        self._pending = pending
        self._replays = replays
        self._keeps = keeps
        self._sent_after = -1  # after this many rows; -1: the end was not sent yet
        self._requests: dict[int, None] = {}

    def is_due(self, collector: SpoutTaskCollector) -> bool:
        """Will the spout emit nothing more, and was the end not sent yet?"""
        if not self._watermarks.receivers or not collector.finished or self._replays:
            return False
        if self._sent_after == collector.emitted_at_all:
            return False
        return self._keeps or not (self._pending.count or collector.open_messages)

    def send(self, collector: SpoutTaskCollector) -> None:
        """Send the end, after all that was emitted."""
        self._sent_after = collector.emitted_at_all
        collector.flush()
        self._watermarks.send(END_MS)

    def on_request(self, task: int) -> None:
        """A task has lost the watermarks of this one. Messages that it lost with them are replayed first."""
        if self._replays:
            self._requests[task] = None
        else:
            self._watermarks.resend(task)

    def replayed(self, collector: SpoutTaskCollector) -> None:
        """No message waits to be replayed."""
        if self._requests:
            collector.flush()
            for task in self._requests:
                self._watermarks.resend(task)
            self._requests.clear()
