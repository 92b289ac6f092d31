"""The machines by time, to be tried with the same aggregates."""

from __future__ import annotations

import pytest

from aiostorm.windows import PlainWindows, Session, SessionWindows, SharedWindows, Sliding, Tumbling

FAR = 10**15
MACHINES = {
    "tumbling": lambda aggregate, **more: PlainWindows(Tumbling(10), aggregate, **more),
    "plain": lambda aggregate, **more: PlainWindows(Sliding(10, 3), aggregate, **more),
    "shared": lambda aggregate, **more: SharedWindows(Sliding(10, 3), aggregate, **more),
    "session": lambda aggregate, **more: SessionWindows(Session(10), aggregate, **more),
}
every_machine = pytest.mark.parametrize("make", MACHINES.values(), ids=MACHINES)
