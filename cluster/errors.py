"""Errors of running topologies."""

from __future__ import annotations

from ..runtime import AiostormError


class TopologyFailedError(AiostormError):
    """A component failed more often than its restart policy allows; `__cause__` is its last error."""


class TopologyKilledError(AiostormError):
    """The topology was killed while a caller waited for it, or before a call on it."""


class WorkerError(AiostormError):
    """A worker has failed to execute a command, or has ended."""


class WorkerTaskError(AiostormError):
    """An error of a task in a worker: its type and text are this error's text, its traceback is a note."""


class ControlError(AiostormError):
    """A running topology of another process was not found, did not answer, or refused a request."""


class NotCompletedError(AiostormError):
    """A topology has finished, but a component failed in its last step."""
