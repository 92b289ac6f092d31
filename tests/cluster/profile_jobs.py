"""A topology with a bolt that never returns, for a real worker."""

from __future__ import annotations

from typing import Any

from aiostorm import BasicBolt, Config, Topology, TopologyBuilder

from ..tasks.parts import Numbers


class Hangs(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        spin = 0
        while True:
            spin += 1  # this line hangs


def hangs() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(1))
    builder.set_bolt("hangs", Hangs()).shuffle_grouping("numbers")
    return builder.create_topology("hangs", config=Config(message_timeout_s=60))
