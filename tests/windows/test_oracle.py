"""Every emitted window of every stream, against the reference; and planted bugs that it must find."""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappush
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.windows import PlainWindows, SessionWindows, Sliding, Watermarks, Window
from aiostorm.windows.buffered import BufferedWindows
from aiostorm.windows.generators import AGREED, HowFar
from aiostorm.windows.parts import Parts
from aiostorm.windows.stacks import Stacks
from aiostorm.windows.time_windows import TimeWindows

from .streams import CHECKS

STREAMS = 10_000
ENOUGH = 300
"""A planted bug is found in so many streams of its kind."""


@pytest.mark.parametrize("kind", CHECKS)
@settings(max_examples=40)
@given(rng=st.randoms(use_true_random=False))
def test_windows_are_those_of_the_reference(kind: str, rng: random.Random) -> None:
    CHECKS[kind](rng)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHECKS)
def test_ten_thousand_streams(kind: str) -> None:
    for seed in range(STREAMS // len(CHECKS)):
        CHECKS[kind](random.Random(seed))


def max_instead_of_min(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watermarks, "_among", lambda _, active: max((m for m in active if m is not None), default=None))


def carried_over_idle(patch: pytest.MonkeyPatch) -> None:
    """An idle input still holds the others up."""
    patch.setattr(Watermarks, "tick", lambda self, now_ms: self.watermark)


def goes_back(patch: pytest.MonkeyPatch) -> None:
    def decide(self: Any) -> None:
        self.watermark = self._among([known.watermark for known in self._inputs.values() if not known.idle])

    patch.setattr(Watermarks, "_decide", decide)


def timer_of_a_session_forgotten(patch: pytest.MonkeyPatch) -> None:
    set_timer, known = SessionWindows._set_timer, set[int]()

    def once(self: Any, session: Any) -> None:
        if id(session) not in known:
            known.add(id(session))
            self.kept = [*getattr(self, "kept", []), session]  # so that no other gets its id
            set_timer(self, session)

    patch.setattr(SessionWindows, "_set_timer", once)


def timer_of_a_buffer_forgotten(patch: pytest.MonkeyPatch) -> None:
    def go_on(self: Any, key: Any, buffer: Any, next_end: int) -> None:
        if not buffer.numbers:
            del self._of_key[key]

    patch.setattr(BufferedWindows, "_go_on", go_on)


def merges_with_the_first_only(patch: pytest.MonkeyPatch) -> None:
    merged = SessionWindows._merged
    patch.setattr(SessionWindows, "_merged", lambda self, over, window: merged(self, over[:1], window))


def merges_what_touches(patch: pytest.MonkeyPatch) -> None:
    put = SessionWindows._put

    def touching(self: Any, key: Any, at_ms: int, value: Any) -> bool:
        self._gap_ms += 1
        try:
            return put(self, key, at_ms, value)
        finally:
            self._gap_ms -= 1

    patch.setattr(SessionWindows, "_put", touching)


def fires_twice(patch: pytest.MonkeyPatch) -> None:
    fired = Parts.fired
    patch.setattr(
        Parts, "fired", lambda self, window, *rest: fired(self, window, *rest) * (1 + (window.start % 5 == 0))
    )


def a_session_fires_twice(patch: pytest.MonkeyPatch) -> None:
    results = SessionWindows._results

    def twice(self: Any, end: int) -> Any:
        for some in results(self, end):
            yield [one for one in some for _ in range(1 + (one.window.start % 5 == 0))]

    patch.setattr(SessionWindows, "_results", twice)


def fires_one_too_late(patch: pytest.MonkeyPatch) -> None:
    def has_passed(self: Any, end: int) -> bool:
        return self.watermark is not None and end + self._lateness_ms < self.watermark

    patch.setattr(TimeWindows, "_has_passed", has_passed)


def end_is_inside(patch: pytest.MonkeyPatch) -> None:
    slice_of = Sliding.slice_of

    def off_by_one(self: Sliding, timestamp: int) -> Window:
        before = slice_of(self, timestamp - 1)
        return before if before.end == timestamp else slice_of(self, timestamp)

    patch.setattr(Sliding, "slice_of", off_by_one)


def late_rows_only_in_their_slice(patch: pytest.MonkeyPatch) -> None:
    for join in ("_join_front", "_join_back"):
        patch.setattr(Stacks, join, lambda *_: None)


def empty_windows_fire(patch: pytest.MonkeyPatch) -> None:
    keep, results = PlainWindows._keep, PlainWindows._results

    def and_the_next(self: Any, slice_: Window, targets: Any) -> None:
        keep(self, slice_, targets)
        for window, _ in targets:
            if window.end not in self._open:
                self._open[window.end] = [{}]
                heappush(self._starts, window.end)

    patch.setattr(PlainWindows, "_keep", and_the_next)
    patch.setattr(
        PlainWindows,
        "_results",
        lambda self, window, columns: results(self, window, columns if columns[0] else [{"": []}]),
    )


PLANTED: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    max_instead_of_min: "watermarks",
    carried_over_idle: "watermarks",
    goes_back: "watermarks",
    timer_of_a_session_forgotten: "session",
    merges_with_the_first_only: "session",
    merges_what_touches: "session",
    a_session_fires_twice: "session",
    timer_of_a_buffer_forgotten: "buffered",
    fires_twice: "tumbling",
    fires_one_too_late: "shared",
    end_is_inside: "plain",
    late_rows_only_in_their_slice: "shared",
    empty_windows_fire: "plain",
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_bugs_are_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(differs(PLANTED[plant], seed) for seed in range(ENOUGH))


def test_without_a_bug_none_is_found() -> None:
    assert not any(differs(kind, seed) for kind in set(PLANTED.values()) for seed in range(60))


def differs(kind: str, seed: int) -> bool:
    try:
        CHECKS[kind](random.Random(seed))
    except (AssertionError, KeyError, ValueError):  # what the machine stumbles over is found as well
        return True
    return False


@given(
    st.lists(st.lists(st.integers(-500, 500) | st.integers(400, 420), max_size=5), max_size=12),
    st.none() | st.integers(1, 50),
)
def test_a_batch_is_as_its_rows_and_a_row_moves_it_by_its_bound(told: list[list[int]], bound: int | None) -> None:
    batches, rows = HowFar(bound), HowFar(bound)
    seen: list[int] = []
    jumps = 0
    for timestamps in told:
        batches.see(timestamps)
        for timestamp in timestamps:
            before = rows.ms
            rows.see([timestamp])
            seen.append(timestamp)
            assert before is None or (rows.ms is not None and before <= rows.ms)
            if bound is not None and before is not None and rows.ms is not None and rows.ms > before + bound:
                jumps += 1
                agreed = [at for at in seen[1:] if abs(at - timestamp) <= bound]
                assert len(agreed) >= AGREED, "only where it began alone, and many say otherwise"
        assert batches.ms == rows.ms
    assert jumps <= 1
