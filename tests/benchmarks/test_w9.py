"""W9 with the bottleneck elsewhere: what two processes counted in quarters of a second, put together."""

from __future__ import annotations

import pytest

from benchmarks.adapters.ours_w9_elsewhere import _longest_pause, _off, _samples
from benchmarks.w9 import Sample, rates, settled
from benchmarks.w9_topology import Counted


def test_counts_are_by_quarters_of_a_second():
    counted = Counted()
    for _ in range(3):
        counted.add()
    seen = counted.result()
    assert sum(seen["counts"]) == 3
    assert len(seen["counts"]) == len(seen["rss_mb"]) <= 2 + seen["counts"].count(0)
    assert seen["rss_mb"][-1] > 1.0


def test_counts_of_two_processes_are_put_together_by_the_clock_they_share():
    spout = {"first": 100, "counts": [0, 0, 9, 9, 0, 0, 9, 9], "rss_mb": [1.0] * 8}
    bolt = {"first": 103, "counts": [4, 5, 6, 7], "rss_mb": [2.0, 0.0, 3.0, 3.0]}
    assert _samples(spout, bolt, {104: 50, 105: 60}) == [
        Sample(0.25, 0, 0.0, 0, 0),
        Sample(0.5, 4, 2.0, 0, 0),
        Sample(0.75, 9, 2.0, 50, 0),
        Sample(1.0, 15, 3.0, 60, 0),
        Sample(1.25, 22, 3.0, 60, 0),
    ]
    assert _longest_pause(spout["counts"], 2) == 0.5


def test_the_worst_second_counts_behind_the_start():
    done = [min(at, 40) * 50 + max(0, at - 40) * 25 for at in range(1, 121)]
    samples = [Sample((at + 1) / 4, count, 40.0, 0, 0) for at, count in enumerate(done)]
    assert settled(samples) == 10.0
    assert _off(rates(samples), settled(samples), 100.0) == pytest.approx(0.0)
    assert _off(rates(samples), 5.0, 100.0) == pytest.approx(1.0)
