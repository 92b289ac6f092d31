"""Serving: nimbus answers clients, whose tokens say what they may do (see access).

operations.py  the table of requests: each with its role     server.py   connections, and who is behind them
session.py     the requests of one connection                uploads.py  code on its way in
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .operations import OPERATIONS, Operation, table_of
    from .server import NimbusServer
    from .session import Served, Session
    from .uploads import Uploads

__all__ = [
    "OPERATIONS",
    "NimbusServer",
    "Operation",
    "Served",
    "Session",
    "Uploads",
    "table_of",
]

_LATER = {
    "operations": "OPERATIONS Operation table_of",
    "server": "NimbusServer",
    "session": "Served Session",
    "uploads": "Uploads",
}


def __getattr__(name: str) -> object:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
