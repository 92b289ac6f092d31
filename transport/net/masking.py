"""Masking: is every websocket frame of a client masked? A pure look at the heads of frames, as bytes come.

1. RFC 6455 (5.1): a server closes the connection on a frame that is not masked. aiohttp reads such frames; nothing that
   speaks this protocol sends them.
2. Only heads are looked at; what is in a frame is skipped. Heads may be cut anywhere.
"""

from __future__ import annotations

_MASKED = 0x80
_LENGTH = 0x7F
_MASK_BYTES = 4


class ClientFrames:
    """What a client has sent since its websocket was opened."""

    __slots__ = ("_head", "_skip")

    def __init__(self) -> None:
        self._head = b""
        self._skip = 0

    def feed(self, data: bytes) -> bool:
        """More has come: are all frames that have begun masked?"""
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
