"""Watermark tracker: watermarks of input tasks, timestamps of their rows, and their ends."""

from __future__ import annotations

from typing import Any

from aiostorm import Config
from aiostorm.windows import END_MS, Generator, TimeSettings, WatermarkTracker, WindowBolt


def keeper(inputs: dict[int, bool], **settings: Any) -> WatermarkTracker:
    errors: list[Exception] = []
    return WatermarkTracker(inputs, TimeSettings.of(WindowBolt(**settings), Config()), 0, errors.append)


def test_a_late_watermark_of_a_generator_does_not_reopen_an_input_that_has_ended() -> None:
    time = keeper({1: False, 2: False})
    for task in (1, 2):
        time.observe(task, [10, 20], ["", ""], 0)
    time.on_watermark(1, END_MS, 10)
    time.tick(1_000)  # its watermark was not sent yet
    assert time.watermark == 20
    time.on_watermark(2, END_MS, 1_010)
    assert time.watermark == END_MS
    assert time.next_ms is None


def test_reading_the_rows_of_an_input_does_not_make_it_active() -> None:
    time = keeper({1: False, 2: False}, idle_timeout_ms=1_500)
    time.observe(1, [10, 20], ["", ""], 0)
    time.tick(1_000)
    time.observe(2, [30, 40], ["", ""], 1_000)
    time.tick(1_500)
    assert time.idle == {1}
    time.tick(2_000)
    assert time.watermark == 40


def test_an_input_that_sends_again_has_not_ended() -> None:
    time = keeper({1: True, 2: True})
    time.on_watermark(1, 100, 0)
    time.on_watermark(2, END_MS, 0)
    assert time.watermark == 100
    time.on_watermark(2, 120, 0)
    time.on_watermark(1, 200, 0)
    assert time.watermark == 120
    time.on_watermark(1, END_MS, 0)
    assert time.watermark == 120
    time.on_watermark(2, END_MS, 0)
    assert time.watermark == END_MS


def test_received_watermarks_count_and_not_the_rows() -> None:
    time = keeper({1: True, 2: False}, lag_ms=5)
    time.observe(1, [500, 600], ["", ""], 0)
    time.observe(2, [300, 400], ["", ""], 0)
    time.observe(9, [1, 2], ["", ""], 0)  # it closes a cycle
    time.on_watermark(2, 1_000, 0)  # it sends no watermarks but its end
    time.on_watermark(1, 100, 0)
    time.tick(1_000)
    assert time.by_input() == {1: 95, 2: 395}
    assert time.watermark == 95


def test_a_watermark_of_rows_comes_at_the_interval_and_not_before() -> None:
    time = keeper({1: False}, idle_timeout_ms=0)
    assert (time.watermark, time.next_ms, time.by_input(), time.reads_rows) == (None, None, {1: None}, True)
    time.observe(1, [10, 20], ["", ""], 500)
    assert (time.watermark, time.next_ms) == (None, 1_500)
    time.tick(1_499)
    assert time.watermark is None
    time.tick(1_500)
    assert (time.watermark, time.next_ms) == (20, None), "no timer while there are no rows"
    time.observe(1, [30], [""], 1_600)
    assert time.next_ms == 2_500


def test_the_next_time_is_the_earliest_of_generators_and_idle_inputs() -> None:
    time = keeper({1: False, 2: False, 3: True}, idle_timeout_ms=800)
    assert time.next_ms == 800
    time.observe(1, [10, 10], ["", ""], 500)
    time.observe(2, [10, 10], ["", ""], 600)
    time.on_watermark(3, 50, 700)
    assert time.next_ms == 1_300, "task 1 becomes idle before its watermark is due"
    time.tick(1_500)
    assert (time.idle, time.all_idle, time.next_ms) == ({1, 2, 3}, True, 1_600)
    assert time.watermark == 50


