"""Logs: the output of a topology's processes, read in bounded pieces, here and on other nodes.

    client ─► nimbus (serving) ─► NodeLogs ─ TLS, token ─► LogServer of that node's supervisor ─► HOME/logs/NAME/

files.py    log files: which there are, where their last lines begin
pieces.py   the next lines of each process after a cursor, which the client keeps
wire.py     requests and responses
server.py   a supervisor answers nimbus
asking.py   nimbus asks a supervisor
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .asking import NodeAwayError, NodeLogs
    from .files import LogFile, last_lines, log_files
    from .pieces import LogsAsked, ProcessLines, read_pieces
    from .server import LogServer
    from .wire import LOGS

__all__ = [
    "LOGS",
    "LogFile",
    "LogServer",
    "LogsAsked",
    "NodeAwayError",
    "NodeLogs",
    "ProcessLines",
    "last_lines",
    "log_files",
    "read_pieces",
]

_LATER = {
    "asking": "NodeAwayError NodeLogs",
    "files": "LogFile last_lines log_files",
    "pieces": "LogsAsked ProcessLines read_pieces",
    "server": "LogServer",
    "wire": "LOGS",
}


def __getattr__(name: str) -> object:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
