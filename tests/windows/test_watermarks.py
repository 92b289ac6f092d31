"""Watermarks: which input tasks count, and how many of them are enough."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.windows import WatermarkPolicy, Watermarks, WindowError

RATIO = WatermarkPolicy.MAX_TIMESTAMP_WITH_RATIO


def test_all_inputs_are_idle_if_none_sends_and_not_all_have_ended() -> None:
    watermarks = Watermarks("abc", idle_timeout_ms=10)
    found = [watermarks.all_idle]
    watermarks.end("a", 1)
    found.append(watermarks.all_idle)
    watermarks.tick(10)
    found.append(watermarks.all_idle)  # a has ended, b and c are idle
    assert (watermarks.idle, watermarks.next_idle_ms) == ({"b", "c"}, None)
    watermarks.on_activity("b", 11)
    found.append(watermarks.all_idle)
    watermarks.end("b", 12)
    found.append(watermarks.all_idle)
    watermarks.end("c", 12)
    found.append(watermarks.all_idle)  # all have ended
    assert found == [False, False, True, False, True, False]


@pytest.mark.parametrize("ratio", [0, -0.1, 1.01, 1.5, 2, True, "0.5", None])
def test_a_ratio_that_is_no_share_is_refused(ratio: Any) -> None:
    with pytest.raises(WindowError, match="above 0 and up to 1"):
        Watermarks("abc", policy=RATIO, ratio=ratio)


@pytest.mark.parametrize(
    ("ratio", "found"),
    [(0.001, [9, 9, 9]), (0.33, [9, 9, 9]), (0.34, [None, 4, 4]), (0.7, [None, None, 2]), (1, [None, None, 2])],
)
def test_a_share_of_three_inputs_is_rounded_up(ratio: float, found: list[int | None]) -> None:
    watermarks = Watermarks("abc", policy=RATIO, ratio=ratio)
    assert [watermarks.advance(name, at, 0) for name, at in (("a", 9), ("b", 4), ("c", 2))] == found
