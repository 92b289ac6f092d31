"""The feed: once a second while there is a listener, and not at all without one."""

from __future__ import annotations

import asyncio
import logging

import pytest

from aiostorm.ui.feed import MOST, Feed, Listener, TooManyListenersError
from aiostorm.ui.history import FINE
from aiostorm.ui.model import Marks, Tick
from aiostorm.ui.reading import SERIES


class Read:
    """Makes ticks, and counts them."""

    def __init__(self) -> None:
        self.count = 0
        self.over = False
        self.error: Exception | None = None

    def __call__(self, second: int, at_s: float) -> Tick:
        self.count += 1
        if self.error is not None:
            raise self.error
        return Tick(second, at_s, "ACTIVE", "", "NORMAL", 0, self.count, Marks(0.1, 0.8), (), ())


def feed_of(read: Read, components: tuple[str, ...] = ()) -> Feed:
    return Feed(components, read, lambda: read.over)


async def collect(listener: Listener, into: list[int]) -> None:
    """What a listener gets until its end."""
    into += [tick.errors async for tick in listener.ticks()]


async def test_nothing_is_read_without_a_listener():
    read = Read()
    feed = feed_of(read)
    await asyncio.sleep(100)
    assert read.count == 0
    with feed.listen():
        await asyncio.sleep(3.5)
    assert read.count == 4  # at once, then each second
    await asyncio.sleep(100)
    assert read.count == 4


async def test_many_listeners_cost_one_reading_a_second():
    read = Read()
    feed = feed_of(read)
    with feed.listen(), feed.listen(), feed.listen():
        await asyncio.sleep(9.5)
    assert read.count == 10


async def test_one_that_comes_right_after_another_left_gets_the_last_tick_and_the_next_in_its_time():
    read = Read()
    feed = feed_of(read, ("a",))
    seen: list[int] = []
    with feed.listen():
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.2)
    async with asyncio.TaskGroup() as group:
        with feed.listen() as listener:
            group.create_task(collect(listener, seen))
            await asyncio.sleep(1.5)
            feed.close()
    assert seen == [1, 2]
    first, second = (at_s for at_s, _ in feed.past().points)
    assert second - first == pytest.approx(1.0)


async def test_a_slow_listener_gets_the_latest_and_delays_no_other():
    feed = feed_of(Read())
    quick: list[int] = []
    slow: list[int] = []
    async with asyncio.TaskGroup() as group:
        with feed.listen() as one, feed.listen() as other:
            group.create_task(collect(one, quick))

            async def sluggish() -> None:
                async for tick in other.ticks():
                    slow.append(tick.errors)
                    await asyncio.sleep(3.2)

            group.create_task(sluggish())
            await asyncio.sleep(8.5)
            feed.close()
    assert quick == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert slow == [1, 4, 7, 9]  # at 0, 3.2, 6.4 and 9.6 s


async def test_the_end_of_the_topology_ends_the_listeners_after_a_last_tick():
    read = Read()
    feed = feed_of(read)
    seen: list[int] = []
    async with asyncio.TaskGroup() as group:
        with feed.listen() as listener:
            group.create_task(collect(listener, seen))
            await asyncio.sleep(1.5)
            read.over = True
            await asyncio.sleep(5)
        with feed.listen() as late:
            group.create_task(collect(late, seen))
            await asyncio.sleep(1)
    assert seen == [1, 2, 3]


async def test_listeners_are_bounded():
    feed = feed_of(Read())
    listening = [feed.listen() for _ in range(MOST)]
    for each in listening:
        each.__enter__()
    with pytest.raises(TooManyListenersError, match="close one"), feed.listen():
        pass
    listening[0].__exit__(None, None, None)
    with feed.listen():
        assert feed.listeners == MOST
    for each in listening[1:]:
        each.__exit__(None, None, None)


async def test_a_defect_ends_the_listeners_and_is_logged(caplog: pytest.LogCaptureFixture):
    read = Read()
    feed = feed_of(read)
    seen: list[int] = []
    with caplog.at_level(logging.ERROR, "aiostorm.ui"):
        async with asyncio.TaskGroup() as group:
            with feed.listen() as listener:
                group.create_task(collect(listener, seen))
                await asyncio.sleep(0.5)
                read.error = ValueError("a defect")
                await asyncio.sleep(3)
    assert seen == [1]
    assert "cannot read the topology" in caplog.text


async def test_the_past_is_replayed_and_bounded():
    feed = feed_of(Read(), ("a", "b"))
    with feed.listen():
        await asyncio.sleep(FINE + 20)
        past = feed.past()
        assert len(past.points) == FINE
        at_s, values = past.points[-1]
        assert [len(value) for value in values] == [len(SERIES)] * 2
        assert values[0][0] is None  # the tick had no such component: not known, not 0
        assert [point[0] for point in feed.past(int(at_s) - 3).points] == [at_s - 2, at_s - 1, at_s]
        assert feed.past(coarse=True).step_s == 15
