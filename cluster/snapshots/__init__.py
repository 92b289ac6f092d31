"""Exactly once: snapshots of a running topology, and rollback to the last one.

messages.py  what a parent and its workers tell each other
runtime.py   what runs a topology must be able to do for it
"""

from .messages import (
    EndTasks,
    Rebuild,
    RowsFailed,
    SaveFailed,
    SnapshotCommand,
    SnapshotReport,
    SnapshotSetup,
    TasksCommitted,
    TasksSaved,
)
from .runtime import Rebuildable

__all__ = [
    "EndTasks",
    "Rebuild",
    "Rebuildable",
    "RowsFailed",
    "SaveFailed",
    "SnapshotCommand",
    "SnapshotReport",
    "SnapshotSetup",
    "TasksCommitted",
    "TasksSaved",
]
