"""Bytes between processes: the seam of the network, and what makes a connection over it lose nothing.

link (one per peer) ─ sequence (numbers, acks, resends) ─ Connection ─ Network: websockets, or a simulated one
"""

from .errors import ConnectionLostError, FrameTooLargeError, NetworkError
from .network import MAX_BUFFERED_BYTES, MAX_FRAME_BYTES, Connection, Listener, Network

__all__ = [
    "MAX_BUFFERED_BYTES",
    "MAX_FRAME_BYTES",
    "Connection",
    "ConnectionLostError",
    "FrameTooLargeError",
    "Listener",
    "Network",
    "NetworkError",
]
