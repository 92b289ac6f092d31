"""Bytes between processes: the seam of the network, and what makes a connection over it lose nothing.

courier (control, data) ─ link (one per peer) ─ sequence (numbers, acks, resends) ─ Connection ─ Network
"""

from .courier import Courier, Gatherer
from .errors import (
    ConnectionLostError,
    FrameTooLargeError,
    LinkClosedError,
    LinkSupersededError,
    NetworkError,
    NoSuchActorError,
    NotHereError,
    PeerLostError,
    ProtocolError,
    RecordError,
    RemoteFailureError,
    UnreadableError,
    UnsendableError,
)
from .link import Link, LinkTimings, Source
from .links import Links
from .network import MAX_BUFFERED_BYTES, MAX_FRAME_BYTES, Connection, Listener, Network
from .node import Node
from .payloads import PAYLOAD_HEADER_BYTES, PayloadKind, pack_payload, unpack_payload
from .records import register_record
from .remote_notes import MAX_MESSAGE_BYTES
from .remote_ref import RemoteRef
from .sequence import MAX_PAYLOAD_BYTES, LinkSequence, PeerStarted, SequenceLimits
from .values import pack_value, unpack_value

__all__ = [
    "MAX_BUFFERED_BYTES",
    "MAX_FRAME_BYTES",
    "MAX_MESSAGE_BYTES",
    "MAX_PAYLOAD_BYTES",
    "PAYLOAD_HEADER_BYTES",
    "Connection",
    "ConnectionLostError",
    "Courier",
    "FrameTooLargeError",
    "Gatherer",
    "Link",
    "LinkClosedError",
    "LinkSequence",
    "LinkSupersededError",
    "LinkTimings",
    "Links",
    "Listener",
    "Network",
    "NetworkError",
    "NoSuchActorError",
    "Node",
    "NotHereError",
    "PayloadKind",
    "PeerLostError",
    "PeerStarted",
    "ProtocolError",
    "RecordError",
    "RemoteFailureError",
    "RemoteRef",
    "SequenceLimits",
    "Source",
    "UnreadableError",
    "UnsendableError",
    "pack_payload",
    "pack_value",
    "register_record",
    "unpack_payload",
    "unpack_value",
]
