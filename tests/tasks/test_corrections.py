"""Late rows correct results: the rows say so, and the methods of the user may wait."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, ClassVar

import pytest

from aiostorm import BufferedWindowBolt, Every, Fields, LatePolicy, LocalCluster, Tumbling, WindowedBolt
from aiostorm.windows import Window

from .test_window_tasks import topology

ROWS = [(10, "a"), (150, "b"), (20, "late"), (30, "later"), (260, "c")]


class Corrected(WindowedBolt):
    """Counts rows; a late row is a correction of one."""

    outputs = Fields("count", "start", "revision")
    windows: ClassVar[Any] = Tumbling(100)
    timestamp = "at"
    late = LatePolicy.RETRACT

    def init_state(self, window: Any) -> int:
        return 0

    def execute(self, tup: Any, state: int, window: Any) -> int:
        return state + 1

    def purge(self, state: int, window: Any) -> Any:
        return state, window.start, window.revision

    def retract(self, tup: Any, windows: Any) -> Any:
        return [(1, window.start, window.revision) for window in windows]


class Waiting(Corrected):
    async def purge(self, state: int, window: Any) -> Any:
        await asyncio.sleep(0.1)
        return super().purge(state, window)

    async def retract(self, tup: Any, windows: Any) -> Any:
        await asyncio.sleep(0.1)
        return super().retract(tup, windows)


def in_thread() -> None:
    assert threading.current_thread().name.startswith("aiostorm-windows")


class Blocking(Corrected):
    blocking = True

    def execute(self, tup: Any, state: int, window: Any) -> int:
        assert threading.current_thread() is threading.main_thread()
        return super().execute(tup, state, window)

    def purge(self, state: int, window: Any) -> Any:
        in_thread()
        return super().purge(state, window)

    def retract(self, tup: Any, windows: Any) -> Any:
        for window in windows:
            in_thread()
            yield 1, window.start, window.revision


class Kept(BufferedWindowBolt):
    outputs = Fields("count", "start", "revision")
    windows: ClassVar[Any] = Tumbling(100)
    timestamp = "at"
    late = LatePolicy.RETRACT

    def execute(self, window: Any) -> Any:
        return len(window.get()), window.window.start, window.window.revision

    async def retract(self, tup: Any, windows: Any) -> Any:
        await asyncio.sleep(0.1)
        return [(1, window.start, window.revision) for window in windows]


class BlockingKept(Kept):
    blocking = True

    def execute(self, window: Any) -> Any:
        in_thread()
        return super().execute(window)

    def retract(self, tup: Any, windows: Any) -> Any:
        in_thread()
        return [(1, window.start, window.revision) for window in windows]


@pytest.mark.parametrize("made", [Corrected, Waiting, Blocking, Kept, BlockingKept])
async def test_a_correction_says_that_it_is_one(made: Any) -> None:
    feeder, sink, built = topology(made())
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", built)
        await feeder.feed_all(ROWS)
        feeder.finish()
        await running.wait_idle()
    assert sink.values == [(1, 0, 0), (1, 0, 1), (1, 0, 2), (1, 100, 0), (1, 200, 0)]
    assert len(feeder.acked) == len(ROWS)


@pytest.mark.parametrize("made", [Waiting, Blocking])
async def test_early_results_may_wait(made: Any) -> None:
    feeder, sink, built = topology(made(early=Every(50)))
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", built)
        await feeder.feed_all([(10, "a"), (20, "b")])
        await asyncio.sleep(1)
        assert sink.values == [(2, 0, 0)]
        feeder.finish()
        await running.wait_idle()
    assert sink.values == [(2, 0, 0)] * 2


@pytest.mark.parametrize("waits", [False, True])
async def test_errors_name_the_window_and_fail_the_late_row(waits: bool) -> None:
    class Broken(Corrected):
        blocking = waits

        def purge(self, state: int, window: Any) -> Any:
            raise ValueError("no result")

        def retract(self, tup: Any, windows: Any) -> Any:
            raise ValueError("no correction")

    feeder, sink, built = topology(Broken())
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", built)
        for row in ROWS[:3]:
            await feeder.feed_all([row])
            await running.wait_idle()
        texts = [str(error.error) for error in running.errors()]
        assert any("no result" in text for text in texts)
        assert any("no correction" in text for text in texts)
        assert [str(failure.error) for failure in feeder.failed.values()] == ["ValueError: no correction"]
    assert sink.values == []


def test_a_window_in_retract_is_that_window() -> None:
    from aiostorm.windows import LateWindow

    late = LateWindow(0, 10, 3)
    assert (late, late.revision, hash(late)) == (Window(0, 10), 3, hash(Window(0, 10)))
    assert (Window(0, 10) == late, Window(0, 10).revision) == (True, 0)
