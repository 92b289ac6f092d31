"""Messages and views: what they say unless more is known; and the log of events."""

from __future__ import annotations

from aiostorm.backpressure import Backpressure
from aiostorm.backpressure.messages import BoltReading, Pace, PaceChange, Readings, SpoutReading
from aiostorm.backpressure.pressure_log import PressureLog
from aiostorm.backpressure.sampler import PressureVerdict


def test_what_messages_say_unless_more_is_known() -> None:
    assert BoltReading(3, 4, 5, 6) == BoltReading(3, 4, 5, 6, False, PressureVerdict.NONE, 0, 0.0, 0.0, False, 0)
    assert SpoutReading(3, 4) == SpoutReading(3, 4, 0, 0, 0, True)
    assert Readings(3, 4.0) == Readings(3, 4.0, (), ())
    assert Pace(1, 2, PaceChange.HOLD, 3.0) == Pace(1, 2, PaceChange.HOLD, 3.0, 0, 0.0, 0.0, 0.0, 0, 0)
    assert Backpressure() == Backpressure(True, "NORMAL", 0.0, {}, (), ())


def test_the_last_200_events_are_kept_and_all_are_counted() -> None:
    log = PressureLog(5.0)
    assert (log.state, log.since_s, log.count) == ("NORMAL", 5.0, 0)
    for number in range(201):
        log.add(float(number), "UPDATED", "", str(number))
    log.become("THROTTLED", 300.0, "bolt is blocked")
    assert (log.state, log.since_s, log.count, len(log.events)) == ("THROTTLED", 300.0, 202, 200)
    assert (log.events[0].at_s, log.events[-1].kind) == (2.0, "THROTTLED")
    after = PressureLog(400.0)
    after.remember(log)
    assert (list(after.events), after.count, after.state) == (list(log.events), 202, "NORMAL")
