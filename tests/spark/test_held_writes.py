"""What a sink holds while its store cannot be written: in order, all of it, tried again ever more seldom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiostorm.spark.sinks.held_writes import FIRST_S, MOST_S, HeldWrites


def test_the_wait_doubles_with_jitter_and_begins_anew() -> None:
    for random, share in ((0.0, 0.5), (1.0, 1.0)):
        held: HeldWrites[int] = HeldWrites(lambda random=random: random)  # type: ignore[misc]
        held.hold(1)
        waits = [held.failed() for _ in range(12)]
        assert waits == [min(MOST_S, FIRST_S * 2**n) * share for n in range(12)]
        assert not held.passed(MOST_S * share - 1)
        assert held.passed(1)
        held.written()
        held.hold(2)
        assert held.failed() == FIRST_S * share


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30))
def test_all_is_written_once_and_in_order(steps: list[tuple[int, bool]]) -> None:
    held: HeldWrites[int] = HeldWrites(lambda: 0.5)
    written: list[int] = []
    count = 0
    for more, works in [*steps, (0, True)]:
        for _ in range(more):
            held.hold(count)
            count += 1
        for item in held.items:
            if not works:
                held.failed()
                assert not held.passed(FIRST_S / 4)
                break
            written.append(item)
            held.written()
    assert written == list(range(count))
    assert not held.passed(100)
    assert held.drop() == []


def test_after_a_write_the_next_one_is_due_at_once() -> None:
    assert (FIRST_S, MOST_S) == (0.1, 30.0)
    held: HeldWrites[int] = HeldWrites(lambda: 1.0)
    held.hold(1)
    held.hold(2)
    assert held.failed() == 0.1
    assert not held.passed(0.05)
    held.written()
    assert held.passed(0)
    assert held.failed() == 0.2, "2 is still held, so the wait grows"
    assert held.drop() == [2]
