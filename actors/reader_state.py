"""ReaderState: what the reader of a mailbox lets its senders know about its work."""

from __future__ import annotations

from collections.abc import Callable


class ReaderState:
    """Written by the reader and read by senders; the mailbox itself does not depend on it."""

    __slots__ = ("in_long_call", "on_long_call", "row_s")

    def __init__(self) -> None:
        self.row_s = 0.0  # recent seconds of work for a row; 0.0: not measured yet
        self.in_long_call = False  # in one long call, or very slow: rows for any task go to other tasks
        self.on_long_call: Callable[[], None] | None = None  # called on each change, to notify senders elsewhere

    def set_in_long_call(self, value: bool, /) -> None:
        """Set by the reader when one of its calls has become long, and when that call has ended."""
        if value != self.in_long_call:
            self.in_long_call = value
            if self.on_long_call is not None:
                self.on_long_call()
