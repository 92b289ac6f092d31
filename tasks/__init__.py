"""Spouts and bolts as actors: collectors, outboxes, the tasks themselves."""

from .bolt_task import BoltTask
from .environment import Environment, Wire, direct
from .hooks import load_hooks
from .reports import ErrorLog, ErrorReport, describe
from .spout_task import SpoutTask
from .task import Activate, Deactivate, FailPending, GetResult, TaskActor

__all__ = [
    "Activate",
    "BoltTask",
    "Deactivate",
    "Environment",
    "ErrorLog",
    "ErrorReport",
    "FailPending",
    "GetResult",
    "SpoutTask",
    "TaskActor",
    "Wire",
    "describe",
    "direct",
    "load_hooks",
]
