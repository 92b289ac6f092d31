"""Adoption: what a parent decides about workers that an earlier parent has started. Pure.

    WorkerJoined with a standing ─► fit ─┬─ NEW: it has imported nothing ─► it is set up as any process
                                         ├─ IMPORTED: it has the topology, and gets (other) tasks
                                         ├─ REPLANNED: it has the topology's code; its tasks end, and it is set up again
                                         ├─ ADOPTED: its tasks go on as they are
                                         ╰─ a reason: it is ended, and the next process of its name is awaited

1. At least once, a worker is adopted if it runs what this parent would order, all its tasks were opened, and its spouts
   were not ended: the parent may have died while it drained the topology for a plan that was then taken back.
2. Exactly once, only the process is kept: its tasks are built again, since some of its reports may have been lost with
   the earlier parent.
3. Adopted workers agree which processes have ended. What the earlier parent has notified one of them of holds: the
   process that it gave up is ended here, too, whichever joins first.
4. The digest of a process has two parts: what it has imported, and what its tasks are. If only the second one differs
   (another parallelism, another number of workers), the process is kept.
5. A process may have ended while there was no parent. The adopted workers know its incarnation, and have to be notified
   of its end before the next process of its name is linked to them (`ended`).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from ..messages import FAILED_IMPORT, PLAN_AFTER

if TYPE_CHECKING:
    from ..messages import Standing


class Fit(enum.Enum):
    """How a process that has joined is used."""

    NEW = enum.auto()
    IMPORTED = enum.auto()
    REPLANNED = enum.auto()
    ADOPTED = enum.auto()


def fit(standing: Standing | None, digest: str, *, exactly_once: bool) -> Fit | str:
    """How a process is used; or why it cannot be. `digest`: of what this parent orders."""
    if standing is None or not standing.digest:
        return Fit.NEW
    if standing.digest == FAILED_IMPORT:
        return "it could not import its topology"
    imported, plan_after, _ = digest.partition(PLAN_AFTER)
    if standing.digest != digest and plan_after and standing.digest.startswith(imported + plan_after):
        return Fit.REPLANNED
    if standing.digest != digest:
        return "it runs another topology, or the same with other settings, code or workers"
    if exactly_once or not standing.has_tasks:
        return Fit.IMPORTED
    return Fit.ADOPTED if standing.works else "it was starting or ending its tasks when its parent ended"


class Survivors:
    """The workers that were adopted, by name: their incarnations, and what they know of the others."""

    def __init__(self) -> None:
        self._adopted: dict[str, tuple[int, Standing]] = {}
        self._known: dict[str, dict[str, int]] = {}  # worker → peer → its incarnation, if it has not ended here

    def accuser(self, worker: str, incarnation: int) -> str:
        """The adopted worker that was notified of the end of this process; empty if there is none."""
        return next((name for name in self._adopted if self._has_ended(name, worker, incarnation)), "")

    def adopt(self, worker: str, incarnation: int, standing: Standing) -> list[str]:
        """Adopt a worker. Returns those adopted before of whose end it was notified."""
        self._adopted[worker] = incarnation, standing
        self._known[worker] = dict(standing.incarnations)
        return [name for name, (known, _) in self._adopted.items() if self._has_ended(worker, name, known)]

    def ended(self, worker: str) -> set[int]:
        """The processes of this worker have ended. Returns the incarnations of it that adopted workers know."""
        self._adopted.pop(worker, None)
        self._known.pop(worker, None)
        found = {known.pop(worker, 0) for known in self._known.values()}
        return found - {0}

    def _has_ended(self, by: str, worker: str, incarnation: int) -> bool:
        """Was `by` notified of the end of this process of the worker?"""
        standing = self._adopted[by][1]
        return worker in standing.ended and standing.incarnations.get(worker) == incarnation
