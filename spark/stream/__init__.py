"""A streaming query of Spark as a source. A micro-batch is committed when all of it is acked.

spout.py is what users declare, run.py runs an open spout. query.py starts and stops the query (session.py: in which
session; checkpoint.py: of which query is a checkpoint). Spark calls foreach_batch.py with each batch; chunks.py reads
it as Arrow; batches.py (pure) tracks the outcome of chunks.
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
