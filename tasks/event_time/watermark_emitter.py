"""WatermarkEmitter: a task sends its watermark to the downstream tasks.

1. A watermark is sent on the outlets of the rows, after all that was emitted before it.
2. A lost watermark is no problem: `resend` repeats it for a task that has lost it.
3. A task's own watermark goes to all receivers. What it follows for one component (following.py) goes to the tasks of
   that component.
4. It does not block the task: a target that is full gets it when it has capacity (emit/outbox.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...topology import EmitError, Origin, Segment
from ..emit.outbox import Outlet, Outlets

if TYPE_CHECKING:
    from ...windows import StreamClock
    from ..emit.emitter import Emitter


class WatermarkEmitter:
    """The emitter of one task. `receivers`: the receiving tasks. `declared`: does the component emit watermarks?

    `clocks`: the followed clock, by receiving task.
    """

    def __init__(
        self, emitter: Emitter, origin: Origin, outlets: Outlets, receivers: Sequence[int], *, declared: bool
    ) -> None:
        self.sent_ms: int | None = None
        self.receivers = receivers
        self.declared = declared
        self.clocks: Mapping[int, StreamClock] = {}
        self._emitter = emitter
        self._outlets = outlets
        self._origin = origin

    def send(self, watermark_ms: int) -> None:
        """To all receivers."""
        self._emitter.seal_emit_buffers()
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

    def check(self) -> None:
        """EmitError if the component has not declared that it emits watermarks."""
        if not self.declared:
            raise EmitError(
                f"{self._emitter.name} emits a watermark, but does not say that it does: set `watermarks = True` in "
                "its class, so that windows behind it wait for them"
            )

    def _send(self, outlet: Outlet, watermark_ms: int) -> None:
        origin, items = self._origin, [watermark_ms]
        if outlet.pack is None:
            outlet.send_watermark(Segment(origin, items), watermark_ms)
            return
        for packed, _ in outlet.pack(origin, items, None):
            outlet.send_watermark(Segment(origin, packed), watermark_ms)
