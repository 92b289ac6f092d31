"""A streaming query of Spark as a source. A micro-batch is committed when all of it is acked.

spout.py is what users declare, run.py runs an open spout. query_runner.py starts, checks and stops its query: query.py
is one run of it, session.py its session, checkpoint.py says of which query a checkpoint is. Spark calls
foreach_batch.py with each batch; batch_reader.py reads it as chunks, which chunks.py fetches as Arrow; batches.py
(pure) tracks the outcome of chunks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .spout import SparkStreamSpout

__all__ = [
    "SparkStreamSpout",
]

_LATER = {
    "spout": "SparkStreamSpout",
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
