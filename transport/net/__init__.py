"""The network: connections that carry frames, who may open one, and what protects it.

network.py is the interface: `connect()`, `listen()`, connections that carry frames and promise little. websockets.py
is the real one (aiohttp), with listening.py for connections that come in and websocket_connection.py for both sides;
blocking.py is the end of a connection in a thread without an event loop.

addresses.py and admission.py decide what may be listened at and who is let in. credentials.py, authentication.py
(pure) and authenticated.py (the shell) prove that both ends have the cluster's token; tls.py and certificates.py are
TLS. security.py holds what a node shows and believes, and opening.py makes the network that it asks for.
limited_warnings.py limits the warnings that peers can cause.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .addresses import check_exposure, parse_address
from .admission import AdmissionLimits
from .authenticated import AuthenticatedConnection, AuthenticatedNetwork, RestrictedConnection
from .authentication import Identity, check_identity
from .blocking import BlockingConnection, dial
from .credentials import VARIABLE, Credentials, Secret, new_token, read_private
from .limited_warnings import LimitedWarnings
from .network import MAX_BUFFERED_BYTES, MAX_FRAME_BYTES, Connection, Listener, Network
from .opening import open_network
from .security import Security
from .tls import TlsFiles

if TYPE_CHECKING:
    from .certificates import Issued, new_authority, new_certificate
    from .first_caller import serve_callers
    from .websockets import WebSocketNetwork

__all__ = [
    "MAX_BUFFERED_BYTES",
    "MAX_FRAME_BYTES",
    "VARIABLE",
    "AdmissionLimits",
    "AuthenticatedConnection",
    "AuthenticatedNetwork",
    "BlockingConnection",
    "Connection",
    "Credentials",
    "Identity",
    "Issued",
    "LimitedWarnings",
    "Listener",
    "Network",
    "RestrictedConnection",
    "Secret",
    "Security",
    "TlsFiles",
    "WebSocketNetwork",
    "check_exposure",
    "check_identity",
    "dial",
    "new_authority",
    "new_certificate",
    "new_token",
    "open_network",
    "parse_address",
    "read_private",
    "serve_callers",
]

_LATER = {
    "certificates": "Issued new_authority new_certificate",
    "first_caller": "serve_callers",
    "websockets": "WebSocketNetwork",
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
