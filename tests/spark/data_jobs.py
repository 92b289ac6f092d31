"""Topologies that workers can find, for what executors write into."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from aiostorm import BasicBolt, Topology, TopologyBuilder
from aiostorm.spark import SparkIngressSpout

from .lines import FIELDS


class Files(BasicBolt):
    """Appends the numbers of each batch to a file of its process, slowly."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    async def execute_arrow(self, batch: Any, collector: Any) -> None:
        await asyncio.sleep(0.01)
        with (Path(self.folder) / str(os.getpid())).open("a") as file:
            file.write(" ".join(map(str, batch.column("n").to_pylist())) + "\n")


def into_files(folder: str, endpoints: str) -> Topology:
    """Two tasks that executors write to, one in each of two workers."""
    builder = TopologyBuilder()
    builder.set_spout("in", SparkIngressSpout(FIELDS, endpoints=endpoints), 2)
    builder.set_bolt("files", Files(folder), 2).local_or_shuffle_grouping("in")
    return builder.create_topology()


def written(folder: Path) -> list[int]:
    """All numbers."""
    return [int(number) for file in folder.iterdir() for number in file.read_text().split()]
