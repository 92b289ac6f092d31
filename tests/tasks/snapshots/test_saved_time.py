"""What a task saves of time and of the tuples in windows, and what fits when it begins again."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import Config, Fields
from aiostorm.tasks.bolt_time import renamed_tasks
from aiostorm.tasks.execute.kept_tuples import KeptTuples
from aiostorm.topology import Origin, Segment
from aiostorm.transport.codec import pack_value, unpack_value
from aiostorm.windows import END_MS, TimeSettings, WatermarkTracker, WindowBolt, WindowStateError

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
    assert renamed_tasks(before, {**now, 10: ("b", 0)}) is None
    assert renamed_tasks(before, {9: ("a", 0)}) is None


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
