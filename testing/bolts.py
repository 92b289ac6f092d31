"""Recorder: a bolt at the end of a stream that records what it receives.

1. As with a scripted spout, the recorder that the test has and the copies that the tasks run share one record.
2. It takes any fields, acks every tuple itself, and fails those that `fail_on` picks (they are not in `values`).

Storm: org.apache.storm.testing.TupleCaptureBolt, AckTracker.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Self

from ..topology import Bolt, BoltCollector, Row, TopologyContext, Tuple
from .changes import Changes
from .spouts import WAIT_S


class _Record:
    """What was received, shared by the test and all tasks."""

    __slots__ = ("changes", "failed", "tuples")

    def __init__(self) -> None:
        self.tuples: list[Tuple] = []
        self.failed: list[Tuple] = []
        self.changes = Changes()


class Recorder(Bolt):
    """A bolt that keeps every tuple it receives, in order of arrival. `fail_on(tup)`: fail it instead."""

    def __init__(self, fail_on: Callable[[Tuple], object] | None = None) -> None:
        self._record = _Record()
        self._fail_on = fail_on
        self._collector: BoltCollector

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy for one task; it records into the same place."""
        view = type(self).__new__(type(self))
        view._record = self._record
        view._fail_on = self._fail_on
        return view

    @property
    def tuples(self) -> list[Tuple]:
        """The tuples that were acked."""
        return list(self._record.tuples)

    @property
    def values(self) -> list[Row]:
        """The values of the tuples that were acked."""
        return [tup.values for tup in self._record.tuples]

    @property
    def failed(self) -> list[Tuple]:
        """The tuples that `fail_on` picked."""
        return list(self._record.failed)

    def stream(self, name: str, component: str | None = None) -> list[Row]:
        """The values that came on a stream (of one component)."""
        return [
            tup.values
            for tup in self._record.tuples
            if tup.stream == name and component in (None, tup.source_component)
        ]

    def by_key(self, field: str) -> dict[Hashable, list[Row]]:
        """The value of a field → the rows that have it, in order. Tuples without that field are left out."""
        found: dict[Hashable, list[Row]] = {}
        for tup in self._record.tuples:
            if field in tup:
                found.setdefault(tup[field], []).append(tup.values)
        return found

    def clear(self) -> None:
        """Forget what came so far."""
        self._record.tuples.clear()
        self._record.failed.clear()

    async def wait(self, count: int, timeout_s: float | None = WAIT_S) -> list[Row]:
        """Wait until at least `count` tuples were acked; all their values. WaitTimeoutError after `timeout_s`."""
        record = self._record
        await record.changes.until(
            lambda: len(record.tuples) >= count,
            timeout_s,
            lambda: f"{len(record.tuples)} of {count} tuples had come (and {len(record.failed)} were failed)",
        )
        return self.values

    # -- what the framework calls ------------------------------------------------------------------------------------

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
        self._collector = collector

    def execute(self, tup: Tuple) -> None:
        if tup.is_tick:
            self._collector.ack(tup)
            return
        if self._fail_on is not None and self._fail_on(tup):
            self._record.failed.append(tup)
            self._collector.fail(tup, "fail_on picked it")
        else:
            self._record.tuples.append(tup)
            self._collector.ack(tup)
        self._record.changes.notify()
