"""Errors of windows: wrong definitions, rows that fit in no window, and limits that are exceeded, dumps."""

from __future__ import annotations

from ..runtime import AiostormError


class WindowError(AiostormError):
    """Windows, watermarks or aggregates that cannot be built as they are declared; raised before anything runs."""


class TimestampError(AiostormError):
    """An invalid timestamp: a wrong type, NaN, infinite, a time without a zone, or out of range."""


class WindowLimitError(AiostormError):
    """A row would need more states than windows may have. Only that row fails; open windows stay."""


class WindowStateError(AiostormError):
    """A dump of windows that cannot be made or loaded: other windows, other settings, another version, damaged."""


class StatePackError(WindowStateError):
    """A state whose `pack_state` or `unpack_state` raises or returns None. `key`: its key; `state`: what was given."""

    def __init__(self, text: str, key: object, state: object) -> None:
        self.key = key
        self.state = state
        super().__init__(text)


class JoinError(AiostormError):
    """Rows of one window that cannot be joined: a key without a hash, or too many joined rows."""


class WindowKeyError(AiostormError):
    """A key that contains NaN, which does not equal itself. Only that row fails."""
