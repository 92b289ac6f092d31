"""Workers of a topology in Spark tasks, one in each slot.

backend.py is what users give to a cluster: slot_session.py is its session, executor_access.py says how executors of
other machines reach it. spawner.py starts a worker by a job of one task (jobs.py) with a launch_spec.py; slot.py is the
program in that task, messages.py its messages with the parent. code.py ships aiostorm to machines where it is not
installed. driver_worker.py is the one worker in the parent's own process, for components that need its Spark session.
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
