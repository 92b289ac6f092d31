"""State that survives: what a task saves, how it is packed, and where snapshots are kept. Tasks do not use it yet.

State (a dict) ─ freeze ─► capture ─ slices ─► chunks ─► blobs ─► Store;   manifest, written last ─► the snapshot counts

keyed.py        declarations, the dict, the keys that were touched
aligner.py      when a task has received the barriers of a snapshot from all its sources
deltas.py       the content at one moment as chunks of bytes, and back
blobs.py        chunks in blobs, each with a checksum
"""

from .aligner import Aligned, Aligner, Lost
from .blobs import PART_BYTES, Blob, BlobName, BlobRef, BlobWriter, body_of
from .deltas import Capture, Chunk, PackedChunk, check_savable, unpack_chunks
from .errors import DamagedError, ForeignError, OwnedError, SaveError, StateError, UnmarkedError, UnsavableError
from .keyed import KeyedState, State, Value, ValueState

__all__ = [
    "PART_BYTES",
    "Aligned",
    "Aligner",
    "Blob",
    "BlobName",
    "BlobRef",
    "BlobWriter",
    "Capture",
    "Chunk",
    "DamagedError",
    "ForeignError",
    "KeyedState",
    "Lost",
    "OwnedError",
    "PackedChunk",
    "SaveError",
    "State",
    "StateError",
    "UnmarkedError",
    "UnsavableError",
    "Value",
    "ValueState",
    "body_of",
    "check_savable",
    "unpack_chunks",
]
