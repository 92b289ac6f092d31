"""WriteBuffer: what a transport has not written yet: is it full, which senders wait for it, and its end.

A connection tells it what its transport reports: the buffer is full, it has drained, the connection is lost.
"""

from __future__ import annotations

import asyncio
from typing import Final

from .network import MAX_BUFFERED_BYTES

CLOSE_S: Final = 1.0
"""How long `close` waits for the buffer to drain."""


class WriteBuffer:
    """The buffer of one transport, which `attach` names. Before that there is none, as after its end: `over`."""

    __slots__ = ("_close_timer", "_drained", "over", "transport")

    def __init__(self) -> None:
        self.over = True
        self.transport: asyncio.Transport
        self._close_timer: asyncio.TimerHandle | None = None
        self._drained = asyncio.Event()

    @property
    def writable(self) -> bool:
        """Is there free capacity, or is the connection over?"""
        return self.buffered_bytes < MAX_BUFFERED_BYTES

    @property
    def buffered_bytes(self) -> int:
        """What has not left this process; 0 for a closing transport, for asyncio's TLS then has no buffer."""
        return 0 if self.over or self.transport.is_closing() else self.transport.get_write_buffer_size()

    async def drained(self) -> None:
        """Wait until `writable`."""
        while not self.writable:
            await self.next_drain()

    async def next_drain(self) -> None:
        """Wait for the next `on_drained`."""
        self._drained.clear()
        await self._drained.wait()

    def attach(self, transport: asyncio.Transport) -> None:
        """Use this transport."""
        self.over = False
        self.transport = transport
        # The limits match `writable`, so a sender that waits for capacity is always woken.
        transport.set_write_buffer_limits(high=MAX_BUFFERED_BYTES - 1, low=MAX_BUFFERED_BYTES // 2)

    def close(self) -> None:
        """Close the transport when the buffer is empty, or after CLOSE_S: a peer that does not read cannot delay it."""
        if not self.over and self._close_timer is None:
            self.transport.close()
            self._close_timer = asyncio.get_running_loop().call_later(CLOSE_S, self.transport.abort)

    def on_drained(self) -> None:
        """Senders that wait look again."""
        self._drained.set()

    def on_lost(self) -> None:
        """The transport has ended."""
        self.over = True
        if self._close_timer is not None:
            self._close_timer.cancel()
        self.on_drained()
