"""Place: where a parent runs, and what is around it: the seams of its program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from ..local import LocalCluster
    from ..nimbus import ParentRecord, TopologyRecord
    from ..running_topology import RunningTopology

MakeCluster = Callable[["TopologyRecord", Collection[str], Callable[[str, int], None]], "LocalCluster"]
"""(topology, names of its workers, what to call with each process of a worker that is given up) → the cluster, not
started."""


@dataclass(frozen=True, slots=True)
class ParentPlace:
    """Where a parent runs. `supervisor`: who has started it; `process`: its ProcessIdentity."""

    supervisor: str
    host: str
    pid: int
    process: str = ""


@dataclass(frozen=True, slots=True)
class ParentProcess:
    """What is around a parent: the seams. `leave` ends the process at once, without its workers.

    `serve`: answers other processes of its user about the topology, until it is cancelled. `has_ended`: is a parent
    known not to run any more?
    """

    make_cluster: MakeCluster
    leave: Callable[[int], NoReturn]
    serve: Callable[[RunningTopology], Coroutine[None, None, None]]
    has_ended: Callable[[ParentRecord], bool]
