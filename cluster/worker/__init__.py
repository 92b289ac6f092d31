"""The worker process: a part of a topology's work, for a parent.

worker.py is the program, joining.py how it joins a parent, service.py what it does for one: importing.py the topology,
status.py what it reports, results.py what its tasks return, snapshots.py what it does for exactly once, peer_links.py
its links to other workers. heartbeat.py says that it lives while user code holds the event loop, log.py brings what it
prints and logs into the parent's log.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .heartbeat import Heartbeat, NetworkHeartbeatSender, PipeHeartbeatSender, write_profile
    from .importing import shape_of
    from .log import MarkedFormatter, MarkedStream, WorkerLog, plain_line, where_of
    from .worker import TERMINATED, WorkerOptions, work

__all__ = [
    "TERMINATED",
    "Heartbeat",
    "MarkedFormatter",
    "MarkedStream",
    "NetworkHeartbeatSender",
    "PipeHeartbeatSender",
    "WorkerLog",
    "WorkerOptions",
    "plain_line",
    "shape_of",
    "where_of",
    "work",
    "write_profile",
]

_LATER = {
    "importing": "shape_of",
    "log": "MarkedFormatter MarkedStream WorkerLog plain_line where_of",
    "heartbeat": "NetworkHeartbeatSender PipeHeartbeatSender Heartbeat write_profile",
    "worker": "TERMINATED WorkerOptions work",
}


def __getattr__(name: str) -> object:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
