"""What actors run on: time, randomness, the event loop, files and processes. It uses no other package of ours.

Everything that differs between two runs is reached through this package, so a simulation can replace and control it.

clock.py            the current time             store.py            the interface to storage that survives a crash
rng.py              random numbers               directory_store.py  a store in a directory
loops.py            uvloop or asyncio            files.py            whole files, durable folders
stall.py            detects a blocked loop       threaded_store.py   a store with blocking operations
forking.py          ends forked children         garbage.py          the garbage collector and large objects
loop_turns.py       long work of several tasks
machine.py          which start of the machine this is, and how long ago
processes/          child processes, imported when first used
liveness.py         heartbeats, timeouts, grace periods: their defaults and order
process_identity.py which process it is
process_metrics.py  what a process uses, and how late its event loop is
profile.py          where threads are, sampled, for flame graphs
user_files.py       which code is the user's
setting_order.py    which setting must not exceed which
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .clock import Clock, LoopClock, is_virtual
from .errors import AiostormError, SpawnError, StoreError, StorePlaceError
from .files import OPEN_FLAGS, NewFile, make_folders, sync_folder, why_unwritable, write_file
from .forking import add_system, remove_system
from .garbage import age_objects
from .liveness import LIVENESS, LIVENESS_ORDER, LivenessSettings
from .loop_turns import LoopTurns
from .loops import loop_factory
from .machine import boot_id, shared_file_system, since_boot_s
from .process_identity import ProcessIdentity, process_exists, process_space
from .process_metrics import ProcessMetrics, forget_process, look_at_process
from .profile import Profile, Sampler, StallProfile
from .rng import Rng, SystemRng
from .setting_order import Given, Order, order_problems
from .stall import Stall, StallWatch, watch_stalls
from .store import MAX_BLOB_BYTES, Store, check_blob_name
from .threads import in_thread, thread_works
from .user_files import is_ours

if TYPE_CHECKING:
    from .directory_store import DirectoryStore
    from .processes import (
        MAX_STDIN_BYTES,
        Child,
        ChildLine,
        PythonSpawner,
        Spawner,
        WarmPool,
        check_stdin,
        die_with_parent,
    )
    from .threaded_store import BlobFiles, ThreadedStore, check_size

__all__ = [
    "LIVENESS",
    "LIVENESS_ORDER",
    "MAX_BLOB_BYTES",
    "MAX_STDIN_BYTES",
    "OPEN_FLAGS",
    "AiostormError",
    "BlobFiles",
    "Child",
    "ChildLine",
    "Clock",
    "DirectoryStore",
    "Given",
    "LivenessSettings",
    "LoopClock",
    "LoopTurns",
    "NewFile",
    "Order",
    "ProcessIdentity",
    "ProcessMetrics",
    "Profile",
    "PythonSpawner",
    "Rng",
    "Sampler",
    "SpawnError",
    "Spawner",
    "Stall",
    "StallProfile",
    "StallWatch",
    "Store",
    "StoreError",
    "StorePlaceError",
    "SystemRng",
    "ThreadedStore",
    "WarmPool",
    "add_system",
    "age_objects",
    "boot_id",
    "check_blob_name",
    "check_size",
    "check_stdin",
    "die_with_parent",
    "forget_process",
    "in_thread",
    "is_ours",
    "is_virtual",
    "look_at_process",
    "loop_factory",
    "make_folders",
    "order_problems",
    "process_exists",
    "process_space",
    "remove_system",
    "shared_file_system",
    "since_boot_s",
    "sync_folder",
    "thread_works",
    "watch_stalls",
    "why_unwritable",
    "write_file",
]


_LATER = {
    "directory_store": "DirectoryStore",
    "processes": "MAX_STDIN_BYTES Child ChildLine PythonSpawner Spawner WarmPool check_stdin die_with_parent",
    "threaded_store": "BlobFiles ThreadedStore check_size",
}


def __getattr__(name: str) -> object:
    """Child processes and stores, imported when they are first used: most programs have none."""
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
