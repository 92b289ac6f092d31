"""Barriers that a task sends: behind its rows, to every task that it may send rows to.

emitted rows ─ sealed ─► outlets: rows, barrier n ─ hold ─ …        Aligned(n) of a target: its outlet is released
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...topology import BARRIER_FIELDS, BARRIER_STREAM, Origin, Segment, TaskSpec

if TYPE_CHECKING:
    from ..emit.emitter import Emitter
    from ..emit.outbox import Outlet, Outlets
    from .messages import Aligned


class BarrierEmitter:
    """The barriers of one task. `receivers`: the tasks that it may send rows to, each once."""

    __slots__ = ("_emitter", "_origin", "_outlets", "_receivers")

    def __init__(self, task: TaskSpec, emitter: Emitter, outlets: Outlets, receivers: Sequence[int]) -> None:
        self._emitter = emitter
        self._origin = Origin(task.component, task.task_id, BARRIER_STREAM, BARRIER_FIELDS)
        self._outlets = outlets
        self._receivers = receivers

    def send(self, number: int) -> None:
        """Send barrier `number` after all that was emitted."""
        self._emitter.seal()
        for task in self._receivers:
            outlet = self._outlets[task]
            outlet.send_barrier(number, self._maker(outlet, number))

    def aligned(self, message: Aligned) -> None:
        """A receiver has this barrier from all its sources."""
        if message.task in self._outlets:
            self._outlets[message.task].release(message.number)

    def abort(self, number: int) -> None:
        """The snapshot was given up."""
        for outlet in self._outlets.values():
            outlet.abort(number)

    def _maker(self, outlet: Outlet, number: int) -> Callable[[int], Segment]:
        origin, pack = self._origin, outlet.pack

        def make(rows: int) -> Segment:
            items: Sequence[tuple[int, int]] = [(number, rows)]
            if pack is not None:
                ((items, _),) = pack(origin, items, None)  # two numbers are one piece
            return Segment(origin, items)

        return make
