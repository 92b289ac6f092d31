"""Feed: what a topology is like, each second, for all that watch it. While there is no listener, nothing is done.

    timer, 1 Hz ─► read once ─► history (ring) ─┬─► listener: the latest tick, if it has taken the one before
                                                ├─► listener
                                                └─► …            at most MOST

1. The topology is read once a second, however many listen; the timer stops with the last listener.
2. A listener keeps one tick: for one that is slow, a newer one takes its place. Its memory is bounded, and it never
   delays another listener or the topology.
3. A topology that has ended, and a feed that is closed, end all listeners after a last tick.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ..runtime import AiostormError, LoopClock
from .history import COARSE_S, History
from .model import Series, Tick
from .reading import SERIES, row_of

log = logging.getLogger("aiostorm.ui")

PERIOD_S: Final = 1.0

MOST: Final = 32
"""Listeners at a time."""


class TooManyListenersError(AiostormError):
    """As many listen as may."""


class Listener:
    """One that listens: it gets the latest tick that it has not had, until the feed ends."""

    def __init__(self) -> None:
        self._latest: Tick | None = None
        self._ended = False
        self._wakeup = asyncio.Event()

    def put(self, tick: Tick) -> None:
        """A new tick."""
        self._latest = tick
        self._wakeup.set()

    def end(self) -> None:
        """There is no further tick."""
        self._ended = True
        self._wakeup.set()

    async def ticks(self) -> AsyncIterator[Tick]:
        """The ticks, until the end."""
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            latest, self._latest = self._latest, None
            if latest is not None:
                yield latest
            if self._ended and self._latest is None:
                return


class Feed:
    """The ticks of one topology. `read` makes one for a number and a time; `is_over`: it has ended."""

    def __init__(
        self, components: tuple[str, ...], read: Callable[[int, float], Tick], is_over: Callable[[], bool]
    ) -> None:
        self._components = components
        self._read = read
        self._is_over = is_over
        self._history = History(len(SERIES) * len(components))
        self._listeners: set[Listener] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._last: Tick | None = None  # for one that begins to listen between two
        self._closed = False
        self._clock = LoopClock()

    @property
    def listeners(self) -> int:
        """So many listen."""
        return len(self._listeners)

    def clock_s(self) -> float:
        """The time now, in seconds since 1970."""
        return self._clock.now()

    def now(self) -> Tick:
        """The topology at this moment. It is not kept."""
        at_s = self.clock_s()
        return self._read(self._history.next_second(at_s), at_s)

    @contextmanager
    def listen(self) -> Iterator[Listener]:
        """Listen for the length of the block. TooManyListenersError."""
        if len(self._listeners) >= MOST:
            raise TooManyListenersError(f"{MOST} pages watch this topology already: close one")
        listener = Listener()
        self._listeners.add(listener)
        if self._closed:
            listener.end()
        else:
            if self._timer is None:
                self._resume()
            if self._last is not None:
                listener.put(self._last)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)
            if not self._listeners:
                self._stop()

    def past(self, second: int = 0, *, coarse: bool = False) -> Series:
        """What is kept of the time after that second."""
        width = len(SERIES)
        points = tuple(
            (at_s, tuple(tuple(map(_known, row[i : i + width])) for i in range(0, len(row), width)))
            for _, at_s, row in self._history.since(second, coarse=coarse)
        )
        return Series(SERIES, self._components, COARSE_S if coarse else int(PERIOD_S), points)

    def close(self) -> None:
        """End all listeners; later ones end at once."""
        self._closed = True
        self._stop()
        for listener in self._listeners:
            listener.end()

    def _resume(self) -> None:
        """Rates over a moment say nothing: after a last tick, the next one comes when it would have come."""
        age_s = PERIOD_S if self._last is None else self._clock.now() - self._last.at_s
        if 0 <= age_s < PERIOD_S:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S - age_s, self._tick)
        else:
            self._tick()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(PERIOD_S, self._tick)
        try:
            tick = self.now()
            self._history.add(tick.second, tick.at_s, row_of(tick, self._components))
            over = self._is_over()
        except Exception:  # a defect of ours: the topology runs on, and the pages say that they are not fed
            log.exception("the page cannot read the topology: its listeners end")
            self.close()
            return
        self._last = tick
        for listener in self._listeners:
            listener.put(tick)
        if over:
            self.close()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _known(number: float) -> float | None:
    return None if number != number else number  # NaN: it was not known
