"""Bugs planted into the daemons of a cluster, one at a time: the world of clusters finds each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from aiostorm.cluster.coordination import Operation, Term
from aiostorm.cluster.nimbus import ParentRecord, planning
from aiostorm.cluster.nimbus import nimbus as nimbus_module
from aiostorm.cluster.submitted import Order, parent
from aiostorm.cluster.submitted.registration import Registration
from aiostorm.cluster.supervisor.running import Running

from ..cluster.world import ClusterResult, run
from .planting import Plant, first_that_finds, replaced

SEEDS = 20
"""Enough for each: a seed is a cluster of ten processes, and takes a few seconds."""


@contextlib.contextmanager
def a_former_leader_writes() -> Iterator[None]:
    """Commits carry no term."""

    async def commit(self: Term, operations: Sequence[Operation]) -> tuple[int, ...]:
        return await self._coordination.commit(operations)

    with replaced(Term, "commit", commit):
        yield


@contextlib.contextmanager
def a_missing_supervisor_is_given_up_at_once() -> Iterator[None]:
    """Nothing waits for it to come back."""
    with replaced(planning, "REASSIGN_S", 0.5), replaced(nimbus_module, "REASSIGN_S", 0.5):
        yield


@contextlib.contextmanager
def a_supervisor_does_not_adopt() -> Iterator[None]:
    """What it has started before is forgotten."""

    async def adopt(self: Running) -> None:
        for note in await self._notes.read():
            await self._notes.remove(note.key)

    with replaced(Running, "adopt", adopt):
        yield


@contextlib.contextmanager
def a_rebalance_is_not_noticed_by_the_parent() -> Iterator[None]:
    """It runs on with the assignment of before."""
    real = parent.order_for

    def order_for(topology: object, assignment: object, supervisor: str, generation: int | None) -> Order:
        return real(topology, assignment, supervisor, None)  # type: ignore[arg-type]

    with replaced(parent, "order_for", order_for):
        yield


@contextlib.contextmanager
def a_parent_does_not_say_how_it_is() -> Iterator[None]:
    """Its record stays as it was first."""

    async def update(self: Registration, record: ParentRecord) -> None:
        return

    with replaced(Registration, "update", update):
        yield


PLANTED: dict[str, Plant] = {
    bug.__name__: bug
    for bug in (
        a_former_leader_writes,
        a_missing_supervisor_is_given_up_at_once,
        a_supervisor_does_not_adopt,
        a_rebalance_is_not_noticed_by_the_parent,
        a_parent_does_not_say_how_it_is,
    )
}

FIRST_LOOK: dict[str, int] = {}
"""The seed that found it the last time, where it is not 0."""


def found_by(planted: Plant, first: int = 0) -> ClusterResult | None:
    """The first seed that finds it."""
    return first_that_finds(run, planted, first, SEEDS)
