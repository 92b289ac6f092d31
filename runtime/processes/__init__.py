"""Child processes: spawner.py starts them, warm_pool.py keeps some that were started before, and parent_watch.py ends a
child with its parent."""

from .parent_watch import die_with_parent
from .spawner import MAX_STDIN_BYTES, Child, ChildLine, PythonSpawner, Spawner, check_stdin
from .warm_pool import WarmPool

__all__ = [
    "MAX_STDIN_BYTES",
    "Child",
    "ChildLine",
    "PythonSpawner",
    "Spawner",
    "WarmPool",
    "check_stdin",
    "die_with_parent",
]
