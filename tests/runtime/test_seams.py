"""The seams: clock, chance, and the choice of an event loop."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable

import pytest

from aiostorm.runtime import LoopClock, SystemRng, is_virtual, loop_factory
from aiostorm.testing import SimClock, VirtualTimeLoop


async def test_in_virtual_time_every_clock_of_a_loop_agrees(sim_clock: SimClock) -> None:
    early = LoopClock()
    await early.sleep(90)
    late = LoopClock()
    assert early.monotonic() == late.monotonic() == sim_clock.monotonic() == 1_090.0
    assert early.now() == late.now() == sim_clock.now() == 1_700_000_090.0
    assert early.stopwatch() == 1_090.0
    assert is_virtual(asyncio.get_running_loop())


def test_a_virtual_loop_that_says_no_date_starts_at_a_fixed_one() -> None:
    class Foreign(asyncio.SelectorEventLoop):
        virtual = True

    with asyncio.Runner(loop_factory=Foreign) as runner:
        clock = LoopClock(runner.get_loop())
        assert clock.now() == pytest.approx(1_700_000_000, abs=60)


@pytest.mark.sockets
async def test_in_real_time_they_are_the_machines() -> None:
    clock = LoopClock()
    loop = asyncio.get_running_loop()
    assert not is_virtual(loop)
    assert clock.now() == pytest.approx(time.time(), abs=5)
    assert clock.monotonic() == pytest.approx(loop.time(), abs=5)
    before = clock.stopwatch()
    await clock.sleep(0.001)
    assert clock.stopwatch() > before


def test_ids_and_order_come_from_different_sources() -> None:
    rng = SystemRng()
    assert len(rng.token_bytes(32)) == 32
    assert rng.token_bytes(32) != rng.token_bytes(32)
    assert isinstance(rng.generator(), random.Random)
    assert rng.generator().random() != rng.generator().random()


def test_loops_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    uvloop = pytest.importorskip("uvloop")
    made: Callable[[], asyncio.AbstractEventLoop] = loop_factory()
    assert made is uvloop.new_event_loop
    assert loop_factory("uvloop") is uvloop.new_event_loop
    assert loop_factory("asyncio") is asyncio.new_event_loop
    with pytest.raises(ValueError, match="'trio'"):
        loop_factory("trio")
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory() is asyncio.new_event_loop
    with pytest.raises(ImportError):
        loop_factory("uvloop")


def test_the_virtual_loop_is_virtual() -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert is_virtual(runner.get_loop())
