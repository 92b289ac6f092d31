"""What a task saves of time and of the tuples in windows, and what fits when it begins again."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import Config, Fields
from aiostorm.tasks.bolt_time import renamed_tasks
from aiostorm.tasks.execute.kept_tuples import KeptTuples
from aiostorm.tasks.snapshots.rescaling import least_time
from aiostorm.tasks.snapshots.saved import SENT, TIME
from aiostorm.topology import Origin, Segment
from aiostorm.transport.codec import pack_value, unpack_value
from aiostorm.windows import (
    END_MS,
    StreamClock,
    TimeSettings,
    Tumbling,
    WatermarkTracker,
    WindowBolt,
    WindowStateError,
)

FIELDS = {("words", "default"): Fields("word", "n"), ("names", "other"): Fields("name")}


def test_tuples_are_tuples_again() -> None:
    kept = KeptTuples(FIELDS)
    for component, task, stream, values in (("words", 3, "default", ("a", [1])), ("names", 4, "other", (("x", 1),))):
        origin = Origin(component, task, stream, FIELDS[component, stream])
        tup = Segment(origin, [values[0] if origin.bare else values]).tuple_at(0)
        again = kept.unpack(unpack_value(pack_value(kept.pack(tup))))
        assert (again.values, again.source_component, again.source_task) == (values, component, task)
        assert (again.stream, again.fields, again.as_dict()) == (stream, tup.fields, tup.as_dict())
        assert (again[0], again[tup.fields[0]], again.segment.tracked) == (values[0], values[0], False)


@pytest.mark.parametrize(
    "packed",
    [
        ("removed", 3, "default", ("a", 1)),
        ("words", 3, "default", ("a",)),
        ("words", 3, "default", 5),
        ("words", "x", "default", ("a", 1)),
    ],
)
def test_rows_of_other_streams_are_refused(packed: Any) -> None:
    with pytest.raises(WindowStateError, match=r"words|removed"):
        KeptTuples(FIELDS).unpack(packed)


def tracker(*tasks: int, sends: bool = True) -> WatermarkTracker:
    settings = TimeSettings.of(WindowBolt(), Config())
    return WatermarkTracker(dict.fromkeys(tasks, sends), settings, 0, lambda error: None)


def test_inputs_are_known_by_component_and_index() -> None:
    before, now = {3: ("a", 0), 4: ("a", 1)}, {7: ("a", 1), 9: ("a", 0)}
    assert renamed_tasks(before, now) == {3: 9, 4: 7}
    assert renamed_tasks(before, {**now, 10: ("b", 0)}) == {3: 9, 4: 7}
    assert renamed_tasks(before, {9: ("a", 0)}) == {}, "with another number of tasks, all of them are others"
    assert renamed_tasks({**before, 5: ("b", 0)}, {9: ("a", 0), 10: ("b", 0)}) == {5: 10}


def test_a_dump_of_inputs_fits_other_ids() -> None:
    old = tracker(3, 4)
    old.on_watermark(3, 50, 1)
    old.on_watermark(4, END_MS, 1)
    dump = unpack_value(pack_value(old.dump(2)))
    new = tracker(9, 7)
    new.load(WatermarkTracker.renamed(dump, {3: 9, 4: 7}), 2)
    assert (new.by_input(), new.watermark) == ({9: 50, 7: None}, 50)
    new.on_watermark(9, END_MS, 3)
    assert new.watermark == END_MS
    with pytest.raises(WindowStateError, match="inputs was"):
        tracker(7, 8).load(WatermarkTracker.renamed(dump, {3: 9, 4: 7}), 2)


def test_generators_fit_other_ids() -> None:
    old = tracker(3, 4, sends=False)
    old.observe(3, [70, 70], [(), ()], 1)
    dump = unpack_value(pack_value(old.dump(2)))
    new = tracker(7, 9, sends=False)
    new.load(WatermarkTracker.renamed(dump, {3: 9, 4: 7}), 2)
    for each, first, second in ((old, 3, 4), (new, 9, 7)):
        each.observe(second, [90, 90], [(), ()], 3)
        each.tick(2_000)
        assert each.by_input() == {first: 70, second: 90}


# -- another number of tasks -------------------------------------------------------------------------------------------


def test_new_inputs_hold_the_watermark_back() -> None:
    old = tracker(3, 4)
    old.on_watermark(3, 50, 1)
    old.on_watermark(4, 60, 1)
    dump = unpack_value(pack_value(old.dump(2)))
    new = tracker(9, 20, 21)
    new.load(WatermarkTracker.renamed(dump, {3: 9}), 2)
    assert (new.by_input(), new.watermark) == ({9: 50, 20: None, 21: None}, 50)
    new.on_watermark(9, 90, 3)
    new.on_watermark(20, 70, 3)
    assert new.watermark == 50, "one of them has sent nothing"
    new.on_watermark(21, 80, 3)
    assert new.watermark == 70


def saved(at_3: int | None, at_4: int | None, **more: Any) -> dict[str, Any]:
    """Of a task with these watermarks of its inputs."""
    one = tracker(3, 4)
    for task, at_ms in ((3, at_3), (4, at_4)):
        if at_ms is not None:
            one.on_watermark(task, at_ms, 1)
    time = {"inputs": one.dump(2), "passed_on": 7, "tasks": {3: ("a", 0), 4: ("a", 1)}, **more}
    found: dict[str, Any] = unpack_value(pack_value({TIME: time}))
    return found


def test_the_least_of_several_tasks_counts() -> None:
    merged = least_time([saved(50, 80, wall_ms=5, revision=3), saved(70, 60, wall_ms=9, revision=1)])[TIME]
    new = tracker(3, 4)
    new.load(merged["inputs"], 5)
    assert (new.by_input(), new.watermark) == ({3: 50, 4: 60}, 50)
    assert (merged["passed_on"], merged["wall_ms"], merged["revision"]) == (None, 9, 3)
    unknown = least_time([saved(50, 80), saved(70, None)])[TIME]["inputs"]["watermarks"]
    assert unknown["watermark"] is None, "one of them has no watermark yet"
    ended = least_time([saved(END_MS, END_MS), saved(END_MS, 40)])[TIME]
    new = tracker(3, 4)
    new.load(ended["inputs"], 5)
    assert new.watermark == 40
    assert least_time([]) == least_time([{}, saved(1, 2)]) == {}
    with pytest.raises(WindowStateError, match="inputs was"):
        least_time([saved(1, 2), {TIME: {**saved(1, 2)[TIME], "inputs": tracker(3, 9).dump(1)}}])


def test_generators_begin_anew() -> None:
    old = tracker(3, 4, sends=False)
    old.observe(3, [70, 70], [(), ()], 1)
    old.tick(2_000)
    assert old.by_input()[3] == 70
    new = tracker(3, 4, sends=False)
    new.load(WatermarkTracker.least([old.dump(2_000), old.dump(2_000)]), 0)
    assert new.by_input() == {3: 70, 4: None}
    assert new.next_ms is not None, "only idleness is awaited"


def test_the_clock_that_is_furthest_behind_counts() -> None:
    settings = TimeSettings.of(WindowBolt(), Config())
    clocks = [StreamClock(settings, Tumbling(10)) for _ in range(3)]
    for clock, at_ms in zip(clocks, (100, 40, 70), strict=True):
        clock.observe([at_ms, at_ms])
        clock.due_watermark(5)
    parts = [{SENT: {"sent_ms": None, "clocks": {"windows": clock.dump(5)}}} for clock in clocks]
    dump = least_time(parts)[SENT]["clocks"]["windows"]
    new = StreamClock(settings, Tumbling(10))
    new.load(unpack_value(pack_value(dump)), 5)
    assert (new.ms, new.sent_ms) == (40, None)
    new.observe([45])
    assert new.due_watermark(6) == 45
    parts.append({SENT: {"clocks": {"windows": StreamClock(settings, Tumbling(10)).dump(5)}}})
    new = StreamClock(settings, Tumbling(10))
    new.load(least_time(parts)[SENT]["clocks"]["windows"], 5)
    assert new.ms is None, "one of them has emitted nothing yet"
