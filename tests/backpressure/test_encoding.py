"""Encoding: the messages of monitors and the master, as bytes; and what no message may make a spout do."""

from __future__ import annotations

import math
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
        (True, 4, 1, 0.0, (), ()),
        (True, 5, 1, 1, 1, 5.0, 0, 0.0, 0.0, 0.0, 0, 0),
        (True, 6),
        (1, 7),
    ],
)
def test_malformed_messages_are_refused(item: Any) -> None:
    with pytest.raises(ProtocolError):
        PRESSURE_MESSAGES.unpack(unpack_value(pack_value(item)))


LARGEST = 2**63 - 1
BOUNDS: list[tuple[Any, tuple[Any, ...], dict[int, tuple[float, float]]]] = [
    (
        lambda order: order,
        (1, 5, 1, 1, 1, 5.0, 0, 0.0, 0.0, 0.0, 0, 0),
        {
            2: (0, LARGEST),
            3: (0, LARGEST),
            4: (0, 2),
            5: (0.0, 86_400.0),
            6: (0, MAX_WAIT),
            7: (0.0, 1.0),
            8: (-0.06, 0.06),
            9: (0.0, 1.0),
            10: (0, MAX_WAIT),
            11: (0, MAX_WAIT),
        },
    ),
    (
        lambda bolt: (1, 4, 1, 0.0, (bolt,), ()),
        (1, 2, 3, 4, False, 1, 0, 0.0, 0.0, False, 0),
        {**dict.fromkeys((0, 1, 2, 3, 6, 10), (0, LARGEST)), 5: (0, 2), 7: (0.0, 1.0), 8: (0.0, 1.0)},
    ),
    (
        lambda spout: (1, 4, 1, 0.0, (), (spout,)),
        (1, 2, 0, 0, 0, True),
        {**dict.fromkeys((0, 1, 3, 4), (0, LARGEST)), 2: (0, MAX_WAIT)},
    ),
    (lambda readings: readings, (1, 4, 1, 0.0, (), ()), {2: (0, LARGEST), 3: (-1e18, 1e18)}),
]


@pytest.mark.parametrize(("message", "usual", "bounds"), BOUNDS, ids=["pace", "bolt", "spout", "readings"])
def test_every_number_has_its_bounds(
    message: Any, usual: tuple[Any, ...], bounds: dict[int, tuple[float, float]]
) -> None:
    for place, (least, most) in bounds.items():
        beyond: list[Any] = [least - 1, most + 1]
        if isinstance(least, float):
            beyond = [math.nextafter(least, -math.inf), math.nextafter(most, math.inf), math.nan, math.inf]
        for number in (least, most):
            PRESSURE_MESSAGES.unpack(message((*usual[:place], number, *usual[place + 1 :])))
        for number in (*beyond, None, True):  # True is 1 for Python
            with pytest.raises(ProtocolError):
                PRESSURE_MESSAGES.unpack(message((*usual[:place], number, *usual[place + 1 :])))


@pytest.mark.parametrize("item", [(1, 4, 1, 0.0, [], ()), (1, 4, 1, 0.0, (), []), (1, 4, 1, 0.0, 5, ()), (1, 5), 5, ()])
def test_a_message_of_another_shape_is_refused(item: Any) -> None:
    with pytest.raises(ProtocolError):
        PRESSURE_MESSAGES.unpack(item)


def test_what_is_no_message_about_backpressure_is_not_sent() -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        PRESSURE_MESSAGES.pack(1, "text")


@pytest.mark.parametrize("message", [Clear(), Readings(1, 2.0, (BoltReading(1, 0, 1, 0),), (SpoutReading(9, 0),))])
def test_a_message_about_few_tasks_is_not_split(message: Any) -> None:
    assert PRESSURE_MESSAGES.split(message) == (message,)


@pytest.mark.parametrize(
    ("bolts", "spouts", "sizes"), [(999, 1, [1000]), (1000, 1, [1000, 1]), (1, 2001, [1, 1000, 1000, 1])]
)
def test_a_part_is_about_a_thousand_tasks_at_most(bolts: int, spouts: int, sizes: list[int]) -> None:
    readings = Readings(
        1, 2.0, tuple(BoltReading(n, 0, 1, 0) for n in range(bolts)), tuple(SpoutReading(n, 0) for n in range(spouts))
    )
    assert [len(part.bolts) + len(part.spouts) for part in PRESSURE_MESSAGES.split(readings)] == sizes


def test_readings_of_many_tasks_go_in_parts() -> None:
    readings = Readings(1, 2.0, tuple(BoltReading(n, 0, 1, 0) for n in range(2_500)), (SpoutReading(9, 0),))
    parts = PRESSURE_MESSAGES.split(readings)
    assert max(len(part.bolts) + len(part.spouts) for part in parts) <= MAX_TASKS
    assert sum((part.bolts for part in parts), ()) == readings.bolts
    assert sum((part.spouts for part in parts), ()) == readings.spouts
    assert {(part.incarnation, part.at_s) for part in parts} == {(1, 2.0)}
