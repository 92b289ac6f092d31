"""Spouts and bolts as actors: collectors, outboxes and the tasks themselves."""

from .backpressure_monitor import BackpressureMonitor
from .bolt_task import BoltTask
from .emit.following import TimeReader
from .environment import Environment, MailboxWrapper, direct
from .event_time.time_messages import TIME_MESSAGES
from .exits import Exits
from .hooks import import_hooks
from .reports import ErrorLog, ErrorReport, describe
from .resources import WorkerResources
from .snapshots import (
    LOADERS,
    SNAPSHOT_MESSAGES,
    AbortSnapshot,
    Aligned,
    CommitSnapshot,
    HeldLevel,
    HoldSpouts,
    Rescaling,
    RestoredTask,
    SnapshotAgent,
    TakeSnapshot,
    handles_of,
)
from .spout_task import SpoutTask
from .task import Activate, Deactivate, FailPending, TaskActor
from .topology_master import TopologyMaster
from .updating import update_bolt, update_spout
from .user_code import GetResult

__all__ = [
    "LOADERS",
    "SNAPSHOT_MESSAGES",
    "TIME_MESSAGES",
    "AbortSnapshot",
    "Activate",
    "Aligned",
    "BackpressureMonitor",
    "BoltTask",
    "CommitSnapshot",
    "Deactivate",
    "Environment",
    "ErrorLog",
    "ErrorReport",
    "Exits",
    "FailPending",
    "GetResult",
    "HeldLevel",
    "HoldSpouts",
    "MailboxWrapper",
    "Rescaling",
    "RestoredTask",
    "SnapshotAgent",
    "SpoutTask",
    "TakeSnapshot",
    "TaskActor",
    "TimeReader",
    "TopologyMaster",
    "WorkerResources",
    "describe",
    "direct",
    "handles_of",
    "import_hooks",
    "update_bolt",
    "update_spout",
]
