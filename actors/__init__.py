"""The kernel: actors with bounded mailboxes. It knows nothing of Storm, and uses only the package runtime.

system ─ root guardian ─┬─ cell: mailbox, restarts, timers, watchers ── actor (user code)
                        └─ cell …                 ▲
                                  ref.tell / ask ─┘
"""

from .actor import Actor, maybe_await
from .dead_letters import DeadLetters
from .deathwatch import DeathWatch, Watcher
from .dispatcher import Stepper
from .errors import (
    ActorCancelledError,
    ActorEscalatedError,
    AskFailedError,
    AskTimeoutError,
    KillTimeoutError,
    MailboxClosedError,
)
from .gate import Gate
from .inbox import Inbox, Pack, SenderGate
from .lanes import EMPTY, Lanes, ParkedSender
from .mailbox import Mailbox
from .messages import Answer, ChildEscalated, DeadLetter, MaybeAwaitable, Message, Question, Reply, Stop, Terminated
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
from .reader_state import ReaderState
from .ref import Ref, time_out
from .system import ActorSystem
from .timers import Timer

__all__ = [
    "EMPTY",
    "ESCALATE_ON_FAILURE",
    "RESUME_ON_FAILURE",
    "STOP_ON_FAILURE",
    "Actor",
    "ActorCancelledError",
    "ActorEscalatedError",
    "ActorSystem",
    "Answer",
    "AskFailedError",
    "AskTimeoutError",
    "ChildEscalated",
    "DeadLetter",
    "DeadLetters",
    "DeathWatch",
    "Decision",
    "Directive",
    "FailureHistory",
    "Gate",
    "Inbox",
    "KillTimeoutError",
    "Lanes",
    "Mailbox",
    "MailboxClosedError",
    "MaybeAwaitable",
    "Message",
    "Pack",
    "ParkedSender",
    "Question",
    "ReaderState",
    "Ref",
    "Reply",
    "RestartPolicy",
    "SenderGate",
    "Stepper",
    "Stop",
    "Terminated",
    "Timer",
    "Watcher",
    "maybe_await",
    "restart",
    "time_out",
]
