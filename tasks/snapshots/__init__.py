"""Snapshots of tasks: barriers between them, what each of them saves, and how it begins again.

messages.py  what is sent to a task, and between tasks
agent.py     what tasks need of their process
saved.py     what is saved of a task
"""

from .agent import SnapshotAgent
from .messages import SNAPSHOT_MESSAGES, AbortSnapshot, Aligned, CommitSnapshot, TakeSnapshot
from .saved import RestoredTask

__all__ = [
    "SNAPSHOT_MESSAGES",
    "AbortSnapshot",
    "Aligned",
    "CommitSnapshot",
    "RestoredTask",
    "SnapshotAgent",
    "TakeSnapshot",
]
