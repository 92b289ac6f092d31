"""Assigners: limits of windows, and the first window of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiostorm.windows import Mixed, Session, Sliding, Tumbling, Window, WindowError

LONGEST = 10**18


@pytest.mark.parametrize(
    "make",
    [
        Tumbling,
        Session,
        lambda ms: Sliding(ms, 1),
        lambda ms: Sliding(LONGEST, ms),
        lambda ms: Mixed(size=3, slide_ms=ms),
        lambda ms: Mixed(size_ms=ms, slide=3),
    ],
)
def test_a_duration_has_a_limit(make: Callable[[int], Any]) -> None:
    make(LONGEST)
    make(1)
    with pytest.raises(WindowError, match=f"give {LONGEST} or less|leave out"):
        make(LONGEST + 1)
    with pytest.raises(WindowError, match="give 1 or more"):
        make(0)


def test_the_first_window_of_a_row_alone() -> None:
    assert Mixed(size_ms=10, slide=3).windows_of(25) == [Window(16, 26)]
    assert Mixed(size=3, slide_ms=10, offset_ms=2).windows_of(25) == [Window(25, 32)]
    assert Mixed(size=3, slide_ms=10, offset_ms=2).windows_of(32) == [Window(32, 42)]
    assert Session(10).windows_of(25) == [Window(25, 35)]
