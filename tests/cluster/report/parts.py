"""Parts of tests of reports: what a document shows, and a topology whose numbers were written down."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from aiostorm import BasicBolt, Config, LocalCluster, TopologyBuilder, spout
from aiostorm.cluster import RemoteTopology, TopologySocket
from aiostorm.cluster.control.view import view_of
from aiostorm.metrics import Histogram, TaskMetrics, Timings, pack_task
from aiostorm.topology import Topology


class Shown(HTMLParser):
    """A document as its reader sees it: names and values, the rows of its tables, all texts."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.facts: dict[str, str] = {}
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self._tag = self._name = ""
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A row or a cell may begin."""
        self._tag = tag
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        """What comes then is not inside it."""
        self._tag = ""

    def handle_data(self, data: str) -> None:
        """A text."""
        self.texts.append(data)
        if self._tag in ("td", "th"):
            self.rows[-1][-1] += data
        elif self._tag == "dt":
            self._name = data
        elif self._tag == "dd":
            self.facts[self._name] = data


@spout(outputs="n")
def numbers() -> Any:
    yield from ()


class Half(BasicBolt):
    outputs = "half"

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((tup["n"] / 2,))


class Sink(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        pass


def topology() -> Topology:
    """numbers (2 tasks) ─► half (2) ─► sink (1)."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers, 2)
    builder.set_bolt("half", Half, 2).fields_grouping("numbers", "n")
    builder.set_bolt("sink", Sink).local_or_shuffle_grouping("half")
    return builder.create_topology()


def taking(seconds: float, rows: int, slow: int = 0) -> Histogram:
    """The latencies of so many rows; with `slow` others that take 256 times as long."""
    timings = Timings()
    timings += (seconds, rows, 256 * seconds, slow)
    return Histogram.of(timings.counts(), seconds * (rows + 256 * slow))


def metrics(**of: list[TaskMetrics]) -> tuple[Any, ...]:
    """Tasks by component, as a view has them."""
    kinds = {"numbers": "spout", "half": "bolt", "sink": "bolt", "acker": "acker"}
    return tuple((name.replace("acker", "__acker"), kinds[name], tuple(map(pack_task, of[name]))) for name in of)


async def shown(config: Config | None = None, **changes: Any) -> Any:
    """A topology whose view has these parts. (A report reads the same names from one that runs here.)"""
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", topology(), config)
        view = view_of(running)
        await running.kill(0)
    return RemoteTopology(None, TopologySocket("job", 7, "/none"), replace(view, **changes))  # type: ignore[arg-type]
