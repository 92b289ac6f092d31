"""Records: the classes whose values a parent and its workers may send each other.

They are the messages of messages.py and snapshots/messages.py, and what these contain. Both sides register them when
they start; a frame with a value of another class is refused (see transport.register_record).
"""

from __future__ import annotations

from typing import Final

from ..backpressure import Backpressure, ComponentPressure, PressureEvent, SpoutPacing, TaskPressure
from ..runtime import ProcessMetrics, Profile, Stall
from ..state import BlobRef, Done, Failed
from ..tasks import AbortSnapshot, CommitSnapshot, ErrorReport, HoldSpouts, TakeSnapshot
from ..transport import register_record
from .distributed_idle import IdleReport
from .messages import (
    CommandFailed,
    Connect,
    FetchResult,
    Finish,
    GatherResults,
    GetIdleReport,
    GetSpans,
    GetStatus,
    ImportTopology,
    Open,
    PeerDied,
    PeerEnded,
    PeerRestarted,
    Prepare,
    ProfileTaken,
    SetLogLevel,
    Standing,
    StatusReport,
    TakeProfile,
    TaskGaveUp,
    UpdateConfig,
    WantTraces,
    WorkerJoined,
    WorkerLeaving,
)
from .snapshots.messages import (
    EndTasks,
    Rebuild,
    RowsFailed,
    RowsHeld,
    SaveFailed,
    SnapshotSetup,
    TasksCommitted,
    TasksSaved,
)

_RECORDS: Final[tuple[type[object], ...]] = (
    ImportTopology,
    Connect,
    Prepare,
    Open,
    PeerEnded,
    PeerDied,
    PeerRestarted,
    GetStatus,
    StatusReport,
    UpdateConfig,
    WantTraces,
    GetSpans,
    ProfileTaken,
    TakeProfile,
    SetLogLevel,
    GetIdleReport,
    GatherResults,
    FetchResult,
    Finish,
    CommandFailed,
    WorkerJoined,
    Standing,
    TaskGaveUp,
    WorkerLeaving,
    IdleReport,
    ProcessMetrics,
    Profile,
    ErrorReport,
    Stall,
    Backpressure,
    ComponentPressure,
    TaskPressure,
    SpoutPacing,
    PressureEvent,
    SnapshotSetup,
    EndTasks,
    Rebuild,
    TakeSnapshot,
    CommitSnapshot,
    AbortSnapshot,
    HoldSpouts,
    TasksSaved,
    SaveFailed,
    TasksCommitted,
    RowsFailed,
    RowsHeld,
    Done,
    Failed,
    BlobRef,
)


def register() -> None:
    """Register these classes in this process, so that their values can be sent."""
    for record in _RECORDS:
        register_record(record, f"aiostorm.{record.__name__}")
