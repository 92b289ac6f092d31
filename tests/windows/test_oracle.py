"""Every emitted window of every stream, against the reference; and planted bugs that it must find."""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappush
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.windows import BufferedSessions, PlainWindows, SessionWindows, Sliding, Watermarks, Window
from aiostorm.windows.aggregate_runner import AggregateRunner
from aiostorm.windows.buffered import BufferedWindows
from aiostorm.windows.firing import Firing
from aiostorm.windows.generators import CONFIRMING_ROWS, MaxTimestamp
from aiostorm.windows.open_sessions import OpenSessions, SessionMerge
from aiostorm.windows.two_stacks import TwoStacks

from ..tries import examples
from .streams import CHECKS

STREAMS = 10_000
ENOUGH = 300
"""A planted bug is found in so many streams of its kind."""


@pytest.mark.parametrize("kind", CHECKS)
@settings(max_examples=examples(40))
@given(rng=st.randoms(use_true_random=False))
def test_windows_are_those_of_the_reference(kind: str, rng: random.Random) -> None:
    CHECKS[kind](rng)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHECKS)
def test_ten_thousand_streams(kind: str) -> None:
    for seed in range(STREAMS // len(CHECKS)):
        CHECKS[kind](random.Random(seed))


def max_instead_of_min(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watermarks, "_by_policy", lambda _, active: max((m for m in active if m is not None), default=None))


def carried_over_idle(patch: pytest.MonkeyPatch) -> None:
    """An idle input still holds the others up."""
    patch.setattr(Watermarks, "tick", lambda self, now_ms: self.watermark)


def goes_back(patch: pytest.MonkeyPatch) -> None:
    def decide(self: Any) -> None:
        self.watermark = self._by_policy([known.watermark for known in self._inputs.values() if not known.idle])

    patch.setattr(Watermarks, "_decide", decide)


def timer_of_a_session_forgotten(patch: pytest.MonkeyPatch) -> None:
    set_timer, known = OpenSessions._set_timer, set[int]()

    def once(self: Any, session: Any) -> None:
        if id(session) not in known:
            known.add(id(session))
            self.kept = [*getattr(self, "kept", []), session]  # so that no other gets its id
            set_timer(self, session)

    patch.setattr(OpenSessions, "_set_timer", once)


def timer_of_a_buffer_forgotten(patch: pytest.MonkeyPatch) -> None:
    def go_on(self: Any, key: Any, buffer: Any, next_end: int) -> None:
        if not buffer.numbers:
            del self._of_key[key]

    patch.setattr(BufferedWindows, "_schedule_next", go_on)


def merges_with_the_first_only(patch: pytest.MonkeyPatch) -> None:
    merged = SessionWindows._merged
    patch.setattr(SessionWindows, "_merged", lambda self, touched, window: merged(self, touched[:1], window))


def keeps_apart_what_touches(patch: pytest.MonkeyPatch) -> None:
    merge_of = OpenSessions.merge_of

    def apart(self: Any, key: Any, at_ms: int) -> Any:
        of_key = self._of_key.get(key, [])
        at = sum(session.end <= at_ms for session in of_key)
        touched = [session for session in of_key if session.start < at_ms + self._gap_ms and session.end > at_ms]
        place = merge_of(self, key, at_ms)
        if touched != place.touched:
            ends = [at_ms + self._gap_ms, *[session.end for session in touched]]
            window = Window(min([at_ms, *[session.start for session in touched]]), max(ends))
            return SessionMerge(of_key, at, touched, window)
        return place

    patch.setattr(OpenSessions, "merge_of", apart)


def a_session_fires_at_its_end(patch: pytest.MonkeyPatch) -> None:
    """As in JStorm and Flink: a row at the end, which is on time, comes too late for it."""
    patch.setattr(SessionWindows, "_is_over", SessionWindows._has_passed)
    patch.setattr(BufferedSessions, "_has_passed", lambda self, end: Firing._has_passed(self, end - 1))


def fires_twice(patch: pytest.MonkeyPatch) -> None:
    fired = AggregateRunner.fired
    patch.setattr(
        AggregateRunner, "fired", lambda self, window, *rest: fired(self, window, *rest) * (1 + (window.start % 5 == 0))
    )


def a_session_fires_twice(patch: pytest.MonkeyPatch) -> None:
    results = SessionWindows._results

    def twice(self: Any, end: int) -> Any:
        for some in results(self, end):
            yield [one for one in some for _ in range(1 + (one.window.start % 5 == 0))]

    patch.setattr(SessionWindows, "_results", twice)


def fires_one_too_late(patch: pytest.MonkeyPatch) -> None:
    """`<` for `<=`: what fires is right, and each window is a millisecond late."""

    def has_passed(self: Any, end: int) -> bool:
        return self.watermark is not None and end + self._lateness_ms < self.watermark

    patch.setattr(Firing, "_has_passed", has_passed)


def fires_one_too_soon(patch: pytest.MonkeyPatch) -> None:
    def has_passed(self: Any, end: int) -> bool:
        return self.watermark is not None and end + self._lateness_ms <= self.watermark + 1

    patch.setattr(Firing, "_has_passed", has_passed)


def end_is_inside(patch: pytest.MonkeyPatch) -> None:
    slice_of = Sliding.slice_of

    def off_by_one(self: Sliding, timestamp: int) -> Window:
        before = slice_of(self, timestamp - 1)
        return before if before.end == timestamp else slice_of(self, timestamp)

    patch.setattr(Sliding, "slice_of", off_by_one)


def late_rows_only_in_their_slice(patch: pytest.MonkeyPatch) -> None:
    for join in ("_join_front", "_join_back"):
        patch.setattr(TwoStacks, join, lambda *_: None)


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


BY_TIME = ("tumbling", "shared", "plain", "session", "buffered", "buffered session", "mixed rows", "mixed span")
"""The kinds of streams whose windows fire by a watermark."""

PLANTED: dict[Callable[[pytest.MonkeyPatch], None], str | tuple[str, ...]] = {
    max_instead_of_min: "watermarks",
    carried_over_idle: "watermarks",
    goes_back: "watermarks",
    timer_of_a_session_forgotten: ("session", "buffered session"),
    merges_with_the_first_only: "session",
    keeps_apart_what_touches: ("session", "buffered session"),
    a_session_fires_at_its_end: ("session", "buffered session"),
    a_session_fires_twice: "session",
    timer_of_a_buffer_forgotten: "buffered",
    fires_twice: "tumbling",
    fires_one_too_late: BY_TIME,
    fires_one_too_soon: BY_TIME,
    end_is_inside: "plain",
    late_rows_only_in_their_slice: "shared",
    empty_windows_fire: "plain",
}


EACH = [(plant, kind) for plant, kinds in PLANTED.items() for kind in ((kinds,) if isinstance(kinds, str) else kinds)]


@pytest.mark.parametrize(("plant", "kind"), EACH, ids=lambda value: getattr(value, "__name__", value))
def test_planted_bugs_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(differs(kind, seed) for seed in range(ENOUGH))


def test_without_a_bug_none_is_found() -> None:
    assert not any(differs(kind, seed) for kind in {kind for _, kind in EACH} for seed in range(60))


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
def test_a_batch_is_as_its_rows_and_a_row_moves_it_by_its_bound(
    given_batches: list[list[int]], bound: int | None
) -> None:
    batches, rows = MaxTimestamp(bound), MaxTimestamp(bound)
    seen: list[int] = []
    jumps = 0
    for timestamps in given_batches:
        batches.observe(timestamps)
        for timestamp in timestamps:
            before = rows.ms
            rows.observe([timestamp])
            seen.append(timestamp)
            assert before is None or (rows.ms is not None and before <= rows.ms)
            if bound is not None and before is not None and rows.ms is not None and rows.ms > before + bound:
                jumps += 1
                agreed = [at for at in seen[1:] if abs(at - timestamp) <= bound]
                assert len(agreed) >= CONFIRMING_ROWS, "only where it began alone, and many say otherwise"
        assert batches.ms == rows.ms
    assert jumps <= 1
