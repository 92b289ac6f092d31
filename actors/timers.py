"""Timers: messages that an actor sends to itself later, on the control lane.

1. A repeating timer has at most one message in the mailbox: an actor that is busy for ten intervals receives one
   message, not ten.
2. All timers end with their actor, and at each restart of it; after `close`, no new timer can be made.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .errors import MailboxClosedError

if TYPE_CHECKING:
    from .mailbox import Mailbox
    from .messages import Message


class Timer:
    """A message to be sent later. `cancel` also removes one that is in the mailbox but not yet received."""

    __slots__ = ("_handle", "_interval_s", "_loop", "_mailbox", "_timers", "active", "message", "under_way")

    def __init__(self, timers: Timers, delay_s: float, message: Message, interval_s: float | None) -> None:
        self._timers = timers
        self._loop = timers.loop
        self._mailbox = timers.mailbox
        self._interval_s = interval_s
        self.message = message
        self.active = True
        self.under_way = False
        self._handle = self._loop.call_later(delay_s, self._fire)

    def cancel(self) -> None:
        """Cancel the timer: its message will not be received any more."""
        self.active = False
        self._handle.cancel()
        self._timers.discard(self)

    def received(self) -> bool:
        """The reader has taken the message out of the mailbox. Returns False if the timer was cancelled."""
        self.under_way = False
        if self._interval_s is None:
            self._timers.discard(self)
        return self.active

    def _fire(self) -> None:
        if not self.under_way:
            self.under_way = True
            self._mailbox.post(self)
        if self._interval_s is not None:
            self._handle = self._loop.call_later(self._interval_s, self._fire)


class Timers:
    """The timers of one actor; they end with it."""

    __slots__ = ("_closed", "_timers", "loop", "mailbox")

    def __init__(self, mailbox: Mailbox, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.mailbox = mailbox
        self._timers: dict[Timer, None] = {}
        self._closed: str | None = None

    def after(self, delay_s: float, message: Message) -> Timer:
        """Send the message once, in `delay_s` seconds."""
        return self._add(delay_s, message, None)

    def every(self, interval_s: float, message: Message) -> Timer:
        """Send the message repeatedly; the first time after one interval."""
        if interval_s <= 0:
            raise ValueError(f"an interval must be more than 0 seconds, not {interval_s}")
        return self._add(interval_s, message, interval_s)

    def cancel_all(self) -> None:
        """Cancel every timer."""
        for timer in list(self._timers):
            timer.cancel()

    def close(self, reason: str) -> None:
        """Cancel every timer and refuse new ones: no reader would receive their messages."""
        self._closed = reason
        self.cancel_all()

    def discard(self, timer: Timer) -> None:
        """Remove a timer that has ended."""
        self._timers.pop(timer, None)

    def _add(self, delay_s: float, message: Message, interval_s: float | None) -> Timer:
        if self._closed is not None:
            raise MailboxClosedError(f"{self._closed}: it cannot make timers any more")
        timer = Timer(self, delay_s, message, interval_s)
        self._timers[timer] = None
        return timer
