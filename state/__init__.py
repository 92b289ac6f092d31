"""State that survives: what a task saves, how it is packed, and where snapshots are kept. Tasks do not use it yet.

State (a dict) ─ freeze ─► capture ─ slices ─► chunks ─► blobs ─► Store;   manifest, written last ─► the snapshot counts

keyed.py        declarations, the dict, the keys that were touched
aligner.py      when a task has received the barriers of a snapshot from all its sources
"""

from .aligner import Aligned, Aligner, Lost
from .errors import DamagedError, ForeignError, OwnedError, SaveError, StateError, UnmarkedError, UnsavableError
from .keyed import KeyedState, State, Value, ValueState

__all__ = [
    "Aligned",
    "Aligner",
    "DamagedError",
    "ForeignError",
    "KeyedState",
    "Lost",
    "OwnedError",
    "SaveError",
    "State",
    "StateError",
    "UnmarkedError",
    "UnsavableError",
    "Value",
    "ValueState",
]
