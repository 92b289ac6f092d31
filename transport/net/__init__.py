"""The network: connections that carry frames, which peers may open one, and how they are protected.

network.py is the interface: `connect()`, `listen()`, and connections that carry frames and guarantee little.
socket_network.py implements it: unix_network.py for unix sockets, with frames of its own (stream_frames.py, pure, and
stream_connection.py); websockets.py for TCP, with aiohttp (listening.py has the incoming connections,
websocket_connection.py both sides). accepting.py accepts the connections of both, write_buffer.py is the sending end of
both. blocking.py is a connection for threads without an event loop.

addresses.py and admission.py decide which addresses may be listened at and which connections are accepted.
credentials.py, authentication.py (pure) and authenticated.py (its shell) prove that both ends have the cluster's token.
tls.py and certificates.py are TLS. security.py holds the security settings of a node; `open_network` makes the network
for them. limited_warnings.py limits the warnings that peers can cause.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .addresses import check_exposure, parse_address
from .admission import AdmissionLimits
from .authenticated import AuthenticatedNetwork, RestrictedConnection
from .authentication import Identity
from .blocking import BlockingConnection, dial
from .credentials import VARIABLE, Credentials, Secret, new_token, read_private
from .limited_warnings import LimitedWarnings
from .network import MAX_BUFFERED_BYTES, MAX_FRAME_BYTES, Connection, Listener, Network
from .security import Security
from .socket_network import SocketNetwork, open_network
from .tls import PeerCertificate, TlsFiles, fingerprint_in
from .unix_network import UnixNetwork

if TYPE_CHECKING:
    from .certificates import Issued, end_of_certificate, new_authority, new_certificate, new_client_certificate
    from .websockets import WebSocketNetwork

__all__ = [
    "MAX_BUFFERED_BYTES",
    "MAX_FRAME_BYTES",
    "VARIABLE",
    "AdmissionLimits",
    "AuthenticatedNetwork",
    "BlockingConnection",
    "Connection",
    "Credentials",
    "Identity",
    "Issued",
    "LimitedWarnings",
    "Listener",
    "Network",
    "PeerCertificate",
    "RestrictedConnection",
    "Secret",
    "Security",
    "SocketNetwork",
    "TlsFiles",
    "UnixNetwork",
    "WebSocketNetwork",
    "check_exposure",
    "dial",
    "end_of_certificate",
    "fingerprint_in",
    "new_authority",
    "new_certificate",
    "new_client_certificate",
    "new_token",
    "open_network",
    "parse_address",
    "read_private",
]

_LATER = {
    "certificates": "Issued end_of_certificate new_authority new_certificate new_client_certificate",
    "websockets": "WebSocketNetwork",
}


def __getattr__(name: str) -> object:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
