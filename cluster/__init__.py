"""Where topologies run: the local cluster, in this event loop or on workers; and the program of a worker.

What needs a network is loaded when it is first used.
"""

from typing import TYPE_CHECKING, Any

from .body import WorkerStatus
from .errors import TopologyFailedError, TopologyKilledError, WorkerError, WorkerTaskError
from .local import LocalCluster, cleanup_ctx, lifespan, running
from .running_topology import RunningTopology, State
from .targets import TargetError, load_topology
from .worker_life import LifeTimings
from .worker_log import MarkedFormatter

if TYPE_CHECKING:
    from .headquarters import Site
    from .pulse import Pulse
    from .site import ProcessSite
    from .worker import CHILD_LEASE_S, LEASE_S, LEAVE_S, TERMINATED, WorkerOptions, work

__all__ = [
    "CHILD_LEASE_S",
    "LEASE_S",
    "LEAVE_S",
    "TERMINATED",
    "LifeTimings",
    "LocalCluster",
    "MarkedFormatter",
    "ProcessSite",
    "Pulse",
    "RunningTopology",
    "Site",
    "State",
    "TargetError",
    "TopologyFailedError",
    "TopologyKilledError",
    "WorkerError",
    "WorkerOptions",
    "WorkerStatus",
    "WorkerTaskError",
    "cleanup_ctx",
    "lifespan",
    "load_topology",
    "running",
    "work",
]

_LATER = {
    "headquarters": "Site",
    "pulse": "Pulse",
    "site": "ProcessSite",
    "worker": "CHILD_LEASE_S LEASE_S LEAVE_S TERMINATED WorkerOptions work",
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names.split():
            from importlib import import_module

            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
