"""Order: what the store wants of the process that runs a topology. Pure."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..nimbus import AssignmentRecord, TopologyRecord


class Order(enum.StrEnum):
    """What a parent is to do."""

    RUN = "RUN"
    PAUSE = "PAUSE"
    KILL = "KILL"
    REBUILD = "REBUILD"
    """Another generation, in the same processes: end the topology, and start it as it is to be now."""
    MOVE = "MOVE"
    """End in order: another process runs it from then on, with another assignment."""


def order_for(
    topology: TopologyRecord | None, assignment: AssignmentRecord | None, supervisor: str, generation: int | None
) -> Order:
    """The order for the parent that this supervisor has started. `generation`: that it runs; None: none yet."""
    if topology is None or topology.wanted == "KILLED":
        return Order.KILL
    if assignment is None or assignment.parent != supervisor:
        return Order.MOVE
    if generation is not None and assignment.generation != generation:
        return Order.REBUILD if generation >= assignment.since else Order.MOVE
    return Order.RUN if topology.wanted == "ACTIVE" else Order.PAUSE
