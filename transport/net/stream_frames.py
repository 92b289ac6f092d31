"""Stream frames: frames in a stream of bytes, each preceded by its length. Pure: bytes in, frames out.

    preface 10 │ length 4 │ content │ length 4 │ content │ …

1. Each end sends the preface first. It says which framing the stream has: a peer that speaks another one (a websocket,
   another version) is recognised by its first bytes.
2. A length above the limit is a problem before anything is allocated for its content. After a problem nothing is read;
   the frames before it count. How the stream was cut into pieces makes no difference.
3. Bytes are received into one buffer, and each content is copied once, out of it. The buffer grows for a frame that is
   larger, and shrinks again after it.
"""

from __future__ import annotations

import struct
from typing import Final

PREFACE: Final = b"\0aiostorm\1"
"""The last byte is the version of this framing."""

LENGTH: Final = struct.Struct("!I")

HTTP_REQUEST: Final = "it sends an HTTP request: unix sockets carry frames without websockets (is it an older version?)"
HTTP_ANSWER: Final = "it answers with HTTP: unix sockets carry frames without websockets (is it an older version?)"

HTTP_REFUSAL: Final = (
    b"HTTP/1.1 400 unix sockets of aiostorm carry frames without websockets\r\n"
    b"Connection: close\r\nContent-Length: 0\r\n\r\n"
)
"""For a peer whose bytes are an HTTP request: such a peer shows this line in its error."""

_USUAL_BYTES: Final = 132 * 1024
"""Links send frames of up to 128 KiB, and larger ones rarely."""


def preface_problem(begin: bytes) -> str:
    """Why the first bytes of a stream, or all that have arrived of them, are not the preface; empty if they may be."""
    if PREFACE.startswith(begin):
        return ""
    if b"GET ".startswith(begin[:4]):
        return HTTP_REQUEST
    if b"HTTP".startswith(begin[:4]):
        return HTTP_ANSWER
    if begin[:-1] == PREFACE[:-1]:
        return f"it uses version {begin[-1]} of the frames of unix sockets, this is version {PREFACE[-1]}"
    return f"it begins with {begin!r}, which no process of aiostorm does"


class FrameBuffer:
    """The bytes of one stream that have arrived, until they are whole frames.

    `max_frame_bytes`: the limit, which `allow` raises. `problem`: why nothing more is read.
    """

    __slots__ = ("_filled", "_usual_bytes", "_view", "max_frame_bytes", "opened", "problem", "space")

    def __init__(self, max_frame_bytes: int) -> None:
        self.allow(max_frame_bytes)
        self.opened = False
        self.problem = ""
        self._filled = 0
        self._view = self._new_view()
        self.space = self._view
        """Where to put the next bytes: one byte or more."""

    def allow(self, max_frame_bytes: int) -> None:
        """Accept frames of this size from now on."""
        self.max_frame_bytes = max_frame_bytes
        self._usual_bytes = min(_USUAL_BYTES, len(PREFACE) + LENGTH.size + max_frame_bytes)

    def received(self, count: int) -> list[bytes]:
        """That many bytes were put into `space`. Returns the frames that are complete now."""
        view, at, filled = self._view, 0, self._filled + count
        frames: list[bytes] = []
        if self.problem:
            return frames
        if not self.opened:
            begin = bytes(view[: min(filled, len(PREFACE))])
            self.problem = preface_problem(begin)
            if self.problem or len(begin) < len(PREFACE):
                self._filled = 0 if self.problem else filled
                self.space = view[self._filled :]
                return frames
            self.opened = True
            at = len(PREFACE)
        while filled - at >= LENGTH.size:
            (size,) = LENGTH.unpack_from(view, at)
            if size > self.max_frame_bytes:
                self.problem = f"it announces a frame of {size:,} bytes: at most {self.max_frame_bytes:,} are accepted"
                at = filled
                break
            end = at + LENGTH.size + size
            if end > filled:
                break
            frames.append(bytes(view[at + LENGTH.size : end]))
            at = end
        if at < filled or len(view) != self._usual_bytes:
            self._keep(at, filled)
        else:
            self._filled, self.space = 0, view
        return frames

    def _keep(self, at: int, filled: int) -> None:
        """Move the bytes of an incomplete frame to the start of a buffer that has space for all of it."""
        view, self._filled = self._view, filled - at
        size = LENGTH.unpack_from(view, at)[0] if self._filled >= LENGTH.size else 0
        needed, usual = LENGTH.size + size, self._usual_bytes
        if needed > len(view) or (len(view) != usual and needed <= usual):
            self._view = self._new_view(needed)
            self._view[: self._filled] = view[at:filled]
        elif at:
            view[: self._filled] = bytes(view[at:filled])
        self.space = self._view[self._filled :]

    def _new_view(self, needed: int = 0) -> memoryview:
        return memoryview(bytearray(max(needed, self._usual_bytes)))
