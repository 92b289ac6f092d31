"""KeyToucher: which rows' keys are touched before a bolt executes them."""

from __future__ import annotations

from aiostorm.state import Capture, State, unpack_chunks
from aiostorm.tasks.snapshots.task_saver import FIRST_ROWS
from aiostorm.tasks.snapshots.touching import KeyToucher
from aiostorm.topology import Fields, Origin, Segment

NUMBERS = Origin("numbers", 1, "default", Fields("key"))
PAIRS = Origin("pairs", 2, "default", Fields("at", "day", "user"))


def make(state: State[object, object], fields: tuple[str, ...] = ("key",)) -> tuple[KeyToucher, list[int]]:
    """A toucher, and how many keys were touched at each check of the first rows."""
    checks: list[int] = []
    return KeyToucher(state, fields, lambda: checks.append(len(state.touched_keys))), checks


def test_each_row_is_touched_and_counted() -> None:
    state: State[object, object] = State()
    toucher, _ = make(state)
    toucher.touch_rows(Segment(NUMBERS, [1, 2, 3, 2]), 1, 4)
    assert state.touched_keys == {2, 3}
    assert state.rows == 3
    state.take_touched()
    assert state.rows == 0


def test_a_key_of_several_fields_is_a_tuple_in_the_order_of_the_declaration() -> None:
    state: State[object, object] = State()
    toucher, _ = make(state, ("user", "day"))
    toucher.touch_rows(Segment(PAIRS, [(0, "mon", "a"), (1, "tue", "b")]), 0, 2)
    assert state.touched_keys == {("a", "mon"), ("b", "tue")}


def test_the_first_rows_are_checked_also_if_the_next_snapshot_is_full() -> None:
    state: State[object, object] = State()
    state.expect_all()
    toucher, checks = make(state)
    for at in range(FIRST_ROWS):
        toucher.touch_rows(Segment(NUMBERS, [at]), 0, 1)
    assert checks == []
    toucher.touch_rows(Segment(NUMBERS, [-1]), 0, 1)
    assert checks == [FIRST_ROWS]
    assert -1 not in state.touched_keys, "after the check nothing needs to be touched"
    assert state.rows == FIRST_ROWS + 1


def test_while_a_snapshot_is_packed_values_are_kept_also_if_the_next_one_is_full() -> None:
    state: State[object, object] = State({1: [1], 2: [2]})
    toucher, _ = make(state)
    toucher.touch_rows(Segment(NUMBERS, [1] * (FIRST_ROWS + 1)), 0, FIRST_ROWS + 1)
    capture = Capture(state, "count", 1, full=True)
    state.expect_all()
    toucher.touch_rows(Segment(NUMBERS, [1]), 0, 1)
    state[1] = [100]
    found: dict[object, object] = {}
    for packed in capture.slices(lambda: 0.0):
        for chunk in unpack_chunks(packed.data, "t1-1-f-0"):
            chunk.apply_to(found)
    assert found == {1: [1], 2: [2]}
