"""What is known of time is dumped and loaded at any point: the same watermarks come at the same times."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.transport.codec import pack_value, unpack_value
from aiostorm.windows import (
    END_MS,
    ByFunction,
    Generator,
    Periodic,
    Punctuated,
    Session,
    Sliding,
    StreamClock,
    TimeSettings,
    WatermarkPolicy,
    WatermarkTracker,
    WindowStateError,
)

from ..tries import examples

GENERATORS: tuple[Callable[[], Generator] | None, ...] = (
    None,
    lambda: Periodic(2, 20, 50),
    lambda: Punctuated(lambda row: row % 3 == 0, 2, 50),
    lambda: ByFunction(lambda timestamp, row: timestamp - 3 if row % 2 else None, 50),
)


def time_settings(rng: random.Random, **given: Any) -> TimeSettings:
    chosen: dict[str, Any] = {
        "lag_ms": rng.choice((0, 5)),
        "interval_ms": 10,
        "max_advance_ms": rng.choice((None, 30)),
        "idle_timeout_ms": rng.choice((None, 15)),
        "allowed_lateness_ms": 3,
        "policy": rng.choice(list(WatermarkPolicy)),
        "ratio": 0.6,
        "max_states": 10,
        "generator": rng.choice(GENERATORS),
    }
    return TimeSettings(**{**chosen, **given})


def copied(dump: Any) -> Any:
    return unpack_value(pack_value(dump))


def failed(error: Exception) -> None:
    raise error


@settings(max_examples=examples(150))
@given(rng=st.randoms(use_true_random=False))
def test_a_restart_changes_no_watermark(rng: random.Random) -> None:
    chosen = time_settings(rng)
    inputs = {task: rng.random() < 0.5 for task in range(rng.randint(1, 4))}
    plain, restarted = (WatermarkTracker(inputs, chosen, 0, failed) for _ in range(2))
    now_ms, ahead_ms, event_ms = 0, 0, 1_000
    for _ in range(rng.randint(1, 40)):
        now_ms += rng.choice((0, 1, 4, 11, 40))
        event_ms += rng.choice((0, 3, 9, 9, 500))
        if rng.random() < 0.3:
            dump, ahead_ms = copied(restarted.dump(now_ms + ahead_ms)), rng.choice((0, 10_000, -20))
            restarted = WatermarkTracker(inputs, chosen, now_ms + ahead_ms, failed)
            restarted.load(dump, now_ms + ahead_ms)
        task, what = rng.randrange(4), rng.choice(("rows", "rows", "watermark", "end", "tick"))
        rows = [rng.randrange(100) for _ in range(rng.randint(0, 4))]
        times = [event_ms - rng.choice((0, 1, 7)) for _ in rows]
        for tracker, at_ms in ((plain, now_ms), (restarted, now_ms + ahead_ms)):
            if what == "rows":
                tracker.observe(task, times, rows, at_ms)
            elif what == "tick":
                tracker.tick(at_ms)
            else:
                tracker.on_watermark(task, event_ms if what == "watermark" else END_MS, at_ms)
        assert restarted.watermark == plain.watermark
        assert (restarted.idle, restarted.all_idle) == (plain.idle, plain.all_idle)
        assert restarted.by_input() == plain.by_input()
        assert restarted.next_ms == (None if plain.next_ms is None else plain.next_ms + ahead_ms)


@settings(max_examples=examples(150))
@given(rng=st.randoms(use_true_random=False))
def test_a_restart_changes_no_stream_clock(rng: random.Random) -> None:
    chosen = time_settings(rng)
    windows = rng.choice((None, Sliding(20, 10, 3), Session(9)))
    plain, restarted = (StreamClock(chosen, windows) for _ in range(2))
    now_ms, event_ms = 0, 1_000
    for _ in range(rng.randint(1, 40)):
        now_ms += rng.choice((0, 1, 4, 11))
        event_ms += rng.choice((0, 3, 9, 9, 500))
        if rng.random() < 0.3:
            dump = copied(restarted.dump(now_ms))
            restarted = StreamClock(chosen, windows)
            restarted.load(dump, now_ms)
        times = [event_ms - rng.choice((0, 1, 30)) for _ in range(rng.randint(0, 5))]
        assert list(restarted.observe(times)) == list(plain.observe(times))
        if rng.random() < 0.5:
            assert restarted.due_watermark(now_ms) == plain.due_watermark(now_ms)
        assert (restarted.ms, restarted.due, restarted.sent_ms) == (plain.ms, plain.due, plain.sent_ms)


class Greatest(Generator):
    """A user's own, which is not dumped."""

    def observe(self, timestamps: Sequence[int], rows: Sequence[Any]) -> int | None:
        return max(timestamps)


def test_a_generator_that_is_not_dumped_begins_anew_and_the_watermark_stays() -> None:
    chosen = time_settings(random.Random(0), generator=Greatest, idle_timeout_ms=None)
    tracker, new = (WatermarkTracker({1: False}, chosen, 0, failed) for _ in range(2))
    tracker.observe(1, [50], [0], 0)
    new.load(copied(tracker.dump(0)), 0)
    new.observe(1, [40], [0], 0)
    assert new.watermark == 50
    new.observe(1, [60], [0], 0)
    assert new.watermark == 60


def test_an_error_of_a_generator_names_it() -> None:
    class Wrong(Greatest):
        def dump(self, now_ms: int) -> Any:
            raise ValueError("no")

    tracker = WatermarkTracker({1: False}, time_settings(random.Random(0), generator=Wrong), 0, failed)
    with pytest.raises(WindowStateError, match=r"Wrong.dump raised ValueError: no"):
        tracker.dump(0)


def test_what_does_not_fit_is_refused() -> None:
    chosen = time_settings(random.Random(0), generator=None)
    dump = WatermarkTracker({1: False, 2: True}, chosen, 0, failed).dump(0)
    with pytest.raises(WindowStateError, match=r"inputs was .* and is"):
        WatermarkTracker({1: False, 3: True}, chosen, 0, failed).load(dump, 0)
    with pytest.raises(WindowStateError, match="it is a dump of 'WatermarkTracker', not of StreamClock"):
        StreamClock(chosen, None).load(dump, 0)
    with pytest.raises(WindowStateError, match="version 2"):
        WatermarkTracker({1: False, 2: True}, chosen, 0, failed).load({**dump, "version": 2}, 0)
    clock = StreamClock(chosen, Sliding(20, 10)).dump(0)
    with pytest.raises(WindowStateError, match="step_ms was 10 and is 1"):
        StreamClock(chosen, None).load(clock, 0)
    for field in dump:
        with pytest.raises(WindowStateError):
            WatermarkTracker({1: False, 2: True}, chosen, 0, failed).load({**dump, field: 0.5}, 0)
    for state in (None, (), (None,) * 4, ((None,) * 3, 1, 1, 1, True), ((0.5, None, None, []), 1, 1, 1, True)):
        with pytest.raises(WindowStateError):
            StreamClock(chosen, Sliding(20, 10)).load({**clock, "state": state}, 0)
