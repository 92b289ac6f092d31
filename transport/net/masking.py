"""Masking: is every websocket frame of a client masked? Pure: reads the headers of frames as their bytes arrive.

1. RFC 6455 (5.1): a server closes the connection on a frame that is not masked. aiohttp accepts such frames; no peer of
   this protocol sends them.
2. Only headers are read; the content of frames is skipped. A header may arrive in pieces.
"""

from __future__ import annotations

_MASKED = 0x80
_LENGTH = 0x7F
_MASK_BYTES = 4


class ClientFrames:
    """Follows the frames of one client, from the first one on."""

    __slots__ = ("_head", "_skip")

    def __init__(self) -> None:
        self._head = b""
        self._skip = 0

    def feed(self, data: bytes) -> bool:
        """Take the next bytes. Are all frames that have begun masked?"""
        at, size = 0, len(data)
        while True:
            skipped = min(self._skip, size - at)
            self._skip -= skipped
            at += skipped
            if at == size:
                return True
            head = self._head + data[at : at + 10 - len(self._head)]
            if len(head) < 2:
                self._head = head
                return True
            if not head[1] & _MASKED:
                return False
            length = head[1] & _LENGTH
            more = {126: 2, 127: 8}.get(length, 0)
            if len(head) < 2 + more:
                self._head = head
                return True
            at += 2 + more - len(self._head)
            self._head = b""
            self._skip = _MASK_BYTES + (int.from_bytes(head[2 : 2 + more], "big") if more else length)
