"""Where topologies run: the local cluster, in this event loop or on workers; and the program of a worker.

Each name is imported when it is first used, so that a process that needs one name does not wait for the rest.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client import (
        CheckedTarget,
        CheckError,
        Cluster,
        ClusterError,
        NoClusterError,
        NodeInfo,
        NotRunningError,
        TopologyInfo,
    )
    from .control.folder import TopologySocket, find
    from .control.protocol import (
        StatusRequest,
        StatusResponse,
        TraceRequest,
        TraceResponse,
        UpdateRequest,
        UpdateResponse,
        ask,
    )
    from .control.remote import RemoteTopologies, RemoteTopology, opened_remote
    from .control.socket import ControlSocket
    from .errors import (
        ControlError,
        NotCompletedError,
        TopologyFailedError,
        TopologyKilledError,
        WorkerError,
        WorkerTaskError,
    )
    from .health import Health, health_of, health_of_all
    from .home import Home, HomeError
    from .local import ClusterPage, LocalCluster, cleanup_ctx, lifespan, running
    from .log_levels import LogLevel, loggers
    from .messages import DRIVER, PARENT, WORKER
    from .names import check_name
    from .parent.process_backend import ProcessBackend
    from .parent.worker_lifecycle import LifecycleTimings
    from .parent.worker_registry import WorkerBackend
    from .parent_address import read_address
    from .report import Report, ReportError
    from .running_topology import RunningTopology, State
    from .runtimes import WorkerStatus
    from .snapshots.place import Restore
    from .targets import TargetError, import_topology
    from .tracing import TraceError
    from .worker.heartbeat import Heartbeat, NetworkHeartbeatSender, PipeHeartbeatSender, write_profile
    from .worker.log import MarkedFormatter, MarkedStream, plain_line
    from .worker.worker import TERMINATED, WorkerOptions, work

__all__ = [
    "DRIVER",
    "PARENT",
    "TERMINATED",
    "WORKER",
    "CheckError",
    "CheckedTarget",
    "Cluster",
    "ClusterError",
    "ClusterPage",
    "ControlError",
    "ControlSocket",
    "Health",
    "Heartbeat",
    "Home",
    "HomeError",
    "LifecycleTimings",
    "LocalCluster",
    "LogLevel",
    "MarkedFormatter",
    "MarkedStream",
    "NetworkHeartbeatSender",
    "NoClusterError",
    "NodeInfo",
    "NotCompletedError",
    "NotRunningError",
    "PipeHeartbeatSender",
    "ProcessBackend",
    "RemoteTopologies",
    "RemoteTopology",
    "Report",
    "ReportError",
    "Restore",
    "RunningTopology",
    "State",
    "StatusRequest",
    "StatusResponse",
    "TargetError",
    "TopologyFailedError",
    "TopologyInfo",
    "TopologyKilledError",
    "TopologySocket",
    "TraceError",
    "TraceRequest",
    "TraceResponse",
    "UpdateRequest",
    "UpdateResponse",
    "WorkerBackend",
    "WorkerError",
    "WorkerOptions",
    "WorkerStatus",
    "WorkerTaskError",
    "ask",
    "check_name",
    "cleanup_ctx",
    "find",
    "health_of",
    "health_of_all",
    "import_topology",
    "lifespan",
    "loggers",
    "opened_remote",
    "plain_line",
    "read_address",
    "running",
    "work",
    "write_profile",
]

_LATER = {
    "client": "CheckError CheckedTarget Cluster ClusterError NoClusterError NodeInfo NotRunningError TopologyInfo",
    "runtimes": "WorkerStatus",
    "health": "Health health_of health_of_all",
    "home": "Home HomeError",
    "control.protocol": "StatusRequest StatusResponse TraceRequest TraceResponse UpdateRequest UpdateResponse ask",
    "control.folder": "TopologySocket find",
    "control.remote": "RemoteTopologies RemoteTopology opened_remote",
    "control.socket": "ControlSocket",
    "errors": "ControlError NotCompletedError TopologyFailedError TopologyKilledError WorkerError WorkerTaskError",
    "parent.worker_registry": "WorkerBackend",
    "local": "ClusterPage LocalCluster cleanup_ctx lifespan running",
    "log_levels": "LogLevel loggers",
    "messages": "DRIVER PARENT WORKER",
    "names": "check_name",
    "worker.heartbeat": "NetworkHeartbeatSender PipeHeartbeatSender Heartbeat write_profile",
    "report": "Report ReportError",
    "running_topology": "RunningTopology State",
    "parent.process_backend": "ProcessBackend",
    "parent_address": "read_address",
    "snapshots.place": "Restore",
    "targets": "TargetError import_topology",
    "tracing": "TraceError",
    "worker.worker": "TERMINATED WorkerOptions work",
    "parent.worker_lifecycle": "LifecycleTimings",
    "worker.log": "MarkedFormatter MarkedStream plain_line",
}


def __getattr__(name: str) -> object:
    for module, names in _LATER.items():
        if name in names.split():
            from importlib import import_module

            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
