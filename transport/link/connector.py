"""Connector: where the next connection of a link comes from.

    one side dials:     dial ─┬─► connection             the other waits:   accept(connection, HELLO) ─► connection
                        ▲     └ failed: wait 50 ms, 100 ms … 2 s, with jitter ─┐
                        ╰──────────────────────────────────────────────────────╯ `redial`: at once, another address

1. Peers that were cut off together do not reconnect together: each waits for half to all of the delay.
2. The delay starts again from the shortest after a connection on which the peer has answered.
3. Of two incoming connections the later one counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ..errors import NetworkError
from ..net.network import Connection

if TYPE_CHECKING:
    from .timings import LinkContext

_log = logging.getLogger(__name__)

Dial = Callable[[], Awaitable[Connection]]


class Connector:
    """The connector of the link to one peer. `dial` is None if the peer dials."""

    def __init__(self, peer: str, dial: Dial | None, context: LinkContext) -> None:
        self.dial = dial
        self.last_error = ""
        self._peer = peer
        self._timings = context.timings
        self._jitter = context.jitter
        self._retry_s = context.timings.first_retry_s
        self._incoming: tuple[Connection, bytes] | None = None
        self._dialling: asyncio.Timeout | None = None
        self._closed = False
        self._again = asyncio.Event()  # set: dial now, or a connection has come in, or it is closed

    async def next(self) -> tuple[Connection, bytes] | None:
        """The next connection, and its first frame if the peer has dialled. None: none yet, or closed."""
        if self.dial is not None:
            return await self._dialled(self.dial)
        while self._incoming is None and not self._closed:
            self._again.clear()
            await self._again.wait()
        found, self._incoming = self._incoming, None
        return found

    async def ended(self, *, healthy: bool) -> None:
        """The last connection has ended: wait, if this side dials. `healthy`: the peer had answered."""
        if healthy:
            self._retry_s = self._timings.first_retry_s
        if self.dial is not None:
            await self._pause()

    def accept(self, connection: Connection, hello: bytes) -> None:
        """The peer has dialled; `hello` is its first frame."""
        if self._incoming is not None:
            self._incoming[0].close()
        self._incoming = (connection, hello)
        self._again.set()

    def redial(self, dial: Dial) -> None:
        """The peer listens again: dial it now, with this function."""
        self.dial = dial
        self._retry_s = self._timings.first_retry_s
        self._again.set()
        self._end_dialling()  # where it was, nothing may answer for a long time

    def close(self) -> None:
        """There are no more connections. (Cancelling is not enough: a TaskGroup may lose a cancel.)"""
        self._closed = True
        self._again.set()
        self._end_dialling()
        if self._incoming is not None:
            self._incoming[0].close()

    def _end_dialling(self) -> None:
        if self._dialling is not None and not self._dialling.expired():
            self._dialling.reschedule(0.0)  # a time in the past: it ends now

    async def _dialled(self, dial: Dial) -> tuple[Connection, bytes] | None:
        try:
            async with asyncio.timeout(self._timings.connect_s) as self._dialling:
                return await dial(), b""
        except (NetworkError, TimeoutError) as error:
            self.last_error = str(error) or f"no answer within {self._timings.connect_s:g} s"
            _log.debug("cannot connect to %s: %r", self._peer, error)
        finally:
            self._dialling = None
        await self._pause()
        return None

    async def _pause(self) -> None:
        delay_s = self._retry_s * (0.5 + self._jitter.random() / 2)
        self._retry_s = min(2 * self._retry_s, self._timings.max_retry_s)
        if self._closed:
            return
        self._again.clear()
        try:
            async with asyncio.timeout(delay_s):
                await self._again.wait()
        except TimeoutError:
            return
