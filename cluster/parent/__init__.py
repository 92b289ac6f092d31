"""The process that runs one topology on workers.

distributed_runtime.py is the topology as one runtime; assignment.py what is to run, and where its tasks are placed.
start_order.py has the steps in which its workers start, builds.py how often: with exactly once, again and again;
exactly_once.py puts the parts of that together. adoption.py (pure) decides about workers that an earlier parent has
started. worker_queries.py asks all workers how they are.

worker_handle.py is one worker as its parent handles it, worker_process.py one process of it, worker_setup.py its steps
to running tasks, worker_lifecycle.py (pure) when it is started and killed; reports.py what the workers have reported.
worker_registry.py is where workers come from, children.py their processes; a process_backend.py starts them.
command_errors.py makes errors of what workers report; cancelling.py ends asyncio tasks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .assignment import Assignment
    from .distributed_runtime import DistributedRuntime
    from .process_backend import ProcessBackend
    from .worker_lifecycle import LifecycleTimings
    from .worker_registry import WorkerBackend, WorkerRegistry

__all__ = [
    "Assignment",
    "DistributedRuntime",
    "LifecycleTimings",
    "ProcessBackend",
    "WorkerBackend",
    "WorkerRegistry",
]

_LATER = {
    "assignment": "Assignment",
    "worker_registry": "WorkerRegistry WorkerBackend",
    "process_backend": "ProcessBackend",
    "worker_lifecycle": "LifecycleTimings",
    "distributed_runtime": "DistributedRuntime",
}


def __getattr__(name: str) -> object:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
