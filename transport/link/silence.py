"""Silence: heartbeats for a peer that would receive nothing otherwise, and the end of a connection that is silent.

1. A side that has sent nothing for `heartbeat_s` sends an ACK, also while it only receives.
2. If no byte arrives for `dead_s`, the connection is over: it may be half open, and TCP reports that after minutes. The
   bytes of a frame that is not complete count, since a large frame takes long on a slow line.
3. There are a few checks within these times, and no timer for each frame: that would cost more than the frame. So a
   heartbeat may be sent slightly early.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ..errors import ConnectionLostError

if TYPE_CHECKING:
    from ..net.network import Connection
    from .sequence import LinkSequence
    from .timings import LinkContext

_log = logging.getLogger(__name__)

_CHECKS = 6  # within `dead_s`, and within `heartbeat_s`
_LEAST_WAIT_S = 0.001


class SilenceCheck:
    """For one link, over all its connections. The reader sets `received_s`, the writer `sent`."""

    def __init__(self, peer: str, sequence: LinkSequence, context: LinkContext) -> None:
        self.received_s = 0.0
        """When the last frame arrived."""
        self.sent = False
        """Was a frame sent since the last check?"""
        self._peer = peer
        self._sequence = sequence
        self._timings = context.timings
        self._clock = context.clock
        self._warned_slow = False

    async def run(self, connection: Connection, wakeup: asyncio.Event) -> None:
        """Check until the connection is silent: then ConnectionLostError. A heartbeat sets `wakeup`."""
        dead_s, heartbeat_s = self._timings.dead_s, self._timings.heartbeat_s
        check_s = min(dead_s, heartbeat_s) / _CHECKS
        self.sent = False
        now_s = sent_s = checked_s = self.received_s = self._clock.monotonic()
        frame_s, received_bytes = now_s, 0
        while True:
            due_s = min(now_s + check_s, self.received_s + dead_s, sent_s + heartbeat_s)
            await asyncio.sleep(max(due_s - now_s, _LEAST_WAIT_S))
            now_s = self._clock.monotonic()
            before, received_bytes = received_bytes, connection.received_bytes
            if received_bytes != before and self.received_s == frame_s:  # a part of a frame
                self.received_s = max(now_s, frame_s)
            if received_bytes != before:
                self._warn_if_slow()
            frame_s = self.received_s
            if now_s >= self.received_s + dead_s:
                raise ConnectionLostError(f"no data from the peer for {dead_s:g} s")
            if self.sent:
                self.sent, sent_s = False, checked_s
            elif now_s >= sent_s + heartbeat_s:
                sent_s = now_s
                self._sequence.ack_due = self._sequence.established
                wakeup.set()
            checked_s = now_s

    def _warn_if_slow(self) -> None:
        bytes_s = self._sequence.line_bytes_s
        if bytes_s and not self._warned_slow:
            self._warned_slow = True
            _log.warning(
                "the line to %s is slow: it carries %.0f kB a second. Nothing is lost: large values are sent in parts, "
                "and urgent messages wait about 2 s behind them. Send fewer or smaller values, or use a faster line",
                self._peer,
                bytes_s / 1000,
            )
