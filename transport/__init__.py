"""Bytes between processes: the network, which is a seam, and links over it that lose nothing.

exchange (segments, credit) ─ send queue (control, data) ─ link (one per peer) ─ sequence ─ Connection ─ Network
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .codec.messages import MessageCodec
from .codec.numbers import pack_numbers, pack_pairs, unpack_numbers, unpack_pairs
from .codec.payloads import PayloadKind, pack_bundle, pack_payload, unpack_all, unpack_payload
from .codec.records import register_record
from .codec.sizes import batch_bytes
from .codec.values import pack_plain, pack_value, unpack_value
from .errors import (
    AuthenticationError,
    ConnectionLostError,
    CredentialsError,
    ExposedError,
    FrameTooLargeError,
    LinkClosedError,
    LinkSupersededError,
    NetworkError,
    NotHereError,
    PeerLostError,
    ProtocolError,
    RecordError,
    RemoteFailureError,
    UnreadableError,
    UnsendableError,
)
from .exchange.credit import ReceiverCredit, SenderCredit, split_capacity
from .exchange.exchange import Exchange, PeerRouter
from .exchange.peer_channel import RemoteTask
from .exchange.receive_buffer import ReceiveBuffer
from .exchange.remote_mailbox import RemoteMailbox
from .exchange.segments import (
    PIECE_BYTES,
    WHOLE_BYTES,
    PackedItems,
    pack_items,
    pack_segment,
    segments_body,
    split_items,
    unpack_segments,
)
from .link.headers import LinkPulse
from .link.link import Link
from .link.links import Links
from .link.send_queue import Gatherer, SendQueue
from .link.sequence import MAX_PAYLOAD_BYTES, LinkSequence, PeerStarted, SequenceLimits
from .link.timings import LinkTimings
from .net.addresses import TcpAddress, check_exposure, is_loopback, parse_address
from .net.admission import AdmissionLimits
from .net.authenticated import AuthenticatedNetwork, RestrictedConnection
from .net.authentication import Identity
from .net.blocking import BlockingConnection
from .net.blocking import dial as dial_blocking
from .net.bound_sockets import bound_tcp, resolved
from .net.credentials import VARIABLE as CREDENTIALS_VARIABLE
from .net.credentials import Credentials, Secret, new_token, read_private
from .net.limited_warnings import LimitedWarnings
from .net.network import MAX_BUFFERED_BYTES, MAX_FRAME_BYTES, Connection, Listener, Network
from .net.security import Security
from .net.socket_network import SocketNetwork, open_network
from .net.tls import PeerCertificate, TlsFiles, fingerprint_in
from .net.unix_network import UnixNetwork
from .remote.exports import NoSuchActorError
from .remote.node import Node
from .remote.notes import MAX_MESSAGE_BYTES
from .remote.ref import RemoteRef

if TYPE_CHECKING:
    from .net.certificates import Issued, end_of_certificate, new_authority, new_certificate, new_client_certificate
    from .net.websockets import WebSocketNetwork

__all__ = [
    "CREDENTIALS_VARIABLE",
    "MAX_BUFFERED_BYTES",
    "MAX_FRAME_BYTES",
    "MAX_MESSAGE_BYTES",
    "MAX_PAYLOAD_BYTES",
    "PIECE_BYTES",
    "WHOLE_BYTES",
    "AdmissionLimits",
    "AuthenticatedNetwork",
    "AuthenticationError",
    "BlockingConnection",
    "Connection",
    "ConnectionLostError",
    "Credentials",
    "CredentialsError",
    "Exchange",
    "ExposedError",
    "FrameTooLargeError",
    "Gatherer",
    "Identity",
    "Issued",
    "LimitedWarnings",
    "Link",
    "LinkClosedError",
    "LinkPulse",
    "LinkSequence",
    "LinkSupersededError",
    "LinkTimings",
    "Links",
    "Listener",
    "MessageCodec",
    "Network",
    "NetworkError",
    "NoSuchActorError",
    "Node",
    "NotHereError",
    "PackedItems",
    "PayloadKind",
    "PeerCertificate",
    "PeerLostError",
    "PeerRouter",
    "PeerStarted",
    "ProtocolError",
    "ReceiveBuffer",
    "ReceiverCredit",
    "RecordError",
    "RemoteFailureError",
    "RemoteMailbox",
    "RemoteRef",
    "RemoteTask",
    "RestrictedConnection",
    "Secret",
    "Security",
    "SendQueue",
    "SenderCredit",
    "SequenceLimits",
    "SocketNetwork",
    "TcpAddress",
    "TlsFiles",
    "UnixNetwork",
    "UnreadableError",
    "UnsendableError",
    "WebSocketNetwork",
    "batch_bytes",
    "bound_tcp",
    "check_exposure",
    "dial_blocking",
    "end_of_certificate",
    "fingerprint_in",
    "is_loopback",
    "new_authority",
    "new_certificate",
    "new_client_certificate",
    "new_token",
    "open_network",
    "pack_bundle",
    "pack_items",
    "pack_numbers",
    "pack_pairs",
    "pack_payload",
    "pack_plain",
    "pack_segment",
    "pack_value",
    "parse_address",
    "read_private",
    "register_record",
    "resolved",
    "segments_body",
    "split_capacity",
    "split_items",
    "unpack_all",
    "unpack_numbers",
    "unpack_pairs",
    "unpack_payload",
    "unpack_segments",
    "unpack_value",
]


_LAZY = {
    # These import libraries that are slow to load or optional.
    "WebSocketNetwork": "net.websockets",
    "Issued": "net.certificates",
    "end_of_certificate": "net.certificates",
    "new_authority": "net.certificates",
    "new_certificate": "net.certificates",
    "new_client_certificate": "net.certificates",
}


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{module}", __name__), name)
