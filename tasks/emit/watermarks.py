"""Watermarks that a task sends to the downstream tasks.

    finish() ─► every message acked (a failed one may come again) ─► END on every edge with windows downstream

1. A watermark is sent on the outlets of the rows, after all that was emitted before it.
2. A lost watermark is no problem: `resend` repeats it for a task that has lost it.
3. A task's own watermark goes to all receivers. What it follows for one component (following.py) goes to the tasks of
   that component.
4. It does not block the task: a target that is full gets it when it has capacity (outbox.py).
5. END says that nothing more will come. Windows that keep their tuples ack them only after it: with such windows
   downstream, a spout does not wait for acks. Messages that it replays afterwards are late where the end was received.
   Where it was lost (the task that had it has died) windows open again, so the end is sent again after the replays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Protocol

from ...topology import EmitError, Origin, Segment
from ...windows import END_MS, StreamClock

if TYPE_CHECKING:
    from ...acker import Pending
    from ...topology import Value
    from .outbox import Outlet, Outlets


class WatermarkEmitter:
    """The emitter of one task. `receivers`: the receiving tasks. `declared`: does the component emit watermarks?

    `clocks`: the followed clock, by receiving task; `followed`: by receiving component.
    """

    def __init__(
        self, name: str, origin: Origin, outlets: Outlets, receivers: Sequence[int], *, declared: bool
    ) -> None:
        self.sent_ms: int | None = None
        self.receivers = receivers
        self.declared = declared
        self.clocks: Mapping[int, StreamClock] = {}
        self.followed: Mapping[str, StreamClock] = {}
        self._name = name
        self._outlets = outlets
        self._origin = origin

    def send(self, watermark_ms: int) -> None:
        """To all receivers, after what has been sealed."""
        self.sent_ms = watermark_ms
        for task in self.receivers:
            self._send(self._outlets[task], watermark_ms)

    def send_to(self, tasks: Iterable[int], watermark_ms: int) -> None:
        """To these tasks, after what has been sealed: the watermark of the rows that they read."""
        for task in tasks:
            self._send(self._outlets[task], watermark_ms)

    def resend(self, task: int) -> None:
        """To one of the receivers, if anything was sent before."""
        if task not in self.receivers:
            return
        followed = self.clocks.get(task)
        for sent_ms in (None if followed is None else followed.sent_ms, self.sent_ms):
            if sent_ms is not None:
                self._send(self._outlets[task], sent_ms)

    def save(self, now_ms: int) -> dict[str, Value]:
        """What was sent and read so far, for a snapshot; all rows are sealed. `now_ms`: of the monotonic clock."""
        if self.sent_ms is None and not self.followed:
            return {}
        return {"sent_ms": self.sent_ms, "clocks": {name: clock.dump(now_ms) for name, clock in self.followed.items()}}

    def restore(self, saved: Mapping[str, Value], now_ms: int) -> None:
        """Continue from what was saved. WindowStateError if a component has other windows now, or it is damaged.

        A component that is new, or was without windows, begins with a new clock.
        """
        self.sent_ms = saved.get("sent_ms")
        for name, dump in saved.get("clocks", {}).items():
            if name in self.followed:
                self.followed[name].load(dump, now_ms)

    def check(self) -> None:
        """EmitError if the component has not declared that it emits watermarks."""
        if not self.declared:
            raise EmitError(
                f"{self._name} emits a watermark, but does not say that it does: set `watermarks = True` in "
                "its class, so that windows behind it wait for them"
            )

    def _send(self, outlet: Outlet, watermark_ms: int) -> None:
        origin, items = self._origin, [watermark_ms]
        if outlet.pack is None:
            outlet.send_watermark(Segment(origin, items), watermark_ms)
            return
        for packed, _ in outlet.pack(origin, items, None):
            outlet.send_watermark(Segment(origin, packed), watermark_ms)


class SpoutEmits(Protocol):
    """What a spout task has emitted: its collector."""

    finished: bool

    @property
    def emitted_at_all(self) -> int:
        """Messages and rows, replays counted each time."""
        ...

    @property
    def open_messages(self) -> int:
        """Messages emitted and not yet in `pending`."""
        ...

    def flush(self) -> None:
        """Send them."""
        ...


class EndOfStream:
    """The end of one spout task's stream."""

    def __init__(self, watermarks: WatermarkEmitter, pending: Pending, replays: Sized, *, keeps: bool) -> None:
        self._watermarks = watermarks
        self._pending = pending
        self._replays = replays
        self._keeps = keeps
        self._sent_after = -1  # after this many rows; -1: the end was not sent yet
        self._requests: dict[int, None] = {}

    def is_due(self, collector: SpoutEmits) -> bool:
        """Will the spout emit nothing more, and was the end not sent yet?"""
        if not self._watermarks.receivers or not collector.finished or self._replays:
            return False
        if self._sent_after == collector.emitted_at_all:
            return False
        return self._keeps or not (self._pending.count or collector.open_messages)

    def send(self, collector: SpoutEmits) -> None:
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

    def replayed(self, collector: SpoutEmits) -> None:
        """No message waits to be replayed."""
        if self._requests:
            collector.flush()
            for task in self._requests:
                self._watermarks.resend(task)
            self._requests.clear()
