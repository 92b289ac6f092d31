"""The kernel's own errors."""

from __future__ import annotations

from ..runtime import AiostormError


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
