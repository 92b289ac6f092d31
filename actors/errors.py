"""The errors of the actor kernel."""

from __future__ import annotations

from ..runtime import AiostormError


class MailboxClosedError(AiostormError):
    """A message was not accepted, because the actor has stopped or is stopping."""


class AskTimeoutError(AiostormError, TimeoutError):
    """No reply came within `timeout_s`."""


class AskFailedError(AiostormError):
    """The actor raised while it handled the question; `__cause__` is that error."""


class ActorCancelledError(AiostormError):
    """An actor was cancelled but not killed: by something that it awaited, or from outside; see `__cause__`."""


class KillTimeoutError(AiostormError, TimeoutError):
    """A killed actor or guarded asyncio task did not end and was abandoned: it swallows CancelledError."""


class ActorEscalatedError(AiostormError):
    """An actor failed more often than its restart policy allows; `__cause__` is the last failure."""
