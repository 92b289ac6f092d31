"""Generator spouts: `@spout` functions as spouts.

A generator can say that it is exhausted, so a topology of generator spouts ends by itself; it cannot emit anything
again, so the framework replays its tracked messages (`topology.max.retries`, here 3 unless configured).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any

from ..topology import FunctionSpout, Spout, TopologyContext

GENERATOR_MAX_RETRIES = 3


class GeneratorSpout(Spout):
    """A spout around a generator function. Message ids are 0, 1, 2, …"""

    def __init__(self, function: FunctionSpout, arity: int) -> None:
        self._function = function
        self._single = arity == 1
        self._number = 0
        self._collector: Any = None
        self._items: Iterator[Any] = iter(())
        self._async_items: AsyncIterator[Any] | None = None
        if function.is_async:
            self.next_tuple = self._next_async  # type: ignore[method-assign]

    def open(self, context: TopologyContext, collector: Any) -> None:
        """Start the generator."""
        self._collector = collector
        items = self._function.fn(context) if self._function.wants_context else self._function.fn()
        if self._function.is_async:
            self._async_items = aiter(items)
        else:
            self._items = iter(items)

    def next_tuple(self) -> Any:
        """Emit the next item, or finish."""
        for item in self._items:
            self._emit(item)
            return
        self._collector.finish()

    async def _next_async(self) -> None:
        if self._async_items is None:
            return
        try:
            item = await anext(self._async_items)
        except StopAsyncIteration:
            self._collector.finish()
        else:
            self._emit(item)

    def _emit(self, item: Any) -> None:
        number = self._number
        self._number = number + 1
        row = (item,) if self._single else item
        self._collector.emit(row, message_id=number if self._function.tracked else None)

    def close(self) -> Any:
        """End the generator: its `finally` blocks run. (Not `async def`: a blocking one ends in its thread.)"""
        if isinstance(self._async_items, AsyncGenerator):
            return self._async_items.aclose()
        if isinstance(self._items, Generator):
            self._items.close()
        return None
