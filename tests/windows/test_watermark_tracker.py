"""Watermark tracker: watermarks of input tasks, timestamps of their rows, and their ends."""

from __future__ import annotations

from typing import Any

from aiostorm import Config
from aiostorm.windows import END_MS, TimeSettings, WatermarkTracker, WindowBolt


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
