"""The kernel: actors with bounded mailboxes. It knows no Storm noun, and nothing below it but asyncio.

system ─ guardian of all ─┬─ cell: mailbox, restarts, timers, watchers ── actor (user code)
                          └─ cell …                 ▲
                                    ref.tell / ask ─┘
"""

from .actor import Actor, maybe_await
from .clock import Clock, LoopClock, is_virtual
from .deathwatch import DeathWatch, Ear
from .directory_store import DirectoryStore
from .dispatcher import Stepper
from .errors import (
    ActorCancelledError,
    ActorEscalatedError,
    AiostormError,
    AskFailedError,
    AskTimeoutError,
    KillTimeoutError,
    MailboxClosedError,
    SpawnError,
    StoreError,
)
from .inbox import Inbox
from .lanes import EMPTY, Lanes, Parked
from .lifeline import die_with_parent
from .loops import loop_factory
from .mailbox import Mailbox
from .messages import ChildEscalated, DeadLetter, Question, Reply, Stop, Terminated
from .policy import (
    ESCALATE_ON_FAILURE,
    RESUME_ON_FAILURE,
    STOP_ON_FAILURE,
    Decision,
    Directive,
    FailureHistory,
    RestartPolicy,
    restart,
)
from .ref import Ref, time_out
from .rng import Rng, SystemRng
from .spares import SpareSpawner
from .spawner import MAX_STDIN_BYTES, Child, ChildLine, PythonSpawner, Spawner, check_stdin
from .stall import Stall, StallWatch, watch_stalls
from .store import MAX_BLOB_BYTES, Store, check_blob_name
from .system import ActorSystem, DeadLetters
from .timers import Timer

__all__ = [
    "EMPTY",
    "ESCALATE_ON_FAILURE",
    "MAX_BLOB_BYTES",
    "MAX_STDIN_BYTES",
    "RESUME_ON_FAILURE",
    "STOP_ON_FAILURE",
    "Actor",
    "ActorCancelledError",
    "ActorEscalatedError",
    "ActorSystem",
    "AiostormError",
    "AskFailedError",
    "AskTimeoutError",
    "Child",
    "ChildEscalated",
    "ChildLine",
    "Clock",
    "DeadLetter",
    "DeadLetters",
    "DeathWatch",
    "Decision",
    "Directive",
    "DirectoryStore",
    "Ear",
    "FailureHistory",
    "Inbox",
    "KillTimeoutError",
    "Lanes",
    "LoopClock",
    "Mailbox",
    "MailboxClosedError",
    "Parked",
    "PythonSpawner",
    "Question",
    "Ref",
    "Reply",
    "RestartPolicy",
    "Rng",
    "SpareSpawner",
    "SpawnError",
    "Spawner",
    "Stall",
    "StallWatch",
    "Stepper",
    "Stop",
    "Store",
    "StoreError",
    "SystemRng",
    "Terminated",
    "Timer",
    "check_blob_name",
    "check_stdin",
    "die_with_parent",
    "is_virtual",
    "loop_factory",
    "maybe_await",
    "restart",
    "time_out",
    "watch_stalls",
]
