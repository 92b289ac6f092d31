"""The detector on a log that grows: however it ends, the next run continues as if nothing had happened.

aiostorm run --state state follow.py /var/log/auth.log
sqlite3 attacks.db "SELECT * FROM attacks"
"""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import ClassVar

from detector import detector

from aiostorm import Config, Fields, Spout, SpoutCollector, Topology, TopologyContext, WriteAheadSink

LINES = 1000  # of one call


class LogLines(Spout):
    """The lines of a file that others append to. Its position is the number of bytes before the next line."""

    outputs = Fields("line")
    blocking: ClassVar[bool] = True  # it reads from a disk: in a thread

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        """Begin with the first line."""
        self.collector = collector
        self.log = open(self.path, "rb")  # noqa: SIM115 - closed in close
        self.position = 0

    def next_tuple(self) -> None:
        """Emit the next lines, if there are any."""
        for line in self.log.readlines(LINES * 100)[:LINES]:
            if line.endswith(b"\n"):  # else it is still being written
                self.position += len(line)
                self.collector.emit((line.decode(errors="replace"),))
        self.log.seek(self.position)

    def snapshot(self) -> int:
        """What was emitted is before this byte."""
        return self.position

    def restore(self, position: int) -> None:
        """Continue there."""
        self.position = self.log.seek(position)

    def close(self) -> None:
        """Close the file."""
        self.log.close()


def connect(path: str) -> sqlite3.Connection:
    """The database with the attacks."""
    connection = sqlite3.connect(path, timeout=30)
    connection.execute("CREATE TABLE IF NOT EXISTS attacks (address TEXT, first_ms INTEGER)")
    return connection


def topology(path: str = "auth.log", database: str = "attacks.db") -> Topology:
    """Follow a log, and write each attack to a database once."""
    reports = WriteAheadSink(partial(connect, database), "INSERT INTO attacks VALUES (?, ?)")
    return detector(lambda: LogLines(path), reports, Config(guarantee="exactly-once"))
