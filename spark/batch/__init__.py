"""A DataFrame as a stream of Arrow chunks, each a message that is acked, replayed and remembered.

spout.py is what users declare, options.py how it reads; run.py is what an open spout does. source.py opens what is
read, data_identity.py says which data that is. openers.py and feed.py bring partitions (readers.py, read_order.py),
fetched by the driver (fetching.py) or pushed by executors (pushing.py runs there, push_server.py here), as chunks
(chunking.py).
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
    from .readers import End, FetchedReader, Piece, piece_of
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
    "SparkBatchSpout",
    "TooLargeError",
    "cancel",
    "checkpointed",
    "piece_of",
    "planned",
    "takes_session",
]

_LATER = {
    "chunking": "Chunker",
    "fetching": "Fetched Fetching TooLargeError cancel checkpointed planned",
    "group_size": "GroupSize",
    "readers": "End FetchedReader Piece piece_of",
    "source": "takes_session",
    "spout": "SparkBatchSpout",
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
