"""What actors run on: time, randomness, the event loop, files and processes. It uses no other package of ours.

Everything that differs between two runs is reached through this package, so a simulation can replace and control it.

clock.py            the current time             store.py            the interface to storage that survives a crash
rng.py              random numbers               directory_store.py  a store in a directory
loops.py            uvloop or asyncio            spawner.py          the interface to child processes
stall.py            detects a blocked loop       warm_pool.py        processes that were started beforehand
forking.py          ends forked children         parent_watch.py     a child ends with its parent
files.py            whole files, durable folders
liveness.py         heartbeats, timeouts, grace periods: their defaults and order
setting_order.py    which setting must not exceed which
"""

from .clock import Clock, LoopClock, is_virtual
from .directory_store import DirectoryStore
from .errors import AiostormError, SpawnError, StoreError
from .files import NewFile, make_folders, sync_folder, write_file
from .forking import add_system, remove_system
from .liveness import LIVENESS, LIVENESS_ORDER, LivenessSettings
from .loops import loop_factory
from .parent_watch import die_with_parent
from .rng import Rng, SystemRng
from .setting_order import Given, Order, order_problems
from .spawner import MAX_STDIN_BYTES, Child, ChildLine, PythonSpawner, Spawner, check_stdin
from .stall import Stall, StallWatch, is_ours, watch_stalls
from .store import MAX_BLOB_BYTES, Store, check_blob_name
from .warm_pool import WarmPool

__all__ = [
    "LIVENESS",
    "LIVENESS_ORDER",
    "MAX_BLOB_BYTES",
    "MAX_STDIN_BYTES",
    "AiostormError",
    "Child",
    "ChildLine",
    "Clock",
    "DirectoryStore",
    "Given",
    "LivenessSettings",
    "LoopClock",
    "NewFile",
    "Order",
    "PythonSpawner",
    "Rng",
    "SpawnError",
    "Spawner",
    "Stall",
    "StallWatch",
    "Store",
    "StoreError",
    "SystemRng",
    "WarmPool",
    "add_system",
    "check_blob_name",
    "check_stdin",
    "die_with_parent",
    "is_ours",
    "is_virtual",
    "loop_factory",
    "make_folders",
    "order_problems",
    "remove_system",
    "sync_folder",
    "watch_stalls",
    "write_file",
]
