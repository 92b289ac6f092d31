"""Timings: which times a link can work with, exactly."""

from __future__ import annotations

import pytest

from aiostorm.transport.link.timings import LinkTimings


def test_the_usual_ones_are_valid() -> None:
    usual = LinkTimings()
    assert (usual.first_retry_s, usual.max_retry_s) == (0.05, 2.0)
    assert 0 < usual.heartbeat_s < usual.dead_s


@pytest.mark.parametrize(
    "changes", [{"heartbeat_s": 1.0, "dead_s": 1.5}, {"drain_s": 0.0}, {"max_retry_s": 0.05}, {"connect_s": 0.1}]
)
def test_times_at_the_limit(changes: dict[str, float]) -> None:
    assert LinkTimings(**changes) == LinkTimings(**changes)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"heartbeat_s": 0.0}, "0 < heartbeat_s < dead_s"),
        ({"heartbeat_s": -1.0}, "0 < heartbeat_s < dead_s"),
        ({"heartbeat_s": 1.5, "dead_s": 1.5}, "0 < heartbeat_s < dead_s"),
        ({"first_retry_s": 0.0}, "0 < first_retry_s <= max_retry_s"),
        ({"first_retry_s": 2.5}, "0 < first_retry_s <= max_retry_s"),
        ({"connect_s": 0.0}, "0 < connect_s"),
        ({"drain_s": -0.1}, "0 <= drain_s"),
    ],
)
def test_times_that_would_end_every_connection_or_none_are_refused(changes: dict[str, float], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        LinkTimings(**changes)
