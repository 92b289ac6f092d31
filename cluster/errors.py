"""Errors of running topologies."""

from __future__ import annotations

from ..runtime import AiostormError


class TopologyFailedError(AiostormError):
    """A component failed more often than its restart policy allows; `__cause__` is its last error."""


class TopologyKilledError(AiostormError):
    """The topology was killed while somebody waited for it, or something was asked of it afterwards."""


class WorkerError(AiostormError):
    """A worker cannot do what it was told to, or is gone."""


class WorkerTaskError(AiostormError):
    """What a task in a worker has raised: its type and text are this one's text, its traceback is a note."""


class ControlError(AiostormError):
    """A running topology of another process cannot be found or asked, or did not do what it was asked to."""


class NotCompletedError(AiostormError):
    """A topology has ended well, but a component could not do what it does then."""
