"""EndOfStream: when a spout task that has finished tells those behind it that nothing more will come.

    finish() ─► every message acked (what failed may come again) ─► END on every edge behind which there are windows

Windows that keep their tuples are acked only when they hear of the end: with such windows somewhere behind it, a spout
does not wait for acks. What it emits after that, because it failed, comes late where the end was heard; where it was
not (the task that kept it has died) windows open again, so the end is told again behind it.
"""

from __future__ import annotations

from collections.abc import Sized

from ...acker import Pending
from ...windows import END_MS
from ..emit.spout_collector import SpoutTaskCollector
from .watermark_emitter import WatermarkEmitter


class EndOfStream:
    """Of one spout task."""

    def __init__(self, watermarks: WatermarkEmitter, pending: Pending, replays: Sized, *, keeps: bool) -> None:
        self._watermarks = watermarks
        self._pending = pending
        self._replays = replays
        self._keeps = keeps
        self._sent_after = -1  # so many rows; -1: the end was not told yet
        self._requests: dict[int, None] = {}

    def is_due(self, collector: SpoutTaskCollector) -> bool:
        """Will it emit nothing more, and have those behind it not been told?"""
        if not self._watermarks.receivers or not collector.finished or self._replays:
            return False
        if self._sent_after == collector.emitted_at_all:
            return False
        return self._keeps or not (self._pending.count or collector.open_messages)

    def send(self, collector: SpoutTaskCollector) -> None:
        """Tell them, behind all that was emitted."""
        self._sent_after = collector.emitted_at_all
        collector.flush()
        self._watermarks.send(END_MS)

    def on_request(self, task: int) -> None:
        """A task has forgotten how far this one is. What it has lost with that, and comes again, goes first."""
        if self._replays:
            self._requests[task] = None
        else:
            self._watermarks.resend(task)

    def replayed(self, collector: SpoutTaskCollector) -> None:
        """Nothing waits to be emitted again."""
        if self._requests:
            collector.flush()
            for task in self._requests:
                self._watermarks.resend(task)
            self._requests.clear()
