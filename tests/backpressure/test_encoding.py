"""Encoding: the messages of monitors and the master, as bytes; and what no message may make a spout do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.backpressure import (
    PRESSURE_MESSAGES,
    BoltReading,
    Clear,
    Pace,
    PaceChange,
    PressureVerdict,
    Readings,
    SpoutReading,
)
from aiostorm.backpressure.encoding import MAX_TASKS
from aiostorm.backpressure.throttle import MAX_WAIT
from aiostorm.transport import ProtocolError, pack_value, unpack_value

count = st.integers(0, 2**63 - 1)
share = st.floats(0, 1)
wait = st.integers(0, MAX_WAIT)
bolts = st.builds(
    BoltReading,
    count,
    count,
    count,
    count,
    st.booleans(),
    st.sampled_from(PressureVerdict),
    count,
    share,
    share,
    st.booleans(),
    count,
)
spouts = st.builds(SpoutReading, count, count, wait, count, count, st.booleans())
readings = st.builds(
    Readings, count, st.floats(-1e9, 1e9), st.lists(bolts).map(tuple), st.lists(spouts).map(tuple)
)  # fmt: skip
paces = st.builds(
    Pace,
    count,
    count,
    st.sampled_from(PaceChange),
    st.floats(0, 86_400),
    wait,
    share,
    st.floats(-0.06, 0.06),
    share,
    wait,
    wait,
)


@given(st.integers(1, 10_000), readings | paces | st.just(Clear()))
def test_a_packed_message_is_unpacked_unchanged(task: int, message: Any) -> None:
    item = unpack_value(PRESSURE_MESSAGES.pack(task, message))
    assert PRESSURE_MESSAGES.unpack(item) == (task, message)


@pytest.mark.parametrize(
    "item",
    [
        (1, 4, 1, 0.0, ((1, 2, 3),), ()),
        (1, 4, -1, 0.0, (), ()),
        (1, 4, 1, float("nan"), (), ()),
        (1, 4, 1, 0.0, ((1, 2, 3, 4, False, 3, 0, 0.0, 0.0, False, 0),), ()),
        (1, 4, 1, 0.0, ((1, 2, 3, 4, False, 1, 0, 1.5, 0.0, False, 0),), ()),
        (1, 4, 1, 0.0, ((1, 2, 3, 4, False, 1, 0, 0.5, 0.0, False, -1),), ()),
        (1, 4, 1, 0.0, (), ((1, 2, MAX_WAIT + 1, 0, 0, True),)),
        (1, 5, 1, 1, 3, 5.0, 0, 0.0, 0.0, 0.0, 0, 0),
        (1, 5, 1, 1, 1, 1e9, 0, 0.0, 0.0, 0.0, 0, 0),
        (1, 5, 1, 1, 1, 5.0, MAX_WAIT + 1, 0.0, 0.0, 0.0, 0, 0),
        (1, 5, 1, 1, 1, 5.0, 0, 0.0, 0.9, 0.0, 0, 0),
        (1, 5, 1, 1, 1, 5.0, 0, 0.0, 0.0, 60.0, 0, 0),
        (1, 5, True, 1, 1, 5.0, 0, 0.0, 0.0, 0.0, 0, 0),
        (1, 6, 0),
        (1, 7),
    ],
)
def test_malformed_messages_are_refused(item: Any) -> None:
    with pytest.raises(ProtocolError):
        PRESSURE_MESSAGES.unpack(unpack_value(pack_value(item)))


def test_readings_of_many_tasks_go_in_parts() -> None:
    readings = Readings(1, 2.0, tuple(BoltReading(n, 0, 1, 0) for n in range(2_500)), (SpoutReading(9, 0),))
    parts = PRESSURE_MESSAGES.split(readings)
    assert max(len(part.bolts) + len(part.spouts) for part in parts) <= MAX_TASKS
    assert sum((part.bolts for part in parts), ()) == readings.bolts
    assert sum((part.spouts for part in parts), ()) == readings.spouts
    assert {(part.incarnation, part.at_s) for part in parts} == {(1, 2.0)}
