"""Apache Storm's and JStorm's stream processing model, natively on asyncio.

    from aiostorm import BasicBolt, Config, Fields, LocalCluster, Spout, TopologyBuilder

Names are loaded when they are first used: `import aiostorm` alone imports no sub-package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .actors import (
        Actor,
        ActorEscalatedError,
        ActorSystem,
        AskFailedError,
        AskTimeoutError,
        Directive,
        MailboxClosedError,
        Ref,
        RestartPolicy,
        Terminated,
    )
    from .cluster import (
        Cluster,
        LocalCluster,
        RunningTopology,
        State,
        TopologyFailedError,
        TopologyKilledError,
        WorkerError,
        cleanup_ctx,
        lifespan,
        running,
    )
    from .metrics import ComponentMetrics, MetricError, TaskMetrics, TopologyMetrics
    from .runtime import AiostormError
    from .state import FileSink, KeyedState, MapSink, Sink, ValueState, WriteAheadSink
    from .tasks import ErrorReport
    from .topology import (
        DEAD_LETTER_STREAM,
        DEFAULT_STREAM,
        AckValueSpout,
        BasicBolt,
        BasicCollector,
        BatchCollector,
        Bolt,
        BoltCollector,
        Component,
        Config,
        ConfigError,
        EmitError,
        Failure,
        FailValueSpout,
        Fields,
        Grouping,
        GroupingContext,
        ResourceError,
        Spout,
        SpoutCollector,
        StreamId,
        TaskHook,
        Topology,
        TopologyBuilder,
        TopologyContext,
        TopologyError,
        Tuple,
        TupleBatch,
        UnhashableKeyError,
        WorkerContext,
        bolt,
        direct,
        spout,
    )
    from .transport import UnsendableError, register_record
    from .windows import (
        Aggregate,
        BufferedWindowBolt,
        Collect,
        Combined,
        Count,
        Counts,
        Distinct,
        Each,
        Every,
        Fold,
        JoinBolt,
        LatePolicy,
        Max,
        Mean,
        Min,
        Mixed,
        Reduce,
        Session,
        Sliding,
        Sum,
        Time,
        TopK,
        Tumbling,
        Window,
        WindowedBolt,
        WindowRows,
    )

__version__ = "0.1.0"

_PACKAGES = {
    "actors": "Actor ActorEscalatedError ActorSystem AskFailedError AskTimeoutError Directive "
    "MailboxClosedError Ref RestartPolicy Terminated",
    "cluster": "Cluster LocalCluster RunningTopology State TopologyFailedError TopologyKilledError "
    "WorkerError cleanup_ctx lifespan running",
    "metrics": "ComponentMetrics MetricError TaskMetrics TopologyMetrics",
    "runtime": "AiostormError",
    "state": "FileSink KeyedState MapSink Sink ValueState WriteAheadSink",
    "tasks": "ErrorReport",
    "topology": "DEAD_LETTER_STREAM DEFAULT_STREAM AckValueSpout BasicBolt BasicCollector BatchCollector Bolt "
    "BoltCollector Component Config ConfigError EmitError Failure FailValueSpout Fields Grouping GroupingContext "
    "ResourceError Spout SpoutCollector StreamId TaskHook Topology TopologyBuilder TopologyContext TopologyError Tuple "
    "TupleBatch UnhashableKeyError WorkerContext bolt direct spout",
    "transport": "UnsendableError register_record",
    "windows": "Aggregate BufferedWindowBolt Collect Combined Count Counts Distinct Each Every Fold JoinBolt "
    "LatePolicy Max Mean Min Mixed Reduce Session Sliding Sum Time TopK Tumbling Window WindowRows "
    "WindowedBolt",
}
_PACKAGE_OF = {name: package for package, names in _PACKAGES.items() for name in names.split()}

__all__ = [
    "DEAD_LETTER_STREAM",
    "DEFAULT_STREAM",
    "AckValueSpout",
    "Actor",
    "ActorEscalatedError",
    "ActorSystem",
    "Aggregate",
    "AiostormError",
    "AskFailedError",
    "AskTimeoutError",
    "BasicBolt",
    "BasicCollector",
    "BatchCollector",
    "Bolt",
    "BoltCollector",
    "BufferedWindowBolt",
    "Cluster",
    "Collect",
    "Combined",
    "Component",
    "ComponentMetrics",
    "Config",
    "ConfigError",
    "Count",
    "Counts",
    "Directive",
    "Distinct",
    "Each",
    "EmitError",
    "ErrorReport",
    "Every",
    "FailValueSpout",
    "Failure",
    "Fields",
    "FileSink",
    "Fold",
    "Grouping",
    "GroupingContext",
    "JoinBolt",
    "KeyedState",
    "LatePolicy",
    "LocalCluster",
    "MailboxClosedError",
    "MapSink",
    "Max",
    "Mean",
    "MetricError",
    "Min",
    "Mixed",
    "Reduce",
    "Ref",
    "ResourceError",
    "RestartPolicy",
    "RunningTopology",
    "Session",
    "Sink",
    "Sliding",
    "Spout",
    "SpoutCollector",
    "State",
    "StreamId",
    "Sum",
    "TaskHook",
    "TaskMetrics",
    "Terminated",
    "Time",
    "TopK",
    "Topology",
    "TopologyBuilder",
    "TopologyContext",
    "TopologyError",
    "TopologyFailedError",
    "TopologyKilledError",
    "TopologyMetrics",
    "Tumbling",
    "Tuple",
    "TupleBatch",
    "UnhashableKeyError",
    "UnsendableError",
    "ValueState",
    "Window",
    "WindowRows",
    "WindowedBolt",
    "WorkerContext",
    "WorkerError",
    "WriteAheadSink",
    "bolt",
    "cleanup_ctx",
    "direct",
    "lifespan",
    "register_record",
    "running",
    "spout",
]


def __getattr__(name: str) -> Any:
    package = _PACKAGE_OF.get(name)
    if package is None:
        raise AttributeError(f"module 'aiostorm' has no attribute {name!r}")
    value = getattr(import_module(f".{package}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
