"""Topologies that run on executors: imported there by name. What they have done stands in files."""

from __future__ import annotations

import os
from typing import Any

from aiostorm import Config, Topology, TopologyBuilder

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
