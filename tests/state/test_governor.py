"""Governor: snapshots take a bounded share of the loop; a delta is chosen while it is cheaper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.state import BlobChain, BlobRef, Governor
from aiostorm.state.governor import BESIDES, DELTA_KEY_S, FULL_KEY_S, TOUCH_ROW_S


def test_the_interval_is_kept_while_snapshots_are_cheap() -> None:
    governor = Governor(1.0, 0.05)
    assert governor.due_s(10.0) == 10.0
    governor.finished(10.0, 0.01)
    assert governor.due_s(10.5) == 11.0
    assert not governor.slowed
    governor.finished(11.0, 0.15)  # and a third of it besides
    assert governor.due_s(11.5) == 15.0
    assert governor.slowed


@given(costs=st.lists(st.floats(0.0, 2.0), min_size=1, max_size=30), share=st.floats(0.01, 1.0))
def test_snapshots_never_take_more_than_their_share(costs: list[float], share: float) -> None:
    governor, now_s = Governor(1.0, share), 0.0
    for cost_s in costs:
        now_s = governor.due_s(now_s)
        governor.finished(now_s, cost_s)
    assert sum(costs) * BESIDES <= share * governor.due_s(now_s) * (1 + 1e-9)


def test_the_least_interval_and_the_whole_loop_are_allowed() -> None:
    governor = Governor(0.0, 1.0)
    governor.finished(5.0, 1.5)
    assert governor.due_s(5.0) == 7.0
    assert governor.slowed
    governor.finished(7.0, 0.0)
    assert governor.due_s(7.0) == 7.0
    assert not governor.slowed


@pytest.mark.parametrize(("interval_s", "share"), [(-1.0, 0.1), (1.0, 0.0), (1.0, 1.5)])
def test_wrong_settings_are_refused(interval_s: float, share: float) -> None:
    with pytest.raises(ValueError, match="a share of 0 to 1"):
        Governor(interval_s, share)


def blobs(number: int, size_bytes: int) -> tuple[BlobRef, ...]:
    return (BlobRef(f"t1-{number}-d-0", size_bytes, 1, 1),)


def test_the_first_snapshot_is_full_and_then_30_percent_decide() -> None:
    chain = BlobChain()
    assert chain.next_is_full(0, 1000)
    chain.committed(blobs(1, 10_000), full=True)
    assert not chain.next_is_full(299, 1000)
    assert chain.next_is_full(301, 1000)
    assert not chain.next_is_full(0, 0)


def test_a_measurement_moves_the_limit() -> None:
    chain = BlobChain()
    chain.committed(blobs(1, 10_000), full=True)
    for _ in range(10):
        chain.measured(100_000, 0.1, full=False)  # 1 us a key
        chain.measured(100_000, 0.05, full=True)  # 0.5 us a key
        chain.measured(10, 1.0, full=True)  # too few keys
    assert not chain.next_is_full(499, 1000)
    assert chain.next_is_full(501, 1000)


def limit_of(chain: BlobChain) -> int:
    """The greatest number of touched keys, of a million, with which a delta pays."""
    return max(touched for touched in range(0, 1_000_001, 1_000) if chain.delta_pays(touched, 1_000_000))


def test_a_new_measurement_counts_half() -> None:
    chain = BlobChain()
    assert limit_of(chain) == 300_000
    chain.measured(1_000, 1_000 * 3 * FULL_KEY_S, full=True)
    assert limit_of(chain) == 600_000, "twice the seconds a key: between the old ones and the new ones"
    chain.measured(1_000, 1_000 * 7 * DELTA_KEY_S, full=False)
    assert limit_of(chain) == 150_000


def test_a_delta_does_not_pay_where_touching_its_rows_costs_more_than_a_full_snapshot() -> None:
    chain, keys = BlobChain(), 1_000_000
    rows = round(keys * FULL_KEY_S / TOUCH_ROW_S)
    assert chain.delta_pays(1, keys, rows - 1_000)
    assert not chain.delta_pays(1, keys, rows + 1_000)
    assert chain.delta_pays(50_000, keys)
    assert not chain.delta_pays(50_000, keys, round(rows * 0.9))


def test_before_keys_were_touched_each_row_may_have_changed_another_one() -> None:
    for rows, touched in ((10, True), (100_000, True), (500_000, False), (10_000_000, False)):
        assert BlobChain().touch_next(5, 1_000_000, rows, known=False) is touched
    assert BlobChain().touch_next(5, 1_000_000, 500_000, known=True), "five keys, as is known"
    assert not BlobChain().touch_next(5, 1_000_000, 100_000_000, known=True), "touching them costs more than all keys"


def test_keys_are_touched_again_when_few_rows_come_or_after_eight_snapshots() -> None:
    chain = BlobChain()
    assert [chain.touch_next(0, 1_000, 100_000, known=False) for _ in range(18)] == [*[False] * 8, True] * 2
    assert not chain.touch_next(0, 1_000, 100_000, known=False)
    assert chain.touch_next(0, 1_000, 100, known=False), "few rows: what a delta may cost at most is less"


def test_500_keys_are_measured_and_fewer_or_no_time_are_not() -> None:
    chain = BlobChain()
    chain.measured(499, 1.0, full=True)
    chain.measured(5_000, 0.0, full=True)
    assert limit_of(chain) == 300_000
    chain.measured(500, 500 * 3 * FULL_KEY_S, full=True)
    assert limit_of(chain) == 600_000


def test_a_snapshot_is_full_after_20_deltas() -> None:
    chain = BlobChain()
    chain.committed(blobs(1, 10_000), full=True)
    for number in range(20):
        assert not chain.next_is_full(1, 1000)
        chain.committed((), full=False)  # nothing changed: no delta
        assert not chain.next_is_full(1, 1000)
        chain.committed(blobs(2 + number, 10), full=False)
    assert chain.next_is_full(1, 1000)
    assert len(chain.blobs) == 21
    chain.committed(blobs(50, 10_000), full=True)
    assert chain.blobs == blobs(50, 10_000)
    assert not chain.next_is_full(1, 1000)


def test_a_snapshot_is_full_when_deltas_are_larger() -> None:
    chain = BlobChain()
    chain.committed(blobs(1, 100), full=True)
    chain.committed(blobs(2, 100), full=False)
    assert not chain.next_is_full(1, 1000)
    chain.committed(blobs(3, 1), full=False)
    assert chain.next_is_full(1, 1000)
