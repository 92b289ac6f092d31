"""A topology with secrets in its settings and arguments, which it needs and never shows. It runs until it is killed."""

from __future__ import annotations

import asyncio
from typing import Any

from aiostorm import BasicBolt, BasicCollector, Config, Spout, Topology, TopologyBuilder, Tuple
from aiostorm.state import KeyedState


class Numbers(Spout):
    outputs = ("key", "n")

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.at = collector, 0

    async def next_tuple(self) -> None:
        await asyncio.sleep(0.005)
        self.collector.emit((self.at % 10, self.at))
        self.at += 1

    def snapshot(self) -> int:
        return self.at

    def restore(self, at: int) -> None:
        self.at = at


class Connects(BasicBolt):
    """Its password reaches its task."""

    state = KeyedState(key="key")

    def __init__(self, argument: str) -> None:
        self.argument = argument

    def prepare(self, context: Any) -> None:
        self.counts = context.state
        if len(context.config.user["db.password"]) < 10 or len(self.argument) < 10:
            raise ValueError("the password did not arrive")
        print("has connected")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.counts[tup["key"]] = self.counts.get(tup["key"], 0) + 1


def topology(argument: str) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("connects", Connects(argument), 2).fields_grouping("numbers", "key")
    return builder.create_topology(config=Config(guarantee="exactly-once", snapshot_interval_ms=200))
