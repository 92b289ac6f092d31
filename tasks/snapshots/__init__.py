"""Snapshots of tasks: barriers between them, what each of them saves, and how it begins again.

messages.py  what is sent to a task, and between tasks
agent.py     what tasks need of their process
saved.py     what is saved of a task
window_capture.py, window_loading.py   its windows
rescaling.py  what a bolt had saved, divided among another number of tasks
"""

from .agent import SnapshotAgent
from .handles import handles_of
from .held_rows import HeldLevel
from .messages import SNAPSHOT_MESSAGES, AbortSnapshot, Aligned, CommitSnapshot, HoldSpouts, TakeSnapshot
from .rescaling import Rescaling
from .saved import RestoredTask
from .sections import LOADERS

__all__ = [
    "LOADERS",
    "SNAPSHOT_MESSAGES",
    "AbortSnapshot",
    "Aligned",
    "CommitSnapshot",
    "HeldLevel",
    "HoldSpouts",
    "Rescaling",
    "RestoredTask",
    "SnapshotAgent",
    "TakeSnapshot",
    "handles_of",
]
