"""Sinks: bolts that write to other systems exactly once, because they commit by the number of a snapshot.

sink.py          the protocol: pre_commit, commit, abort
write_ahead.py   rows to a database, in one transaction with the number
upsert_sink.py   the last row of each key to a table, corrections included
file_sink.py     rows to files, which get their name at the commit
map_sink.py      values by key, in a store of keys and values
maps.py          what such a store keeps beside a value: the number, and perhaps the value before it
"""

from .file_sink import FileSink
from .map_sink import MapSink
from .maps import BackingMap, OpaqueMap, TransactionalMap
from .sink import Commits, Sink, SinkError
from .upsert_sink import UpsertSink
from .write_ahead import WriteAheadSink

__all__ = [
    "BackingMap",
    "Commits",
    "FileSink",
    "MapSink",
    "OpaqueMap",
    "Sink",
    "SinkError",
    "TransactionalMap",
    "UpsertSink",
    "WriteAheadSink",
]
