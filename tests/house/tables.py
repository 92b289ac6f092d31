"""Who may do what: the tables that the rules look up. To add a line here is a decision; say why beside it."""

from __future__ import annotations

from typing import Final

MACHINES: Final = (
    # Decisions: events in, decisions out, time and chance passed in. Patterns; what they match must stay pure.
    "acker/ids.py",
    "acker/ledger.py",
    "acker/pending.py",
    "acker/retries.py",
    "actors/lanes.py",
    "actors/policy.py",
    "metrics/*.py",
    "tasks/emitter.py",
    "testing/virtual_time.py",
    "topology/*.py",
)

MACHINE_BANS: Final = ("asyncio", "time", "threading", "concurrent", "socket", "random", "select", "selectors")
"""Imports no machine may have at run time (under TYPE_CHECKING they are only words)."""

SEAMS: Final[dict[str, tuple[str, ...]]] = {
    # What reaches outside the process, or makes two runs differ → the only modules that touch it.
    "time": (
        "actors/clock.py",  # the clock itself
        "actors/stall.py",  # a thread that watches real time while the loop is stuck
    ),
    "datetime.datetime.now": ("actors/clock.py",),
    "datetime.datetime.utcnow": (),
    "datetime.datetime.today": (),
    "datetime.date.today": (),
    "random": ("actors/rng.py",),
    "secrets": ("actors/rng.py",),
    "os.urandom": ("actors/rng.py",),
    "uuid.uuid1": (),
    "uuid.uuid4": (),
    "socket": (),
    "selectors": ("testing/virtual_loop.py",),  # virtual time looks at what I/O is waited for
    "ssl": (),
    "subprocess": (),
    "multiprocessing": (),
    "os.fork": (),
    "threading": ("actors/stall.py",),
    "concurrent.futures": (
        "tasks/task.py",  # components with blocking=True run in threads
        "testing/virtual_loop.py",  # time stands still while a thread works
    ),
}

SEAM_TYPES: Final = ("random.Random",)
"""Types of a seam that may be named in annotations anywhere: whoever made the object stood at the seam."""

TASK_MAKERS: Final = ("actors",)
"""Rooms that may start asyncio tasks by hand: the guardian lives there."""

LOOP_OWNERS: Final = ("aiostorm/__main__.py", "aiostorm/cli*.py")
"""Programs: they may start an event loop. Examples may under `if __name__ == "__main__"`."""

MAX_FILE_LINES: Final = 450
MAX_FUNCTION_LINES: Final = 60
