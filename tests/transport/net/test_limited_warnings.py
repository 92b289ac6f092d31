"""Limited warnings: ten of a cause in a minute, and how many there were more."""

from __future__ import annotations

import asyncio
import logging

import pytest

from aiostorm.runtime import LoopClock
from aiostorm.transport.net.limited_warnings import LimitedWarnings

Logged = pytest.LogCaptureFixture


def logged(caplog: Logged) -> list[tuple[str, str]]:
    found = [(record.levelname, record.getMessage()) for record in caplog.records]
    caplog.clear()
    return found


async def test_ten_warnings_of_a_cause_in_a_minute_are_logged_and_the_others_counted(caplog: Logged) -> None:
    warnings = LimitedWarnings(LoopClock())
    for number in range(13):
        warnings.warn("%s is refused", number)
    assert logged(caplog) == [("WARNING", f"{number} is refused") for number in range(10)]
    warnings.warn("another cause")
    assert logged(caplog) == [("WARNING", "another cause")]
    await asyncio.sleep(59.9)
    warnings.warn("%s is refused", 13)
    assert logged(caplog) == []
    await asyncio.sleep(0.1)
    warnings.warn("%s is refused", 14)
    assert logged(caplog) == [
        ("WARNING", "4 more warnings like this: %s is refused"),
        ("WARNING", "14 is refused"),
    ]
    for number in range(15, 25):
        warnings.warn("%s is refused", number)
    assert logged(caplog)[-1] == ("WARNING", "23 is refused"), "the tenth of this minute"


async def test_ten_are_not_more(caplog: Logged) -> None:
    warnings = LimitedWarnings(LoopClock())
    for _ in range(10):
        warnings.warn("refused")
    caplog.clear()
    await asyncio.sleep(61)
    warnings.warn("refused")
    assert logged(caplog) == [("WARNING", "refused")]


async def test_the_level_and_the_log_are_those_that_are_given(caplog: Logged) -> None:
    warnings = LimitedWarnings(LoopClock(), logging.getLogger("aiostorm.test"))
    with caplog.at_level(logging.INFO):
        for _ in range(12):
            warnings.warn("said", level=logging.INFO)
        await asyncio.sleep(60)
        warnings.warn("said", level=logging.INFO)
    assert {(record.name, record.levelname) for record in caplog.records} == {("aiostorm.test", "INFO")}
    assert "2 more warnings like this: said" in [message for _, message in logged(caplog)]


async def test_a_text_that_is_never_the_same_needs_no_more_memory(caplog: Logged) -> None:
    warnings = LimitedWarnings(LoopClock())
    for _ in range(10):
        warnings.warn("first")
    for number in range(98):
        warnings.warn(f"text {number}")
    caplog.clear()
    warnings.warn("first")
    assert logged(caplog) == [], "a hundred causes are known"
    warnings.warn("the hundredth")
    caplog.clear()
    warnings.warn("one more")
    warnings.warn("first")
    assert logged(caplog) == [("WARNING", "one more"), ("WARNING", "first")], "all are counted anew"
