"""Findings: what a parent has found, and others are to see: processes of workers that it has given up, and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..nimbus import ErrorEntry

if TYPE_CHECKING:
    from ..running_topology import RunningTopology

MOST_ABANDONED: Final = 50


class Findings:
    """Of one parent. `abandoned`: processes of workers, as `worker-1@4711`."""

    def __init__(self) -> None:
        self.abandoned: tuple[str, ...] = ()
        self._reported: set[tuple[float, str]] = set()

    def gave_up(self, worker: str, pid: int) -> None:
        """This process of a worker does not take part any more."""
        self.abandoned = (*self.abandoned, f"{worker}@{pid}")[-MOST_ABANDONED:]

    def new_errors(self, running: RunningTopology | None) -> list[ErrorEntry]:
        """Those of a topology that were not asked for yet."""
        if running is None:
            return []
        known = [
            ErrorEntry(error.time, f"{error.component}[{error.task}] {error.where}", error.error)
            for error in running.errors()
        ]
        found: list[ErrorEntry] = []
        for entry in known:
            if (entry.at_s, entry.where) not in self._reported:
                self._reported.add((entry.at_s, entry.where))
                found.append(entry)
        self._reported &= {(each.at_s, each.where) for each in known}  # those that are not kept do not come again
        return found
