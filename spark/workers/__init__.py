"""Workers of a topology in Spark tasks, one in each slot.

backend.py is what users give to a cluster. spawner.py starts a worker by a job of one task (jobs.py), told by
launch_spec.py what to do; slot.py is the program in that task, messages.py what it and the parent say. code.py brings
aiostorm where it is not installed. driver_worker.py is the one worker in the parent's own process, for what needs its
Spark session.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backend import SparkWorkers

__all__ = [
    "SparkWorkers",
]

_LATER = {
    "backend": "SparkWorkers",
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
