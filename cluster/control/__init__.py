"""Control of a running topology by other processes of its user (`aiostorm pressure`, `update`, `trace`, `ui`, `top`).

protocol.py has requests and responses, both sides (view.py: what is shown; orders.py: what is done); socket.py is the
socket of a topology; folder.py finds the socket by name and process id; remote.py shows what runs elsewhere.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .folder import TopologySocket, find
    from .protocol import StatusRequest, StatusResponse, TraceRequest, TraceResponse, UpdateRequest, UpdateResponse, ask
    from .remote import RemoteTopologies, RemoteTopology, opened_remote
    from .socket import ControlSocket

__all__ = [
    "ControlSocket",
    "RemoteTopologies",
    "RemoteTopology",
    "StatusRequest",
    "StatusResponse",
    "TopologySocket",
    "TraceRequest",
    "TraceResponse",
    "UpdateRequest",
    "UpdateResponse",
    "ask",
    "find",
    "opened_remote",
]

_LATER = {
    "folder": "TopologySocket find",
    "protocol": "StatusRequest StatusResponse TraceRequest TraceResponse UpdateRequest UpdateResponse ask",
    "remote": "RemoteTopologies RemoteTopology opened_remote",
    "socket": "ControlSocket",
}


def __getattr__(name: str) -> object:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
