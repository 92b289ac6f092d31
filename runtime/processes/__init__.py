"""Child processes: spawner.py starts them, warm_pool.py keeps some that were started before, parent_watch.py ends a
child with its parent, and detached.py starts processes that outlive their starter."""

from .detached import DetachedPool, DetachedProcess, WaitingProcess, open_log
from .parent_watch import die_with_parent
from .spawner import MAX_STDIN_BYTES, Child, ChildLine, PythonSpawner, Spawner, check_stdin
from .warm_pool import WarmPool

__all__ = [
    "MAX_STDIN_BYTES",
    "Child",
    "ChildLine",
    "DetachedPool",
    "DetachedProcess",
    "PythonSpawner",
    "Spawner",
    "WaitingProcess",
    "WarmPool",
    "check_stdin",
    "die_with_parent",
    "open_log",
]
