"""Bytes between processes: the seam of the network, and what makes a connection over it lose nothing.

exchange (segments, credit) ─ courier (control, data) ─ link (one per peer) ─ sequence ─ Connection ─ Network
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .addresses import check_exposure, parse_address
from .admission import AdmissionLimits
from .arrivals import Arrivals
from .authenticated import AuthenticatedConnection, AuthenticatedNetwork, Guarded
from .authentication import Identity
from .blocking import BlockingConnection
from .blocking import dial as dial_blocking
from .courier import Courier, Gatherer, Source
from .credentials import VARIABLE as CREDENTIALS_VARIABLE
from .credentials import Credentials, Secret, new_token, read_private
from .credit import Allowance, Quota, shares
from .errors import (
    AuthenticationError,
    ConnectionLostError,
    CredentialsError,
    ExposedError,
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
from .exchange import Exchange, PostOffice
from .far_inbox import FarInbox
from .first_caller import serve_callers
from .headers import encode_pulse
from .link import Link, LinkTimings
from .links import Links
from .network import MAX_BUFFERED_BYTES, MAX_FRAME_BYTES, Connection, Listener, Network
from .node import Node
from .numbers import pack_numbers, pack_pairs, unpack_numbers, unpack_pairs
from .opening import open_network
from .payloads import PAYLOAD_HEADER_BYTES, PayloadKind, pack_bundle, pack_payload, unpack_all, unpack_payload
from .records import register_record
from .remote_notes import MAX_MESSAGE_BYTES
from .remote_ref import RemoteRef
from .security import Security
from .segments import (
    PIECE_BYTES,
    WHOLE_BYTES,
    PackedItems,
    pack_items,
    pack_segment,
    segments_body,
    split_items,
    unpack_segments,
)
from .sequence import MAX_PAYLOAD_BYTES, LinkSequence, PeerStarted, SequenceLimits
from .sizes import batch_bytes
from .tls import TlsFiles
from .trade import FarTask, MessageCodec, joined
from .values import pack_value, unpack_value

if TYPE_CHECKING:
    from .certificates import Issued, new_authority, new_certificate
    from .websockets import WebSocketNetwork

__all__ = [
    "CREDENTIALS_VARIABLE",
    "MAX_BUFFERED_BYTES",
    "MAX_FRAME_BYTES",
    "MAX_MESSAGE_BYTES",
    "MAX_PAYLOAD_BYTES",
    "PAYLOAD_HEADER_BYTES",
    "PIECE_BYTES",
    "WHOLE_BYTES",
    "AdmissionLimits",
    "Allowance",
    "Arrivals",
    "AuthenticatedConnection",
    "AuthenticatedNetwork",
    "AuthenticationError",
    "BlockingConnection",
    "Connection",
    "ConnectionLostError",
    "Courier",
    "Credentials",
    "CredentialsError",
    "Exchange",
    "ExposedError",
    "FarInbox",
    "FarTask",
    "FrameTooLargeError",
    "Gatherer",
    "Guarded",
    "Identity",
    "Issued",
    "Link",
    "LinkClosedError",
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
    "PeerLostError",
    "PeerStarted",
    "PostOffice",
    "ProtocolError",
    "Quota",
    "RecordError",
    "RemoteFailureError",
    "RemoteRef",
    "Secret",
    "Security",
    "SequenceLimits",
    "Source",
    "TlsFiles",
    "UnreadableError",
    "UnsendableError",
    "WebSocketNetwork",
    "batch_bytes",
    "check_exposure",
    "dial_blocking",
    "encode_pulse",
    "joined",
    "new_authority",
    "new_certificate",
    "new_token",
    "open_network",
    "pack_bundle",
    "pack_items",
    "pack_numbers",
    "pack_pairs",
    "pack_payload",
    "pack_segment",
    "pack_value",
    "parse_address",
    "read_private",
    "register_record",
    "segments_body",
    "serve_callers",
    "shares",
    "split_items",
    "unpack_all",
    "unpack_numbers",
    "unpack_pairs",
    "unpack_payload",
    "unpack_segments",
    "unpack_value",
]


_LAZY = {
    # Libraries that take long to load, or need not be installed: for who speaks to other processes, or makes keys.
    "WebSocketNetwork": "websockets",
    "Issued": "certificates",
    "new_authority": "certificates",
    "new_certificate": "certificates",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{module}", __name__), name)
