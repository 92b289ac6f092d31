"""W6, latency: 1,000 tuples/s through three stages, from just before the emit to the third. `size` is tuples.

Each tuple carries the time of its emit, so a source that is late does not count as latency of the way. How late it was
(the emit after the time it was due) is in the record: timers of event loops fire at whole milliseconds.

Oracle: every tuple arrives, once and in order.

Limit: a chain of three `asyncio.Queue`s with a task at each, paced by the same code.
"""

from __future__ import annotations

import asyncio
import time

from .cells import Outcome, WrongResultError
from .clocking import Stopwatch, quantiles, run_in

RATE = 1_000
"""Tuples a second."""
CAPACITY = 1024
Stamped = tuple[int, float]
"""A tuple's number, and when it was emitted."""


class Schedule:
    """When the next tuple is due. Sleep for `wait_s()`, then emit all that `due_now()` names."""

    def __init__(self, size: int) -> None:
        self.sent = 0
        self.late_s: list[float] = []
        self._size = size
        self._begun_s = time.perf_counter()

    @property
    def over(self) -> bool:
        """Has everything been sent?"""
        return self.sent == self._size

    def wait_s(self) -> float:
        """Seconds until the next tuple is due."""
        return max(0.0, self._begun_s + self.sent / RATE - time.perf_counter())

    def due_now(self) -> list[int]:
        """The numbers of all that are due by now, at least one."""
        now_s = time.perf_counter()
        due = max(self.sent + 1, min(self._size, int((now_s - self._begun_s) * RATE) + 1))
        numbers = list(range(self.sent, due))
        self.late_s += [now_s - self._begun_s - number / RATE for number in numbers]
        self.sent = due
        return numbers


class Pace(Schedule):
    """For event loops: `await pace.due()`, then emit all that are."""

    async def due(self) -> list[int]:
        """Sleep until the next tuple is due; the numbers of all that are by then."""
        await asyncio.sleep(self.wait_s())
        return self.due_now()


class ThreadPace(Schedule):
    """For threads."""

    def wait(self) -> list[int]:
        """Block until the next tuple is due; the numbers of all that are by then."""
        time.sleep(self.wait_s())
        return self.due_now()


class Arrivals:
    """The end of the way."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.latencies_s: list[float] = []

    def add(self, number: int, emitted_s: float) -> None:
        """One has arrived."""
        self.latencies_s.append(time.perf_counter() - emitted_s)
        self.numbers.append(number)

    def outcome(self, size: int, watch: Stopwatch, pace: Schedule) -> Outcome:
        """Checked: everything arrived, once and in order."""
        if self.numbers != list(range(size)):
            raise WrongResultError(f"{len(self.numbers)} of {size} tuples arrived, or not in order")
        return Outcome(
            size,
            watch.wall_s,
            watch.cpu_s,
            quantiles_s=quantiles(self.latencies_s),
            seen={"late_p50_s": quantiles(pace.late_s)["p50"]},
        )


def queue_chain(size: int, loop: str) -> Outcome:
    """The limit."""
    return run_in(loop, _queue_chain(size))  # type: ignore[no-any-return]


async def _queue_chain(size: int) -> Outcome:
    first, second, third = (asyncio.Queue[Stamped](CAPACITY) for _ in range(3))
    arrivals = Arrivals()
    pace = Pace(size)

    async def identity(before: asyncio.Queue[Stamped], after: asyncio.Queue[Stamped]) -> None:
        for _ in range(size):
            await after.put(await before.get())

    async def end() -> None:
        for _ in range(size):
            arrivals.add(*await third.get())

    with Stopwatch() as watch:
        async with asyncio.TaskGroup() as group:
            group.create_task(identity(first, second))
            group.create_task(identity(second, third))
            group.create_task(end())
            while not pace.over:
                for number in await pace.due():
                    await first.put((number, time.perf_counter()))
    return arrivals.outcome(size, watch, pace)
