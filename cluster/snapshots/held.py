"""HeldSinks: which sinks hold so many rows for a snapshot that the spouts wait, and what is said of it. Pure.

RowsHeld FULL ─► the spouts wait ─► what is on the way arrives, barriers too ─► a snapshot commits ─► they go on
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...tasks import HeldLevel

if TYPE_CHECKING:
    from .messages import RowsHeld

_MB = 1024 * 1024


class HeldSinks:
    """The sinks of one topology. `waiting`: do the spouts wait? `used`: have they waited, in this incarnation?"""

    def __init__(self) -> None:
        self._full: dict[int, RowsHeld] = {}
        self._was_said = False
        self.used = False

    @property
    def waiting(self) -> bool:
        return bool(self._full)

    def on_report(self, report: RowsHeld) -> bool:
        """A task reports. Whether `waiting` has changed."""
        before = self.waiting
        if report.level >= HeldLevel.FULL:
            self._full[report.task] = report
            self.used = True
        else:
            self._full.pop(report.task, None)
        self._was_said &= self.waiting
        return self.waiting is not before

    def clear(self) -> None:
        """The tasks are built again: their sinks hold nothing."""
        self._full = {}
        self._was_said = False
        self.used = False

    def text(self) -> str:
        """Why the spouts wait; empty: they do not."""
        if not self._full:
            return ""
        most = max(self._full.values(), key=lambda report: report.size_bytes)
        others = f"; {len(self._full) - 1} more of its tasks or of other sinks, too" if len(self._full) > 1 else ""
        return (
            f"the spouts wait, because sink {most.component!r}, task {most.task}, holds {most.rows:,} rows of about "
            f"{most.size_bytes / _MB:,.1f} MiB that no snapshot has committed{others}"
        )

    def warning(self) -> str:
        """What to say to the operator now; empty: nothing that was not said. Since when they wait, once."""
        if not self._full or self._was_said:
            return ""
        self._was_said = True
        return f"{self.text()}. {ADVICE}"


ADVICE = (
    "They go on by themselves when a snapshot succeeds, and no row is lost: free some space, or correct the rights of "
    "the folder of the snapshots or of the sink. (The limits are sink_held_max_rows and sink_held_max_bytes)"
)
