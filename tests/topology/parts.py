"""Components that do nothing: topologies are made of them, and never run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiostorm.topology import BasicBolt, Bolt, Fields, Grouping, Row, Spout, direct


class Lines(Spout):
    outputs = {"default": Fields("line"), "errors": ["path", "error"], "asked": direct("q")}  # noqa: RUF012

    def next_tuple(self) -> None: ...


class Split(BasicBolt):
    outputs = "word"

    def execute(self, tup: Any, collector: Any) -> None: ...


class Count(Bolt):
    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.counts: dict[str, int] = {}

    def execute(self, tup: Any) -> None: ...


class Mine(Grouping):
    def __init__(self, at: int = 0) -> None:
        self.at = at

    def choose(self, values: Row) -> Sequence[int]:
        return [self.targets[self.at]]
