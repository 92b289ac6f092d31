"""A DataFrame as a stream of Arrow chunks, each a message that is acked, replayed and remembered.

    SparkBatchSpout ─► BatchRun ─► Reading ─► Way (fetch | push) ─► readers in threads ─► chunks
                          └► BatchProgress      └► Partitions: which chunk is done, and which comes next

spout.py is what users declare, options.py how it reads; run.py is what an open spout does, reading.py its loop: read
all, again after an error. source.py opens what is read, data_identity.py says which data that is. way_factory.py
chooses a way: ways.py fetches partitions through the driver (fetching.py, readers.py), push_way.py receives them from
executors (pushing.py runs there, push_server.py here, over the connections of executors/), as chunks (chunking.py), as
far as there is capacity (capacity.py).
partitions.py (pure, on runs.py) knows what is done; progress.py keeps it; samples.py checks that a restart sees the
same data.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .chunking import Chunker
    from .fetching import Fetched, Fetching, TooLargeError, cancel, checkpointed, planned
    from .group_size import GroupSize
    from .readers import End, FetchedReader, Piece, PieceBatches, WholeBatches
    from .source import takes_session
    from .spout import SparkBatchSpout

__all__ = [
    "Chunker",
    "End",
    "Fetched",
    "FetchedReader",
    "Fetching",
    "GroupSize",
    "Piece",
    "PieceBatches",
    "SparkBatchSpout",
    "TooLargeError",
    "WholeBatches",
    "cancel",
    "checkpointed",
    "planned",
    "takes_session",
]

_LATER = {
    "chunking": "Chunker",
    "fetching": "Fetched Fetching TooLargeError cancel checkpointed planned",
    "group_size": "GroupSize",
    "readers": "End FetchedReader Piece PieceBatches WholeBatches",
    "source": "takes_session",
    "spout": "SparkBatchSpout",
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
