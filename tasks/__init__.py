"""Spouts and bolts as actors: collectors, outboxes, the tasks themselves."""

from .bolt_task import BoltTask
from .environment import Environment
from .reports import ErrorLog, ErrorReport, describe
from .spout_task import Activate, Deactivate, SpoutTask
from .task import GetResult, TaskActor

__all__ = [
    "Activate",
    "BoltTask",
    "Deactivate",
    "Environment",
    "ErrorLog",
    "ErrorReport",
    "GetResult",
    "SpoutTask",
    "TaskActor",
    "describe",
]
