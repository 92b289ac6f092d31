"""Topologies that run on executors: imported there by name. What they have done stands in files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from aiostorm import BasicBolt, BasicCollector, Config, Topology, TopologyBuilder, Tuple, WorkerContext

from ..cluster.spread_jobs import Double, Numbers, Write


class NumbersOnDriver(Numbers):
    """Numbers that come from the program that submits. Its result: how many, and where."""

    on_driver = True

    def open(self, context: Any, collector: Any) -> None:
        super().open(context, collector)
        print(f"reads in {os.getpid()}")


def from_driver(folder: str, count: str = "1000", pause_s: str = "0") -> Topology:
    """As spread_jobs.numbers, with the spout on the driver."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", NumbersOnDriver(int(count), float(pause_s)))
    builder.set_bolt("double", Double, 2).shuffle_grouping("numbers")
    builder.set_bolt("write", Write(folder), 2).fields_grouping("double", "n")
    return builder.create_topology("numbers", config=Config(max_spout_pending=500, message_timeout_s=60))


def open_log(folder: str, context: WorkerContext) -> Iterator[Callable[[str], Any]]:
    """A file of the worker's, for its tasks."""
    with (Path(folder) / context.worker).open("a", buffering=1) as file:
        file.write(f"{os.getpid()} open\n")
        yield lambda what: file.write(f"{os.getpid()} {what}\n")
        file.write(f"{os.getpid()} close\n")


class Logs(BasicBolt):
    def prepare(self, context: Any) -> None:
        self.log = context.resource("log")
        self.log("prepare")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        """Nothing."""

    def cleanup(self) -> None:
        self.log("cleanup")


def with_resource(folder: str) -> Topology:
    """The spout on the driver, the bolt's tasks where there is a slot."""
    builder = TopologyBuilder()
    builder.resource("log", partial(open_log, folder))
    builder.set_spout("numbers", NumbersOnDriver(10, 0))
    builder.set_bolt("logs", Logs, 2).shuffle_grouping("numbers")
    return builder.create_topology("logs")
