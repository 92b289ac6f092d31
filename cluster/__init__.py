"""Where topologies run: the local cluster, in this event loop."""

from .errors import TopologyFailedError, TopologyKilledError
from .local import LocalCluster, cleanup_ctx, lifespan, running
from .running_topology import RunningTopology, State
from .targets import TargetError, load_topology

__all__ = [
    "LocalCluster",
    "RunningTopology",
    "State",
    "TargetError",
    "TopologyFailedError",
    "TopologyKilledError",
    "cleanup_ctx",
    "lifespan",
    "load_topology",
    "running",
]
