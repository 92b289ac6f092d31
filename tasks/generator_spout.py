"""Generator spouts: `@spout` functions as spouts.

A generator can say that it is exhausted, so a topology of generator spouts ends by itself. It cannot emit a row again,
so the framework replays its tracked messages (`topology.max.retries`, here 3 unless configured).

One that is repeatable has a position, for exactly once: the number of items that it has yielded. After a restore the
generator begins again, and skips the items before its position; or its function is called with the position (`start`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from ..state import StateError
from ..topology import FunctionSpout, Spout, TopologyContext, has_batches, is_batch

if TYPE_CHECKING:
    from ..topology import Item, Returned, SpoutCollector
    from .emit.spout_collector import SpoutTaskCollector

GENERATOR_MAX_RETRIES = 3

SKIPPED: Final = 64
"""After so many items that are skipped, other tasks may run."""

CHUNK: Final = 256
"""Items are taken from a plain generator this many at a time, fewer if one of them takes long."""


class ChunkTurns:
    """The turns of one plain generator, many items at a time."""

    polled = None

    def __init__(
        self, spout: GeneratorSpout, collector: SpoutTaskCollector, stopwatch: Callable[[], float], turn_s: float
    ) -> None:
        self._spout = spout
        self._collector = collector
        self._stopwatch = stopwatch
        self._turn_s = turn_s

    async def turn(self, most: int) -> None:
        if not self._collector.finished:
            self._spout.turn(most, self._turn_s, self._stopwatch)


class GeneratorSpout(Spout):
    """A spout around a generator function. Message ids are 0, 1, 2, …: the number of items before."""

    default_max_retries = GENERATOR_MAX_RETRIES

    def __init__(self, function: FunctionSpout, arity: int) -> None:
        self._function = function
        self._arity = arity
        self._single = arity == 1
        self._chunk = 1
        self._number = 0
        self._collector: SpoutTaskCollector = None  # type: ignore[assignment] # until it is opened
        self._context: TopologyContext = None  # type: ignore[assignment]
        self._items: Iterator[Item] = iter(())
        self._async_items: AsyncIterator[Item] | None = None
        if function.is_async:
            self.next_tuple = self._next_async  # type: ignore[method-assign]

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        """Start the generator."""
        self._collector = collector  # type: ignore[assignment] # the task's own
        self._context = context
        self._begin(0)

    def _begin(self, position: int) -> None:
        """Call the function: no code of a generator runs before its first item is asked for."""
        function = self._function
        given = {"start": position} if function.wants_start else {}
        items = function.fn(self._context, **given) if function.wants_context else function.fn(**given)
        if function.is_async:
            self._async_items = aiter(items)
        else:
            self._items = iter(items)

    def next_tuple(self) -> Returned:
        """Emit the next item, or finish."""
        for item in self._items:
            self._emit(item)
            return
        self._collector.finish()

    @property
    def gives_chunks(self) -> bool:
        """Can `turn` be used instead of `next_tuple`?"""
        return not (self._function.is_async or self._function.blocking) and bool(self._collector.takes_chunks)

    def turn(self, most: int, limit_s: float, stopwatch: Callable[[], float]) -> None:
        """Emit at most `most` items, for about `limit_s` seconds. Errors of the generator are raised."""
        begun_s = last_s = stopwatch()
        while most > 0 and last_s - begun_s < limit_s:
            wanted = min(most, self._chunk)
            items: list[Item] = []
            try:
                items.extend(islice(self._items, wanted))  # items before an error stay in the list
            finally:
                columns = self._emit_chunk(items)
            if len(items) < wanted:
                self._collector.finish()
                return
            if columns:  # a batch of columns is a turn
                self._chunk = 1
                return
            most -= wanted
            now_s = stopwatch()
            if (now_s - last_s) * 4 > limit_s:
                self._chunk = max(1, self._chunk // 2)
            elif wanted == self._chunk:
                self._chunk = min(2 * wanted, CHUNK)
            last_s = now_s

    def _emit_chunk(self, items: list[Item]) -> bool:
        """Emit rows or values together. True if there were batches of columns among them."""
        if not items:
            return False
        arity = self._arity
        columns = has_batches(items)
        if columns or (not self._single and not all(type(item) is tuple and len(item) == arity for item in items)):
            for item in items:  # one of them is a batch, a list, or an error that names it
                self._emit(item)
            return columns
        number, self._number = self._number, self._number + len(items)
        self._collector.emit_chunk(items, number if self._function.tracked else None)
        return False

    async def _next_async(self) -> None:
        if self._async_items is None:
            return
        try:
            item = await anext(self._async_items)
        except StopAsyncIteration:
            self._collector.finish()
        else:
            self._emit(item)

    def _emit(self, item: Item) -> None:
        number = self._number
        self._number = number + 1
        message_id = number if self._function.tracked else None
        if is_batch(item):
            self._collector.emit_arrow(item, message_id)
        else:
            self._collector.emit((item,) if self._single else item, message_id)

    def snapshot(self) -> int:
        """How many items it has yielded."""
        return self._number

    def restore(self, position: int) -> Returned:
        """Continue after this many items. (Not `async def`: a blocking one skips them in its thread.)"""
        self._number = position
        if self._function.wants_start:
            self._begin(position)
        elif self._async_items is not None:
            return self._skip_async(self._async_items, position)
        elif self._function.blocking:
            self._check_skipped(sum(1 for _ in islice(self._items, position)), position)
        else:
            return self._skip(position)
        return None

    async def _skip(self, position: int) -> None:
        for first in range(0, position, SKIPPED):
            most = min(SKIPPED, position - first)
            skipped = sum(1 for _ in islice(self._items, most))
            if skipped < most:
                self._check_skipped(first + skipped, position)
            await asyncio.sleep(0)

    async def _skip_async(self, items: AsyncIterator[Item], position: int) -> None:
        for number in range(position):
            try:
                await anext(items)
            except StopAsyncIteration:
                self._check_skipped(number, position)
            if number % SKIPPED == 0:
                await asyncio.sleep(0)

    def _check_skipped(self, skipped: int, position: int) -> None:
        if skipped < position:
            raise StateError(
                f"@spout function {self._function.name!r} has yielded {skipped} items, and {position} before it was "
                "restored: it is not repeatable. Let it yield the same items in the same order each time"
            )

    def close(self) -> Returned:
        """End the generator: its `finally` blocks run. (Not `async def`: a blocking one ends in its thread.)"""
        if isinstance(self._async_items, AsyncGenerator):
            return self._async_items.aclose()
        if isinstance(self._items, Generator):
            self._items.close()
        return None