def test_rows_without_a_readable_time_show_that_an_input_is_active() -> None:
    time = keeper({1: False, 2: True}, idle_timeout_ms=1_000)
    time.observe(1, [], [], 900)
    time.on_watermark(2, 50, 900)
    time.tick(1_000)
    assert (time.idle, time.all_idle, time.next_ms) == (set(), False, 1_900)
    time.tick(1_900)
    assert (time.idle, time.all_idle) == ({1, 2}, True)
    time.observe(2, [70], [""], 2_000)
    assert (time.idle, time.watermark) == ({1}, 50), "it is active; its rows do not count"
    time.on_watermark(1, 60, 2_000)
    assert (time.idle, time.by_input()) == (set(), {1: None, 2: 50}), "it is active; its watermark does not count"


def test_the_number_changes_with_the_watermark_and_with_an_earlier_time() -> None:
    """A task sets its timer again only if the number has changed."""
    time = keeper({1: False, 2: False, 3: True}, idle_timeout_ms=1_500)
    steps = [
        lambda: time.observe(1, [10, 10], ["", ""], 100),
        lambda: time.observe(2, [10, 10], ["", ""], 100),
        lambda: time.on_watermark(3, 40, 100),
        lambda: time.tick(1_100),
        lambda: time.on_watermark(3, 50, 1_200),
        lambda: time.tick(1_700),  # 1 and 2 are idle
        lambda: time.observe(1, [60], [""], 1_800),
        lambda: time.tick(5_000),  # all are idle
        lambda: time.observe(2, [70], [""], 5_100),
        lambda: time.on_watermark(3, END_MS, 5_200),
    ]
    for number, step in enumerate(steps):
        before, watermark, next_ms = time.changes, time.watermark, time.next_ms
        step()
        earlier = time.next_ms is not None and (next_ms is None or time.next_ms < next_ms)
        if time.watermark != watermark or earlier:
            assert time.changes != before, number
    before = time.changes
    time.observe(3, [99], [""], 5_300)
    after_activity = time.changes
    time.observe(3, [99], [""], 5_300)
    assert time.changes == after_activity > before, "an ended input is active again, once"


def test_an_input_of_a_cycle_counts_for_nothing() -> None:
    time = keeper({1: True}, idle_timeout_ms=1_000)
    for watermark in (500, END_MS):
        time.on_watermark(9, watermark, 900)
    time.observe(9, [10], [""], 900)
    assert (time.watermark, time.next_ms, time.by_input()) == (None, 1_000, {1: None})


def test_without_generators_rows_are_not_read() -> None:
    errors: list[Exception] = []
    settings = TimeSettings.of(WindowBolt(lag_ms=5, idle_timeout_ms=0), Config())
    time = WatermarkTracker({1: False, 2: True}, settings, 0, errors.append, generators=False)
    time.observe(1, [10], [""], 0)
    assert (time.reads_rows, time.next_ms) == (False, None)
    time.on_watermark(1, END_MS, 0)
    time.on_watermark(2, 100, 0)
    assert time.watermark == 95
    assert not keeper({1: True}).reads_rows


class Failing(Generator):
    """Gives the greatest time at once; its `tick` fails."""

    def observe(self, timestamps: Any, rows: Any) -> int | None:
        if timestamps == [0]:
            raise ValueError("zero")
        return int(max(timestamps))

    def tick(self, now_ms: int) -> int | None:
        raise ValueError(f"at {now_ms}")


def test_errors_of_a_generator_of_the_user_are_reported() -> None:
    errors: list[Exception] = []
    time = WatermarkTracker({1: False}, TimeSettings.of(WindowBolt(generator=Failing), Config()), 0, errors.append)
    time.observe(1, [0], [""], 7)
    assert [str(error) for error in errors] == ["zero", "at 7"]
    time.observe(1, [30], [""], 8)
    assert time.watermark == 30


class Due(Failing):
    """Is due at 100."""

    next_tick_ms = 100


def test_a_generator_is_called_when_it_is_due_and_not_before() -> None:
    errors: list[Exception] = []
    time = WatermarkTracker({1: False}, TimeSettings.of(WindowBolt(generator=Due), Config()), 0, errors.append)
    time.tick(99)
    assert (errors, time.next_ms) == ([], 100)
    time.tick(100)
    assert [str(error) for error in errors] == ["at 100"]
