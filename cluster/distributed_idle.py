"""Idle: is there nothing left to do in a topology on several workers? Pure: rounds of reports in, a decision out.

    round 1:  every worker is asked, every worker answers      round 2: the same, after the last answer of round 1
    both rounds are equal, all workers are quiet, and b has received all that a has sent to b  ─►  idle

1. A worker makes its report in one step of its event loop: quiet or not, its activity (a counter that grows with all
   that it does), and for each peer the numbers sent and received, counted for each pair of processes.
2. All reports of a round are made after all reports of the previous round.
3. A worker that was restarted or is missing is a change: two more rounds are needed.

Why this is right: let t be a moment between the rounds. Each worker was quiet at its first report and at its second,
with the same activity: it has done nothing in between, so at t it was as it reported. This holds for all workers at the
same moment t. What was under way from a to b at t is what a had sent less what b had received: nothing. So at t all
workers were quiet and nothing was under way; only a spout with new data, or a timer, starts new work. Sums alone would
not be enough: a loss on one way could be hidden by a repetition on another.

From: Mattern, "Algorithms for distributed termination detection" (1987), the four counter method. There only a message
makes a worker active, and no activity is counted; our spouts become active by themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class IdleReport:
    """The report of one worker. `incarnation` differs for each process with that name."""

    worker: str
    incarnation: int
    quiet: bool
    activity: int = 0
    sent: Mapping[str, int] = field(default_factory=dict)
    received: Mapping[str, int] = field(default_factory=dict)


class DistributedIdleDetector:
    """Compares the rounds of one question. `workers`: all must answer."""

    def __init__(self, workers: Collection[str]) -> None:
        self.workers = frozenset(workers)
        self._last: dict[str, IdleReport] = {}

    def round(self, reports: Collection[IdleReport]) -> bool:
        """Take a complete round. True: there was an idle moment between it and the previous one."""
        now = {report.worker: report for report in reports}
        last, self._last = self._last, now
        return now == last and now.keys() == self.workers and all(r.quiet for r in reports) and _all_arrived(now)


def _all_arrived(reports: Mapping[str, IdleReport]) -> bool:
    for name, report in reports.items():
        for peer, count in report.sent.items():
            if count and (peer not in reports or reports[peer].received.get(name, 0) != count):
                return False
        for peer, count in report.received.items():
            if count and (peer not in reports or reports[peer].sent.get(name, 0) != count):
                return False
    return True
