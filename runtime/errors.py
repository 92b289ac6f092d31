"""The root of the error tree, and the errors of stores and processes.

Every error that aiostorm raises on purpose is an `AiostormError`; a message says what happened and what to do about it.
"""

from __future__ import annotations


class AiostormError(Exception):
    """Anything that aiostorm raises on purpose.

    `final`: whoever failed with it is not started again, since that would not help. May be set on one error, too.
    """

    final: bool = False


class StoreError(AiostormError):
    """A store cannot do it: the medium failed, is full, is used by another, or the blob is too large."""


class SpawnError(AiostormError):
    """A process cannot be started."""
