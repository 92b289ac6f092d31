"""Idle: has a topology that is spread over several workers nothing left to do? Pure: rounds of reports in, yes out.

    round 1:  every worker is asked, every worker answers      round 2: the same, after the last answer of round 1
    both rounds say the same, all are quiet, and what a has sent b, b has received from a  ─►  yes

1. A report is made in one step of the worker's loop: quiet or not, its activity (a count that grows with whatever it
   does), and for each peer what it has sent and received so far, counted per life of both.
2. Of a round all reports are made after all of the round before.
3. A worker that was started again, or is missing, is a change: two more rounds.

Why yes is right. Let t be a moment between the rounds. Each worker was quiet at its first report, is at its second, and
its activity is the same: it has done nothing in between, so at t it was as it reported. This holds for all of them at
the one moment t. What was on its way from a to b at t is what a had sent less what b had received: nothing. So at t all
were quiet at once and nothing was under way, and only a spout that changes its mind, or time, begins something new.
Sums alone would not do: what is lost on one way could be made up for by what comes twice on another.

From: Mattern, "Algorithms for distributed termination detection" (1987), the four counter method; there a worker is
only made active by a message, and no activity is counted. Our spouts wake up by themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class IdleReport:
    """What one worker says of itself. `life` is another one for each process of that name."""

    worker: str
    life: int
    quiet: bool
    activity: int = 0
    sent: Mapping[str, int] = field(default_factory=dict)
    received: Mapping[str, int] = field(default_factory=dict)


class DistributedIdleDetector:
    """Takes the rounds of one question. `workers`: who must answer."""

    def __init__(self, workers: Collection[str]) -> None:
        self._workers = frozenset(workers)
        self._last: dict[str, IdleReport] = {}

    def round(self, reports: Collection[IdleReport]) -> bool:
        """Take a whole round. True: at a moment between it and the one before nothing moved."""
        now = {report.worker: report for report in reports}
        last, self._last = self._last, now
        return now == last and now.keys() == self._workers and all(r.quiet for r in reports) and _all_arrived(now)


def _all_arrived(reports: Mapping[str, IdleReport]) -> bool:
    for name, report in reports.items():
        for peer, count in report.sent.items():
            if count and (peer not in reports or reports[peer].received.get(name, 0) != count):
                return False
        for peer, count in report.received.items():
            if count and (peer not in reports or reports[peer].sent.get(name, 0) != count):
                return False
    return True
