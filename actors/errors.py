"""The root of the error tree, and the kernel's own errors.

Every error that aiostorm raises on purpose is an `AiostormError`; a message says what happened and what to do about it.
"""

from __future__ import annotations


class AiostormError(Exception):
    """Anything that aiostorm raises on purpose.

    `final`: whoever failed with it is not started again, since that would not help. May be set on one error, too.
    """

    final: bool = False


class MailboxClosedError(AiostormError):
    """A message was sent to an actor that has stopped (or is stopping): it was not accepted."""


class AskTimeoutError(AiostormError, TimeoutError):
    """No reply came within `timeout_s`."""


class AskFailedError(AiostormError):
    """The actor raised while it handled the question; `__cause__` is what it raised."""


class ActorCancelledError(AiostormError):
    """An actor was cancelled though nobody killed it: by something it awaited, or from outside; see `__cause__`."""


class KillTimeoutError(AiostormError, TimeoutError):
    """An actor or a guarded asyncio task was killed and given up, since it did not end: it swallows CancelledError."""


class ActorEscalatedError(AiostormError):
    """An actor failed more often than its restart policy allows; `__cause__` is the last failure."""


class StoreError(AiostormError):
    """A store cannot do it: the medium failed, is full, is used by another, or the blob is too large."""


class SpawnError(AiostormError):
    """A process cannot be started."""
