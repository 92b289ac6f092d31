"""pathway does W5: events from a Python connector, `windowby` with a tumbling window, each key an instance.

`exactly_once_behavior`: each window is reported once, when the greatest time is 5 s past its end, and takes nothing
from then on; what comes later is dropped without a report. It looks at the clock of its windows at each commit of the
connector, which has pathway's own default of how often.
"""

from __future__ import annotations

from typing import Any

import pathway as pw

from ..cells import Outcome
from ..clocking import Stopwatch
from ..w5 import LAG_MS, WINDOW_MS, Event, Result, events


class Row(pw.Schema):
    """An event."""

    key: str
    at: int
    value: int


class Source(pw.io.python.ConnectorSubject):
    """Gives one event after the other."""

    def __init__(self, given: list[Event]) -> None:
        super().__init__()
        self.given = given

    def run(self) -> None:
        for key, at_ms, value in self.given:
            self.next(key=key, at=at_ms, value=value)


def windows(size: int) -> Outcome:
    """One run. The graph is global in pathway: it is cleared after each."""
    given = events(size)
    results: list[Result] = []

    def changed(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        assert is_addition, "exactly once means that no result is taken back"
        results.append((row["key"], row["start"], row["total"], row["count"]))

    table = pw.io.python.read(Source(given.events), schema=Row)
    windowed = table.windowby(
        table.at,
        window=pw.temporal.tumbling(duration=WINDOW_MS),
        instance=table.key,
        behavior=pw.temporal.exactly_once_behavior(shift=LAG_MS),
    )
    summed = windowed.reduce(
        key=pw.this._pw_instance,
        start=pw.this._pw_window_start,
        total=pw.reducers.sum(pw.this.value),
        count=pw.reducers.count(),
    )
    pw.io.subscribe(summed, on_change=changed)
    with Stopwatch() as watch:
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    pw.internals.parse_graph.G.clear()
    dropped = given.check_results(results, by="window")
    return Outcome(size, watch.wall_s, watch.cpu_s, seen={"dropped": dropped})
