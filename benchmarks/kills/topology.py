"""A topology whose input is numbered and whose output is on disk: numbers → squares → a line for each.

    numbers ×2 (rate; what was acked is in a log) ─shuffle─► square ×3 ─fields(n)─► write ×3 (a log for each task)

A line is written with one system call before its tuple is acked: what a killed process had written is in the file.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from aiostorm import BasicBolt, BasicCollector, Fields, Spout, Topology, TopologyBuilder, Tuple


def log(path: Path) -> int:
    """A descriptor that appends."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


class Numbers(Spout):
    """Emits its share of 0 … count - 1, at so many a second, until each is acked; goes on after its last instance."""

    outputs = Fields("n")

    def __init__(self, folder: Path, count: int, rate: float) -> None:
        self.folder, self.count, self.rate = folder, count, rate

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        path = self.folder / f"acked-{context.task_index}.log"
        acked = set(map(int, path.read_text().split())) if path.exists() else set()
        self.log = log(path)
        tasks = len(context.tasks(context.component))
        share = range(context.task_index, self.count, tasks)
        self.left = [n for n in reversed(share) if n not in acked]
        self.open_messages = 0
        self.per_s = self.rate / tasks
        self.emitted, self.began_s = 0, time.monotonic()

    def next_tuple(self) -> None:
        if not self.left:
            if not self.open_messages:
                self.collector.finish()
            return
        if self.emitted >= (time.monotonic() - self.began_s) * self.per_s:
            return
        n = self.left.pop()
        self.emitted += 1
        self.open_messages += 1
        self.collector.emit((n,), message_id=n)

    def ack(self, message_id: int) -> None:
        self.open_messages -= 1
        os.write(self.log, b"%d\n" % message_id)

    def fail(self, message_id: int, failure: Any) -> None:
        self.open_messages -= 1
        self.left.append(message_id)

    def close(self) -> None:
        os.close(self.log)


class Square(BasicBolt):
    outputs = Fields("n", "square")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit((tup["n"], tup["n"] ** 2))


class Write(BasicBolt):
    """A line for each: number, square, process, seconds of the monotonic clock (which all processes share)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self, context: Any) -> None:
        self.log = log(self.folder / f"written-{context.task_index}.log")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        line = f"{tup['n']} {tup['square']} {os.getpid()} {time.monotonic():.6f}\n"
        os.write(self.log, line.encode())

    def cleanup(self) -> None:
        os.close(self.log)


def topology(folder: str, count: str = "100000", rate: str = "3000") -> Topology:
    """Arguments as the command line gives them."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(Path(folder), int(count), float(rate)), 2)
    builder.set_bolt("square", Square, 3).shuffle_grouping("numbers")
    builder.set_bolt("write", Write(Path(folder)), 3).fields_grouping("square", "n")
    return builder.create_topology()
