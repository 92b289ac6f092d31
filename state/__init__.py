"""State that survives: what a task saves, how it is packed, and where snapshots are kept. Tasks do not use it yet.

State (a dict) ─ freeze ─► capture ─ slices ─► chunks ─► blobs ─► Store;   manifest, written last ─► the snapshot counts

keyed.py        declarations, the dict, the keys that were touched
aligner.py      when a task has received the barriers of a snapshot from all its sources
chunks.py       rows as bytes, and back
deltas.py       the content at one moment as chunks
blobs.py        chunks in blobs, each with a checksum
coordinator.py  which snapshot is taken, when it counts, what happens if it fails
manifest.py     what belongs to a snapshot, written last
governor.py     when the next snapshot begins, and whether it is full
ranges.py       which keys a task owns, at any parallelism
keeper.py       the snapshots in a store: written, loaded, removed
garbage.py      which blobs no snapshot needs, and how many bytes the others have
listing.py      the snapshots in a store, for people
fsspec_store.py a store on s3://, gs://, hdfs://, …
reopening_store.py a store that is opened again after a failed sync
sinks/          bolts that write exactly once: they commit by the number of the snapshot; imported when first used
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .aligner import Aligned, Aligner, Lost
from .blobs import PART_BYTES, Blob, BlobName, BlobRef, BlobWriter, body_of
from .chunks import ATOMS, FIRST_ROWS, REMOVED, Captured, Chunk, PackedChunk, RowPacker, next_rows, unpack_chunks
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
from .deltas import Capture, check_savable, pack_single
from .errors import (
    DamagedError,
    ForeignError,
    OwnedError,
    QuotaError,
    RepeatedOutputError,
    SaveError,
    StateError,
    UnmarkedError,
    UnsavableError,
)
from .fsspec_store import FsspecStore, open_store
from .governor import BlobChain, Governor
from .keeper import Keeper, SavedTask, SectionLoader, chunks_of, load_task, save_task
from .keyed import KeyedState, State, Value, ValueState
from .listing import ListedComponent, ListedSnapshot, list_snapshots
from .manifest import ComponentPlan, Manifest, TaskBlobs, manifest_name, pack_manifest, read_manifest
from .ranges import KeySplitter, check_restorable
from .reopening_store import ReopeningStore

if TYPE_CHECKING:
    from .sinks import (
        BackingMap,
        Commits,
        FileSink,
        MapSink,
        OpaqueMap,
        Sink,
        SinkError,
        TransactionalMap,
        UpsertSink,
        WriteAheadSink,
    )

__all__ = [
    "ATOMS",
    "FIRST_ROWS",
    "PART_BYTES",
    "REMOVED",
    "Abort",
    "Action",
    "Aligned",
    "Aligner",
    "Answer",
    "BackingMap",
    "Blob",
    "BlobChain",
    "BlobName",
    "BlobRef",
    "BlobWriter",
    "Capture",
    "Captured",
    "Chunk",
    "Closed",
    "Commit",
    "Commits",
    "ComponentPlan",
    "Coordinator",
    "DamagedError",
    "Done",
    "Failed",
    "FileSink",
    "ForeignError",
    "FsspecStore",
    "Governor",
    "Keeper",
    "KeySplitter",
    "KeyedState",
    "ListedComponent",
    "ListedSnapshot",
    "Lost",
    "Manifest",
    "MapSink",
    "OpaqueMap",
    "OwnedError",
    "PackedChunk",
    "Phase",
    "QuotaError",
    "ReopeningStore",
    "RepeatedOutputError",
    "Rollback",
    "RowPacker",
    "SaveError",
    "SavedTask",
    "SectionLoader",
    "Sink",
    "SinkError",
    "SnapshotSettings",
    "State",
    "StateError",
    "TaskBlobs",
    "TransactionalMap",
    "Trigger",
    "UnmarkedError",
    "UnsavableError",
    "UpsertSink",
    "Value",
    "ValueState",
    "WriteAheadSink",
    "WriteManifest",
    "body_of",
    "check_restorable",
    "check_savable",
    "chunks_of",
    "list_snapshots",
    "load_task",
    "manifest_name",
    "next_rows",
    "open_store",
    "pack_manifest",
    "pack_single",
    "read_manifest",
    "save_task",
    "unpack_chunks",
]


def __getattr__(name: str) -> object:
    """Names of sinks, imported when they are first used: they are bolts, and most topologies have others."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".sinks", __name__), name)
