"""Errors of running topologies."""

from __future__ import annotations

from ..actors import AiostormError


class TopologyFailedError(AiostormError):
    """A component failed more often than its restart policy allows; `__cause__` is its last error."""


class TopologyKilledError(AiostormError):
    """The topology was killed while somebody waited for it, or something was asked of it afterwards."""
