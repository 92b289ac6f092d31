"""State that survives: what a task saves, how it is packed, and where snapshots are kept. Tasks do not use it yet.

State (a dict) ─ freeze ─► capture ─ slices ─► chunks ─► blobs ─► Store;   manifest, written last ─► the snapshot counts

keyed.py        declarations, the dict, the keys that were touched
aligner.py      when a task has received the barriers of a snapshot from all its sources
deltas.py       the content at one moment as chunks of bytes, and back
blobs.py        chunks in blobs, each with a checksum
coordinator.py  which snapshot is taken, when it counts, what happens if it fails
"""

from .aligner import Aligned, Aligner, Lost
from .blobs import PART_BYTES, Blob, BlobName, BlobRef, BlobWriter, body_of
from .coordinator import (
    Abort,
    Action,
    Answer,
    Closed,
    Commit,
    Coordinator,
    Done,
    Failed,
    Phase,
    Rollback,
    SnapshotSettings,
    Trigger,
    WriteManifest,
)
from .deltas import Capture, Chunk, PackedChunk, check_savable, unpack_chunks
from .errors import DamagedError, ForeignError, OwnedError, SaveError, StateError, UnmarkedError, UnsavableError
from .keyed import KeyedState, State, Value, ValueState

__all__ = [
    "PART_BYTES",
    "Abort",
    "Action",
    "Aligned",
    "Aligner",
    "Answer",
    "Blob",
    "BlobName",
    "BlobRef",
    "BlobWriter",
    "Capture",
    "Chunk",
    "Closed",
    "Commit",
    "Coordinator",
    "DamagedError",
    "Done",
    "Failed",
    "ForeignError",
    "KeyedState",
    "Lost",
    "OwnedError",
    "PackedChunk",
    "Phase",
    "Rollback",
    "SaveError",
    "SnapshotSettings",
    "State",
    "StateError",
    "Trigger",
    "UnmarkedError",
    "UnsavableError",
    "Value",
    "ValueState",
    "WriteManifest",
    "body_of",
    "check_savable",
    "unpack_chunks",
]
