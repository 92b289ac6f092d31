"""Distinct: close to the truth, the same merged or not, and an error that says what to install."""

from __future__ import annotations

import sys

import pytest

from aiostorm.topology import UnhashableKeyError
from aiostorm.transport.codec import pack_value, unpack_value
from aiostorm.windows import Distinct, Session, Sliding, Tumbling, Window, WindowError, time_windows

pytest.importorskip("datasketches")


@pytest.mark.parametrize(
    "assigner", [Tumbling(100), Sliding(100, 10), Session(100)], ids=lambda value: type(value).__name__
)
def test_the_estimate_is_close_to_the_true_number(assigner: object) -> None:
    windows = time_windows(assigner, Distinct("v"))  # type: ignore[arg-type]
    rows = [{"v": f"user {n % 3_000}"} for n in range(4_000)]
    assert windows.add(["k"] * 4_000, [n // 40 for n in range(4_000)], rows).failed == []
    found = {one.window.end: one.result for one in windows.advance(10_000)}
    assert found[min(end for end in found if end >= 100)] == pytest.approx(3_000, rel=0.05)


def test_equal_values_are_one_and_what_has_no_hash_fails_alone() -> None:
    windows = time_windows(Tumbling(10), Distinct())
    taken = windows.add("kkkkk", [1] * 5, [1, 1.0, True, "1", [1]])
    assert [place for place, _ in taken.failed] == [4]
    assert [one.result for one in windows.advance(10)] == [2]


def test_invalid_options_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for precision in (6, 22, 1.5):
        with pytest.raises(WindowError, match="precision"):
            Distinct(precision=precision)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(WindowError, match=r"aiostorm\[sketches\]"):
        Distinct()


def test_the_precision_is_12_unless_it_is_given_and_goes_from_7_to_21() -> None:
    sizes = []
    for distinct in (Distinct(), *(Distinct(precision=precision) for precision in (7, 11, 12, 13, 21))):
        state = distinct.init_state(Window(0, 1))
        for number in range(100_000):
            distinct.execute(number, state, Window(0, 1))
        sizes.append(len(distinct.pack_state(state)))
    assert sizes[0] == sizes[3]
    assert sizes[1:] == sorted(set(sizes))


def test_what_has_no_hash_is_refused_before_it_is_added() -> None:
    distinct = Distinct("v")
    distinct.ready_for({"v": 1})
    with pytest.raises(UnhashableKeyError):
        distinct.ready_for({"v": [1]})
    assert not distinct.takes([1, 2])


def test_a_sketch_is_dumped_and_loaded() -> None:
    windows, loaded = (time_windows(Sliding(100, 10), Distinct()) for _ in range(2))
    for number in range(5_000):
        if number in (3, 40, 4_000):
            loaded_before, loaded = loaded, time_windows(Sliding(100, 10), Distinct())
            loaded.load(unpack_value(pack_value(loaded_before.dump())))
        for one in (windows, loaded):
            one.add(["k"], [number // 100], [number])
    assert list(loaded.advance(10_000)) == list(windows.advance(10_000))
