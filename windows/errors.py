"""Errors of windows: those that cannot be built, rows that fit in none, and more than there is room for."""

from __future__ import annotations

from ..runtime import AiostormError


class WindowError(AiostormError):
    """Windows, watermarks or aggregates that cannot be built as they were described; raised before anything runs."""


class TimestampError(AiostormError):
    """A timestamp that is none: a wrong type, NaN, infinite, a time without a zone, or out of range."""


class WindowLimitError(AiostormError):
    """A row would open one state more than windows may hold. It fails alone; what is open stays."""


class JoinError(AiostormError):
    """Rows of one window that cannot be joined: a key without a hash, or more joined rows than a window may give."""


class WindowKeyError(AiostormError):
    """A key that has NaN in it: rows could not be told to have the same. The row fails alone."""
