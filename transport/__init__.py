"""Bytes between processes: the seam of the network, and what makes a connection over it lose nothing.

link (one per peer) ─ sequence (numbers, acks, resends) ─ Connection ─ Network: websockets, or a simulated one
"""

from .errors import (
    ConnectionLostError,
    FrameTooLargeError,
    LinkClosedError,
    LinkSupersededError,
    NetworkError,
    ProtocolError,
)
from .link import Link, LinkTimings
from .links import Links
from .network import MAX_BUFFERED_BYTES, MAX_FRAME_BYTES, Connection, Listener, Network
from .sequence import MAX_PAYLOAD_BYTES, LinkSequence, PeerStarted, SequenceLimits

__all__ = [
    "MAX_BUFFERED_BYTES",
    "MAX_FRAME_BYTES",
    "MAX_PAYLOAD_BYTES",
    "Connection",
    "ConnectionLostError",
    "FrameTooLargeError",
    "Link",
    "LinkClosedError",
    "LinkSequence",
    "LinkSupersededError",
    "LinkTimings",
    "Links",
    "Listener",
    "Network",
    "NetworkError",
    "PeerStarted",
    "ProtocolError",
    "SequenceLimits",
]
