"""The base class of all errors, and the errors of stores and processes.

Every error that aiostorm raises on purpose is an `AiostormError`; its message says what happened and what to do about
it.
"""

from __future__ import annotations


class AiostormError(Exception):
    """Base class of everything that aiostorm raises on purpose.

    `final`: an actor that failed with this error is not restarted, because that would not help. It can also be set on a
    single error.
    """

    final: bool = False


class StoreError(AiostormError):
    """A store failed: the medium fails, is full or is in use by another store, or the blob is too large."""


class StorePlaceError(StoreError):
    """The place of a store cannot be one: not a folder, not writable, with files of others, or not known."""


class SpawnError(AiostormError):
    """A process could not be started."""
