"""Bugs planted into the daemons of a cluster, one at a time: the world of clusters finds each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from aiostorm.cluster.coordination import Create
from aiostorm.cluster.nimbus import ParentRecord, planning
from aiostorm.cluster.nimbus import nimbus as nimbus_module
from aiostorm.cluster.submitted import registration
from aiostorm.cluster.submitted.registration import Registration
from aiostorm.cluster.supervisor.slots import Decision, Key, Slots

from ..cluster.world import ClusterResult, run
from .planting import Plant, first_that_finds, replaced

SEEDS = 20
"""Enough for each: a seed is a cluster of ten processes, and takes a few seconds."""


@contextlib.contextmanager
def a_missing_supervisor_is_given_up_at_once() -> Iterator[None]:
    """Nothing waits for it to come back."""
    with replaced(planning, "REASSIGN_S", 0.5), replaced(nimbus_module, "REASSIGN_S", 0.5):
        yield


@contextlib.contextmanager
def what_ends_is_not_started_again() -> Iterator[None]:
    """A process that was killed has ended."""

    def ended(self: Slots, key: Key, code: int | None, now_s: float) -> list[Decision]:
        return real(self, key, 0 if key.process == "parent" else code, now_s)

    real = Slots.ended
    with replaced(Slots, "ended", ended):
        yield


@contextlib.contextmanager
def a_parent_outlives_its_session() -> Iterator[None]:
    """Its record is no ephemeral node."""
    real = registration.Create

    def create(path: str, value: bytes = b"", ephemeral: bool = False) -> Create:
        return real(path, value)

    with replaced(registration, "Create", create):
        yield


@contextlib.contextmanager
def a_killed_topology_stays() -> Iterator[None]:
    """Its records are not deleted when its parent has ended."""

    def planned(all_of_it: planning.Seen) -> planning.Decisions:
        return replace(planning.plan(all_of_it), end=frozenset())

    with replaced(nimbus_module, "plan", planned):
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
        a_missing_supervisor_is_given_up_at_once,
        what_ends_is_not_started_again,
        a_parent_outlives_its_session,
        a_killed_topology_stays,
        a_parent_does_not_say_how_it_is,
    )
}

FIRST_LOOK: dict[str, int] = {}
"""The seed that found it the last time, where it is not 0."""


def found_by(planted: Plant, first: int = 0) -> ClusterResult | None:
    """The first seed that finds it."""
    return first_that_finds(run, planted, first, SEEDS)
